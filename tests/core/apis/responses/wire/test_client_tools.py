"""Built-in tools of clients, and pictures of a conversation: whatever a model or a client writes, the item or the call is one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.responses.wire.built_in import earlier_container
from smg_core.apis.responses.wire.client_tools import (
    CLIENT_ITEMS,
    client_call,
    client_commands,
    client_function,
    is_client_tool,
)
from smg_core.apis.responses.wire.pictures import pictures_in

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(
    ["type", "command", "commands", "path", "diff", "env", "action", "actions", "operation", "keys", "x", "click"]
)
SAID = st.text(max_size=20) | VALUES.map(json.dumps) | st.dictionaries(WORDS, VALUES, max_size=4).map(json.dumps)


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("kind", CLIENT_ITEMS)
@given(said=SAID)
def test_whatever_a_model_writes_makes_an_item_that_can_be_replayed(kind: str, said: str) -> None:
    fields = client_call(kind, said)
    item: dict[str, Any] = {"type": CLIENT_ITEMS[kind].type, "call_id": "c", **fields}
    json.dumps(item)
    assert all(isinstance(each, str) for each in client_commands(item))
    again = client_call(kind, CLIENT_ITEMS[kind].arguments(item))
    assert {**fields, "environment": None} == {**again, "environment": None}


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("kind", CLIENT_ITEMS)
@given(item=st.dictionaries(WORDS, VALUES, max_size=4))
def test_whatever_a_client_replays_is_arguments(kind: str, item: dict[str, Any]) -> None:
    assert isinstance(json.loads(CLIENT_ITEMS[kind].arguments(item)), dict)


@given(tool=st.dictionaries(st.sampled_from(["type", "environment", "display_width"]), VALUES, max_size=3))
def test_what_is_no_such_tool_is_none(tool: dict[str, Any]) -> None:
    if is_client_tool(tool):
        assert client_function(tool, "a").name == "a"


@given(
    items=st.lists(st.dictionaries(st.sampled_from(["type", "content", "result", "container_id"]), VALUES), max_size=5)
)
def test_a_conversation_has_pictures_and_a_container_or_none(items: list[dict[str, Any]]) -> None:
    assert all(isinstance(each, str) and each for each in pictures_in(items))
    assert isinstance(earlier_container(items), str)


def test_the_last_pictures_are_taken_in_their_order() -> None:
    made = [{"type": "image_generation_call", "result": str(number)} for number in range(10)]
    url = "data:image/png;base64,"
    sent = {"content": [{"type": "input_image", "image_url": f"{url}u{number}"} for number in range(9)]}
    links: dict[str, Any] = {"content": [{"type": "input_image", "image_url": "https://a.example/a.png"}]}
    assert pictures_in([*made, links, sent]) == (*"3456789", *[f"u{number}" for number in range(9)])

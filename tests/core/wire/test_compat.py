"""Fields of other servers' APIs: taken where they say nothing and the deployment is lenient, refused by name elsewhere."""

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.chat.decode import ChatRequest, decode_chat
from smg_core.apis.chat.types import ChatBody
from smg_core.config.config import Config
from smg_core.errors import InvalidRequest, SmgError, UnsupportedParameter
from smg_core.http.settings import ServerConfig
from smg_core.wire.base import Incoming
from smg_core.wire.compat import FOREIGN_FIELDS, STRICT, Compat, Mode

HELLO = [{"role": "user", "content": "Hello"}]
SOMETHING = {"?": 1}
"""No field of the table is neutral at this value."""
LENIENT: list[Mode] = ["vllm", "openai"]
PAGE = Path(__file__).parents[3] / "docs" / "chat-completions.md"


def decode(compat: Compat = STRICT, **fields: Any) -> ChatRequest:
    body = json.dumps({"model": "sim", "messages": HELLO, **fields}).encode()
    return decode_chat(Incoming(body, request_id="chatcmpl-1", compat=compat))


def fault(compat: Compat = STRICT, **fields: Any) -> SmgError:
    with pytest.raises(SmgError) as caught:
        decode(compat, **fields)
    return caught.value


@pytest.mark.sampled(keep=19)
@pytest.mark.parametrize("name", FOREIGN_FIELDS)
def test_a_neutral_field_is_taken_where_that_is_wanted_and_changes_nothing(name: str) -> None:
    field = FOREIGN_FIELDS[name]
    for value in [*field.neutral, None, *([SOMETHING] if field.hint else [])]:
        for mode in LENIENT:
            assert decode(Compat(mode), **{name: value}) == decode()
        if value is not None:
            assert fault(**{name: value}).param == name


@pytest.mark.parametrize("mode", LENIENT)
@pytest.mark.parametrize("name", [name for name, field in FOREIGN_FIELDS.items() if not field.hint])
def test_a_field_that_asks_for_what_cannot_be_done_is_refused_in_every_mode(name: str, mode: Mode) -> None:
    error = fault(Compat(mode), **{name: SOMETHING})

    assert isinstance(error, UnsupportedParameter)
    assert error.param == name
    assert FOREIGN_FIELDS[name].server in error.message


def test_true_is_not_one() -> None:
    assert isinstance(fault(Compat("vllm"), best_of=True), UnsupportedParameter)
    assert isinstance(fault(Compat("vllm"), echo=0), UnsupportedParameter)
    decode(Compat("vllm"), best_of=1.0, length_penalty=1)


def test_no_field_of_the_table_is_one_that_chat_has() -> None:
    assert not set(FOREIGN_FIELDS) & set(ChatBody.__struct_fields__)


UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"temprature": 1}, "temprature"),
    ({"messages": [{"role": "user", "content": "Hello", "mood": "good"}]}, "messages[0].mood"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello", "x": {}}]}]},
        "messages[0].content[0].x",
    ),
    (
        {
            "tools": [
                {"type": "function", "function": {"name": "f", "returns": {}}, "cache_control": {"type": "ephemeral"}}
            ]
        },
        "tools[0]",
    ),
    ({"stream": True, "stream_options": {"include_usage": True, "x": 1}}, "stream_options.x"),
]


@pytest.mark.parametrize(("fields", "param"), UNKNOWN)
def test_what_nobody_knows_is_passed_over_as_by_vllm_and_refused_as_by_openai(
    fields: dict[str, Any], param: str
) -> None:
    decode(Compat("vllm"), **fields)
    for compat in (STRICT, Compat("openai")):
        error = fault(compat, **fields)
        assert isinstance(error, InvalidRequest)
        assert error.code == "unknown_parameter"
        assert (error.param or "").startswith(param)


def test_what_is_passed_over_leaves_everything_else_as_it_is() -> None:
    schema = {"type": "object", "properties": {"x": {"title": "t"}}, "x-mine": 1}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    plain = decode(tools=tools, chat_template_kwargs={"any": {"thing": 1}}, metadata={"k": "v"})
    assert (
        decode(Compat("vllm"), tools=tools, chat_template_kwargs={"any": {"thing": 1}}, metadata={"k": "v"}, x=1)
        == plain
    )


@pytest.mark.parametrize("mode", LENIENT)
def test_what_is_wrong_stays_wrong(mode: Mode) -> None:
    assert fault(Compat(mode), temperature="hot", best_of=1).param == "temperature"
    assert fault(Compat(mode), messages=[{"role": "nobody", "content": ""}], best_of=1).param == "messages[0].role"
    assert fault(Compat(mode), messages="Hello", best_of=1).param == "messages"
    assert fault(Compat(mode), store=True, best_of=1).param == "store"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from([*FOREIGN_FIELDS, "messages", "tools", "stream_options", "x"]), VALUES),
    st.sampled_from(LENIENT),
)
def test_any_body_is_read_or_refused(fields: dict[str, Any], mode: Mode) -> None:
    with suppress(InvalidRequest):
        decode(Compat(mode), **fields)


def test_each_field_is_warned_of_once_and_not_more_than_so_many(caplog: pytest.LogCaptureFixture) -> None:
    compat = Compat("vllm", most_warnings=3)
    with caplog.at_level(logging.WARNING, logger="smg.compat"):
        for number in range(10):
            decode(compat, best_of=1, messages=[{"role": "user", "content": "", "mood": number}] * 2)
            decode(compat, **{f"x{number}": 1})

    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert "'best_of' (known to: vLLM)" in said[0]
    assert "'messages[].…'" in said[1]  # the name is a part of a client's body


def test_nothing_is_warned_of_that_is_refused_or_null(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="smg.compat"):
        decode(Compat("openai"), best_of=None, temperature=1)
        fault(Compat("openai"), best_of=2)
    assert caplog.records == []


def test_a_deployment_is_strict_unless_it_says_otherwise() -> None:
    assert Config().server.compat == "off"
    assert ServerConfig(compat="vllm").compat_warnings == 256


def test_the_page_names_every_field() -> None:
    page = PAGE.read_text()
    assert [name for name in FOREIGN_FIELDS if f"`{name}`" not in page] == []

"""Ids that clients give to items: what is taken as one, what is refused, and when an item is one that is there already."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.responses.wire.stored_items import with_ids
from smg_core.errors import InvalidRequest
from smg_core.history.rules import LONGEST_NAME, is_name
from smg_core.wire.item_ids import LONGEST_ID, check_item_ids, is_item_id, known_items

BAD = [{"a": 1}, [1], 5, 0, True, False, 1.5, "", "x" * 256, "a\x00b", "a\nb", "\ud800", "\u2028"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.text(max_size=300) | JSON)
def test_what_is_an_id_is_a_name_in_every_store(id: Any) -> None:
    assert LONGEST_ID == LONGEST_NAME
    if is_item_id(id):
        assert is_name(id)


@given(st.lists(st.fixed_dictionaries({}, optional={"id": JSON | st.text(max_size=3)}), max_size=5))
def test_items_are_taken_where_each_can_be_found_by_its_id_and_refused_naming_the_first_that_cannot(items: Any) -> None:
    wrong = None
    seen = []
    for order, item in enumerate(items):
        id = item.get("id")
        if id is not None and (not is_item_id(id) or id in seen):
            wrong = f"input[{order}].id"
            break
        seen.append(id)
    if wrong is None:
        check_item_ids(items, "input")
        ids = [item["id"] for item in with_ids([{"type": "program", **item} for item in items], "1")]
        assert all(map(is_item_id, ids))
        assert len(set(ids)) == len(ids)
        return
    with pytest.raises(InvalidRequest) as raised:
        check_item_ids(items, "input")
    assert raised.value.param == wrong


@pytest.mark.parametrize("id", BAD, ids=ascii)
def test_an_id_that_is_none_is_refused_by_its_place(id: Any) -> None:
    with pytest.raises(InvalidRequest) as raised:
        check_item_ids([{"id": "a"}, {"id": id}], "items")
    assert raised.value.param == "items[1].id"
    assert raised.value.message.isprintable()
    assert len(raised.value.message) < 200


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "user", "content": [{"type": "input_text", "text": text}], **more}


def test_an_item_that_is_named_or_repeated_is_known() -> None:
    earlier = {"msg_1": message("one", status="completed")}
    assert known_items([message("one")], [False], earlier) == {"msg_1"}
    assert known_items([message("one", status=None, phase=None)], [False], earlier) == {"msg_1"}
    assert known_items([message("other")], [True], earlier) == {"msg_1"}
    assert known_items([message("other") | {"id": "msg_2"}], [False], earlier) == frozenset()


@pytest.mark.parametrize("other", [message("two"), message("one", role="developer"), message("one", type="program")])
def test_an_item_that_says_something_else_under_a_known_id_is_refused(other: Any) -> None:
    with pytest.raises(InvalidRequest, match="Duplicate item") as raised:
        known_items([{"id": "msg_0"}, other], [False, False], {"msg_1": message("one")})
    assert raised.value.param == "input[1].id"


MESSAGE = {
    "type": "message",
    "id": "m",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "{}", "annotations": []}],
}
CALL = {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}
THOUGHT = {
    "type": "reasoning",
    "id": "t",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "x"}],
    "encrypted_content": "z",
}


@pytest.mark.parametrize(
    ("kept", "sent"),
    [
        (MESSAGE, {**MESSAGE, "content": [{**MESSAGE["content"][0], "parsed": {"a": 1}}]}),  # type: ignore[dict-item]
        (CALL, {**CALL, "parsed_arguments": {"a": 1}, "created_by": "user"}),
        (THOUGHT, {"type": "reasoning", "id": "t", "summary": [], "encrypted_content": "z"}),
        ({"type": "reasoning", "id": "t", "summary": []}, THOUGHT),
    ],
)
def test_what_helpers_of_sdks_add_or_leave_out_makes_no_other_item(kept: Any, sent: Any) -> None:
    assert known_items([sent], [False], {kept["id"]: kept}) == {kept["id"]}


@pytest.mark.parametrize(
    ("kept", "sent"),
    [
        (CALL, {**CALL, "arguments": "[]"}),
        (CALL, {key: value for key, value in CALL.items() if key != "name"}),
        (THOUGHT, {**THOUGHT, "content": [{"type": "reasoning_text", "text": "y"}]}),
        (THOUGHT, {**THOUGHT, "type": "message"}),
    ],
)
def test_what_says_something_else_is_another_item_still(kept: Any, sent: Any) -> None:
    with pytest.raises(InvalidRequest):
        known_items([sent], [False], {kept["id"]: kept})

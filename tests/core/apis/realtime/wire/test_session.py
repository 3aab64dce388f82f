"""A Realtime session alone: each row of the table of client events, and the conversation as a model of a list."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from smg_core.apis.realtime.wire.conversation import Conversation, read_by_model
from smg_core.apis.realtime.wire.effective import Abilities, defaults
from smg_core.apis.realtime.wire.events import SessionIds, read_event
from smg_core.apis.realtime.wire.items import item_given, made_item
from smg_core.apis.realtime.wire.session import RealtimeSession, SessionBounds, TakenEvent
from smg_core.apis.realtime.wire.states import CLIENT, STREAM, SessionState
from smg_core.errors import InvalidRequest, SmgError
from smg_core.events import Finished, Started, TextDelta
from smg_core.wire.settings import LimitsConfig

ABILITIES = Abilities(LimitsConfig())
SAYS = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
EVENTS: dict[str, dict[str, Any]] = {
    "session.update": {"session": {"type": "realtime"}},
    "conversation.item.create": {"item": SAYS},
    "conversation.item.retrieve": {"item_id": "first"},
    "conversation.item.delete": {"item_id": "first"},
    "response.create": {},
    "response.cancel": {},
    "output_audio_buffer.clear": {},
}
OF_SOUND = {
    "conversation.item.truncate": {"item_id": "first", "content_index": 0, "audio_end_ms": 0},
    "input_audio_buffer.append": {"audio": base64.b64encode(b"\0\0").decode()},
    "input_audio_buffer.commit": {},
    "input_audio_buffer.clear": {},
}


def session_of(**bounds: int) -> RealtimeSession:
    held = SessionBounds(**{"items": 100, "kept_bytes": 100_000, "responses": 2, **bounds})
    session = RealtimeSession(defaults("sess_1", "m", 9, ABILITIES), "conv_1", SessionIds("1"), ABILITIES, held)
    take(session, "conversation.item.create", item={**SAYS, "id": "first"})
    return session


def take(session: RealtimeSession, kind: str, /, **fields: Any) -> TakenEvent:
    return session.take(read_event(json.dumps({"type": kind, **fields}).encode(), LimitsConfig()))


def kinds(lines: Any) -> tuple[str, ...]:
    return tuple(json.loads(line)["type"] for line in lines)


def test_the_table_has_every_event_in_every_state() -> None:
    assert set(CLIENT) == {(kind, state) for kind in EVENTS | OF_SOUND for state in ("free", "busy")}


@pytest.mark.parametrize(("kind", "state"), [each for each in CLIENT if each[0] in EVENTS])
def test_an_event_is_answered_as_its_row_says(kind: str, state: SessionState) -> None:
    session = session_of()
    if state == "busy":
        take(session, "response.create")
    assert session.state == state
    row = CLIENT[kind, state]
    if row.refused:
        with pytest.raises(SmgError) as refused:
            take(session, kind, **EVENTS[kind])
        assert refused.value.code == row.refused
        return
    taken = take(session, kind, **EVENTS[kind])
    lines = list(taken.lines)
    for each in taken.cancel:
        lines += session.over(each)
    assert kinds(lines) == row.answers


@pytest.mark.parametrize(("kind", "state"), [each for each in CLIENT if each[0] in OF_SOUND])
def test_without_sound_its_events_are_refused_and_nothing_changes(kind: str, state: SessionState) -> None:
    session = session_of()
    if state == "busy":
        take(session, "response.create")
    with pytest.raises(InvalidRequest):
        take(session, kind, **OF_SOUND[kind])
    assert session.state == state
    assert len(session.conversation) == 1


def test_every_state_of_a_response_is_reached_and_left() -> None:
    assert {before for before, _ in STREAM} == {*STREAM.values(), "audio"}


def test_what_is_cancelled_tells_its_end_once_and_is_free_again() -> None:
    session = session_of()
    begun = take(session, "response.create").begin
    assert begun is not None
    begun.encode_anew()
    lines = session.leaving(begun, begun.encoder.encode([Started(1, 0, "m"), TextDelta(0, "Hel")]))
    taken = take(session, "response.cancel")
    lines += taken.lines
    with pytest.raises(InvalidRequest, match="no active response"):
        take(session, "response.cancel")
    lines += session.over(begun)
    assert kinds(lines)[-5:] == (
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    )
    assert json.loads(lines[-1])["response"]["status_details"]["reason"] == "client_cancelled"
    assert session.state == "free"


def test_a_try_that_told_nothing_leaves_nothing_in_the_conversation() -> None:
    session = session_of()
    begun = take(session, "response.create").begin
    assert begun is not None
    begun.encode_anew().encode([Started(1, 0, "m"), TextDelta(0, "lost")])
    encoder = begun.encode_anew()
    lines = session.leaving(begun, encoder.encode([Started(1, 0, "m"), TextDelta(0, "kept"), Finished(0, "stop")]))
    session.over(begun)
    assert "lost" not in b"".join(lines).decode()
    assert len(session.conversation) == 2


def test_an_item_that_is_deleted_while_it_is_made_stays_so() -> None:
    session = session_of()
    begun = take(session, "response.create").begin
    assert begun is not None
    lines = session.leaving(begun, begun.encode_anew().encode([Started(1, 0, "m"), TextDelta(0, "Hello")]))
    (added,) = [json.loads(line) for line in lines if b"conversation.item.added" in line]
    take(session, "conversation.item.delete", item_id=added["item"]["id"])
    session.leaving(begun, begun.encoder.encode([Finished(0, "stop")]))
    assert len(session.conversation) == 1


def test_ids_of_clients_are_bounded_and_not_given_twice() -> None:
    session = session_of()
    for id, code in (("first", "item_already_exists"), ("x" * 33, "string_above_max_length"), ("", None)):
        with pytest.raises(InvalidRequest) as refused:
            take(session, "conversation.item.create", item={**SAYS, "id": id})
        assert code is None or refused.value.code == code
    with pytest.raises(InvalidRequest) as refused:
        take(session, "conversation.item.create", item=SAYS, previous_item_id="none")
    assert refused.value.code == "item_not_found"
    assert len(session.conversation) == 1


def test_the_event_id_of_a_client_is_kept_whatever_is_wrong() -> None:
    for event in ({"type": "nothing"}, {"type": "response.create", "response": 3}, {"session": {}}):
        read = read_event(json.dumps({"event_id": "mine", **event}).encode(), LimitsConfig())
        assert read.fault is not None
        assert read.id == "mine"


@given(st.binary(max_size=200))
def test_whatever_comes_is_read_as_an_event_or_its_fault(data: bytes) -> None:
    event = read_event(data, LimitsConfig())
    assert (event.fault is None) == (event.fields is not None)


# --------------------------------------------------------------------------------------------------------- conversation


class Listed(RuleBasedStateMachine):
    """The conversation does what a list of ids does."""

    def __init__(self) -> None:
        super().__init__()
        self.conversation = Conversation(8, 100_000)
        self.ids: list[str] = []
        self.made = 0

    @rule(place=st.integers(-1, 9))
    def insert(self, place: int) -> None:
        self.made += 1
        item = made_item({**SAYS, "id": f"i{self.made}"})
        full = len(self.ids) >= 8
        try:
            self.conversation.check_room(item)
        except InvalidRequest:
            assert full
            return
        assert not full
        if place < 0:
            before, at = self.conversation.insert(item, "root"), 0
        elif place < len(self.ids):
            before, at = self.conversation.insert(item, self.ids[place]), place + 1
        else:
            before, at = self.conversation.insert(item), len(self.ids)
        assert before == (self.ids[at - 1] if at else None)
        self.ids.insert(at, item.id)

    @rule(place=st.integers(0, 9))
    def delete(self, place: int) -> None:
        if place < len(self.ids):
            self.conversation.delete(self.ids.pop(place))

    @rule(place=st.integers(0, 9))
    def begin(self, place: int) -> None:
        if place < len(self.ids):
            self.conversation.begin_at(self.ids[place])
            assert [item.id for item in self.conversation.read()] == self.ids[place:]

    @invariant()
    def is_that_list(self) -> None:
        items = self.conversation.all()
        assert [item.id for item in items] == self.ids
        assert self.conversation.size == sum(item.size for item in items)
        assert self.conversation.last == (self.ids[-1] if self.ids else None)
        read = [item.id for item in self.conversation.read()]
        assert read == self.ids[len(self.ids) - len(read) :]


TestListed = Listed.TestCase


def test_a_call_is_read_whole_once_it_is_answered() -> None:
    call = made_item({"id": "c", "type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"})
    output = made_item({"id": "o", "type": "function_call_output", "call_id": "1", "output": "x"})
    for items, expected in (
        ([call], [("c", "incomplete")]),
        ([call, output], [("c", None), ("o", None)]),
        ([output], []),
        ([output, call], [("c", "incomplete")]),
    ):
        said, ids = read_by_model(items)
        assert [(id, json.loads(text).get("status")) for id, text in zip(ids, said, strict=True)] == expected


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({}, "item.type"),
        ({"type": 3}, "item.type"),
        ({"type": "message", "role": "user", "content": []}, "item.content"),
        (
            {"type": "message", "role": "user", "content": [{"type": "output_text", "text": "x"}]},
            "item.content[0].type",
        ),
        ({"type": "message", "role": "user", "content": [{"type": "input_text"}]}, "item.content[0].text"),
        ({"type": "message", "role": "user", "content": [{"type": "input_audio"}]}, "item.content[0].audio"),
        ({"type": "message", "role": "developer", "content": []}, "item.role"),
        ({"type": "function_call", "name": "f"}, "item.arguments"),
        ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}], "a": 1}, "item.a"),
    ],
)
def test_an_item_that_is_none_is_refused_by_its_field(item: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        item_given(item, "item", SessionIds("1"))
    assert refused.value.param == param

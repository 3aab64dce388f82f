"""Interactions on the wire: a stream keeps its revision's grammar, says what the whole body says, and can be gone on with."""

import json
from typing import Any

import msgspec
import pytest
from google.genai.interactions import Interaction, InteractionSSEEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from tests.core.apis.responses.responses_events import STARTED, USAGE, streams
from tests.tiers import examples

from smg_core.apis.interactions.answer_types import InteractionAnswer, InteractionEvent
from smg_core.apis.interactions.decode import InteractionRequest, Revision, interaction_decoder
from smg_core.apis.interactions.encode import CLOSING, InteractionStreamEncoder, InteractionWholeEncoder
from smg_core.apis.interactions.grammar import END, START, InteractionGrammar
from smg_core.apis.interactions.object import rendered_interaction
from smg_core.apis.interactions.resume import (
    InteractionLog,
    ends_interaction,
    interaction_events,
    interaction_frame,
)
from smg_core.errors import SmgError
from smg_core.events import (
    Done,
    Event,
    Finished,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from smg_core.wire.base import Incoming

REVISIONS: tuple[Revision, ...] = ("steps", "legacy")
SSE: TypeAdapter[Any] = TypeAdapter(InteractionSSEEvent)


def asked(revision: Revision = "steps", summaries: str = "auto") -> InteractionRequest:
    body = {"model": "sim", "input": "Hello", "stream": True, "generation_config": {"thinking_summaries": summaries}}
    return interaction_decoder(revision)(Incoming(json.dumps(body).encode(), request_id="v1_1"))


def encoder(request: InteractionRequest, keeps: int = 0) -> InteractionStreamEncoder:
    return InteractionStreamEncoder(request, 1700000000, lambda: 1700000009.5, keeps=keeps)


def followed(events: list[Any]) -> InteractionGrammar:
    grammar = InteractionGrammar()
    for place, event in enumerate(events):
        assert grammar.take(event) is None, (place, event)
    return grammar


@pytest.mark.full
@settings(max_examples=examples(200), deadline=None)
@given(streams(), st.sampled_from(REVISIONS), st.sampled_from(["auto", "none"]), st.data())
def test_a_stream_keeps_the_grammar_and_says_what_the_whole_answer_says(
    events: list[Event], revision: Revision, summaries: str, data: Any
) -> None:
    request = asked(revision, summaries)
    made = encoder(request, keeps=1 << 20)
    told, left = made.start(), list(events)
    while left:
        some = data.draw(st.integers(1, len(left)))
        told += made.encode(left[:some])
        left = left[some:]
        if data.draw(st.booleans()):
            told += made.keep_alive()
    assert told.endswith(CLOSING)
    assert told.count(CLOSING) == 1
    stored = interaction_events(told)
    read = [msgspec.json.decode(each) for each in stored]
    grammar = followed(read)
    assert grammar.state == END
    assert sum(map(ends_interaction, stored)) == 1
    assert interaction_events(made.frames()) == stored
    assert all(frame in told for frame in map(interaction_frame, stored))
    for each in stored:
        msgspec.json.decode(each, type=InteractionEvent)

    whole = InteractionWholeEncoder(request, 1700000000, lambda: 1700000009.5)
    for event in events:
        whole = whole.fork()
        whole.add([event])
    assert whole.response() == made.response()
    kept = made.response()["steps"]
    if read[-1]["event_type"] == "error":
        assert isinstance(kept, list)
        assert kept[: len(grammar.steps)] == grammar.steps
        with pytest.raises(SmgError):
            whole.body()
    else:
        assert kept == grammar.steps
        body = json.loads(whole.body())
        assert body == rendered_interaction(made.response(), revision)
        msgspec.convert(body, InteractionAnswer)
        Interaction.model_validate(body)


@settings(max_examples=examples(50), deadline=None)
@given(streams())
def test_the_sdk_knows_every_event(events: list[Event]) -> None:
    for data in interaction_events(encoder(asked()).encode(events)):
        assert type(SSE.validate_json(data)).__name__ != "UnknownInteractionSSEEvent"


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(streams(), min_size=1, max_size=4), st.sampled_from(REVISIONS), st.data())
def test_every_event_is_kept_once_and_in_order_whatever_dies_in_between(
    runs: list[list[Event]], revision: Revision, data: Any
) -> None:
    """Each run but the last dies after some of its events; the next reads what is kept."""
    request = asked(revision)
    stored = interaction_events(encoder(request).queued())
    for place, events in enumerate(runs):
        log = InteractionLog(stored)
        stored += log.close()
        run = encoder(request)
        run.go_on(log.following, log.items)
        made = interaction_events(run.start() + run.encode(events))
        if place < len(runs) - 1:
            live = [each for each in made if not ends_interaction(each)]
            made = live[: data.draw(st.integers(0, len(live)))]
        stored += made
    read = [msgspec.json.decode(each) for each in stored]
    grammar = followed(read)
    assert grammar.state == END
    assert [event["event_id"] for event in read] == [f"v1_1.{number}" for number in range(len(read))]
    assert sum("created" in event["event_type"] or event["event_type"] == "interaction.start" for event in read) == 1


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_stream_that_is_cut_is_ended_by_its_log(revision: Revision) -> None:
    request = asked(revision)
    run = encoder(request)
    log = InteractionLog(interaction_events(run.encode([STARTED, TextDelta(0, "One")])))
    closed = log.close()
    log.take(log.ending("cancelled", {"id": "v1_1", "status": "cancelled"}))

    assert len(closed) == 1
    assert log.items == [{"type": "model_output", "content": [{"type": "text", "text": "One"}]}]


@pytest.mark.parametrize("arguments", ["[1]", "{", "nothing", '"x"'])
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_call_whose_arguments_are_no_object_fails_and_is_not_shown(revision: Revision, arguments: str) -> None:
    call = [ToolCallStart(0, 0, "c", "f"), ToolCallDelta(0, 0, arguments), ToolCallEnd(0, 0)]
    events: list[Event] = [STARTED, *call, Finished(0, "tool_calls"), USAGE, Done()]
    made = encoder(asked(revision))
    read = [msgspec.json.decode(each) for each in interaction_events(made.encode(events))]

    assert followed(read).steps == []
    assert made.response()["status"] == "failed"
    assert made.response()["errors"][0]["code"] == "MALFORMED_FUNCTION_CALL"  # type: ignore[index, call-overload]


def test_a_stream_over_its_bound_is_not_kept() -> None:
    made = encoder(asked(), keeps=300)
    for _ in range(20):
        made.encode([TextDelta(0, "some more text")])
    made.encode([TextEnd(0), Finished(0, "stop"), USAGE, Done()])

    assert made.frames() == b""


def test_the_checker_refuses_what_may_not_come() -> None:
    text = [TextDelta(0, "One"), TextEnd(0), Finished(0, "stop"), USAGE, Done()]
    read = [msgspec.json.decode(each) for each in interaction_events(encoder(asked()).encode([STARTED, *text]))]
    for place in range(len(read)):
        grammar = InteractionGrammar()
        faults = [grammar.take(event) for event in (*read[:place], *read[place + 1 :])]
        assert any(faults) or place == len(read) - 1
        assert InteractionGrammar().state == START
        again = InteractionGrammar()
        assert any(again.take(event) for event in (*read[: place + 1], read[place]))

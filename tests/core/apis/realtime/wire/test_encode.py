"""The encoder of Realtime responses: any stream of events becomes one response by the table, told in the SDK's types."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter
from tests.core.apis.responses.responses_events import STARTED, USAGE, streams

from smg_core.apis.realtime.wire.encode import RealtimeEncoder, Voiced
from smg_core.apis.realtime.wire.events import SessionIds
from smg_core.apis.realtime.wire.states import ANYWHERE, StreamState, following
from smg_core.events import Done, Event, Finished, FinishReason, ReasoningDelta, ReasoningEnd, TextDelta, TextEnd

EVENTS: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
TOLD = {"object": "realtime.response", "id": "resp_1", "status": "in_progress", "output": []}


def encoder(*, inside: bool = True, spoken: bool = False) -> RealtimeEncoder:
    return RealtimeEncoder(Voiced(dict(TOLD), SessionIds("1"), inside, spoken))


def told(made: RealtimeEncoder, events: Sequence[Event], cuts: Sequence[int] = ()) -> list[Any]:
    """The events that `events` become, encoded in as many pieces."""
    places = [0, *sorted(cuts), len(events)]
    data = b"".join(made.encode(events[start:end]) for start, end in pairwise(places))
    made.sent(data)
    lines = data.splitlines()
    for line in lines:
        EVENTS.validate_json(line, strict=True)
    return [json.loads(line) for line in lines]


def state_behind(events: Sequence[Any], spoken: bool) -> StreamState:
    state: StreamState = "response"
    for event in events:
        if event["type"] not in ANYWHERE:
            state = following(state, event["type"], sound=event.get("part", {}).get("type") == "audio")
    return state


@pytest.mark.full
@given(streams(), st.booleans(), st.booleans(), st.lists(st.integers(0, 30), max_size=3))
def test_any_stream_is_a_response_by_the_table(
    events: list[Event], inside: bool, spoken: bool, cuts: list[int]
) -> None:
    made = encoder(inside=inside, spoken=spoken)
    found = told(made, events, [min(cut, len(events)) for cut in cuts])
    assert state_behind(found, spoken) == "idle"
    assert [event["type"] for event in found].count("response.done") == 1
    assert made.encode(events) == b""
    response = found[-1]["response"]
    done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    assert response["output"] == done
    of_conversation = [event for event in found if event["type"].startswith("conversation.item.")]
    assert inside or not of_conversation
    if inside:
        settled = [event["item"] for event in of_conversation if event["type"].endswith("done")]
        assert [item for item in settled if item["type"] != "mcp_list_tools"] == done


@pytest.mark.full
@given(streams(), st.integers(0, 40))
def test_a_response_that_is_cut_off_anywhere_closes_what_is_open(events: list[Event], at: int) -> None:
    made = encoder()
    found = told(made, events[:at])
    if not made.ended:
        rest = made.cut()
        made.sent(rest)
        found += [json.loads(line) for line in rest.splitlines()]
        assert state_behind(found, False) == "response"
    assert made.encode(events[at:]) == made.cut() == b""


@given(streams(), st.integers(0, 40), st.integers(0, 40))
def test_what_was_encoded_and_has_not_left_comes_before_what_closes_it(
    events: list[Event], left: int, encoded: int
) -> None:
    made = encoder()
    found = told(made, events[:left])
    made.encode(events[left : left + encoded])
    found += [json.loads(line) for line in made.cut().splitlines()]
    assert state_behind(found, False) in ("response", "idle")


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        ("abort", "incomplete", None),
        ("error", "failed", None),
    ],
)
def test_the_end_of_a_choice_is_the_status_of_the_response(reason: FinishReason, status: str, why: str | None) -> None:
    events = [STARTED, TextDelta(0, "x"), TextEnd(0), Finished(0, reason), USAGE, Done()]
    response = told(encoder(), events)[-1]["response"]
    assert (response["status"], response["status_details"].get("reason")) == (status, why)
    assert ("error" in response["status_details"]) == (status == "failed")


def test_reasoning_is_kept_for_the_item_behind_it() -> None:
    made = encoder()
    events = [STARTED, ReasoningDelta(0, "I "), ReasoningDelta(0, "think."), ReasoningEnd(0), TextDelta(0, "Yes.")]
    found = told(made, events)
    assert made.hidden == {found[0]["item"]["id"]: "I think."}
    assert "think" not in json.dumps(found)


def test_a_spoken_answer_is_told_as_its_transcript() -> None:
    events = [STARTED, TextDelta(0, "Hello "), TextDelta(0, "you."), TextEnd(0), Finished(0, "stop"), USAGE, Done()]
    found = told(encoder(spoken=True), events)
    assert [event["delta"] for event in found if event["type"] == "response.output_audio_transcript.delta"] == [
        "Hello ",
        "you.",
    ]
    assert found[-1]["response"]["output"][0]["content"] == [{"type": "output_audio", "transcript": "Hello you."}]

"""The log of a stream that broke off anywhere is closed and gone on with, so that the whole keeps the grammar."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.apis.responses.responses_events import streams
from tests.core.apis.responses.wire.test_encode import asked, sealed_by_us
from tests.tiers import examples

from smg_core.apis.responses.wire.encode import ResponsesStreamEncoder
from smg_core.apis.responses.wire.grammar import check_stream
from smg_core.apis.responses.wire.resume import EventLog, is_terminal, split_frames
from smg_core.events import (
    Done,
    Event,
    Finished,
    HostedEnd,
    HostedProgress,
    HostedStart,
    Started,
    TextDelta,
    TextEnd,
    Usage,
)


def encoder() -> ResponsesStreamEncoder:
    return ResponsesStreamEncoder(asked(background=True), 1700000000, lambda: 1700000009.5, sealed_by_us)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(streams(), min_size=1, max_size=4), st.data())
def test_every_event_is_kept_once_and_in_order_whatever_dies_in_between(runs: list[list[Event]], data: Any) -> None:
    """Each run but the last dies after some of its events; the next reads what is kept."""
    stored = split_frames(encoder().queued())
    for place, events in enumerate(runs):
        log = EventLog(stored)
        stored += log.close()
        run = encoder()
        run.go_on(log.following, log.items)
        made = split_frames(run.start() + run.encode(events))
        if place < len(runs) - 1:
            live = [each for each in made if not is_terminal(each)]
            made = live[: data.draw(st.integers(0, len(live)))]
        stored += made
    read = [msgspec.json.decode(each) for each in stored]
    grammar = check_stream(read)
    assert [event["sequence_number"] for event in read] == list(range(len(read)))
    assert sum(event["type"] == "response.created" for event in read) == 1
    ids = [item["id"] for item in grammar.items]
    assert len(set(map(str, ids))) == len(ids)


CALLS: dict[str, list[Event]] = {
    kind: [
        HostedStart(0, "c", kind, msgspec.json.encode({"action": {"type": "search", "query": "x", "code": "1"}})),
        HostedProgress(0, phase),
        HostedEnd(0, b"{}"),
    ]
    for kind, phase in (
        *(("web_search", "searching"), ("file_search", "searching"), ("code", "interpreting"), ("image", "generating")),
    )
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_that_runs_here_is_closed_wherever_its_process_dies(kind: str) -> None:
    first = encoder()
    whole = split_frames(first.queued())
    first.go_on(len(whole), [])
    made = split_frames(first.start() + first.encode([Started(1, None, "m"), *CALLS[kind]]))
    for cut in range(len(made) + 1):
        stored = [*whole, *made[:cut]]
        log = EventLog(stored)
        stored += log.close()
        run = encoder()
        run.go_on(log.following, log.items)
        text: list[Event] = [TextDelta(0, "Done."), TextEnd(0), Finished(0, "stop"), Usage(1, 1), Done()]
        stored += split_frames(run.start() + run.encode([Started(1, None, "m"), *text]))
        grammar = check_stream([msgspec.json.decode(each) for each in stored])
        assert len(grammar.items) in (1, 2)

"""The turn of an engine that speaks chat: its events without what only the answer may say."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.event_grammar import check

from smg_core.errors import EngineFailed, EngineGarbled, SmgError, WorkerGone
from smg_core.events import (
    NO_USAGE,
    Annotation,
    Cancelled,
    Done,
    Event,
    Failed,
    Finished,
    HostedEnd,
    HostedProgress,
    HostedStart,
    OpaqueBlock,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    Started,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.pipeline.chat_reader import ChatPlan, ChatReader

TURN: list[Event] = [
    Started(9, 4, "theirs"),
    ReasoningDelta(0, "hm"),
    ReasoningEnd(0, b"seal"),
    TextDelta(0, "Sure."),
    TextEnd(0),
    ToolCallStart(0, 0, "c0", "f"),
    ToolCallDelta(0, 0, "{}"),
    ToolCallEnd(0, 0),
    ToolCallStart(0, 1, "c1", "g"),
    ToolCallEnd(0, 1, valid=False),
    OpaqueBlock(0, "kind", b"payload"),
    Finished(0, "tool_calls"),
    Usage(9, 5, 4, 1),
    Done(),
]


@given(st.lists(st.integers(0, len(TURN)), max_size=6))
def test_what_only_the_answer_may_say_is_kept_back_however_the_events_are_batched(cuts: list[int]) -> None:
    reader, events = ChatReader(ChatPlan(1)), list[Event]()
    edges = [0, *sorted(cuts), len(TURN)]
    for start, end in pairwise(edges):
        events += reader.feed(TURN[start:end])

    assert events == TURN[1:-2]
    assert reader.done
    assert reader.whole
    assert reader.usage() == Usage(9, 5, 4, 1)
    assert (reader.prompt_tokens, reader.cached_tokens) == (9, 4)
    assert reader.finishes == [Finished(0, "tool_calls")]
    check([Started(9, 4, "m"), *events, reader.usage(), Done()])


def test_calls_are_numbered_on_from_those_of_earlier_turns() -> None:
    reader = ChatReader(ChatPlan(1), first_call=3)
    assert reader.next_call == 3
    events = reader.feed(TURN)
    calls = [event for event in events if isinstance(event, ToolCallStart | ToolCallDelta | ToolCallEnd)]

    assert [event.call for event in calls] == [3, 3, 3, 4, 4]
    assert [event.id for event in calls if isinstance(event, ToolCallStart)] == ["c0", "c1"]
    assert reader.next_call == 5


def test_a_turn_is_done_once_it_is_known_what_it_used_and_whole_once_all_choices_have_finished() -> None:
    reader = ChatReader(ChatPlan(2))
    reader.feed([TextDelta(0, "a"), TextEnd(0), Finished(0, "stop")])
    assert not reader.whole
    reader.feed([Finished(1, "stop")])
    assert (reader.whole, reader.engine_done, reader.done) == (True, True, False)
    reader.feed([Usage(1, 1)])
    assert reader.done


def test_an_engine_that_says_nothing_of_what_it_used_leaves_what_it_said_of_the_prompt() -> None:
    reader = ChatReader(ChatPlan(1))
    assert reader.usage() == NO_USAGE + Usage(0, 0)
    reader.feed([Started(9, None, "theirs"), Finished(0, "stop")])

    assert reader.usage() == Usage(9, 0)


def test_an_engines_failure_is_the_turns() -> None:
    error = EngineFailed("broken")
    with pytest.raises(EngineFailed) as caught:
        ChatReader(ChatPlan(1)).feed([TextDelta(0, "a"), Usage(1, 1), Failed(error)])

    assert caught.value is error


@pytest.mark.parametrize(
    "events",
    [
        [Cancelled("somebody")],
        [TextDelta(1, "nobody asked")],
        [Finished(1, "stop")],
        [Finished(-1, "stop")],
        [Finished(0, "stop"), Finished(0, "stop")],
        [Finished(0, "stop"), TextDelta(0, "more")],
    ],
)
def test_what_an_engine_may_not_say_is_its_fault(events: list[Event]) -> None:
    with pytest.raises(SmgError) as caught:
        ChatReader(ChatPlan(1)).feed(events)

    assert isinstance(caught.value, EngineGarbled)


@pytest.mark.parametrize(
    ("opened", "closed"),
    [
        ([TextDelta(0, "a")], [TextEnd(0)]),
        ([TextDelta(0, "a"), Annotation(0, "url", 0, 1, "x")], [TextEnd(0)]),
        ([RefusalDelta(0, "no")], [TextEnd(0)]),
        ([ReasoningDelta(0, "hm")], [ReasoningEnd(0)]),
        ([ToolCallStart(0, 0, "c", "f")], [ToolCallEnd(0, 2, valid=False)]),
        ([ToolCallStart(0, 0, "c", "f"), ToolCallDelta(0, 0, "{")], [ToolCallEnd(0, 2, valid=False)]),
        ([HostedStart(0, "h", "web"), HostedProgress(0, "searching")], [HostedEnd(0, failed=True)]),
        ([TextDelta(0, "a"), TextEnd(0)], []),
        ([RefusalDelta(0, "no"), TextEnd(0)], []),
        ([HostedStart(0, "h", "web"), HostedEnd(0)], []),
        ([OpaqueBlock(0, "kind", b"")], []),
    ],
)
def test_a_turn_that_is_broken_off_closes_what_is_open_once(opened: list[Event], closed: list[Event]) -> None:
    reader = ChatReader(ChatPlan(1), first_call=2)
    reader.feed(opened)

    assert reader.cut() == closed
    assert reader.cut() == []


def test_what_a_push_says_before_it_fails_is_kept() -> None:
    reader = ChatReader(ChatPlan(1))
    with pytest.raises(WorkerGone):
        reader.feed([TextDelta(0, "one"), Failed(WorkerGone("lost"))])

    assert reader.rest == [TextDelta(0, "one")]
    assert reader.cut() == [TextEnd(0)]

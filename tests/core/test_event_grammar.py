"""The checker of the event grammar takes what the grammar of events.py makes, and says what is wrong with anything else."""

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.event_grammar import ENDS, NEXT, check

from smg_core.errors import EngineFailed
from smg_core.events import (
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

STARTED, USAGE, DONE = Started(3, None, "m"), Usage(3, 1), Done()
TEXT = [TextDelta(0, "a"), Annotation(0, "url", 0, 1, "https://a"), TextDelta(0, "b"), TextEnd(0)]
CALL = [ToolCallStart(0, 0, "c", "f"), ToolCallDelta(0, 0, "{}"), ToolCallEnd(0, 0)]
WRONG = [
    ([], "no end"),
    ([STARTED, Finished(0, "stop"), USAGE], "no end"),
    ([STARTED, STARTED, Finished(0, "stop"), USAGE, DONE], "event 1, .* not the first"),
    ([*TEXT, Finished(0, "stop"), USAGE, DONE], "nothing comes before Started"),
    ([STARTED, TextDelta(0, "a"), Finished(0, "stop"), USAGE, DONE], "may not come while a text is open"),
    ([STARTED, TextDelta(0, "a"), ReasoningDelta(0, "b")], "may not come while a text is open"),
    ([STARTED, TextDelta(0, "a"), CALL[0]], "may not come while a text is open"),
    ([STARTED, ReasoningDelta(0, "a"), TextDelta(0, "b")], "may not come while reasoning is open"),
    ([STARTED, CALL[0], ToolCallStart(0, 1, "d", "g")], "may not come while a call is open"),
    ([STARTED, TextEnd(0)], "may not come while no block is open"),
    ([STARTED, TextDelta(0, "a"), ReasoningEnd(0)], "may not come while a text is open"),
    ([STARTED, RefusalDelta(0, "a"), TEXT[1]], "may not come while a refusal is open"),
    ([STARTED, Finished(0, "stop"), TextDelta(0, "a")], "may not come while the choice is finished"),
    ([STARTED, Finished(0, "stop"), Finished(0, "stop")], "may not come while the choice is finished"),
    ([STARTED, ToolCallStart(0, 1, "d", "g")], "number should be 0"),
    ([STARTED, *CALL, CALL[0]], "number should be 1"),
    ([STARTED, CALL[0], ToolCallDelta(0, 1, "{")], "open call's number is 0"),
    ([STARTED, Finished(0, "stop"), DONE], "no Usage before it"),
    ([Failed(EngineFailed("x"))], "no Usage before it"),
    ([STARTED, USAGE, TextDelta(0, "a")], "only the end may come after Usage"),
    ([STARTED, USAGE, USAGE], "only the end may come after Usage"),
    ([STARTED, Finished(0, "stop"), USAGE, DONE, DONE], "the response is over"),
    ([STARTED, *TEXT, USAGE, DONE], r"the choices \[0\] are not finished"),
    ([STARTED, USAGE, DONE], "there is no choice"),
    ([STARTED, Finished(1, "stop"), USAGE, DONE], "with a gap"),
    ([USAGE, DONE], "has Started"),
]


def test_every_event_has_a_place_in_the_grammar():
    assert set(typing.get_args(Event)) == {*NEXT, *ENDS, Started, Usage}


@pytest.mark.parametrize(("events", "said"), WRONG)
def test_what_breaks_the_grammar_is_named(events, said):
    with pytest.raises(AssertionError, match=said):
        check(events)


def test_the_number_of_choices_can_be_asked_for():
    events = [STARTED, Finished(0, "stop"), Finished(1, "stop"), USAGE, DONE]
    check(events, choices=2)
    with pytest.raises(AssertionError, match="2 choices, but 3"):
        check(events, choices=3)


def test_the_beginning_of_a_response_is_right_where_no_whole_one_is_asked_for():
    check([STARTED, TextDelta(0, "a")], complete=False)
    check([], complete=False)


def test_a_response_may_fail_or_be_cancelled_before_it_started_and_in_the_middle_of_a_block():
    check([Usage(0, 0), Cancelled("asked")])
    check([STARTED, TextDelta(0, "a"), CALL[0].__class__(1, 0, "c", "f"), USAGE, Failed(EngineFailed("x"))])


def block(kind: str, index: int, call: int) -> list[Event]:
    return {
        "text": [TextDelta(index, "a"), Annotation(index, "url", 0, 1, "s"), TextDelta(index, "b"), TextEnd(index)],
        "refusal": [RefusalDelta(index, "no"), TextEnd(index)],
        "reasoning": [ReasoningDelta(index, "hm"), ReasoningDelta(index, "."), ReasoningEnd(index, b"gw1.x")],
        "call": [ToolCallStart(index, call, "c", "f"), ToolCallDelta(index, call, "{}"), ToolCallEnd(index, call)],
        "hosted": [HostedStart(index, "w", "web_search"), HostedProgress(index, "searching"), HostedEnd(index)],
        "opaque": [OpaqueBlock(index, "thinking", b"{}")],
    }[kind]


KINDS = st.sampled_from(["text", "refusal", "reasoning", "call", "hosted", "opaque"])


@st.composite
def responses(draw) -> list[Event]:
    """A response by the grammar: choices whose events are shuffled together, each in its own order."""
    waiting: list[list[Event]] = []
    for index in range(draw(st.integers(1, 3))):
        events, calls = [], 0
        for kind in draw(st.lists(KINDS, max_size=4)):
            events += block(kind, index, calls)
            calls += kind == "call"
        waiting.append([*events, Finished(index, "stop")])
    body: list[Event] = []
    while any(waiting):
        body.append(draw(st.sampled_from([each for each in waiting if each])).pop(0))
    return [STARTED, *body, USAGE, DONE]


@given(responses(), st.data())
def test_what_the_grammar_makes_passes_whole_and_cut_off_anywhere(events, data):
    check(events)
    end = data.draw(st.sampled_from([Failed(EngineFailed("x")), Cancelled("asked")]))
    cut = data.draw(st.integers(0, len(events) - 2))
    check(events[:cut], complete=False)
    check([*events[:cut], USAGE, end])


@given(responses(), st.data())
def test_a_response_that_lacks_an_event_without_which_it_means_something_else_is_caught(events, data):
    # Without a delta the response is another one; without the end of a text, so are two texts in a row.
    needed = (Started, ToolCallStart, ToolCallEnd, HostedStart, HostedEnd, Finished, Usage, Done)
    at = data.draw(st.sampled_from([place for place, event in enumerate(events) if isinstance(event, needed)]))
    choices = sum(isinstance(event, Finished) for event in events)
    with pytest.raises(AssertionError):
        check(events[:at] + events[at + 1 :], choices=choices)

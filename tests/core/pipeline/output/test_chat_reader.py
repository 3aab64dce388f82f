"""The turn of an engine that speaks chat: its events without what only the answer may say."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
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
from smg_core.pipeline.output.chat_reader import ChatPlan, ChatReader

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


def test_the_next_turn_numbers_on_from_the_choice_with_the_most_calls() -> None:
    reader = ChatReader(ChatPlan(8), first_call=3)
    reader.feed([ToolCallStart(5, 0, "c0", "f"), ToolCallEnd(5, 0), ToolCallStart(2, 0, "c1", "f"), ToolCallEnd(2, 0)])
    reader.feed([ToolCallStart(5, 1, "c2", "f"), ToolCallEnd(5, 1)])
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


def test_a_choice_that_the_engine_gave_up_on_is_its_failure() -> None:
    reader = ChatReader(ChatPlan(1))
    with pytest.raises(EngineFailed, match="failed while generating"):
        reader.feed([TextDelta(0, "a"), Finished(0, "error")])

    assert reader.rest == [TextDelta(0, "a")]
    assert reader.finishes == []


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


# ------------------------------------------------------------------------------------- as for engines that take ids

SPACE = st.sampled_from(["", " ", "\n\n", "\t"])
BESIDE: list[list[Event]] = [
    [],
    [ReasoningDelta(0, "hm"), ReasoningEnd(0)],
    [RefusalDelta(0, "no"), TextEnd(0)],
    [ToolCallStart(0, 0, "c", "f"), ToolCallDelta(0, 0, "{}"), ToolCallEnd(0, 0)],
    [OpaqueBlock(0, "redacted_thinking", b"sealed")],
    [HostedStart(0, "h", "web_search_call", b"{}"), HostedEnd(0)],
]


def texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@given(st.lists(SPACE, max_size=4), st.sampled_from(BESIDE), st.booleans(), st.sampled_from(["", "Hi", " so \n"]))
def test_white_space_alone_is_content_only_where_there_is_nothing_else(
    spaces: list[str], beside: list[Event], before: bool, words: str
) -> None:
    blank: list[Event] = [*(TextDelta(0, space) for space in spaces), *([TextEnd(0)] if spaces else [])]
    told: list[Event] = [*beside, *blank] if before else [*blank, *beside]
    told += [TextDelta(0, words), TextEnd(0)] if words else []
    events = ChatReader(ChatPlan(1)).feed([*told, Finished(0, "stop")])

    blanks = "".join(spaces)
    assert texts(events) == (blanks + words if words or not beside else "")
    check([Started(0, None, "m"), *events, Usage(0, 0), Done()])


CALLS_OF_THREE: list[Event] = [
    *(ToolCallStart(0, 0, "a", "f"), ToolCallDelta(0, 0, "{}"), ToolCallEnd(0, 0)),
    *(
        ToolCallStart(0, 1, "b", "g"),
        ToolCallDelta(0, 1, '{"input":'),
        ToolCallDelta(0, 1, ' "ls"}'),
        ToolCallEnd(0, 1),
    ),
    *(ToolCallStart(0, 2, "c", "g"), ToolCallDelta(0, 2, '{"input": "\\ud83d'), ToolCallEnd(0, 2, valid=False)),
    Finished(0, "tool_calls"),
]


def test_calls_that_may_not_be_made_are_not_passed_on_and_the_others_are_numbered_without_them() -> None:
    reader = ChatReader(ChatPlan(only=frozenset({"g"})), first_call=4)
    events = reader.feed(CALLS_OF_THREE)

    assert [event.call for event in events if isinstance(event, ToolCallStart)] == [4, 5]
    assert {event.id for event in events if isinstance(event, ToolCallStart)} == {"b", "c"}
    assert reader.next_call == 6
    check([Started(0, None, "m"), *renumbered(events), Usage(0, 0), Done()])


def renumbered(events: list[Event]) -> list[Event]:
    return [replace(event, call=event.call - 4) if hasattr(event, "call") else event for event in events]


def test_an_answer_none_of_whose_calls_may_be_made_ends_as_one_without_calls() -> None:
    events = ChatReader(ChatPlan(only=frozenset({"h"}))).feed(CALLS_OF_THREE)
    assert events == [Finished(0, "stop")]


def test_where_one_call_may_be_made_the_first_is_passed_on() -> None:
    events = ChatReader(ChatPlan(single_call=True)).feed(CALLS_OF_THREE)
    assert [event.id for event in events if isinstance(event, ToolCallStart)] == ["a"]


def test_free_text_is_taken_out_of_the_arguments_that_carry_it() -> None:
    events = ChatReader(ChatPlan(free_text=frozenset({"g"}))).feed(CALLS_OF_THREE)
    assert events[3:-1] == [
        ToolCallStart(0, 1, "b", "g", custom=True),
        ToolCallDelta(0, 1, "ls"),
        ToolCallEnd(0, 1),
        ToolCallStart(0, 2, "c", "g", custom=True),
        ToolCallDelta(0, 2, "\ufffd"),
        ToolCallEnd(0, 2, valid=False),
    ]


def test_free_text_that_comes_as_such_is_passed_on_as_it_is() -> None:
    call: list[Event] = [
        ToolCallStart(0, 0, "b", "g", custom=True),
        ToolCallDelta(0, 0, '{"input": 1}'),
        ToolCallEnd(0, 0),
    ]
    assert ChatReader(ChatPlan(free_text=frozenset({"g"}))).feed(call) == call


def test_a_text_that_is_not_of_its_format_is_given_and_its_end_says_so() -> None:
    plan = ChatPlan(check=lambda text: None if text == "{}" else "no good")
    *_, wrong = ChatReader(plan).feed([TextDelta(0, "{"), TextEnd(0), Finished(0, "stop")])
    *_, right = ChatReader(plan).feed([TextDelta(0, "{}"), TextEnd(0), Finished(0, "stop")])
    *_, cut = ChatReader(plan).feed([TextDelta(0, "{"), TextEnd(0), Finished(0, "length")])

    assert (wrong, right, cut) == (Finished(0, "stop", violation="no good"), Finished(0, "stop"), Finished(0, "length"))


def test_a_text_that_is_mended_is_still_one_block() -> None:
    plan = ChatPlan(check=lambda text: None if text == '{"a": "b"}' else "no good", on_violation="repair")
    events = ChatReader(plan).feed([TextDelta(0, '{"a": "b'), TextEnd(0), Finished(0, "length")])

    assert events == [
        TextDelta(0, '{"a": "b'),
        TextDelta(0, '"}'),
        TextEnd(0),
        Finished(0, "length", violation="it was cut off", mended=True),
    ]


def test_reasoning_is_sealed_where_it_ends_and_where_it_is_cut() -> None:
    plan = ChatPlan(1, seal=lambda text: f"<{text}>".encode())
    whole, cut = ChatReader(plan), ChatReader(plan)
    whole.feed([ReasoningDelta(0, "one "), ReasoningDelta(0, "two")])
    cut.feed([ReasoningDelta(0, "one")])

    assert whole.feed([ReasoningEnd(0), ReasoningDelta(0, "3"), ReasoningEnd(0)]) == [
        ReasoningEnd(0, b"<one two>"),
        ReasoningDelta(0, "3"),
        ReasoningEnd(0, b"<3>"),
    ]
    assert cut.cut() == [ReasoningEnd(0, b"<one>")]

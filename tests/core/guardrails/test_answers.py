"""What a model says, cut anywhere: nothing that may not pass leaves in part, the order of events holds, time is bounded."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.event_grammar import check

from smg_core.errors import EngineFailed, GuardrailBlocked
from smg_core.events import (
    Annotation,
    Done,
    Event,
    Failed,
    Finished,
    HostedEnd,
    HostedStart,
    ReasoningDelta,
    ReasoningEnd,
    SampledIds,
    Started,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.guardrails.answers import GuardedAnswer, Holding
from smg_core.guardrails.records import GuardPlace, GuardSpan

BAD = "forbidden"
STARTED, END = Started(3, 0, "m"), (Usage(3, 9), Done())


@attrs.define
class World:
    """A clock that a test moves, and what is to be called later."""

    now: float = 0.0
    later: list[tuple[float, Callable[[], None]]] = attrs.field(factory=list)

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        entry = (self.now + seconds, callback)
        self.later.append(entry)
        later = self.later

        class Timer:
            def cancel(self) -> None:
                if entry in later:
                    later.remove(entry)

        return Timer()


def guarded(*, mask: bool = False, choices: int = 1, world: World | None = None, **held: Any) -> GuardedAnswer:
    async def spans(text: str, place: GuardPlace) -> tuple[GuardSpan, ...]:
        await asyncio.sleep(0)
        if BAD in text and not mask:
            raise GuardrailBlocked("words", place)
        found, at = [], text.find(BAD)
        while at >= 0:
            found.append(GuardSpan(at, at + len(BAD), "WORD"))
            at = text.find(BAD, at + 1)
        return tuple(found)

    world = world or World()
    holding = Holding(**{"chars": len(BAD), "piece": 1, "seconds": 5.0, **held})
    return GuardedAnswer("words", spans, choices, holding, world, world.call_later)


def left_of(guard: GuardedAnswer, *batches: Sequence[Event]) -> list[Event]:
    """All that leaves, with the end of the response where it is cut."""

    async def run() -> list[Event]:
        left: list[Event] = []
        for batch in batches:
            try:
                left += await guard(batch)
            except GuardrailBlocked as block:
                return [*left, *block.left, *END]  # type: ignore[list-item]
        return left

    return asyncio.run(run())


def text_of(events: Sequence[Event], index: int = 0) -> str:
    return "".join(each.text for each in events if isinstance(each, TextDelta | ReasoningDelta) and each.index == index)


def cut(text: str, places: Sequence[int]) -> list[str]:
    ends = sorted({0, len(text), *(min(each, len(text)) for each in places)})
    return [text[start:end] for start, end in pairwise(ends)]


WORDS = st.lists(st.sampled_from([BAD, "for", "bid", "den", " and ", "x"]), min_size=1, max_size=8).map("".join)
PLACES = st.lists(st.integers(0, 60), max_size=10)


@given(WORDS, PLACES, st.booleans(), st.integers(1, 30))
def test_what_is_blocked_never_leaves_in_part_however_it_is_cut(
    text: str, places: list[int], together: bool, piece: int
) -> None:
    deltas = [TextDelta(0, each) for each in cut(text, places)]
    end = [TextEnd(0), Finished(0, "stop"), *END]
    batches = [[STARTED, *deltas, *end]] if together else [[STARTED], *([each] for each in deltas), end]

    left = left_of(guarded(piece=piece), *batches)

    check(left)
    said, at = text_of(left), text.find(BAD)
    finishes = [each.reason for each in left if isinstance(each, Finished)]
    if at < 0:
        assert (said, finishes) == (text, ["stop"])
    else:
        assert text[:at].startswith(said)
        assert finishes == ["content_filter"]


@given(WORDS, PLACES, st.booleans(), st.integers(1, 30), st.booleans())
def test_masks_stand_in_the_same_places_however_it_is_cut(
    text: str, places: list[int], together: bool, piece: int, reasons: bool
) -> None:
    kind, last = (ReasoningDelta, ReasoningEnd(0)) if reasons else (TextDelta, TextEnd(0))
    deltas = [kind(0, each) for each in cut(text, places)]
    end = [last, Finished(0, "stop"), *END]
    batches = [[STARTED, *deltas, *end]] if together else [[STARTED], *([each] for each in deltas), end]

    left = left_of(guarded(mask=True, piece=piece), *batches)

    check(left)
    assert text_of(left) == text.replace(BAD, "<WORD>")


@given(WORDS, WORDS, st.lists(st.booleans(), max_size=30))
def test_choices_are_apart_from_each_other(one: str, two: str, order: list[bool]) -> None:
    rest = {0: list(one), 1: list(two)}
    batches: list[list[Event]] = [[STARTED]]
    for first in [*order, *[True] * len(one), *[False] * len(two)]:
        index = 0 if first else 1
        if rest[index]:
            batches.append([TextDelta(index, rest[index].pop(0))])
    batches.append([TextEnd(0), Finished(0, "stop"), TextEnd(1), Finished(1, "stop"), *END])

    left = left_of(guarded(choices=2), *batches)

    check(left)
    ended = {each.index: each.reason for each in left if isinstance(each, Finished)}
    for index, text in enumerate((one, two)):
        if BAD in text:
            assert text[: text.find(BAD)].startswith(text_of(left, index))
            assert ended[index] == "content_filter"
        else:
            assert ended.get(index, "stop") == "stop"
            assert text_of(left, index) == text


@pytest.mark.parametrize("mask", [False, True])
def test_arguments_are_held_back_until_they_are_whole_and_shown_without_escapes(mask: bool) -> None:
    call = [ToolCallStart(0, 0, "c", "look"), *[ToolCallDelta(0, 0, each) for each in '{"a":"f\\u006frbidden"}']]
    end = [ToolCallEnd(0, 0), Finished(0, "tool_calls"), *END]

    left = left_of(guarded(mask=mask), [STARTED, TextDelta(0, "Hi"), TextEnd(0)], *([each] for each in call), end)

    check(left)
    said = "".join(each.arguments for each in left if isinstance(each, ToolCallDelta))
    assert said == ('{"a":"<WORD>"}' if mask else "")
    assert [each.reason for each in left if isinstance(each, Finished)] == ["tool_calls" if mask else "content_filter"]
    assert any(isinstance(each, ToolCallStart) for each in left) == mask


def test_a_call_without_bound_is_held_back_for_good() -> None:
    start = ToolCallStart(0, 0, "c", "look", custom=True)
    batches = [[STARTED, start], *([ToolCallDelta(0, 0, "x" * (1 << 19))] for _ in range(3))]

    left = left_of(guarded(), *batches)

    assert [type(each) for each in left] == [Started, Finished, Usage, Done]


def test_what_tells_of_a_masked_text_goes_with_it() -> None:
    ids = SampledIds(0, (7, 8))
    said = TextDelta(0, f"{BAD}, then", ids=(1, 2))
    quoted = Annotation(0, "url", 0, 9, "https://a", quote=BAD)

    left = left_of(guarded(mask=True), [STARTED, ids, said, quoted, TextEnd(0), Finished(0, "stop"), *END])

    assert left == [STARTED, TextDelta(0, "<WORD>, then"), TextEnd(0), Finished(0, "stop"), *END]


def test_what_passes_leaves_as_it_came() -> None:
    said = [TextDelta(0, "Hel", ids=(1,)), SampledIds(0, (5,)), TextDelta(0, "lo", ids=(2,)), TextEnd(0)]
    events = [STARTED, *said, Finished(0, "stop"), *END]

    assert left_of(guarded(), *([each] for each in events[:-2]), events[-2:]) == events


def test_results_of_tools_that_run_here_are_shown() -> None:
    start, end = HostedStart(0, "t", "mcp", b'{"name":"look"}'), HostedEnd(0, b'{"text":"forb\\u0069dden"}')
    events = [STARTED, start, end, TextDelta(0, "ok"), TextEnd(0), Finished(0, "stop"), *END]

    masked, blocked = left_of(guarded(mask=True), events), left_of(guarded(), events)

    check(masked)
    check(blocked)
    assert masked[2] == HostedEnd(0, b'{"text":"<WORD>"}')
    assert isinstance(blocked[2], HostedEnd)
    assert BAD.encode() not in blocked[2].payload
    assert blocked[3] == Finished(0, "content_filter", cut=True)


def test_what_is_held_back_leaves_when_its_time_is_up() -> None:
    world = World()
    guard = guarded(world=world, piece=100)
    woken: list[float] = []
    guard.wake = lambda: woken.append(world.now)

    async def run() -> tuple[list[Event], list[Event], list[Event]]:
        first = list(await guard([STARTED, TextDelta(0, "Hello")]))
        (due, callback), world.now = world.later[0], 4.9
        early = list(await guard([]))
        assert due == 5.0
        world.now = 5.0
        callback()
        return first, early, list(await guard([]))

    first, early, late = asyncio.run(run())

    assert (first, early, late) == ([STARTED], [], [TextDelta(0, "Hello")])
    assert woken == [5.0]
    assert world.later == []


def test_a_word_that_is_whole_only_behind_what_has_left_is_still_found() -> None:
    world = World()
    guard = guarded(world=world, piece=100)

    async def run() -> list[Event]:
        left = list(await guard([STARTED, TextDelta(0, "for")]))
        world.now = 5.0
        left += await guard([])
        world.now = 6.0
        left += await guard([TextDelta(0, "bidden")])
        world.now = 11.0
        with pytest.raises(GuardrailBlocked) as block:
            await guard([])
        return [*left, *block.value.left, *END]  # type: ignore[list-item]

    left = asyncio.run(run())

    check(left)
    assert text_of(left) == "for"


def test_an_answer_that_the_flow_ends_is_closed_in_order() -> None:
    block = GuardrailBlocked("words", "arguments")

    left = left_of(guarded(), [STARTED, TextDelta(0, "Hi, this is a long text")], [Usage(3, 9), Failed(block)])

    check(left)
    assert [each.reason for each in left if isinstance(each, Finished)] == ["content_filter"]


def test_another_failure_lets_nothing_go_that_was_not_looked_at() -> None:
    failed = Failed(EngineFailed("no"))

    left = left_of(guarded(piece=100), [STARTED, TextDelta(0, "Hi")], [Usage(3, 9), failed])

    assert left == [STARTED, Usage(3, 9), failed]

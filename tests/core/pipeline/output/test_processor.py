"""Engine output to events: whatever the batches, the client sees the same."""

import json
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.parsers.examples import EXAMPLES, WEATHER
from tests.parsers.writers import WRITERS, Call, Segment, calls, reasoning, text

import smg_simulator
from smg_core.engines.base import EngineLogprob, EngineOutput
from smg_core.errors import EngineFailed, EngineGarbled, FormatViolated
from smg_core.events import (
    Annotation,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.pipeline.output.plan import OutputParser, OutputPlan
from smg_core.pipeline.output.processor import OutputProcessor
from smg_core.tokenizer.base import Tokenizer
from smg_core.tokenizer.loader import load_tokenizer
from smg_parsers import Parser, Piece, Text
from smg_parsers.families.models import family


@cache
def tokenizer() -> Tokenizer:
    folder = Path(smg_simulator.__file__).parent / "model"
    return load_tokenizer(folder).tokenizer


def ids_of(text: str) -> list[int]:
    return tokenizer().encode(text).tolist()


def plan(
    *,
    stop: tuple[str, ...] = (),
    choices: int = 1,
    copies: int = 1,
    logprobs: bool = False,
    parser: Callable[[], OutputParser] | None = None,
    check: Callable[[str], str | None] | None = None,
    include_stop: bool = False,
) -> OutputPlan:
    return OutputPlan(
        tokenizer=tokenizer(),
        prompt_tokens=7,
        choices=choices,
        copies=copies,
        stop=stop,
        include_stop=include_stop,
        logprobs=logprobs,
        make_parser=parser,
        check=check,
    )


def run(plan: OutputPlan, outputs: Sequence[EngineOutput]) -> list[Event]:
    """All events, one engine output at a time, and behind them what the turn used."""
    processor = OutputProcessor(plan)
    events = [event for output in outputs for event in processor.feed([output])]
    assert processor.done
    assert processor.finishes == [event for event in events if isinstance(event, Finished)]
    return [*events, processor.usage()]


def text_of(events: Sequence[Event], index: int = 0) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.index == index)


def split(ids: list[int], cuts: Sequence[int]) -> list[list[int]]:
    edges = [0, *sorted({cut % (len(ids) + 1) for cut in cuts}), len(ids)]
    return [ids[a:b] for a, b in pairwise(edges) if a < b]


@given(st.text(min_size=1, max_size=60), st.lists(st.integers(0, 200), max_size=8))
def test_text_is_the_same_however_the_ids_are_batched(text: str, cuts: list[int]) -> None:
    text = text.encode("utf-8", "replace").decode()
    ids = ids_of(text)
    pieces = split(ids, cuts)
    outputs = [EngineOutput(ids=piece) for piece in pieces] + [EngineOutput(finish="stop")]
    events = run(plan(), outputs)

    assert text_of(events) == tokenizer().decode(ids)
    assert events[-3:] == [TextEnd(0), Finished(0, "stop"), Usage(7, len(ids))]


@given(
    st.lists(st.sampled_from(["EN", "D", "END", " the", "\n", "é", "🙂"]), max_size=12),
    st.lists(st.integers(0, 99), max_size=6),
)
def test_a_stop_string_ends_the_text_wherever_tokens_and_batches_fall(words: list[str], cuts: list[int]) -> None:
    text = "".join(words)
    ids = ids_of(text)
    events = run(
        plan(stop=("END",)), [EngineOutput(ids=piece) for piece in split(ids, cuts)] + [EngineOutput(finish="length")]
    )
    finished = [event for event in events if isinstance(event, Finished)]

    assert text_of(events) == text.partition("END")[0]
    cut = text != ""  # a text that the bound on tokens ends is not whole; where nothing was said, nothing was cut
    assert finished == [Finished(0, "stop", "END") if "END" in text else Finished(0, "length", cut=cut)]


@given(st.text().map(str.lstrip), st.lists(st.integers(0, 200), max_size=8))
def test_a_choice_that_nothing_looks_at_gives_the_events_of_one_whose_parser_finds_nothing(
    text: str, cuts: list[int]
) -> None:
    pieces = split(ids_of(text), cuts)
    outputs = [EngineOutput(0, piece, prompt_tokens=9, cached_tokens=place) for place, piece in enumerate(pieces)]
    outputs.append(EngineOutput(0, (), "length"))
    assert run(plan(), outputs) == run(plan(parser=Quiet), outputs)


class Quiet:
    """A parser to which everything is text."""

    waiting = 0

    def plain(self, text: str, /) -> type[Text] | None:
        return Text if text else None

    def feed(self, text: str, /) -> Sequence[Piece]:
        return [Text(text)]

    def finish(self, *, cut_off: bool = False) -> Sequence[Piece]:
        return []


def test_nothing_follows_once_a_stop_string_was_seen() -> None:
    processor = OutputProcessor(plan(stop=("END",)))
    processor.feed([EngineOutput(ids=ids_of("so END and"))])

    assert processor.done
    assert processor.feed([EngineOutput(ids=ids_of("more"), finish="stop")]) == []


def test_a_stop_string_can_be_kept() -> None:
    events = run(plan(stop=("END",), include_stop=True), [EngineOutput(ids=ids_of("so END and"), finish="length")])

    assert text_of(events) == "so END"


def test_choices_are_kept_apart_and_the_response_ends_with_the_last_of_them() -> None:
    processor = OutputProcessor(plan(choices=2))
    first = processor.feed([EngineOutput(1, ids_of("b")), EngineOutput(0, ids_of("a"), finish="stop")])
    assert not processor.done
    last = processor.feed([EngineOutput(1, (), finish="length")])

    assert first == [TextDelta(1, "b"), TextDelta(0, "a"), TextEnd(0), Finished(0, "stop")]
    assert last == [TextEnd(1), Finished(1, "length", cut=True)]
    assert processor.finishes == [Finished(0, "stop"), Finished(1, "length", cut=True)]
    assert processor.usage() == Usage(7, 2)
    assert processor.done


def test_one_greedy_choice_stands_for_all_that_were_asked_for() -> None:
    events = run(plan(choices=3, copies=3), [EngineOutput(ids=ids_of("same"), finish="stop")])

    assert [text_of(events, index) for index in range(3)] == ["same"] * 3
    assert events[-1] == Usage(7, 3 * len(ids_of("same")))


def test_a_choice_nobody_asked_for_is_the_engines_fault() -> None:
    with pytest.raises(EngineGarbled):
        OutputProcessor(plan()).feed([EngineOutput(index=1, ids=[5])])


def test_an_engine_that_gives_up_fails_the_response() -> None:
    with pytest.raises(EngineFailed):
        OutputProcessor(plan()).feed([EngineOutput(finish="error")])


consume = deque[object](maxlen=0).extend
READINGS: dict[str, dict[str, Any]] = {
    "nothing looks at it": {},
    "a stop string": {"stop": ("END",)},
    "scores": {"logprobs": True},
    "several choices": {"choices": 2},
    "copies": {"choices": 2, "copies": 2},
    "a parser": {"parser": lambda: hermes()},
}


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_an_engine_that_does_not_end_where_it_was_told_to_is_broken(reading: dict[str, Any], piece: int) -> None:
    asked = replace(plan(**reading), most_tokens=20)
    scores = [EngineLogprob(5, -1.0, ())] * piece if asked.logprobs else []
    endless = EngineOutput(ids=[5] * piece, logprobs=scores)
    processor = OutputProcessor(asked)

    with pytest.raises(EngineGarbled, match="where 20 were asked for"):
        consume(processor.feed([endless]) for _ in range(1000))

    assert processor.usage().completion_tokens <= (20 + 1 + piece) * asked.choices  # and nothing was read behind that


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_all_tokens_that_were_asked_for_may_come_and_an_end_token(reading: dict[str, Any]) -> None:
    asked = replace(plan(**reading), most_tokens=20)
    processor = OutputProcessor(asked)
    for index in range(asked.choices // asked.copies):
        scores = [EngineLogprob(5, -1.0, ())] * 21 if asked.logprobs else []
        processor.feed([EngineOutput(index, [5] * 21, "length", logprobs=scores)])

    assert processor.done


@pytest.mark.parametrize(("prompt", "cached", "told"), [(-5, -2, (7, 0)), (10**30, 10**30, (7, 0)), (9, 20, (9, 9))])
def test_counts_that_cannot_be_are_not_taken_from_an_engine(prompt: int, cached: int, told: tuple[int, int]) -> None:
    processor = OutputProcessor(plan(), 0)
    processor.feed([EngineOutput(ids=[5], prompt_tokens=prompt, cached_tokens=cached, finish="stop")])

    assert (processor.usage().prompt_tokens, processor.usage().cached_tokens) == told


def test_counts_come_from_the_engine_where_it_knows_better() -> None:
    events = run(plan(), [EngineOutput(ids=[5], prompt_tokens=9, cached_tokens=4, finish="stop", reasoning_tokens=1)])

    assert events[-1] == Usage(9, 1, 4, 1)


@given(st.integers(1, 9))
def test_each_logprob_comes_with_the_text_of_its_own_token(size: int) -> None:
    ids = ids_of("alpha beta gamma delta")
    logprobs = [EngineLogprob(each, -0.5, ((each, -0.5),)) for each in ids]
    outputs = [
        EngineOutput(ids=ids[at : at + size], logprobs=logprobs[at : at + size]) for at in range(0, len(ids), size)
    ]
    events = run(plan(logprobs=True), [*outputs, EngineOutput(finish="stop")])
    deltas = [event for event in events if isinstance(event, TextDelta)]

    assert [each.token for delta in deltas for each in delta.logprobs] == [tokenizer().decode([each]) for each in ids]
    assert all("".join(each.token for each in delta.logprobs) == delta.text for delta in deltas)
    assert deltas[0].logprobs[0].top[0].raw == tokenizer().token_bytes(ids[0])


REASONING = sorted(name for name, form in WRITERS.items() if form.think is not None)


def scored(ids: Sequence[int], size: int) -> list[EngineOutput]:
    """The ids as an engine sends them, so many at a time, with their logprobs."""
    rows = [EngineLogprob(each, -0.5) for each in ids]
    return [EngineOutput(ids=ids[at : at + size], logprobs=rows[at : at + size]) for at in range(0, len(ids), size)]


@pytest.mark.sampled(per=("name",))
@pytest.mark.parametrize("name", REASONING)
@pytest.mark.parametrize("again", [False, True], ids=["once", "with calls and a second text"])
def test_each_logprob_beside_reasoning_comes_with_the_text_of_its_own_token_whatever_the_family(
    name: str, again: bool
) -> None:
    form = WRITERS[name]
    pieces = [reasoning("I have to say <b>hello</b>."), text('{"said": "Hello, <you>!"}')]
    if again and form.closed:
        pieces += [calls(Call("add", {})), text("\nDone <b>now</b>.")]
    layout = form.layout(pieces, in_reasoning=form.opened)
    ids = ids_of("".join(segment.body for segment in layout))
    served = family(name)
    made = plan(
        logprobs=True,
        parser=lambda: Parser(served, tools=[{"name": "add", "parameters": {}}], in_reasoning=form.opened),
    )
    for size in (1, 3, len(ids)):
        events = run(replace(made, skip_special_tokens=False), [*scored(ids, size), EngineOutput(finish="stop")])
        deltas = [event for event in events if isinstance(event, TextDelta)]

        assert "".join(delta.text for delta in deltas) == "".join(each.body for each in layout if each.kind == "text")
        assert [each.id for delta in deltas for each in delta.logprobs] == _writing(ids, layout)


def _writing(ids: Sequence[int], layout: Sequence[Segment]) -> list[int]:
    """The ids that wrote a byte of the text."""
    kinds = [segment.kind for segment in layout for _ in segment.body.encode()]
    found, at = [], 0
    for each in ids:
        after = at + len(tokenizer().token_bytes(each))
        if "text" in kinds[at:after]:
            found.append(each)
        at = after
    return found


def test_logprobs_of_a_stop_string_are_not_reported() -> None:
    ids = ids_of("yes END")
    logprobs = [EngineLogprob(each, -1.0) for each in ids]
    events = run(plan(logprobs=True, stop=(" END",)), [EngineOutput(ids=ids, logprobs=logprobs, finish="stop")])

    assert [each.token for event in events if isinstance(event, TextDelta) for each in event.logprobs] == ["yes"]


def hermes() -> OutputParser:
    return Parser.for_family("qwen3", tools=[{"name": "add", "parameters": {}}], in_reasoning=False)


CALL = '<think>hm</think>\n\nSure.\n<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call>'


@given(st.lists(st.integers(0, 200), max_size=8))
def test_reasoning_text_and_calls_come_in_order_however_the_ids_are_batched(cuts: list[int]) -> None:
    ids = ids_of(CALL)
    outputs = [EngineOutput(ids=piece) for piece in split(ids, cuts)] + [EngineOutput(finish="stop")]
    events = run(plan(parser=hermes), outputs)
    kinds = [type(event) for event in events]

    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "hm"
    assert text_of(events).strip() == "Sure."
    assert "".join(event.arguments for event in events if isinstance(event, ToolCallDelta)) == '{"x": 1}'
    assert kinds.index(ReasoningDelta) < kinds.index(TextDelta) < kinds.index(ToolCallStart) < kinds.index(ToolCallEnd)
    assert events[-2] == Finished(0, "tool_calls")


def cohere() -> OutputParser:
    return Parser.for_family("command_a", tools=[], in_reasoning=False)


CITED = "One.<|START_THINKING|>hm<|END_THINKING|>It is <co>18 degrees</co: 0:[1,2]> there."


@given(st.lists(st.integers(0, 200), max_size=8))
def test_citations_are_annotations_that_count_from_the_beginning_of_their_own_block(cuts: list[int]) -> None:
    outputs = [EngineOutput(ids=piece) for piece in split(ids_of(CITED), cuts)] + [EngineOutput(finish="stop")]
    events = run(plan(parser=cohere), outputs)
    notes = [event for event in events if isinstance(event, Annotation)]

    assert text_of(events) == "One.It is 18 degrees there."
    assert notes == [Annotation(0, "document", 6, 16, "0:1"), Annotation(0, "document", 6, 16, "0:2")]


def test_a_call_that_the_parser_had_to_repair_says_so() -> None:
    def coder() -> OutputParser:
        return Parser.for_family("qwen3_coder", tools=[{"name": "add", "parameters": {}}])

    lost = "<tool_call>\n<function=add>\n<parameter=x>\n1\n</function>\n</tool_call>"
    events = run(plan(parser=coder), [EngineOutput(ids=ids_of(lost)), EngineOutput(finish="stop")])

    assert [event for event in events if isinstance(event, ToolCallEnd)] == [ToolCallEnd(0, 0, True, True)]


def test_reasoning_tokens_are_counted() -> None:
    ids = ids_of(CALL)
    events = run(plan(parser=hermes), [*(EngineOutput(ids=[each]) for each in ids), EngineOutput(finish="stop")])
    usage = events[-1]

    assert isinstance(usage, Usage)
    assert usage.reasoning_tokens == len(ids_of("hm"))


def test_an_answer_that_breaks_its_format_is_given_with_what_is_wrong_with_it() -> None:
    events = run(plan(check=lambda text: "no good"), [EngineOutput(ids=ids_of("x"), finish="stop")])

    assert text_of(events) == "x"
    assert events[-2] == Finished(0, "stop", violation="no good")


def test_an_answer_that_breaks_its_format_is_a_failure_where_that_is_wanted() -> None:
    strict = replace(plan(check=lambda text: "no good"), on_violation="error")
    with pytest.raises(FormatViolated) as raised:
        run(strict, [EngineOutput(ids=ids_of("x"), finish="stop")])

    assert "no good" in raised.value.message


THOUGHT = (
    "<think>\nfirst, a \u6f22\u5b57 thought; \U0001f600 then another</think>\n\n"
    '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call>'
)


@given(
    st.lists(st.integers(0, 400), max_size=12), st.sampled_from([CALL, THOUGHT, "<think>only</think>x", "<think>cut"])
)
def test_reasoning_counts_the_same_tokens_whole_and_streamed(cuts: list[int], said: str) -> None:
    ids = ids_of(said)
    outputs = [EngineOutput(ids=piece) for piece in split(ids, cuts)] + [EngineOutput(finish="stop")]
    one_by_one = [*(EngineOutput(ids=[each]) for each in ids), EngineOutput(finish="stop")]
    usage, streamed = run(plan(parser=hermes), outputs)[-1], run(plan(parser=hermes), one_by_one)[-1]
    thought = "".join(event.text for event in run(plan(parser=hermes), outputs) if isinstance(event, ReasoningDelta))

    assert isinstance(usage, Usage)
    assert usage == streamed
    assert abs(usage.reasoning_tokens - len(ids_of(thought))) <= 1


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_silent_end_token_behind_reasoning_that_is_held_back_is_counted_the_same(size: int) -> None:
    end = tokenizer().token_id("<|im_end|>")
    assert end is not None
    assert not tokenizer().decode([end])
    ids = [*ids_of("<think>cut <"), end]
    pieces = [ids[at : at + size] for at in range(0, len(ids), size)]
    outputs = [*(EngineOutput(ids=piece) for piece in pieces[:-1]), EngineOutput(ids=pieces[-1], finish="length")]
    usage = run(plan(parser=hermes), outputs)[-1]

    assert isinstance(usage, Usage)
    assert usage.reasoning_tokens == len(ids_of("cut <"))


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_white_space_alone_beside_reasoning_or_calls_is_no_content(size: int) -> None:
    ids = ids_of(THOUGHT)
    outputs = [EngineOutput(ids=ids[at : at + size]) for at in range(0, len(ids), size)]
    events = run(plan(parser=hermes), [*outputs, EngineOutput(finish="stop")])

    assert not [event for event in events if isinstance(event, TextDelta | TextEnd)]


def test_white_space_alone_is_content_where_there_is_nothing_else() -> None:
    events = run(plan(parser=hermes), [EngineOutput(ids=ids_of("  \n"), finish="stop")])

    assert text_of(events) == "  \n"


def test_an_answer_cut_off_by_its_length_is_not_held_to_its_format() -> None:
    events = run(plan(check=lambda text: "no good"), [EngineOutput(ids=ids_of("x"), finish="length")])

    assert events[-2] == Finished(0, "length", cut=True)


# ----------------------------------------------------------------------------------------------------- blocks and ends


def test_every_block_is_closed_before_the_next_one_is_opened() -> None:
    events = run(plan(parser=hermes), [EngineOutput(ids=ids_of(CALL)), EngineOutput(finish="stop")])
    blocks = [type(event) for event in events if not isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta)]

    assert blocks == [ReasoningEnd, TextEnd, ToolCallStart, ToolCallEnd, Finished, Usage]


@pytest.mark.parametrize("finish", ["length", "stop", "abort"])
def test_a_call_that_is_cut_off_is_closed_as_invalid_and_its_choice_says_so(finish: FinishReason) -> None:
    said = '<tool_call>\n{"name": "add", "arguments": {"x": '
    events = run(plan(parser=hermes), [EngineOutput(ids=ids_of(said)), EngineOutput(finish=finish)])
    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    (finished,) = [event for event in events if isinstance(event, Finished)]

    assert not end.valid
    assert finished.cut


@pytest.mark.parametrize(("finish", "shown"), [("length", ""), ("abort", ""), ("stop", '<tool_call>\n{"name": "ad')])
def test_a_header_of_a_call_that_a_bound_cuts_off_is_no_text(finish: FinishReason, shown: str) -> None:
    outputs = [EngineOutput(ids=ids_of('So: <tool_call>\n{"name": "ad')), EngineOutput(finish=finish)]
    events = run(plan(parser=hermes), outputs)

    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "So: " + shown


def test_a_header_of_a_call_that_a_stop_string_cuts_off_is_no_text() -> None:
    events = run(plan(parser=hermes, stop=("add",)), [EngineOutput(ids=ids_of('So: <tool_call>\n{"name": "add", '))])

    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "So: "


def test_a_whole_call_is_valid_and_nothing_is_cut() -> None:
    events = run(plan(parser=hermes), [EngineOutput(ids=ids_of(CALL)), EngineOutput(finish="stop")])

    assert [event.valid for event in events if isinstance(event, ToolCallEnd)] == [True]
    assert [event.cut for event in events if isinstance(event, Finished)] == [False]


def test_a_text_that_ends_by_itself_is_not_cut_and_one_that_the_bound_ends_is() -> None:
    whole = run(plan(), [EngineOutput(ids=ids_of("text"), finish="stop")])
    cut = run(plan(), [EngineOutput(ids=ids_of("text"), finish="length")])

    assert (whole[-2], cut[-2]) == (Finished(0, "stop"), Finished(0, "length", cut=True))


def test_a_turn_that_is_broken_off_closes_what_is_open_once() -> None:
    processor = OutputProcessor(plan(choices=2, parser=hermes))
    processor.feed([EngineOutput(0, ids_of("text")), EngineOutput(1, ids_of("<think>thought about"))])

    assert processor.cut() == [TextEnd(0), ReasoningEnd(1)]
    assert processor.cut() == []


def test_a_turn_numbers_its_calls_on_from_the_turns_before_it() -> None:
    processor = OutputProcessor(plan(parser=hermes), first_call=3)
    events = processor.feed([EngineOutput(ids=ids_of(CALL), finish="stop")])

    assert {event.call for event in events if isinstance(event, ToolCallStart | ToolCallDelta | ToolCallEnd)} == {3}
    assert processor.next_call == 4


def test_a_turn_without_a_call_leaves_the_next_number_as_it_was() -> None:
    processor = OutputProcessor(plan(), first_call=2)
    processor.feed([EngineOutput(ids=ids_of("text"), finish="stop")])

    assert processor.next_call == 2


# ------------------------------------------------------------------------------------------ going on with another call


@given(st.text(max_size=40), st.integers(0, 60), st.lists(st.integers(0, 200), max_size=5))
def test_a_turn_that_two_engines_say_is_the_turn_that_one_says(text: str, where: int, cuts: list[int]) -> None:
    text = text.encode("utf-8", "replace").decode()
    ids = ids_of(text)
    first, second = ids[: where % (len(ids) + 1)], ids[where % (len(ids) + 1) :]
    processor = OutputProcessor(plan(stop=("END",)), keep_ids=True)
    events: list[Event] = []
    for piece in split(first, cuts):
        events += processor.feed([EngineOutput(ids=piece, prompt_tokens=9, cached_tokens=4)])
    if not processor.done:
        assert list(processor.received()) == first
        processor.resume()
        longer = 9 + len(first)
        events += processor.feed([EngineOutput(ids=second, prompt_tokens=longer, cached_tokens=8, finish="stop")])

    assert text_of(events) == text_of(run(plan(stop=("END",)), [EngineOutput(ids=ids, finish="stop")]))
    assert processor.usage().prompt_tokens == 9
    assert processor.usage().cached_tokens == (4 if first else 8)


def test_a_call_that_two_engines_write_is_one_call() -> None:
    ids = ids_of(CALL)
    processor = OutputProcessor(plan(parser=hermes), keep_ids=True)
    events = processor.feed([EngineOutput(ids=ids[:-6])])
    processor.resume()
    events += processor.feed([EngineOutput(ids=ids[-6:], finish="stop")])

    assert sum(isinstance(event, ToolCallStart) for event in events) == 1
    assert "".join(event.arguments for event in events if isinstance(event, ToolCallDelta)) == '{"x": 1}'
    assert processor.usage().completion_tokens == len(ids)


def test_ids_are_kept_for_each_choice_where_that_was_asked_for() -> None:
    kept, silent = OutputProcessor(plan(choices=2), keep_ids=True), OutputProcessor(plan(choices=2))
    for processor in (kept, silent):
        processor.feed([EngineOutput(ids=[5, 6]), EngineOutput(1, ids=[7]), EngineOutput(ids=[8], finish="stop")])

    assert (list(kept.received(0)), list(kept.received(1)), kept.tokens_received) == ([5, 6, 8], [7], 4)
    assert kept.unfinished == (1,)
    assert (list(silent.received()), silent.tokens_received) == ([], 0)
    assert (kept.resumable, silent.resumable) == (True, False)


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_a_number_that_is_no_token_id_is_the_engines_fault(number: int) -> None:
    processor = OutputProcessor(plan(), keep_ids=True)

    with pytest.raises(EngineGarbled):
        processor.feed([EngineOutput(ids=[number], finish="stop")])


def test_an_engine_may_be_behind_a_stop_string_that_was_found_here() -> None:
    processor = OutputProcessor(plan(stop=("END",)))
    processor.feed([EngineOutput(ids=ids_of("so END"))])
    assert (processor.done, processor.engine_done) == (True, False)

    processor.feed([EngineOutput(finish="stop")])
    assert processor.engine_done


@given(st.lists(st.integers(0, 200), max_size=8))
def test_each_piece_of_reasoning_ends_with_its_seal_however_the_ids_are_batched(cuts: list[int]) -> None:
    text = "<think>one two</think>a<think>three"
    sealed = replace(plan(parser=lambda: Parser(family("qwen3"))), seal=lambda thought: f"<{thought}>".encode())
    outputs = [EngineOutput(ids=piece) for piece in split(ids_of(text), cuts)] + [EngineOutput(finish="length")]
    events = run(sealed, outputs)

    thoughts, said = list[str](), ""
    for event in events:
        if isinstance(event, ReasoningDelta):
            said += event.text
        elif isinstance(event, ReasoningEnd):
            assert event.seal == f"<{said}>".encode()
            thoughts.append(said)
            said = ""
    assert "".join(thoughts).split() == ["one", "two", *(["three"] if len(thoughts) > 1 else [])]


FILE: dict[str, Any] = {"path": "a.txt", "content": "one, two", "more": {"deep": [1, "x"]}}
FILE_TOOL: dict[str, Any] = {
    "name": "write_file",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}, "more": {"type": "object"}},
    },
}


@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize("name", sorted(name for name in WRITERS if family(name).calls))
def test_a_call_that_a_stop_string_cuts_anywhere_is_whole_or_not_valid_whatever_the_family(name: str) -> None:
    form, served = WRITERS[name], family(name)
    said = "".join(each.body for each in form.layout([calls(Call("write_file", FILE))], in_reasoning=form.opened))
    made = plan(stop=("HALT",), parser=lambda: Parser(served, tools=[FILE_TOOL], in_reasoning=form.opened))
    made = replace(made, skip_special_tokens=False, call_ends=served.tables.closers)
    ids = ids_of(said)
    within = [most for most in range(len(ids)) if tokenizer().decode(ids[:most]).endswith("\ufffd")]  # a character
    for most in sorted({*range(len(ids) + 1)} - {*within}):
        events = run(made, [EngineOutput(ids=ids[:most]), EngineOutput(finish="stop", matched="HALT")])
        written = "".join(each.arguments for each in events if isinstance(each, ToolCallDelta))
        ends = [each.valid for each in events if isinstance(each, ToolCallEnd)]
        (finished,) = [each for each in events if isinstance(each, Finished)]

        assert (finished.reason, finished.matched) == ("stop", "HALT"), (most, events)
        assert finished.cut is (ends == [False]), (most, events)
        assert ends != [True] or json.loads(written) == FILE, (most, events)


def in_one(events: list[Event]) -> list[Event]:
    """The events with deltas that follow one another joined; ids of calls are as good as any other."""
    found: list[Event] = []
    for each in events:
        before = found[-1] if found else None
        if isinstance(each, ToolCallDelta) and isinstance(before, ToolCallDelta):
            found[-1] = replace(before, arguments=before.arguments + each.arguments)
        elif isinstance(each, TextDelta | ReasoningDelta) and type(before) is type(each):
            found[-1] = replace(before, text=before.text + each.text)
        else:
            found.append(replace(each, id="") if isinstance(each, ToolCallStart) else each)
    return found


@pytest.mark.sampled(keep=64)
@pytest.mark.parametrize("name", sorted(EXAMPLES))
@pytest.mark.parametrize("in_reasoning", [False, True])
def test_an_answer_in_one_piece_is_read_as_its_tokens_are_one_by_one(name: str, in_reasoning: bool) -> None:
    (opens, closes), call = EXAMPLES[name]
    said = f"{opens}a \u6f22\u5b57 thought{closes} Sure, a < b:\n{call} and \U0001f600 more {opens}"

    def parser() -> OutputParser:
        return Parser.for_family(name, tools=[WEATHER], in_reasoning=in_reasoning)

    ids = ids_of(said)
    alone = run(plan(parser=parser), [*(EngineOutput(ids=[each]) for each in ids), EngineOutput(finish="stop")])
    for outputs in ([EngineOutput(ids=ids, finish="stop")], [EngineOutput(ids=ids), EngineOutput(finish="stop")]):
        assert in_one(run(plan(parser=parser), outputs)) == in_one(alone)

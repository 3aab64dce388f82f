"""What a turn has said, put together from its events."""

import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.events import (
    NO_USAGE,
    Event,
    Finished,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from smg_core.pipeline.answer.turn import CalledTool, Transcript, Turn, TurnOutput

pieces = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["text", "reasoning", "call"]), st.text(max_size=5)))


@given(pieces, st.lists(st.integers(0, 200), max_size=6))
def test_a_transcript_is_the_deltas_joined_however_they_are_batched(
    said: list[tuple[int, str, str]], cuts: list[int]
) -> None:
    events: list[Event] = []
    calls = 0
    for index, kind, text in said:
        if kind == "text":
            events += [TextDelta(index, text), TextEnd(index)]
        elif kind == "reasoning":
            events += [ReasoningDelta(index, text), ReasoningEnd(index)]
        else:
            delta = [ToolCallDelta(index, calls, character) for character in text]
            events += [
                ToolCallStart(index, calls, f"c{calls}", "f"),
                *delta,
                ToolCallEnd(index, calls, valid=bool(text)),
            ]
            calls += 1
    transcript = Transcript()
    edges = [0, *sorted(cut % (len(events) + 1) for cut in cuts), len(events)]
    for start, end in pairwise(edges):
        transcript.add(events[start:end])
    outputs = transcript.outputs()

    assert set(outputs) == {index for index, _, _ in said}
    for index, output in outputs.items():
        own = [(kind, text) for of, kind, text in said if of == index]
        assert output.text == "".join(text for kind, text in own if kind == "text")
        assert output.reasoning == "".join(text for kind, text in own if kind == "reasoning")
        assert [call.arguments for call in output.calls] == [text for kind, text in own if kind == "call"]
        assert [call.complete for call in output.calls] == [bool(text) for kind, text in own if kind == "call"]


def test_a_call_has_its_number_its_id_and_its_name() -> None:
    transcript = Transcript()
    transcript.add([ToolCallStart(0, 4, "c4", "f"), ToolCallDelta(0, 4, '{"a":'), ToolCallDelta(0, 4, "1}")])
    assert transcript.outputs()[0].calls == (CalledTool(4, "c4", "f", '{"a":1}', complete=False),)

    transcript.add([ToolCallEnd(0, 4), Finished(0, "tool_calls")])
    assert transcript.outputs()[0].calls == (CalledTool(4, "c4", "f", '{"a":1}', complete=True),)


def test_a_block_that_ends_costs_as_much_behind_a_thousand_others_as_behind_none() -> None:
    transcript = Transcript()
    block: list[Event] = [TextDelta(0, "a"), TextEnd(0), ReasoningDelta(0, "b"), ReasoningEnd(0)]

    def calls() -> int:
        seen: list[str] = []
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, arg: seen.append(event))
        try:
            transcript.add(block)
        finally:
            sys.setprofile(before)
        return len(seen)

    calls()
    first = calls()
    transcript.add(block * 1000)
    assert calls() == first


def test_what_was_not_kept_cannot_be_read_and_a_choice_that_said_nothing_is_empty() -> None:
    with pytest.raises(LookupError, match="keep"):
        assert Turn((), NO_USAGE).output
    assert Turn((), NO_USAGE, outputs={}).output == TurnOutput()
    assert Turn((), NO_USAGE, outputs={0: TurnOutput("said")}).output.text == "said"

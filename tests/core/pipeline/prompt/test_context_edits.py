"""Edits of the context: what goes, what stays, and that nothing moves."""

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from smg_core.errors import UnsupportedParameter
from smg_core.pipeline.prompt.context_edits import CLEARED, check_countable, edited_context
from smg_core.pipeline.prompt.inline_notes import with_inline_notes
from smg_core.request import (
    ClearReasoning,
    ClearToolUses,
    GenerationRequest,
    Image,
    MediaSource,
    Message,
    Reasoning,
    ReasoningSettings,
    Text,
    ToolCall,
    ToolResult,
)


def history(uses: int) -> GenerationRequest:
    """A question, and as many calls with reasoning, each with its result; calls alternate between two tools."""
    turns = [Message("user", (Text("q"),))]
    for number in range(uses):
        call = ToolCall(f"t{number}", "ab"[number % 2], f'{{"n":{number}}}')
        turns.append(Message("assistant", (Reasoning(f"thought {number}"), call)))
        turns.append(Message("tool", (ToolResult(f"t{number}", (Text(f"result {number}"),)),)))
    return GenerationRequest(id="r", model="m", messages=tuple(turns))


def results(request: GenerationRequest) -> list[str]:
    found = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
    return ["".join(each.text for each in part.content if isinstance(each, Text)) for part in found]


def thoughts(request: GenerationRequest) -> list[str]:
    return [part.text for message in request.messages for part in message.parts if isinstance(part, Reasoning)]


@given(uses=st.integers(0, 6), keep=st.integers(0, 7), over=st.integers(0, 7))
def test_the_last_results_stay_and_no_part_moves(uses: int, keep: int, over: int) -> None:
    asked = history(uses)
    found = edited_context(asked, ClearToolUses(over_uses=over, keep=keep), 10)
    gone = max(0, uses - keep) if uses > over else 0
    if not gone:
        assert found is None
        return
    assert found is not None
    assert found.changed == gone
    assert results(found.request) == [CLEARED] * gone + [f"result {n}" for n in range(gone, uses)]
    assert [len(each.parts) for each in found.request.messages] == [len(each.parts) for each in asked.messages]
    again = edited_context(found.request, ClearToolUses(over_uses=over, keep=keep), 10)
    assert again is not None
    assert again.request == found.request


@given(uses=st.integers(0, 6), keep=st.integers(0, 7))
def test_the_last_reasoning_stays(uses: int, keep: int) -> None:
    found = edited_context(history(uses), ClearReasoning(keep), 10)
    gone = max(0, uses - keep)
    assert (found.changed if found is not None else 0) == gone
    if found is not None:
        assert thoughts(found.request) == [""] * gone + [f"thought {n}" for n in range(gone, uses)]
        assert edited_context(found.request, ClearReasoning(keep), 10) is None


def test_tools_that_are_named_are_left_alone_or_lose_their_inputs() -> None:
    edit = ClearToolUses(over_tokens=9, keep=0, exclude=frozenset("a"), inputs=frozenset("b"))
    assert edited_context(history(2), edit, 9) is None
    found = edited_context(history(2), edit, 10)
    assert found is not None
    assert results(found.request) == ["result 0", CLEARED]
    calls = [part for message in found.request.messages for part in message.parts if isinstance(part, ToolCall)]
    assert [call.arguments for call in calls] == ['{"n":0}', "{}"]


def test_what_depends_on_tokens_is_refused_where_they_are_not_counted() -> None:
    check_countable([ClearReasoning(1), ClearToolUses(over_uses=1)])
    with pytest.raises(UnsupportedParameter) as refusal:
        check_countable([ClearReasoning(1), ClearToolUses(over_tokens=1)])
    assert refusal.value.param == "context_edits[1]"


def test_an_error_is_said_before_the_first_text_and_a_picture_keeps_its_place() -> None:
    picture = Image(MediaSource(url="https://a.example/x"))
    failed = (
        ToolResult("a", (picture, Text("no")), True),
        ToolResult("b", (), True),
        ToolResult("c", (Text("yes"),)),
        ToolResult("d", (Text("no"),), True, value={"error": "no"}),
    )
    asked = replace(history(0), messages=(Message("tool", failed),))
    (turn,) = with_inline_notes(asked).messages
    told = [part.content for part in turn.parts if isinstance(part, ToolResult)]
    assert told == [(picture, Text("Error: no")), (Text("Error"),), (Text("yes"),), (Text("no"),)]


@pytest.mark.parametrize(("uses", "enabled"), [(0, False), (1, True)])
def test_thinking_between_tools_follows_results_alone(uses: int, enabled: bool) -> None:
    asked = replace(history(uses), reasoning=ReasoningSettings(between_tools=True))
    assert with_inline_notes(asked).reasoning == ReasoningSettings(enabled=enabled)
    assert with_inline_notes(history(uses)).reasoning == ReasoningSettings()

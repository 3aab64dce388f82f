"""Earlier turns made shorter, as the client asked: old reasoning left out, old results of tools replaced by a line.

Nothing is taken away: a part keeps its place and loses its words, so that the paths of all others stay. `apply` makes one edit;
whether it is wanted depends on how many tokens the prompt has, which the caller counts. Pure. Above: preparing. Below: request.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import UnsupportedParameter
from smg_core.events import EditedContext
from smg_core.request import (
    ClearReasoning,
    ClearToolUses,
    ContextEdit,
    GenerationRequest,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

__all__ = ["CLEARED", "Shortened", "change_of", "check_countable", "edited_context"]

CLEARED = "[The result of this call was removed to keep the conversation short.]"
"""What stands in place of a result that was cleared."""


class Shortened(Struct, frozen=True):
    """The request after an edit, and how many turns or tool uses it changed."""

    request: GenerationRequest
    changed: int


def check_countable(edits: Sequence[ContextEdit]) -> None:
    """Raise UnsupportedParameter for an edit that depends on a number of tokens; asked where the prompt cannot be counted."""
    for order, edit in enumerate(edits):
        if isinstance(edit, ClearToolUses) and (edit.over_tokens is not None or edit.at_least_tokens is not None):
            raise UnsupportedParameter(
                "The prompts of this model are not counted here, so an edit of the context cannot depend on their tokens.",
                param=f"context_edits[{order}]",
            )


def edited_context(request: GenerationRequest, edit: ContextEdit, tokens: int) -> Shortened | None:
    """`request` after `edit`, or None where there is nothing to do: its prompt, of `tokens` tokens, is under the edit's
    bounds, or all that could go is to stay."""
    match edit:
        case ClearReasoning():
            return _without_reasoning(request, edit)
        case ClearToolUses():
            return _without_results(request, edit, tokens)


def change_of(edit: ContextEdit, found: Shortened, tokens: int) -> EditedContext:
    """What the client is told of an edit that took `tokens` tokens from the prompt."""
    return EditedContext("tool_uses" if isinstance(edit, ClearToolUses) else "reasoning", found.changed, max(0, tokens))


def _without_reasoning(request: GenerationRequest, edit: ClearReasoning) -> Shortened | None:
    thought = [place for place, message in enumerate(request.messages) if any(map(_is_thought, message.parts))]
    old = frozenset(thought[: max(0, len(thought) - edit.keep)])
    if not old:
        return None
    messages = [
        _with_parts(message, _forgotten) if place in old else message for place, message in enumerate(request.messages)
    ]
    return Shortened(replace(request, messages=tuple(messages)), len(old))


def _is_thought(part: Part) -> bool:
    return isinstance(part, Reasoning) and bool(part.text)


def _forgotten(part: Part) -> Part:
    return replace(part, text="", summary=()) if isinstance(part, Reasoning) else part


def _without_results(request: GenerationRequest, edit: ClearToolUses, tokens: int) -> Shortened | None:
    parts = [part for message in request.messages for part in message.parts]
    names = {part.id: part.name for part in parts if isinstance(part, ToolCall)}
    answered = [part.call_id for part in parts if isinstance(part, ToolResult)]
    over_tokens = edit.over_tokens is not None and tokens > edit.over_tokens
    over_uses = edit.over_uses is not None and len(answered) > edit.over_uses
    if not (over_tokens or over_uses):
        return None
    old = [call for call in answered[: max(0, len(answered) - (edit.keep or 0))] if names.get(call) not in edit.exclude]
    gone = frozenset(old)
    if not gone:
        return None

    def cleared(part: Part) -> Part:
        if isinstance(part, ToolResult) and part.call_id in gone:
            return replace(part, content=(Text(CLEARED),), value=None)
        if isinstance(part, ToolCall) and part.id in gone and _inputs_too(edit, part.name):
            return replace(part, arguments="{}")
        return part

    messages = tuple([_with_parts(message, cleared) for message in request.messages])
    return Shortened(replace(request, messages=messages), len(gone))


def _inputs_too(edit: ClearToolUses, name: str) -> bool:
    return edit.inputs if isinstance(edit.inputs, bool) else name in edit.inputs


def _with_parts(message: Message, change: Callable[[Part], Part]) -> Message:
    parts = tuple([change(part) for part in message.parts])
    return message if all(map(_same, parts, message.parts)) else replace(message, parts=parts)


def _same(one: Part, other: Part) -> bool:
    return one is other

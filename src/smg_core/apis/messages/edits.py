"""The edits of the context that a Messages request asks for, as records of the vocabulary.

An edit without its bounds has those that the API documents. One that changes nothing (all thinking is kept) is read as none.
Pure. Above: messages. Below: the wire types, request.
"""

from smg_core.apis.messages import types as wire
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.request import ClearReasoning, ClearToolUses, ContextEdit
from smg_core.wire.decoding import too_many

__all__ = ["COMPACT", "amount_of", "read_edits"]

COMPACT = "compact_20260112"
"""The edit that is none of a turn's prompt alone: `messages_compaction` reads it."""
_CLEAR_THINKING = "clear_thinking_20251015"
_CLEAR_TOOL_USES = "clear_tool_uses_20250919"
_OVER_TOKENS = 100_000
_KEPT_TOOL_USES = 3
_KEPT_THINKING = 1


def read_edits(management: wire.ContextManagement | None, most: int) -> tuple[ContextEdit, ...]:
    """The edits, in order, of which `most` are taken. Raises UnsupportedParameter for one that is not made here, InvalidRequest
    for one that is wrong."""
    listed = management.edits if management is not None else None
    edits: list[ContextEdit] = []
    if listed and len(listed) > most:
        raise too_many("context_management.edits", len(listed), most, "edits")
    for order, edit in enumerate(listed or ()):
        at = f"context_management.edits[{order}]"
        if edit.type == _CLEAR_TOOL_USES:
            edits.append(_tool_uses(edit, at))
        elif edit.type not in (_CLEAR_THINKING, COMPACT):
            raise UnsupportedParameter("This edit of the context is not made on this server.", param=f"{at}.type")
        elif edit.type == _CLEAR_THINKING and edit.keep != "all" and (edit.keep is None or edit.keep.type != "all"):
            kept = amount_of(edit.keep, f"{at}.keep", "thinking_turns") if edit.keep is not None else _KEPT_THINKING
            edits.append(ClearReasoning(kept))
    return tuple(edits)


def _tool_uses(edit: wire.EditWire, at: str) -> ClearToolUses:
    trigger, least, keep = edit.trigger, edit.clear_at_least, edit.keep
    if keep == "all":
        raise InvalidRequest("Input should be a number of tool uses", param=f"{at}.keep")
    over = amount_of(trigger, f"{at}.trigger", "input_tokens", "tool_uses") if trigger is not None else _OVER_TOKENS
    by_uses = trigger is not None and trigger.type == "tool_uses"
    return ClearToolUses(
        over_tokens=None if by_uses else over,
        over_uses=over if by_uses else None,
        keep=amount_of(keep, f"{at}.keep", "tool_uses") if keep is not None else _KEPT_TOOL_USES,
        at_least_tokens=amount_of(least, f"{at}.clear_at_least", "input_tokens") if least is not None else None,
        exclude=frozenset(edit.exclude_tools or ()),
        inputs=frozenset(edit.clear_tool_inputs)
        if isinstance(edit.clear_tool_inputs, list)
        else edit.clear_tool_inputs is True,
    )


def amount_of(amount: wire.AmountWire, at: str, *kinds: str) -> int:
    """The number of an amount that stands at `at` and has to be of one of these kinds. Raises InvalidRequest."""
    if amount.type not in kinds:
        raise InvalidRequest(f"Input should be {' or '.join(map(repr, kinds))}", param=f"{at}.type")
    if amount.value is None:
        raise InvalidRequest("Field required", param=f"{at}.value")
    return amount.value

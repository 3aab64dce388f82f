"""The meaning of a client's Messages fields, in the words of `body`. Pure. Above: body."""

from collections.abc import Mapping

from smg_core.engines.vendors.client_bytes import ABSENT

__all__ = ["meant"]


def meant(name: str, value: object) -> object:
    """What a field's value means; ABSENT where it is as if it were not there."""
    if (
        value is None
        or (name == "stream" and value is False)
        or (name == "tool_choice" and value == {"type": "auto"})
        or (name in _LISTS and value == [])
    ):
        return ABSENT
    match name:
        case "system":
            return _content(value)
        case "messages" if isinstance(value, list):
            return _turns(value)
        case "tools" if isinstance(value, list):
            return [_tool(each) for each in value]
    return value


_LISTS = frozenset({"tools", "stop_sequences", "system"})


def _content(value: object) -> object:
    """A content as a list of blocks, also where it is one text."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [_block(each) for each in value] if isinstance(value, list) else value


def _block(block: object) -> object:
    if isinstance(block, dict):
        block = _without_nulls(block)
        if block.get("type") == "tool_result" and "content" in block:
            return {**block, "content": _content(block["content"])}
    return block


def _turns(turns: list[object]) -> object:
    """The turns, of which neighbours of one role are one."""
    joined: list[dict[str, object]] = []
    for turn in turns:
        content = _content(turn.get("content")) if isinstance(turn, dict) else None
        if not isinstance(turn, dict) or not isinstance(content, list):
            return turns
        last = joined[-1] if joined else {}
        before = last.get("content")
        if last.get("role") == turn.get("role") and isinstance(before, list):
            last["content"] = before + content
        else:
            joined.append({**turn, "content": content})
    return joined


def _tool(tool: object) -> object:
    if not isinstance(tool, dict):
        return tool
    return {name: value for name, value in _without_nulls(tool).items() if (name, value) != ("type", "custom")}


def _without_nulls(value: Mapping[str, object]) -> dict[str, object]:
    return {name: each for name, each in value.items() if each is not None}

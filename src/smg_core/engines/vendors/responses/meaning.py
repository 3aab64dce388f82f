"""The meaning of a client's Responses fields, in the words of `body`. Pure. Above: body."""

from smg_core.engines.vendors.client_bytes import ABSENT

__all__ = ["meant"]


def meant(name: str, value: object) -> object:
    """What a field's value means; ABSENT where it is as if it were not there."""
    if (
        value is None
        or value in ([], {})
        or (name == "stream" and value is False)
        or (name == "tool_choice" and value == "auto")
    ):
        return ABSENT
    if name != "input":
        return value
    if isinstance(value, str):
        return [_message("user", value)]
    return [_item(each) for each in value] if isinstance(value, list) else value


def _item(item: object) -> object:
    """An item as `items` writes it: a message with its type, and its content as a list."""
    if not isinstance(item, dict) or item.get("type", "message") != "message" or item.get("role") == "assistant":
        return item
    content = item.get("content")
    return _message(item.get("role"), content) if isinstance(content, str) else {"type": "message", **item}


def _message(role: object, text: str) -> object:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}

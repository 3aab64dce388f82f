"""The meaning of a client's Chat Completions fields, in the words of `body`. Pure. Above: body."""

from smg_core.engines.vendors.client_bytes import ABSENT

__all__ = ["meant"]

_USUAL: tuple[tuple[str, object], ...] = (
    ("stream", False),
    ("n", 1),
    ("tool_choice", "auto"),
    ("response_format", {"type": "text"}),
    ("logprobs", False),
    ("tools", []),
    ("stop", []),
    ("logit_bias", {}),
    ("metadata", {}),
)
"""What says as much as no such field."""


def meant(name: str, value: object) -> object:
    """What a field's value means; ABSENT where it is as if it were not there."""
    if value is None or (name, value) in _USUAL:
        return ABSENT
    if name == "stop" and isinstance(value, str):
        return [value]
    if name == "messages" and isinstance(value, list):
        return [_message(each) for each in value]
    return value


def _message(message: object) -> object:
    """A message as it is written: without nulls, but for the content beside calls."""
    if not isinstance(message, dict):
        return message
    fields = {key: each for key, each in message.items() if each is not None}
    return {**fields, "content": None} if "content" not in fields and fields.get("tool_calls") else fields

"""The shapes of ConverseStream's events, as far as they are read. Pure. Above: converse_events."""

from typing import Any

from msgspec import Struct

__all__ = [
    "ConverseBlockWire",
    "ConverseDeltaWire",
    "ConverseMetadataWire",
    "ConverseStopWire",
    "ConverseUsageWire",
]


class _ToolStart(Struct, frozen=True, rename="camel"):
    tool_use_id: str
    name: str


class _Start(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    tool_use: _ToolStart | None = None


class ConverseBlockWire(Struct, rename="camel"):
    """contentBlockStart: only a call of a tool begins with one that says something."""

    start: _Start = _Start()


class _ToolInput(Struct, frozen=True):
    input: str = ""


class _Thought(Struct, frozen=True, rename="camel"):
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class _Delta(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Of a kind that is not known here nothing is left out in silence."""

    text: str | None = None
    tool_use: _ToolInput | None = None
    reasoning_content: _Thought | None = None
    citation: dict[str, Any] | None = None
    image: dict[str, Any] | None = None


class ConverseDeltaWire(Struct, rename="camel"):
    """contentBlockDelta; `p`, which pads it, is not read."""

    content_block_index: int = 0
    delta: _Delta = _Delta()


class ConverseStopWire(Struct, rename="camel"):
    """messageStop."""

    stop_reason: str = ""


class ConverseUsageWire(Struct, rename="camel"):
    """Counts; the prompt's are without what was read from the cache and written to it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


class ConverseMetadataWire(Struct, rename="camel"):
    """metadata, the last event."""

    usage: ConverseUsageWire | None = None

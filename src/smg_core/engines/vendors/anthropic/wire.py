"""The JSON of a stream of Messages, event by event, as msgspec reads it: the fields that are read, and no others.

Which of a field's meanings holds is decided in `events`. Pure.
"""

from typing import Any

from msgspec import Raw, Struct

__all__ = [
    "ClaudeBlockWire",
    "ClaudeDeltaWire",
    "ClaudeErrorWire",
    "ClaudeEventWire",
    "ClaudeMessageWire",
    "ClaudeUsageWire",
]


class _Details(Struct, gc=False):
    thinking_tokens: int | None = None


class ClaudeUsageWire(Struct, gc=False):
    """Counts, cumulative; null where an event says nothing of one."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _Details | None = None


class ClaudeMessageWire(Struct, gc=False):
    model: str = ""
    usage: ClaudeUsageWire | None = None


class ClaudeBlockWire(Struct, gc=False):
    """The beginning of a block; of a whole answer, all of it."""

    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw()
    citations: list[dict[str, Any]] | None = None


class ClaudeDeltaWire(Struct, gc=False):
    """More of a block, or (message_delta) how the answer ended."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    citation: dict[str, Any] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class ClaudeErrorWire(Struct, frozen=True, gc=False):
    type: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


class ClaudeEventWire(Struct, gc=False):
    """One event of the stream, or a whole answer, which has `content` and what follows it."""

    type: str
    index: int = 0
    message: ClaudeMessageWire | None = None
    content_block: ClaudeBlockWire | None = None
    delta: ClaudeDeltaWire | None = None
    usage: ClaudeUsageWire | None = None
    error: ClaudeErrorWire | None = None
    content: list[ClaudeBlockWire] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None

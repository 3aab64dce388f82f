"""The JSON of a stream of Responses, event by event, and of its errors, as msgspec reads it: the fields that are read.

Which of a field's meanings holds is decided in `events`. Pure.
"""

from typing import Any

from msgspec import Raw, Struct

__all__ = [
    "ResponsesError",
    "ResponsesEventWire",
    "ResponsesItemWire",
    "ResponsesLogprob",
    "ResponsesPart",
    "ResponsesResult",
    "ResponsesUsage",
]


class _Details(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class ResponsesUsage(Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class ResponsesError(Struct, frozen=True, gc=False):
    message: str | None = None
    type: str | None = None
    code: str | None = None


class _Incomplete(Struct, gc=False):
    reason: str | None = None


class _Top(Struct, gc=False):
    token: str = ""
    logprob: float = 0.0
    bytes: list[int] | None = None


class ResponsesLogprob(Struct, gc=False):
    token: str = ""
    logprob: float = 0.0
    bytes: list[int] | None = None
    top_logprobs: list[_Top] | None = None


class ResponsesPart(Struct, gc=False):
    """A part of a whole message, or of a whole summary."""

    type: str = ""
    text: str = ""
    refusal: str = ""
    logprobs: list[ResponsesLogprob] | None = None
    annotations: list[dict[str, Any]] | None = None


class ResponsesItemWire(Struct, gc=False):
    """An item that begins, or is whole."""

    type: str
    id: str = ""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    input: str = ""
    encrypted_content: str | None = None
    summary: Raw = Raw(b"[]")
    content: list[ResponsesPart] = []


class ResponsesResult(Struct, gc=False):
    """The response, as its last event has it, or a whole answer."""

    status: str = ""
    error: ResponsesError | None = None
    incomplete_details: _Incomplete | None = None
    usage: ResponsesUsage | None = None
    output: list[ResponsesItemWire] = []


class ResponsesEventWire(Struct, gc=False):
    """One event of the stream. An error comes with its fields in the event, or in an object of their own."""

    type: str = ""
    object: str = ""
    output_index: int = 0
    summary_index: int = 0
    content_index: int = 0
    delta: str = ""
    item: ResponsesItemWire | None = None
    response: ResponsesResult | None = None
    annotation: dict[str, Any] | None = None
    logprobs: list[ResponsesLogprob] | None = None
    error: ResponsesError | None = None
    message: str | None = None
    code: str | None = None

"""The JSON of a stream of generateContent, chunk by chunk, and of its errors, as msgspec reads it: the fields that are read.

Which of a field's meanings holds is decided in `events`. Pure.
"""

from typing import Any

from msgspec import Raw, Struct

__all__ = ["GeminiCandidate", "GeminiChunk", "GeminiErrorWire", "GeminiPartWire", "GeminiUsage"]


class _Call(Struct, gc=False, rename="camel"):
    name: str = ""
    id: str = ""
    args: Raw = Raw()


class GeminiPartWire(Struct, gc=False, rename="camel"):
    """A part. Parts of other kinds have none of these but their signature."""

    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: _Call | None = None
    inline_data: dict[str, Any] | None = None
    executable_code: dict[str, Any] | None = None
    code_execution_result: dict[str, Any] | None = None


class _Content(Struct, gc=False):
    parts: list[GeminiPartWire] | None = None


class _Token(Struct, gc=False, rename="camel"):
    token: str = ""
    log_probability: float = 0.0


class _Top(Struct, gc=False):
    candidates: list[_Token] | None = None


class _Logprobs(Struct, gc=False, rename="camel"):
    chosen_candidates: list[_Token] | None = None
    top_candidates: list[_Top] | None = None


class _Source(Struct, gc=False, rename="camel"):
    uri: str = ""
    title: str = ""
    start_index: int = 0
    end_index: int = 0


class _Citations(Struct, gc=False, rename="camel"):
    citation_sources: list[_Source] | None = None


class GeminiCandidate(Struct, gc=False, rename="camel"):
    index: int = 0
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    logprobs_result: _Logprobs | None = None
    citation_metadata: _Citations | None = None


class _Feedback(Struct, gc=False, rename="camel"):
    block_reason: str | None = None


class GeminiUsage(Struct, gc=False, rename="camel"):
    """Counts of the whole answer so far; the last word holds."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    total_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class GeminiErrorWire(Struct, frozen=True, gc=False):
    code: int = 0
    message: str = ""
    status: str = ""
    details: list[dict[str, Any]] = []


class GeminiChunk(Struct, gc=False, rename="camel"):
    """One event of the stream, or an error in its place."""

    candidates: list[GeminiCandidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: GeminiUsage | None = None
    error: GeminiErrorWire | None = None

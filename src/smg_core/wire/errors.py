"""Error responses: the envelope of each public API, and the headers.

The status and the names of an error are decided by its class (`smg_core.errors`). An envelope has the error's message and never
its detail. The functions of the signature `(error, request_id, locate) -> bytes` are `ErrorEncoder`s: given `locate`, they
replace a path in `GenerationRequest` by the API's own field, both in the param and in the message that quotes it. Pure. Above:
the server and the encoders. Below: smg_core.errors.

Clients parse some texts: Claude Code shortens its history when it reads that of Messages for a prompt that is too long, and
asks for fewer tokens when it reads the one for an answer that would not fit; Codex reads its pause before the next try from
"try again in 2s".
"""

import math
import re

from smg_core.errors import (
    AuthenticationFailed,
    PromptTooLong,
    QuotaExceeded,
    RateLimited,
    RequestLimitReached,
    SealBroken,
    SmgError,
    TokenLimitReached,
)
from smg_core.json_types import JsonObject
from smg_core.wire.base import Locate
from smg_core.wire.decoding import brief
from smg_core.wire.json_text import encode_object

__all__ = [
    "anthropic_error",
    "anthropic_status",
    "anthropic_text",
    "cohere_error",
    "error_headers",
    "gemini_error",
    "gemini_text",
    "in_stream_text",
    "openai_error",
    "responses_error",
]

_LONGEST_RETRY = 24 * 3600
_LONGEST_MESSAGE, _LONGEST_PARAM = 2000, 400  # characters
_ANTHROPIC_CODES = frozenset({"thread_unsupported_request"})
"""Codes that clients of Messages read."""
_INDEX, _DOTTED = re.compile(r"\[(\d+)\]"), r".\1"
"""How Messages writes a path: "messages.3.content.1"."""


def openai_error(error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`; the request id is sent in a header."""
    message, param = _message_and_param(error, locate, error.message)
    return encode_object(
        {
            "error": {
                "message": message,
                "type": error.openai_type,
                "param": param,
                "code": error.code,
            }
        }
    )


def responses_error(error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes:
    """The same envelope with the codes of the Responses API, where they differ."""
    if error.responses_code is not None and error.code == error.openai_code:
        message, param = _message_and_param(error, locate, error.message)
        found = {"message": message, "type": error.openai_type, "param": param, "code": error.responses_code}
        return encode_object({"error": found})
    return openai_error(error, request_id, locate)


def anthropic_error(error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes:
    """`{"type": "error", "error": {"type", "message"}, "request_id"}`; the param comes first in the message, except in a
    message that clients recognize by its beginning."""
    message, param = _message_and_param(error, locate, anthropic_text(error))
    if param is not None and param not in message and not isinstance(error, PromptTooLong):
        message = f"{_INDEX.sub(_DOTTED, param)}: {message}"
    fields: JsonObject = {"type": error.anthropic_type, "message": message}
    if error.code in _ANTHROPIC_CODES:
        fields["details"] = {"error_code": error.code}
    found: JsonObject = {"type": "error", "error": fields}
    if request_id:
        found["request_id"] = request_id
    return encode_object(found)


def anthropic_status(error: SmgError) -> int:
    """The HTTP status of an error in Messages, which has some of its own."""
    return error.status if error.anthropic_status is None else error.anthropic_status


def gemini_error(error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes:
    """`{"error": {"code", "message", "status", "details"}}`, Google's RPC status; details name the field at fault."""
    message, param = _message_and_param(error, locate, gemini_text(error))
    found: JsonObject = {"code": error.status, "message": message, "status": error.gemini_status}
    details: list[JsonObject] = []
    if param is not None:
        violation = {"field": param, "description": message}
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]})
    if isinstance(error, RequestLimitReached | TokenLimitReached | QuotaExceeded):
        violations: list[JsonObject] = [{"description": message}]
        details.append({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations})
    if error.retry_after is not None:
        delay = f"{_retry_seconds(error.retry_after)}s"
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
    if details:
        found["details"] = details
    return encode_object({"error": found})


def cohere_error(error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes:
    """`{"id", "message"}`, as Cohere's API has it; the param comes first in the message."""
    message, param = _message_and_param(error, locate, error.message)
    if param is not None and param not in message:
        message = f"{param}: {message}"
    found: JsonObject = {"message": message}
    if request_id:
        found["id"] = request_id
    return encode_object(found)


def error_headers(error: SmgError, challenge: str | None = None) -> list[tuple[bytes, bytes]]:
    """Headers of an error response: the content type and, if the error has them, `retry_after` and `should_retry`. `challenge`
    asks for a credential in other words than usual."""
    headers = [(b"content-type", b"application/json")]
    if isinstance(error, AuthenticationFailed):
        headers.append((b"www-authenticate", (challenge or "Bearer").encode()))  # RFC 9110, 11.6.1
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % _retry_seconds(error.retry_after)))
        headers.append((b"retry-after-ms", b"%d" % _retry_milliseconds(error.retry_after)))
    if error.should_retry is not None:
        headers.append((b"x-should-retry", b"true" if error.should_retry else b"false"))
    return headers


def _message_and_param(error: SmgError, locate: Locate | None, text: str) -> tuple[str, str | None]:
    """`text`, the API's message of the error, and the error's param, both with the path replaced by `locate`; neither is longer
    than a reader has use for, whatever a client wrote that they quote."""
    param = error.param
    if locate is not None and param is not None:
        param = locate(param)
        text = text.replace(f"'{error.param}'", f"'{param}'")
    return brief(text, _LONGEST_MESSAGE), None if param is None else brief(param, _LONGEST_PARAM)


def _retry_seconds(seconds: float) -> int:
    """Whole seconds, rounded up and at least 1, so that no client comes back too early."""
    return max(1, math.ceil(min(seconds, _LONGEST_RETRY)))


def _retry_milliseconds(seconds: float) -> int:
    """Milliseconds, for clients that prefer this header; at least 1, since they ignore 0."""
    return max(1, math.ceil(min(seconds, _LONGEST_RETRY) * 1000))


def anthropic_text(error: SmgError) -> str:
    """The message in Messages."""
    if isinstance(error, PromptTooLong):
        return _anthropic_overflow(error)
    if isinstance(error, SealBroken):
        return "Invalid `signature` in `thinking` block"
    return error.message


def _anthropic_overflow(error: PromptTooLong) -> str:
    if error.prompt_alone:
        # An answer has one token at least, so the longest prompt is one shorter than the context.
        return f"prompt is too long: {error.prompt_tokens} tokens > {error.context_length - 1} maximum"
    return (
        f"input length and `max_tokens` exceed context limit: {error.prompt_tokens} + {error.requested} > "
        f"{error.context_length}, decrease input length or `max_tokens` and try again"
    )


def gemini_text(error: SmgError) -> str:
    """The message in generateContent and Interactions."""
    if not isinstance(error, PromptTooLong):
        return error.message
    if error.prompt_alone:
        return (
            f"The input token count ({error.prompt_tokens}) exceeds the maximum number of tokens allowed "
            f"({error.context_length - 1})."
        )
    return (
        f"The input token count ({error.prompt_tokens}) and the requested output ({error.requested}) exceed the maximum "
        f"number of tokens allowed ({error.context_length})."
    )


def in_stream_text(error: SmgError) -> str:
    """The message in Responses after its stream has begun, when no header can carry `retry_after` any more."""
    if isinstance(error, RateLimited) and error.retry_after is not None:
        return f"{error.message} Please try again in {max(1, math.ceil(error.retry_after))}s."
    return error.message

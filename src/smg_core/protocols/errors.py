"""Errors on the wire: the envelope of each public API, and the headers that go with it.

Decides how an envelope looks; which status and names an error has is its class's own business. An envelope shows the
client the message and never the detail, which is the operator's. Above: the server and the encoders. Below: the tree of
errors. The three functions of the signature `(error, request_id, locate) -> bytes` are `ErrorEncoder`s.

Errors from behind the decoders carry paths in our words (`errors.py` says how); given `locate`, an envelope has the API's own
words in both places, the param and the message that quotes it.
"""

import math
from typing import Any

from smg_core.errors import PromptTooLong, SmgError
from smg_core.protocols.base import Locate
from smg_core.protocols.error_texts import anthropic_text, gemini_text
from smg_core.protocols.json_text import encode_object

__all__ = ["anthropic_error", "error_headers", "gemini_error", "openai_error"]

_LONGEST_RETRY = 24 * 3600


def openai_error(error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`; the request id travels in a header, not here."""
    message, param = _worded(error, locate, error.message)
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


def anthropic_error(error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes:
    """`{"type": "error", "error": {"type", "message"}, "request_id"}`; the path at fault leads the message, except where
    clients know the message by its beginning."""
    message, param = _worded(error, locate, anthropic_text(error))
    if param is not None and param not in message and not isinstance(error, PromptTooLong):
        message = f"{param}: {message}"
    found: dict[str, Any] = {"type": "error", "error": {"type": error.anthropic_type, "message": message}}
    if request_id:
        found["request_id"] = request_id
    return encode_object(found)


def gemini_error(error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes:
    """`{"error": {"code", "message", "status", "details"}}`, Google's RPC status; details name the field at fault."""
    message, param = _worded(error, locate, gemini_text(error))
    found: dict[str, Any] = {"code": error.status, "message": message, "status": error.gemini_status}
    details: list[dict[str, Any]] = []
    if param is not None:
        violation = {"field": param, "description": message}
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]})
    if error.retry_after is not None:
        delay = f"{_retry_seconds(error.retry_after)}s"
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
    if details:
        found["details"] = details
    return encode_object({"error": found})


def error_headers(error: SmgError) -> list[tuple[bytes, bytes]]:
    """Headers for an error response: its content type and, where the error says so, when to come back and whether to."""
    headers = [(b"content-type", b"application/json")]
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % _retry_seconds(error.retry_after)))
        headers.append((b"retry-after-ms", b"%d" % _retry_milliseconds(error.retry_after)))
    if error.should_retry is not None:
        headers.append((b"x-should-retry", b"true" if error.should_retry else b"false"))
    return headers


def _worded(error: SmgError, locate: Locate | None, text: str) -> tuple[str, str | None]:
    """`text`, which is what the API says of the error, and the error's param, with the path of the field at fault as `locate` has
    it."""
    if locate is None or error.param is None:
        return text, error.param
    param = locate(error.param)
    return text.replace(f"'{error.param}'", f"'{param}'"), param


def _retry_seconds(seconds: float) -> int:
    """Whole seconds, rounded up and at least 1: a client that comes back too early is turned away again."""
    return max(1, math.ceil(min(seconds, _LONGEST_RETRY)))


def _retry_milliseconds(seconds: float) -> int:
    """The same for clients that read finer steps, and prefer this header; at least 1, since they pass over 0."""
    return max(1, math.ceil(min(seconds, _LONGEST_RETRY) * 1000))

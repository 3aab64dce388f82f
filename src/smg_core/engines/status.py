"""Maps gRPC statuses, HTTP statuses and HTTP/2 reset codes of engines to our errors.

Decides, in three tables, the class of `smg_core.errors` and the message for the client. The engine's own text may hold
addresses, paths and stack traces, and parts of the prompt, so it goes into `detail`, which only
the operator sees, and is named as `outside_text`. Pure. Above: the transports. Source
of the mappings: the gRPC project's statuscodes.md, http-grpc-status-mapping.md, PROTOCOL-HTTP2.md.
"""

from urllib.parse import unquote

from smg_core.errors import (
    EngineFailed,
    EngineGarbled,
    EngineRejected,
    EngineTimeout,
    SmgError,
    WorkerBusy,
    WorkerError,
    WorkerGone,
)

__all__ = [
    "NAMES",
    "cursor_refused",
    "error_from_http",
    "error_from_reset",
    "error_from_status",
    "not_offered",
    "percent_decode",
    "refused_by_name",
]

NAMES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""gRPC's status codes by number."""

_MAX_TEXT = 2000  # characters of engine text that are kept; engines send whole tracebacks

_GONE = "The engine went away before the request was complete."
_FAILED = "The engine failed while it worked on the request."
_TRUST = "The engine refused the gateway's own credentials."
_PERMIT = "The engine does not permit the gateway this call."

_ERRORS: dict[str, tuple[type[SmgError], str]] = {
    # A peer that cancels is shutting down: our own cancellations never wait for a status.
    "CANCELLED": (WorkerGone, _GONE),
    "UNKNOWN": (EngineFailed, _FAILED),
    "INVALID_ARGUMENT": (EngineRejected, "The engine rejected the request."),
    "DEADLINE_EXCEEDED": (EngineTimeout, "The engine did not answer in time."),
    "NOT_FOUND": (EngineRejected, "The engine does not know what the request names."),
    "ALREADY_EXISTS": (EngineFailed, _FAILED),
    "PERMISSION_DENIED": (WorkerError, _PERMIT),
    "RESOURCE_EXHAUSTED": (WorkerBusy, "The engine has no room for the request."),
    "FAILED_PRECONDITION": (EngineRejected, "The engine cannot take this request in its present state."),
    "ABORTED": (WorkerGone, _GONE),
    "OUT_OF_RANGE": (EngineRejected, "The engine rejected the request."),
    "UNIMPLEMENTED": (EngineFailed, "The engine does not offer this operation."),
    "INTERNAL": (EngineFailed, _FAILED),
    "UNAVAILABLE": (WorkerGone, "The engine is not available."),
    "DATA_LOSS": (EngineFailed, _FAILED),
    "UNAUTHENTICATED": (WorkerError, _TRUST),
}

_HTTP_TO_GRPC = {
    400: "INTERNAL",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "UNIMPLEMENTED",
    429: "UNAVAILABLE",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "UNAVAILABLE",
}

_RESETS: dict[int, tuple[type[SmgError], str, str]] = {
    # HTTP/2 code: (class, message, its name)
    0x0: (EngineGarbled, "The engine ended the answer without a status.", "NO_ERROR"),
    0x1: (EngineGarbled, "The engine found fault with the connection.", "PROTOCOL_ERROR"),
    0x2: (EngineFailed, _FAILED, "INTERNAL_ERROR"),
    0x3: (EngineGarbled, "The engine found fault with the connection.", "FLOW_CONTROL_ERROR"),
    0x4: (EngineGarbled, "The engine found fault with the connection.", "SETTINGS_TIMEOUT"),
    0x5: (EngineGarbled, "The engine found fault with the connection.", "STREAM_CLOSED"),
    0x6: (EngineGarbled, "The engine found fault with the connection.", "FRAME_SIZE_ERROR"),
    0x7: (WorkerGone, "The engine did not take the request.", "REFUSED_STREAM"),
    0x8: (WorkerGone, _GONE, "CANCEL"),
    0x9: (EngineGarbled, "The engine found fault with the connection.", "COMPRESSION_ERROR"),
    0xA: (WorkerGone, _GONE, "CONNECT_ERROR"),
    0xB: (WorkerBusy, "The engine has no room for the request.", "ENHANCE_YOUR_CALM"),
    0xC: (WorkerError, _TRUST, "INADEQUATE_SECURITY"),
    0xD: (EngineGarbled, "The engine found fault with the connection.", "HTTP_1_1_REQUIRED"),
}


_NO_PATH = '"detail":"Not Found"'
_NOT_OFFERED = ("UNIMPLEMENTED", *(f"HTTP status {status}" for status in (404, 405, 501)))


def percent_decode(text: str) -> str:
    """A `grpc-message` as it was meant: percent-decoded UTF-8, what is not valid kept visible rather than lost."""
    return unquote(text, errors="replace") if "%" in text else text


def error_from_status(code: int, message: str = "") -> SmgError | None:
    """The error for a gRPC status number and its (decoded) message; None when the status is OK.

    Numbers gRPC has not defined count as UNKNOWN, as its specification asks.
    """
    if code == 0:
        return None
    known = 0 < code < len(NAMES)
    name = NAMES[code] if known else "UNKNOWN"
    kind, sentence = _ERRORS[name]
    text = message[:_MAX_TEXT]
    label = name if known else f"status {code}"
    detail = f"{label}: {text}" if text else label
    return kind(sentence, detail=detail, outside_text=text)


def error_from_http(status: int, text: str = "") -> SmgError:
    """The error for an HTTP status that came without a grpc-status: a proxy answered, or no gRPC server is there."""
    name = _HTTP_TO_GRPC.get(status, "UNKNOWN")
    kind, sentence = _ERRORS[name]
    engine_words = text[:_MAX_TEXT]
    return kind(
        sentence,
        detail=f"HTTP status {status}: {engine_words}" if engine_words else f"HTTP status {status}",
        outside_text=engine_words,
    )


def error_from_reset(code: int) -> SmgError:
    """The error for a stream that the engine reset with this HTTP/2 error code."""
    kind, sentence, name = _RESETS.get(code, (EngineFailed, _FAILED, f"code {code}"))
    return kind(sentence, detail=f"the engine reset the stream: {name}")


def refused_by_name(error: SmgError) -> bool:
    """Whether a server answered that it cannot do what it was asked, and why: 400, or a 404 that is about what was named. One
    that has no such call says no more than that it was not found."""
    if isinstance(error, EngineRejected):
        return True
    not_found = (error.detail or "").startswith("HTTP status 404")
    return not_found and error.outside_text not in ("", "Not Found") and _NO_PATH not in error.outside_text


def cursor_refused(error: SmgError) -> bool:
    """Whether the engine answered that it cannot continue from where the caller was (OUT_OF_RANGE), or that it lost something on
    the way (DATA_LOSS). Subscribing anew, from nothing, helps."""
    return isinstance(error, EngineRejected | EngineFailed) and (error.detail or "").startswith(
        ("OUT_OF_RANGE", "DATA_LOSS")
    )


def not_offered(error: SmgError) -> bool:
    """Whether the engine answered that it has no such call: gRPC's UNIMPLEMENTED, as `error_from_status` put it, or a status of
    HTTP that says so."""
    return isinstance(error, EngineFailed) and (error.detail or "").startswith(_NOT_OFFERED)

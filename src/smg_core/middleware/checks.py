"""Checks what a middleware changed, by the rules that hold for clients and engines too.

A middleware may not change how a message is framed, whose request it is (without the grant), or send what is no header. Pure.
Above: `chain`. Below: `base`, `smg_core.errors`.
"""

import re

from smg_core.errors import (
    AuthenticationFailed,
    Conflict,
    InternalError,
    InvalidRequest,
    NotFound,
    Overloaded,
    PayloadTooLarge,
    PermissionDenied,
    RateLimited,
    SmgError,
)
from smg_core.middleware.base import ChangeHead, Headers, MiddlewareFault, Reject, RequestHead, ResponseHead

__all__ = [
    "FRAMING",
    "bounded_text",
    "changed_head",
    "changed_headers",
    "changed_response",
    "refusal_of",
]

FRAMING = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that say how a message is read: the gateway's own."""
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TENANT = re.compile(r"[\x21-\x7e]{1,256}")
_MESSAGE = 1000  # characters of a refusal_of's message
_ERRORS: dict[int, type[SmgError]] = {
    each.status: each
    for each in (
        InvalidRequest,
        AuthenticationFailed,
        PermissionDenied,
        NotFound,
        Conflict,
        PayloadTooLarge,
        RateLimited,
        InternalError,
        Overloaded,
    )
}


def refusal_of(verdict: Reject) -> SmgError:
    """The error that a client gets for a verdict. Raises MiddlewareFault for a status that is no error's."""
    if not 400 <= verdict.status <= 599:
        raise MiddlewareFault(f"rejects with the status {verdict.status}, which is no error")
    found = _ERRORS.get(verdict.status) or (InvalidRequest if verdict.status < 500 else InternalError)
    message = "".join(each if each.isprintable() else " " for each in verdict.message[:_MESSAGE])
    return found(message or "The request was refused by a plugin of this gateway.")


def bounded_text(text: object, most: int) -> str:
    """A body or piece that a middleware made. Raises MiddlewareFault over `most` bytes of UTF-8, and for what is no text."""
    if not isinstance(text, str):
        raise MiddlewareFault(f"gave {type(text).__name__} for a text")
    if text.isascii() and len(text) <= most:  # quickly known of most
        return text
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise MiddlewareFault("gave a text with half a surrogate pair") from None
    if size > most:
        raise MiddlewareFault(f"gave a text of {size} bytes, over the limit of {most}")
    return text


def changed_head(head: RequestHead, change: ChangeHead, *, most: int, may_identify: bool) -> RequestHead:
    """A request's head with a change. Raises MiddlewareFault for a change that is not allowed."""
    if change.status is not None:
        raise MiddlewareFault("gave a request a status")
    named = [each for each in (change.tenant, change.principal) if each is not None]
    if named and not may_identify:
        raise MiddlewareFault("changes whose the request is, without the grant for it")
    if named and not all(_TENANT.fullmatch(each) for each in named):
        raise MiddlewareFault("gave a name of a tenant or principal that is none")
    return RequestHead(head.method, head.path, head.query, changed_headers(head.headers, change, most))


def changed_response(head: ResponseHead, change: ChangeHead, most: int) -> ResponseHead:
    """An answer's head with a change. Raises MiddlewareFault for a change that is not allowed."""
    status = head.status if change.status is None else change.status
    if status != head.status and (not 200 <= status <= 599 or status in (204, 205, 304)):
        raise MiddlewareFault(f"gave an answer the status {status}, which cannot have this body")
    if change.tenant is not None or change.principal is not None:
        raise MiddlewareFault("changes whose an answer is")
    return ResponseHead(status, changed_headers(head.headers, change, most))


def changed_headers(headers: Headers, change: ChangeHead, most: int) -> Headers:
    """Headers with a change, whose names are in lower case then; within `most` bytes. Raises MiddlewareFault."""
    given = [*change.set, *change.add]
    size = 4 * (len(given) + len(change.remove)) + sum(map(len, change.remove))
    for name, value in given:
        size += len(name) + len(value)
    if size > most:
        raise MiddlewareFault(f"changes headers of more than {most} bytes")
    added = [(_checked_name(name), value) for name, value in given]
    gone = {_checked_name(name) for name in change.remove}
    for name, value in added:
        if not _VALUE.fullmatch(value):
            raise MiddlewareFault(f"gave the header {name} a value that is none")
    gone.update([name for name, _ in added[: len(change.set)]])
    kept = [each for each in headers if each[0].lower() not in gone] if gone else headers
    return (*kept, *[(name, value.strip(" \t")) for name, value in added])


def _checked_name(name: str) -> str:
    """The name of a header in lower case."""
    if not _NAME.fullmatch(name):
        raise MiddlewareFault(f"gave a header the name {name[:60]!r}, which is none")
    lower = name.lower()
    if lower in FRAMING:
        raise MiddlewareFault(f"changes the header {name}, which is the gateway's")
    return lower

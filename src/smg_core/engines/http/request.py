"""The head of an HTTP/1.1 request to an engine.

Decides which fields every request carries and that no field can end its line. Pure. Above: client. Sources: RFC 9110, RFC 9112.
"""

import re
from collections.abc import Sequence

from smg_core.errors import InternalError

__all__ = ["request_head"]

_AGENT = "smg-gateway"
_NAME = re.compile(r"[0-9A-Za-z_.-]{1,256}\Z")
_VALUE = re.compile(r"[ -~]*\Z")
_PATH = re.compile(r"/[!-~]*\Z")
_OURS = frozenset(
    {"host", "connection", "transfer-encoding", "content-length", "accept-encoding", "te", "upgrade", "expect"}
)
"""Fields that say how the message is framed or coded; the connection alone decides them."""


def request_head(method: str, path: str, host: str, length: int, fields: Sequence[tuple[str, str]]) -> bytes:
    """The request line and the header, up to the empty line. `length` is that of the body in bytes; `host` is the value of the
    field Host. Only an answer that is not compressed is asked for. Raises InternalError, which names the field and not its value,
    for one that cannot be sent."""
    if not _PATH.match(path):
        raise InternalError("The request could not be sent.", detail=f"path {path[:64]!r} is not allowed")
    lines = [f"{method} {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: {_AGENT}\r\naccept-encoding: identity"]
    if length or method != "GET":
        lines.append(f"content-length: {length}")
    for name, value in fields:
        if not _NAME.match(name) or name.lower() in _OURS:
            raise InternalError("The request could not be sent.", detail=f"header {name[:64]!r} is not allowed")
        if not _VALUE.match(value):
            raise InternalError("The request could not be sent.", detail=f"header {name!r} is not printable ASCII text")
        lines.append(f"{name}: {value}")
    lines.append("\r\n")
    return "\r\n".join(lines).encode("ascii")

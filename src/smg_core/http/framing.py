"""Finds request heads that two servers may read in different ways.

A proxy in front of the gateway may have read another request from such a head, so it is refused and the connection closed.
Pure. Above: `server.http_protocol`, which asks before it reads a body, and `http.exchange`, which asks where another
server has read the head.
"""

import re
from collections.abc import Sequence

from smg_core.errors import InvalidRequest, NotImplementedHere, SmgError

__all__ = ["framing_fault", "ignores_upgrade", "origin_form", "path_of_target", "target_fault", "without_user"]

_ABSOLUTE = re.compile(rb"[A-Za-z][-+.0-9A-Za-z]*://([^/?#]*)")
"""A target that names its host, as clients send it to proxies; the group is the host with its port."""
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[-._~!$&'()*+,;=%0-9A-Za-z]*)(?::[0-9]*)?")


def framing_fault(version: str, headers: Sequence[tuple[bytes, bytes]], target: bytes = b"/") -> SmgError | None:
    """What is wrong with the head of a request by HTTP `version`, 1.1 or 1.0; the names in `headers` are in lower case, `target`
    is as it was sent. Lengths and chunks are the parser's business."""
    hosts: list[bytes] = []
    codings: list[bytes] = []
    for name, value in headers:
        if name == b"host":
            hosts.append(value.strip(b"\t"))
        elif name == b"transfer-encoding":
            codings.append(value)
    if version not in ("1.1", "1.0"):
        return InvalidRequest("Only HTTP/1.1 and HTTP/1.0 are spoken here.")
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        return InvalidRequest("A request has one Host header.")
    if hosts and _HOST.fullmatch(hosts[0]) is None:
        return InvalidRequest("The Host header is not valid.")
    named = None if target.startswith(b"/") else _ABSOLUTE.match(target)
    if named is not None and hosts and named[1].lower() != hosts[0].lower():
        return InvalidRequest("The target of the request and its Host header name two hosts.")
    if codings and version == "1.0":
        return InvalidRequest("HTTP/1.0 has no Transfer-Encoding.")
    if len(codings) > 1:
        return InvalidRequest("A request has one Transfer-Encoding header.")
    if codings and codings[0].lower().rpartition(b",")[2].strip() != b"chunked":
        return InvalidRequest("The last transfer coding of a request is chunked.")
    if codings and codings[0].lower() != b"chunked":
        return NotImplementedHere("The only transfer coding that is read here is chunked.")
    return None


def target_fault(method: bytes, target: bytes) -> SmgError | None:
    """What is wrong with a request's target: it is a path, a URL of http or https, or "*" with OPTIONS (RFC 9112, 3.2),
    and has no fragment."""
    if b"#" in target:
        return InvalidRequest("The target of a request has no fragment.")
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return None
    if target.lower().startswith((b"http://", b"https://")):
        return None
    return InvalidRequest("The target of a request is a path, or a URL of http or https.")


def origin_form(method: bytes, target: bytes) -> bytes:
    """A target without fault as a path with its query. A URL without a path means the root (RFC 9110, 4.2.3), and for OPTIONS the
    whole server, as "*" does (RFC 9112, 3.2.4)."""
    named = None if target.startswith(b"/") else _ABSOLUTE.match(target)
    if named is None:
        return target
    rest = target[named.end() :]
    if not rest and method == b"OPTIONS":
        return b"*"
    return rest if rest.startswith(b"/") else b"/" + rest


def path_of_target(target: bytes) -> bytes:
    """The path of a request's target, for logs: without the query, and of an absolute target without scheme, user and host, since
    a client's key or password may stand in those."""
    path = re.split(rb"[?#]", target, maxsplit=1)[0]
    named = _ABSOLUTE.match(path)
    return path if named is None else path[named.end() :] or b"/"


def without_user(path: str) -> str:
    """A path for logs: without a user and password that stand where its beginning was taken for a host, as in
    `//user:password@host/` or in the target of CONNECT."""
    rest = path.lstrip("/")
    host = rest.partition("/")[0]
    end = host.rfind("@")
    if not 0 <= host.find(":") < end:
        return path
    return path[: len(path) - len(rest)] + rest[end + 1 :]


def ignores_upgrade(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the head asks for an upgrade to another protocol that the server ignores."""
    names = b",".join([value for name, value in headers if name == b"connection"]).lower().split(b",")
    return any(name == b"upgrade" for name, _ in headers) and any(name.strip() == b"upgrade" for name in names)

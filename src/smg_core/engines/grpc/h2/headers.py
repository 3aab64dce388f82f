"""Header blocks of a gRPC request and response.

Decides how a request's head is encoded and what a response's says. Request blocks use literals and the static table only,
never the dynamic one: such a block is the same on every connection, so it is built once a path and no peer setting can make
it wrong. Responses are decoded with `hpack`, each kind of block once. Pure; below `connection`. Sources: RFC 7541, gRPC's
PROTOCOL-HTTP2.md.
"""

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

import attrs
from hpack import Decoder
from hpack.exceptions import HPACKError

from smg_core.engines.grpc.h2.frames import Code, ProtocolError
from smg_core.errors import InternalError

__all__ = [
    "HeadDecoder",
    "HeaderBlock",
    "RequestHeads",
    "check_metadata",
    "leaves_table",
    "metadata_block",
    "read_head",
    "request_block",
    "timeout_text",
]

# ------------------------------------------------------------------------------------------------------- the request

_METADATA_KEY = re.compile(r"[0-9a-z_.-]{1,256}\Z")
_METADATA_VALUE = re.compile(r"[ -~]*\Z")
_RESERVED = frozenset({"te", "content-type", "user-agent", "host", "connection", "transfer-encoding", "content-length"})
_MAX_BLOCKS = 256
_KNOWN = frozenset({"grpc-timeout", "traceparent", "tracestate"})
"""Fields that hold no secret."""

# Indices of RFC 7541's static table, ready for the wire: whole fields (0x80 | index), and names that a literal
# follows (index in the low four bits; 0x0f and the remainder when it does not fit).
_METHOD_POST, _SCHEME = b"\x83", {"http": b"\x86", "https": b"\x87"}
_PATH, _AUTHORITY, _CONTENT_TYPE, _USER_AGENT = b"\x04", b"\x01", b"\x0f\x10", b"\x0f\x2b"


def _text(value: bytes) -> bytes:
    """A string literal without Huffman coding: a 7-bit prefixed length, then the bytes."""
    length = len(value)
    if length < 0x7F:
        return bytes((length,)) + value
    length -= 0x7F
    head = bytearray(b"\x7f")
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + value


def request_block(scheme: str, authority: str, path: str, user_agent: str) -> bytes:
    """The header block of a gRPC call without metadata; `scheme` is "http" or "https"."""
    return b"".join(
        (
            _METHOD_POST,
            _SCHEME[scheme],
            _PATH + _text(path.encode()),
            _AUTHORITY + _text(authority.encode()),
            b"\x00" + _text(b"te") + _text(b"trailers"),
            _CONTENT_TYPE + _text(b"application/grpc"),
            _USER_AGENT + _text(user_agent.encode()),
        )
    )


def metadata_block(metadata: Iterable[tuple[str, str]]) -> bytes:
    """More fields to append to a request block. They are marked never to be indexed by anyone on the way: any may be a secret,
    whatever its name."""
    return b"".join(
        (b"\x00" if key in _KNOWN else b"\x10") + _text(key.encode()) + _text(value.encode()) for key, value in metadata
    )


def check_metadata(metadata: Sequence[tuple[str, str]], max_bytes: int) -> None:
    """Raises InternalError (naming the key, never the value) for metadata that gRPC does not allow on the wire."""
    size = 0
    for key, value in metadata:
        if not _METADATA_KEY.match(key) or key in _RESERVED or key.startswith("grpc-"):
            raise InternalError("The request could not be sent.", detail=f"metadata key {key[:64]!r} is not allowed")
        if key.endswith("-bin") or not _METADATA_VALUE.match(value):
            raise InternalError(
                "The request could not be sent.", detail=f"metadata {key!r} is not printable ASCII text"
            )
        size += len(key) + len(value) + 32  # as RFC 9113 counts a field
    if size > max_bytes:
        raise InternalError("The request could not be sent.", detail=f"metadata of {size} bytes, over {max_bytes}")


def timeout_text(seconds: float) -> str:
    """A `grpc-timeout` value: at most eight digits and a unit, rounded up so that the peer never times out first."""
    for unit, per_second in (("m", 1000), ("S", 1), ("M", 1 / 60), ("H", 1 / 3600)):
        value = -int(-seconds * per_second // 1)
        if value <= 99_999_999:
            return f"{max(value, 1)}{unit}"
    return "99999999H"


class RequestHeads:
    """The header blocks of one connection's requests. Remembers those of 256 paths and 256 time-outs, then begins anew."""

    def __init__(self, scheme: str, authority: str, user_agent: str) -> None:
        self._scheme, self._authority, self._user_agent = scheme, authority, user_agent
        self._paths: dict[str, bytes] = {}
        self._timeouts: dict[float, bytes] = {}

    def block(self, path: str, metadata: Sequence[tuple[str, str]], timeout: float | None) -> bytes:
        """The block of one call; `metadata` has been checked, `timeout` is in seconds."""
        block = self._paths.get(path)
        if block is None:
            block = request_block(self._scheme, self._authority, path, self._user_agent)
            _keep(self._paths, path, block)
        if timeout is not None:
            limit = self._timeouts.get(timeout)
            if limit is None:
                limit = metadata_block((("grpc-timeout", timeout_text(timeout)),))
                _keep(self._timeouts, timeout, limit)
            block += limit
        return block + metadata_block(metadata) if metadata else block


_Key = TypeVar("_Key")


def _keep(blocks: dict[_Key, bytes], key: _Key, block: bytes) -> None:
    if len(blocks) >= _MAX_BLOCKS:
        blocks.clear()
    blocks[key] = block


# ------------------------------------------------------------------------------------------------------ the response


@attrs.frozen
class HeaderBlock:
    """What a response's header or trailer block says. `http` 0 and `grpc` None mean the field is not there."""

    http: int = 0
    grpc: int | None = None
    message: str = ""
    content_type: str = ""


def read_head(fields: Iterable[tuple[str, str]]) -> HeaderBlock:
    """The fields that matter, of a decoded block. Raises ValueError when the block is not well-formed."""
    found: dict[str, str] = {}
    regular = False
    for name, value in fields:
        if not name or name != name.lower():
            raise ValueError("a header name is empty or has capitals")
        if name[0] == ":":
            if regular or name != ":status" or name in found:
                raise ValueError("a pseudo-header is unknown, repeated or out of place")
        else:
            regular = True
        found.setdefault(name, value)
    http, grpc = found.get(":status", "0"), found.get("grpc-status")
    if not (http.isascii() and http.isdigit() and len(http) <= 3):
        raise ValueError("the HTTP status is no number")
    if grpc is not None:
        # gRPC asks for UNKNOWN where the status is not a number.
        grpc = grpc if grpc.isascii() and grpc.isdigit() and len(grpc) < 6 else "2"
    return HeaderBlock(
        http=int(http),
        grpc=None if grpc is None else int(grpc),
        message=found.get("grpc-message", ""),
        content_type=found.get("content-type", ""),
    )


def leaves_table(block: bytes) -> bool:
    """Whether decoding a (valid) block leaves the table unchanged; it then means the same until another block changes the table.

    True only in the simple cases: one-byte references to a table, and short literals that are not to be indexed.
    """
    at, size = 0, len(block)
    while at < size:
        first = block[at]
        at += 1
        if first >= 0x80:
            if first == 0xFF:
                return False
        elif first >= 0x20 or first & 0x0F == 0x0F:
            return False  # goes into the table, resizes it, or names a far entry
        else:
            for _ in range(1 if first & 0x0F else 2):  # a value, behind its name unless that is a reference
                if at >= size or block[at] & 0x7F == 0x7F:
                    return False
                at += 1 + (block[at] & 0x7F)
    return True


class HeadDecoder:
    """Decodes the blocks of one connection, in order, with the dynamic table they share.

    A block that leaves the table as it is means the same until one comes that does not, so it is decoded once: with many
    calls nearly every block is one of two. Remembers at most 64 blocks of at most 256 bytes.
    """

    def __init__(self, max_block: int) -> None:
        self._decoder = Decoder(max_header_list_size=max_block)
        self._max_block = max_block
        self._heads: dict[bytes, HeaderBlock] = {}

    def decode(self, block: bytes) -> HeaderBlock | None:
        """The block's meaning; None when it is malformed in a way that harms its own call only. Raises ProtocolError."""
        head = self._heads.get(block)
        if head is not None:
            return head
        if len(block) > self._max_block:
            raise ProtocolError(Code.ENHANCE_YOUR_CALM, "a header block over its limit")
        try:
            fields = [(str(field[0]), str(field[1])) for field in self._decoder.decode(block)]
        except HPACKError as error:
            reason = f"a header block that cannot be decoded: {error}"
            raise ProtocolError(Code.COMPRESSION_ERROR, reason, outside_text=str(error)) from None
        stable = len(block) <= 256 and leaves_table(block)
        if not stable or len(self._heads) >= 64:
            self._heads.clear()
        try:
            head = read_head(fields)
        except ValueError:
            return None
        if stable:
            self._heads[block] = head
        return head

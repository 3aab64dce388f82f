"""Bounds on the number of values and on the nesting of a JSON text, checked before it is parsed.

The text is a body, or a string in a body that holds JSON. It is read in pieces, no object is made for a value, and the check
stops at the bound, so that the work is small for any text. In a text that is not JSON, counts may be wrong after the first
fault, where a parser stops anyway. Pure. Above: decoding and the readers of each API. Below: base.
"""

import re
from collections.abc import Iterator

from smg_core.errors import InvalidRequest
from smg_core.wire.settings import LimitsConfig

__all__ = ["NestedJson", "ObjectEnd", "nests_deeper", "over_values"]

_PIECE = 1 << 18
"""Bytes in one piece: about a millisecond's work, after which other threads may run."""


def over_values(data: bytes, most: int) -> bool:
    """Whether the JSON text `data` holds more than `most` values; a member of an object counts once."""
    if len(data) <= 2 * most:  # a value and what comes before it are two bytes at least
        return False
    if _cannot_exceed(data, most):
        return False
    count = 1
    for outside in _outside_strings(data, b'",[{'):
        count += len(outside)
        if count > most:
            return True
    return False


def _cannot_exceed(data: bytes, most: int) -> bool:
    """Whether there are too few commas and brackets for more than `most` values, even when those in strings are counted."""
    count = 1
    for start in range(0, len(data), _PIECE):
        count += sum(data.count(each, start, start + _PIECE) for each in (b",", b"[", b"{"))
        if count > most:
            return False
    return True


def nests_deeper(data: bytes, limit: int) -> bool:
    """Whether arrays and objects of the JSON text `data` are nested more than `limit` levels deep."""
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    brackets = b"".join(_outside_strings(data, b'"[]{}')).translate(_ONE_KIND)
    return not _pairs_within(brackets, limit) and _opens_over(brackets, limit)


_ONE_KIND = bytes.maketrans(b"[{]}", b"(())")


def _pairs_within(brackets: bytes, limit: int) -> bool:
    """Whether nothing is left once the innermost pairs were taken away `limit` times, each time at the speed of C."""
    for _ in range(limit):
        rest = brackets.replace(b"()", b"")
        if not rest:
            return True
        if len(rest) == len(brackets):
            break
        brackets = rest
    return False


def _opens_over(brackets: bytes, limit: int) -> bool:
    """Whether more than `limit` brackets are open anywhere."""
    depth = 0
    for byte in brackets:
        depth += 1 if byte == 0x28 else -1
        if depth > limit:
            return True
    return False


def _outside_strings(data: bytes, kept: bytes) -> Iterator[bytes]:
    """The bytes of `data` outside of its strings that are in `kept`, piece by piece."""
    dropped = bytes(set(range(256)) - set(kept) - {0x5C})
    inside = escaped = False
    for start in range(0, len(data), _PIECE):
        piece = data[start + escaped : start + _PIECE]
        escaped = (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1
        piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.translate(None, dropped + b"\\").split(b'"')
        yield b"".join(parts[inside::2])
        inside ^= len(parts) % 2 == 0


class ObjectEnd:
    """Finds where a JSON object ends, in bytes that come piece by piece from its first bracket on. `over` says that it holds more
    than `most` values, or more strings than so many values can have; `depth` is how many levels are open. Values of the piece in
    which it ends are not counted, since others may stand behind it; `over_values` tells."""

    __slots__ = ("_escaped", "_inside", "_most", "_quotes", "_values", "depth", "over")

    def __init__(self, most: int) -> None:
        self._most = most
        self.depth = self._quotes = self._values = 0
        self._inside = self._escaped = self.over = False

    def find(self, piece: bytes) -> int:
        """How many bytes of the piece belong to the object, where it ends in this piece, else -1."""
        plain = self._without_escapes(piece)
        parts = plain.split(b'"')
        outside = b"".join(parts[self._inside :: 2])
        opened, closed = (outside.count(one) + outside.count(other) for one, other in ((b"[", b"{"), (b"]", b"}")))
        if self.depth <= closed and (end := self._end(plain)) >= 0:
            return end
        self.depth += opened - closed
        self._values += opened + outside.count(b",")
        self._quotes += len(parts) - 1
        self._inside ^= len(parts) % 2 == 0
        self.over = self._values > self._most or self._quotes > _QUOTES * self._most
        return -1

    def _without_escapes(self, piece: bytes) -> bytes:
        """The piece with other bytes in place of quotes that end no string, and of the backslashes before them."""
        if self._escaped:
            piece = b"_" + piece[1:]
        self._escaped = (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1
        return piece.replace(b"\\\\", b"__").replace(b'\\"', b"__")

    def _end(self, plain: bytes) -> int:
        """Where the last bracket is closed, -1 where it is not."""
        depth, at = self.depth, plain.find(b'"') + 1 if self._inside else 0
        if self._inside and not at:
            return -1
        while (found := _BRACKET.match(plain, at)) is not None:
            at = found.end()
            if plain[at - 1] in b"[{":
                depth += 1
            else:
                depth -= 1
                if not depth:
                    return at
        return -1


_BRACKET = re.compile(rb'(?:"[^"]*+"|[^"\[\]{}]++)*+[\[\]{}]')
_QUOTES = 4  # of a member's name and of its value


class NestedJson:
    """Bounds on several JSON texts that come with one request, those in its strings or those that are loaded for it (`what`): all
    together have as many values as a body may have, and each is nested no deeper than a body may be, and `own` levels."""

    __slots__ = ("_depth", "_left", "_most", "_what")

    def __init__(
        self, limits: LimitsConfig, what: str = "the JSON texts in this request's strings", *, own: int = 0
    ) -> None:
        self._most = self._left = limits.json_values
        self._depth = limits.json_depth + own
        self._what = what

    def check(self, text: str | bytes, param: str) -> None:
        """Raise InvalidRequest naming `param` when `text`, where it is JSON, is over a bound."""
        if len(text) <= self._depth and len(text) < self._left:
            self._left -= len(text) // 2
            return
        data = text.encode("utf-8", "replace") if isinstance(text, str) else text
        if nests_deeper(data, self._depth):
            raise InvalidRequest(f"Invalid '{param}': nested more than {self._depth} levels deep.", param=param)
        values = self._values(data)
        if values > self._left:
            raise InvalidRequest(
                f"Invalid '{param}': {self._what} hold more than {self._most} values.",
                param=param,
                code="array_above_max_length",
            )
        self._left -= values

    def _values(self, data: bytes) -> int:
        """The number of values in `data`, or some number over what is left."""
        values = 1
        for outside in _outside_strings(data, b'",[{'):
            values += len(outside)
            if values > self._left:
                break
        return values

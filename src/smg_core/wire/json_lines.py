"""Lines of a JSONL file from pieces of it, and the requests of a JSON body too large for one read.

Neither makes anything of the values: whoever gets a line or a request reads it. Pure. Above: files, batches. Below: the bounds of
JSON texts.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from smg_core.errors import InvalidJson, InvalidRequest, PayloadTooLarge
from smg_core.wire.json_bounds import ObjectEnd, nests_deeper, over_values

__all__ = ["Line", "LineSplitter", "ObjectBounds", "objects_of"]

Line: TypeAlias = tuple[int, bytes | None]
"""The number of a line and its bytes, None for one that is too long."""

_WORD = re.compile(rb"\S")
_SPACE = re.compile(rb"[ \t\n\r]*+")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STEP = 256
"""Bytes that the search for the end of an object begins with, which double, up to the window; and of a name that is read whole in
any case."""
_MARK = codecs.BOM_UTF8
"""Some editors begin a file with it."""


class LineSplitter:
    """Cuts bytes at line feeds and gives each line with its number, the first of which is 1. Lines of white space alone are
    counted but not given, so that a file of such lines is no work. A line of more than `most` bytes is given as None, and not
    kept in memory. A byte order mark that the bytes begin with is left out."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest: list[bytes] = []
        self.held = 0
        """Bytes of the line that has not ended yet."""
        self._blank = True
        self._too_long = False
        self._number = 0  # of the last line that has ended

    def feed(self, piece: bytes) -> list[Line]:
        """The lines that end in this piece, without their line feeds."""
        at, last = piece.find(b"\n") + 1, piece.rfind(b"\n") + 1
        if not at:
            self._add(piece)
            return []
        self._add(piece[: at - 1])
        found = self._line()
        while (word := _WORD.search(piece, at, last)) is not None:
            begin, end = piece.rfind(b"\n", at - 1, word.start()) + 1, piece.find(b"\n", word.start())
            self._number += piece.count(b"\n", at, begin) + 1
            found.append((self._number, None if end - begin > self._most else piece[begin:end]))
            at = end + 1
        self._number += piece.count(b"\n", at, last)
        self._add(piece[last:])
        return found

    def end(self) -> list[Line]:
        """The last line, where it has no line feed behind it."""
        return self._line()

    def _add(self, part: bytes) -> None:
        self._blank = self._blank and (not part or part.isspace())
        if self._too_long or self.held + len(part) > self._most:
            self._too_long, self.held = True, 0
            self._rest.clear()
        else:
            self._rest.append(part)
            self.held += len(part)

    def _line(self) -> list[Line]:
        """The line that has come piece by piece and ends here, if there is one to give."""
        line, blank = None if self._too_long else b"".join(self._rest), self._blank
        self._rest.clear()
        self.held, self._blank, self._too_long = 0, True, False
        self._number += 1
        if self._number == 1 and line is not None and line.startswith(_MARK):
            line = line[len(_MARK) :]
            blank = not line or line.isspace()
        return [] if blank else [(self._number, line)]


class ObjectBounds(NamedTuple):
    """What one object may have at most."""

    size: int
    """Bytes."""
    values: int
    depth: int
    """Levels of nesting."""


def objects_of(read: Callable[[int], bytes], field: str, bounds: ObjectBounds, *, window: int) -> Iterator[bytes]:
    """The objects of the array `field` of a JSON object that has no other field, as texts, in their order. They are cut out by
    their brackets, so whether they are JSON is seen by who reads them. `read(size)` gives the next bytes, none at the end;
    `window` of them are read at once. Raises InvalidJson for what is no such body, and PayloadTooLarge or InvalidRequest for an
    object over one of its bounds."""
    text = _Window(read, window)
    text.expect(b"{")
    if not text.accept(b"}"):
        _expect_field(text, field)
        yield from _elements(text, field, bounds)
        if not text.accept(b"}"):
            text.expect(b",")
            _expect_field(text, None)
    if text.next():
        raise InvalidJson("The request body goes on behind the end of its JSON.")


def _expect_field(text: "_Window", field: str | None) -> None:
    """The name of a field; any other than `field` is refused."""
    name = text.name()
    if field is None or name != b'"%s"' % field.encode():
        field_name = name.strip(b'"')[:320].decode("utf-8", "replace")[:80]
        raise InvalidRequest(f"Unknown parameter: '{field_name}'.", param=field_name, code="unknown_parameter")
    text.expect(b":")


def _elements(text: "_Window", field: str, bounds: ObjectBounds) -> Iterator[bytes]:
    """The objects of the array that stands here."""
    if text.next() not in (b"[", b""):
        raise InvalidRequest(f"Invalid '{field}': expected an array.", param=field)
    text.expect(b"[")
    number = 0
    more = not text.accept(b"]")
    while more:
        if text.next() not in (b"{", b""):
            raise InvalidRequest(f"Invalid '{field}[{number}]': expected an object.", param=f"{field}[{number}]")
        yield text.object(f"{field}[{number}]", bounds)
        number += 1
        more = not text.accept(b"]")
        if more:
            text.expect(b",")


def _too_many_values(at: str, most: int) -> InvalidRequest:
    return InvalidRequest(f"Invalid '{at}': more than {most} JSON values.", param=at, code="too_many_values")


def _too_deep(at: str) -> InvalidJson:
    return InvalidJson(f"Invalid '{at}': nested too deeply.", param=at)


class _Window:
    """Some bytes of a body, from a place on that only moves forward."""

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        self._read, self._size = read, size
        self._check = codecs.getincrementaldecoder("utf-8")().decode
        self._data, self._at, self._ended = b"", 0, False

    def next(self) -> bytes:
        """The next byte that is no white space; none at the end."""
        while True:
            self._at = _SPACE.match(self._data, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._data):
                return self._data[self._at : self._at + 1]
            if not self._more():
                return b""

    def accept(self, byte: bytes) -> bool:
        if self.next() != byte:
            return False
        self._at += 1
        return True

    def expect(self, byte: bytes) -> None:
        if not self.accept(byte):
            raise self._unexpected(f"'{byte.decode()}'")

    def name(self) -> bytes:
        """The string that stands here, with its quotes; of a long one maybe its beginning only."""
        if self.next() != b'"':
            raise self._unexpected("a name")
        while (found := _STRING.match(self._data, self._at)) is None:
            if len(self._data) - self._at > max(self._size, _STEP):
                return self._data[self._at :]
            if not self._more():
                raise InvalidJson("The request body is not valid JSON.")
        self._at = found.end()
        return found.group()

    def object(self, at: str, bounds: ObjectBounds) -> bytes:
        """The object that stands here, which errors call `at`."""
        if self.next() != b"{":
            raise self._unexpected("an object")
        scan, parts, size, step = ObjectEnd(bounds.values), [], 0, _STEP
        end = -1
        while end < 0:
            if self._at == len(self._data) and not self._more():
                raise InvalidJson("The request body is not valid JSON.")
            piece = self._data[self._at : self._at + step]
            end = scan.find(piece)
            parts.append(piece if end < 0 else piece[:end])
            self._at += len(parts[-1])
            size += len(parts[-1])
            step *= 2
            if size > bounds.size:
                raise PayloadTooLarge(f"A request of the batch is over the limit of {bounds.size} bytes.")
            if scan.over:
                raise _too_many_values(at, bounds.values)
            if scan.depth > bounds.depth:
                raise _too_deep(at)
        found = b"".join(parts)
        if over_values(found, bounds.values):
            raise _too_many_values(at, bounds.values)
        if nests_deeper(found, bounds.depth):
            raise _too_deep(at)
        return found

    def _unexpected(self, expected: str) -> InvalidJson:
        got = self.next().decode("utf-8", "replace")
        return InvalidJson(f"The request body is not valid JSON: expected {expected}, but got '{got}'.")

    def _more(self) -> bool:
        """Read on; False at the end."""
        if self._ended:
            return False
        data = self._read(self._size)
        self._ended = not data
        try:
            self._check(data, self._ended)
        except UnicodeDecodeError:
            raise InvalidJson("The request body is not valid UTF-8.") from None
        self._data, self._at = self._data[self._at :] + data, 0
        return not self._ended

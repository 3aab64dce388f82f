"""Lines of a JSONL file from pieces of it, and the requests of a JSON body that is too large to be read at once.

Pure. Above: files, batches. Below: the standard library's JSON.
"""

import codecs
import json
from collections.abc import Callable, Iterator

from smg_core.errors import InvalidJson, InvalidRequest, PayloadTooLarge

__all__ = ["LineSplitter", "objects_of"]

_SPACE = " \t\n\r"
_MARK = codecs.BOM_UTF8
"""Some editors begin a file with it."""


class LineSplitter:
    """Cuts bytes at line feeds. A line of more than `most` bytes is given as None, and not kept in memory. A byte order mark that
    the bytes begin with is left out."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = bytearray()
        self._too_long = False
        self._begins = True  # the next line is the first

    def feed(self, piece: bytes) -> list[bytes | None]:
        """The lines that end in this piece, without their line feeds."""
        first, *others = piece.split(b"\n")
        self._add(first)
        if not others:
            return []
        found: list[bytes | None] = [self._line()]
        last = others.pop()
        found += [None if len(line) > self._most else line for line in others]
        self._add(last)
        return found

    def end(self) -> list[bytes | None]:
        """The last line, where it has no line feed behind it."""
        if self._begins and self._rest == _MARK:
            return []
        return [self._line()] if self._rest or self._too_long else []

    def _add(self, part: bytes) -> None:
        if self._too_long or len(self._rest) + len(part) > self._most:
            self._too_long = True
            self._rest.clear()
        else:
            self._rest += part

    def _line(self) -> bytes | None:
        line = None if self._too_long else bytes(self._rest)
        if self._begins and line is not None:
            line = line.removeprefix(_MARK)
        self._begins = False
        self._rest.clear()
        self._too_long = False
        return line


def objects_of(read: Callable[[int], bytes], field: str, *, window: int, most: int) -> Iterator[str]:
    """The objects of the array `field` of a JSON object that has no other field, as texts, in their order. `read(size)` gives the
    next bytes, none at the end; `window` of them are read at once, and an object has `most` characters at most. Raises
    InvalidJson for what is no such body, and PayloadTooLarge."""
    text = _Window(read, window, most)
    text.expect("{")
    if not text.accept("}"):
        _expect_field(text, field)
        yield from _elements(text, field)
        if not text.accept("}"):
            text.expect(",")
            _expect_field(text, None)
    if text.next():
        raise InvalidJson("The request body goes on behind the end of its JSON.")


def _expect_field(text: "_Window", field: str | None) -> None:
    """The name of a field; any other than `field` is refused."""
    name = text.value('"')
    if field is None or name != json.dumps(field):
        told = name.strip('"')[:80]
        raise InvalidRequest(f"Unknown parameter: '{told}'.", param=told, code="unknown_parameter")
    text.expect(":")


def _elements(text: "_Window", field: str) -> Iterator[str]:
    """The objects of the array that stands here."""
    if text.next() not in ("[", ""):
        raise InvalidRequest(f"Invalid '{field}': expected an array.", param=field)
    text.expect("[")
    number = 0
    more = not text.accept("]")
    while more:
        if text.next() not in ("{", ""):
            raise InvalidRequest(f"Invalid '{field}[{number}]': expected an object.", param=f"{field}[{number}]")
        yield text.value("{")
        number += 1
        more = not text.accept("]")
        if more:
            text.expect(",")


class _Window:
    """Some of a text, from a place on that only moves forward."""

    def __init__(self, read: Callable[[int], bytes], size: int, most: int) -> None:
        self._read, self._size, self._most = read, size, most
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._scan = json.JSONDecoder().raw_decode
        self._text, self._at, self._ended = "", 0, False

    def next(self) -> str:
        """The next character that is no white space; "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._more(self._size):
                return ""

    def accept(self, character: str) -> bool:
        if self.next() != character:
            return False
        self._at += 1
        return True

    def expect(self, character: str) -> None:
        if not self.accept(character):
            raise InvalidJson(f"The request body is not valid JSON: expected '{character}', but got '{self.next()}'.")

    def value(self, first: str) -> str:
        """The value that stands here and begins with the character `first`."""
        if self.next() != first:
            what = "an object" if first == "{" else "a name"
            raise InvalidJson(f"The request body is not valid JSON: expected {what}, but got '{self.next()}'.")
        size = self._size
        while True:
            try:
                _, end = self._scan(self._text, self._at)
            except RecursionError:
                raise InvalidJson("The request body is nested too deeply.") from None
            except ValueError:
                if len(self._text) - self._at > self._most:
                    raise PayloadTooLarge(f"A request of the batch is over the limit of {self._most} bytes.") from None
                if not self._more(size):
                    raise InvalidJson("The request body is not valid JSON.") from None
                size *= 2
                continue
            found = self._text[self._at : end]
            self._at = end
            return found

    def _more(self, size: int) -> bool:
        """Read on; False at the end."""
        if self._ended:
            return False
        data = self._read(size)
        self._ended = not data
        try:
            self._text = self._text[self._at :] + self._decode(data, self._ended)
        except UnicodeDecodeError:
            raise InvalidJson("The request body is not valid UTF-8.") from None
        self._at = 0
        return not self._ended

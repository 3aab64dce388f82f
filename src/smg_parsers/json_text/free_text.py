"""Tools that take free text, for models that know only functions: the text is the one string argument of a function.

Decides: the schema of such a function, and how the text is taken out of its arguments as they arrive. Above: `constraints`,
and `smg_core`, which offers the tools and reads their calls. Below: `partial_json`.
Does not know: models, markers, requests.
"""

from __future__ import annotations

import json
import re
from typing import Final

from smg_parsers.json_text.partial_json import JsonScanner

ARGUMENT: Final = "input"
"""The name of the argument that holds the text."""

_HEAD: Final = f'{{"{ARGUMENT}":'
_SPACE_BEFORE: Final = frozenset((0, 1, len(_HEAD) - 1, len(_HEAD)))
"""Places in the head before which white space may stand."""
_SPACE: Final = " \t\r\n"
_ENDS: Final = re.compile(r'["\\]')
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_HEXDIGITS: Final = frozenset("0123456789abcdefABCDEF")
_BEGINNING, _STRING, _ESCAPE, _HEX, _VALUE, _AS_WRITTEN, _OVER = range(7)
_HALF: Final = "\ufffd"


def parameters(description: str | None = None) -> dict[str, str | bool | list[str] | dict[str, dict[str, str]]]:
    """The JSON schema of the arguments; `description` tells the model which text the tool takes."""
    text = {"type": "string"} if description is None else {"type": "string", "description": description}
    return {"type": "object", "properties": {ARGUMENT: text}, "required": [ARGUMENT], "additionalProperties": False}


def wrapped(text: str) -> str:
    """The arguments for `text`, as JSON."""
    return json.dumps({ARGUMENT: text}, ensure_ascii=False)


class FreeTextReader:
    """Takes the text out of one call's arguments: call `feed` with the arguments as they arrive, then `finish`.

    The text is the argument named `input`, or the arguments themselves if they are one JSON string. A value that is no
    string gives its JSON. Other arguments behind `input` are left out. Arguments of any other shape are the text as they
    are.
    """

    __slots__ = ("_digits", "_half", "_held", "_matched", "_scanner", "_state")

    def __init__(self) -> None:
        self._state = _BEGINNING
        self._matched = 0  # characters of the head that have come
        self._held: list[str] = []  # what has come of the arguments while the head is not complete
        self._digits = ""  # of a \u escape, so far
        self._half = 0  # the first half of a surrogate pair, whose second one is to follow
        self._scanner: JsonScanner | None = None

    def feed(self, piece: str) -> str:
        """The text in the next part of the arguments."""
        out: list[str] = []
        at, size = 0, len(piece)
        while at < size and self._state != _OVER:
            if self._state == _BEGINNING:
                at = self._beginning(piece, at, out)
            elif self._state == _STRING:
                at = self._string(piece, at, out)
            elif self._state == _VALUE:
                at = self._value(piece, at, out)
            elif self._state == _AS_WRITTEN:
                out.append(piece[at:])
                at = size
            else:
                at = self._escaped(piece, at, out)
        return "".join(out)

    def finish(self) -> str:
        """The text that is left at the end: half of a character becomes U+FFFD; arguments that end before the text give none."""
        self._state = _OVER
        half, self._half = self._half, 0
        return _HALF if half else ""

    def _beginning(self, piece: str, at: int, out: list[str]) -> int:
        """Read one character of the head (`{"input":`), or find that there is none."""
        char, matched = piece[at], self._matched
        if char in _SPACE and matched in _SPACE_BEFORE:
            self._held.append(char)
        elif char == '"' and matched in (0, len(_HEAD)):
            self._state = _STRING
        elif matched == len(_HEAD):
            self._state, self._scanner = _VALUE, JsonScanner()
            return at
        elif char == _HEAD[matched]:
            self._matched += 1
            self._held.append(char)
        elif matched == 1 and char == "}":
            self._state = _OVER
        else:
            self._state = _AS_WRITTEN
            out += self._held
            return at
        return at + 1

    def _value(self, piece: str, at: int, out: list[str]) -> int:
        """Pass on a value that is no string, as it is written."""
        scanner = self._scanner or JsonScanner()
        end = scanner.scan(piece, at)
        out.append(piece[at:end])
        if scanner.done:
            self._state = _OVER
        elif scanner.bad:
            self._state = _AS_WRITTEN
        return end

    def _string(self, piece: str, at: int, out: list[str]) -> int:
        found = _ENDS.search(piece, at)
        end = found.start() if found else len(piece)
        if end > at:
            self._say(piece[at:end], out)
        if found is None:
            return end
        if found[0] == "\\":
            self._state = _ESCAPE
        else:
            self._say("", out)
            self._state = _OVER
        return end + 1

    def _escaped(self, piece: str, at: int, out: list[str]) -> int:
        """Read one character of an escape; characters that make no escape are text."""
        char = piece[at]
        if self._state == _ESCAPE:
            self._state = _STRING
            if char == "u":
                self._state, self._digits = _HEX, ""
            else:
                self._say(_ESCAPES.get(char) or "\\" + char, out)
            return at + 1
        if char not in _HEXDIGITS:
            self._state = _STRING
            self._say("\\u" + self._digits, out)
            return at
        self._digits += char
        if len(self._digits) == 4:
            self._state = _STRING
            self._unit(int(self._digits, 16), out)
        return at + 1

    def _unit(self, code: int, out: list[str]) -> None:
        """Pass on one UTF-16 code unit of an escape."""
        if 0xDC00 <= code < 0xE000 and self._half:
            half, self._half = self._half, 0
            out.append(chr(0x10000 + ((half - 0xD800) << 10) + code - 0xDC00))
        elif 0xD800 <= code < 0xDC00:
            self._say("", out)
            self._half = code
        else:
            self._say(_HALF if 0xDC00 <= code < 0xE000 else chr(code), out)

    def _say(self, text: str, out: list[str]) -> None:
        """Pass on text; a surrogate half before it can no longer be completed."""
        if self._half:
            self._half = 0
            out.append(_HALF)
        out.append(text)

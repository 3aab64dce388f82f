"""Literals that are not JSON, turned into JSON while they arrive: Python's, and Gemma's with its own string marks.

Decides: where such a literal ends and what JSON it stands for. Strings are passed on as they come; numbers are rewritten
as text, never through `float`, so that precision and size survive.
Above: `coerce`, the Python-like grammar, and lists of calls written as Python literals. Below: `partial_json`, `base`.
Does not know: tool calls or schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Final

from smg_parsers.base import LOOKAHEAD, SPACE
from smg_parsers.partial_json import MAX_DEPTH, is_json

TOKEN_LIMIT: Final = 65536
"""Longest number or bare word, in characters."""

_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY, _COLON, _AFTER, _STRING, _TOKEN = range(8)

_WORDS: Final = {"true": "true", "True": "true", "false": "false", "False": "false", "null": "null", "None": "null"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_ESCAPES_OF_LENGTH: Final = {"x": 2, "u": 4, "U": 8}
_CLOSERS: Final = {"[": "]", "(": ")", "{": "}"}


@dataclass(frozen=True, slots=True)
class LiteralSyntax:
    """How one kind of literal is written.

    `marks` delimit strings. `escapes`: a backslash means what it means in Python. `loose`: bare words may hold spaces.
    """

    marks: tuple[str, ...]
    escapes: bool
    loose: bool


PYTHON: Final = LiteralSyntax(marks=("'''", '"""', "'", '"'), escapes=True, loose=False)


def quote(text: str) -> str:
    """The text as a JSON string."""
    return encode_basestring(text)


def escape(text: str) -> str:
    """The text as it stands inside a JSON string."""
    return encode_basestring(text)[1:-1]


def integer(text: str) -> str | None:
    """A whole number in JSON's spelling, of any size, or None. `5.0` is 5; `007` is 7."""
    body = text.replace("_", "")
    sign = "-" if body[:1] == "-" else ""
    body = body[1:] if body[:1] in ("+", "-") else body
    whole, point, fraction = body.partition(".")
    if not whole.isascii() or not whole.isdigit() or (point and fraction.strip("0")):
        return None
    digits = whole.lstrip("0") or "0"
    return digits if digits == "0" else sign + digits


def padded(text: str) -> bool:
    """Whether a text would be a number but for zeros before it. Such a text is more often a code (`02139`) than a number."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits[:1] == "0" and digits[1:2].isdigit()


def number(text: str) -> str | None:
    """A number in JSON's spelling, its digits untouched, or None."""
    body = text.replace("_", "")
    sign = "-" if body[:1] == "-" else ""
    body = body[1:] if body[:1] in ("+", "-") else body
    mantissa, mark, exponent = body.replace("E", "e").partition("e")
    whole, point, fraction = mantissa.partition(".")
    if not (whole or fraction) or (mark and not exponent) or body.strip("0123456789.eE+-"):
        return None
    whole = whole.lstrip("0") or "0"
    written = f"{sign}{whole}{'.' + (fraction or '0') if point else ''}{'e' + exponent if mark else ''}"
    return written if is_json(written) else None


class LiteralReader:
    """Reads one literal. `out` gathers JSON text (the caller empties it); `done` and `bad` say how it ended."""

    __slots__ = ("_dialect", "_mark", "_state", "_token", "_token_size", "_wanted", "bad", "done", "key", "out")

    def __init__(self, dialect: LiteralSyntax) -> None:
        self.out: list[str] = []
        self.done = False
        self.bad = False
        self.key = False
        self._dialect = dialect
        self._wanted: list[str] = []  # closing brackets that are still to come
        self._state = _VALUE
        self._mark = ""
        self._token: list[str] = []
        self._token_size = 0

    @property
    def depth(self) -> int:
        """How many brackets are open."""
        return len(self._wanted)

    def step(self, buf: str, pos: int, final: bool) -> int:
        """One transition, as `Grammar.step`: the position reached, or its complement when more text is needed."""
        if self._state == _STRING:
            return self._string(buf, pos, final)
        if self._state == _TOKEN:
            return self._word(buf, pos, final)
        size = len(buf)
        while pos < size and buf[pos] in SPACE:
            pos += 1
        if pos == size:
            return ~pos
        if self._state in (_COLON, _AFTER):
            return self._separator(buf[pos], pos)
        return self._open(buf, pos, final)

    def tail(self) -> str:
        """The text gathered and not yet taken."""
        text = "".join(self.out)
        self.out.clear()
        return text

    def _open(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if self._wanted and char == self._wanted[-1] and self._state in (_FIRST_ITEM, _FIRST_KEY, _VALUE, _KEY):
            return self._close(pos)
        self.key = self._state in (_FIRST_KEY, _KEY)
        mark = self._string_mark(buf, pos, final)
        if mark is None:
            return ~pos
        if mark:
            self._mark = mark
            self._comma()
            self._state = _STRING
            self.out.append('"')
            return pos + len(mark)
        if char in _CLOSERS and not self.key:
            return self._container(char, pos)
        self._comma()
        self._state = _TOKEN
        return pos

    def _string_mark(self, buf: str, pos: int, final: bool) -> str | None:
        left = len(buf) - pos
        for mark in self._dialect.marks:
            if buf.startswith(mark, pos):
                return mark
            if not final and left < len(mark) and mark.startswith(buf[pos:]):
                return None
        return ""

    def _comma(self) -> None:
        # The comma is written once the item after it is seen: a trailing one is fine in Python, and an error in JSON.
        if self._state in (_VALUE, _KEY) and self._wanted and not (self._state == _VALUE and self._wanted[-1] == "}"):
            self.out.append(",")

    def _container(self, char: str, pos: int) -> int:
        if len(self._wanted) >= MAX_DEPTH:
            self.bad = True
            return pos
        self._comma()
        self._wanted.append(_CLOSERS[char])
        self._state = _FIRST_KEY if char == "{" else _FIRST_ITEM
        self.out.append("{" if char == "{" else "[")
        return pos + 1

    def _close(self, pos: int) -> int:
        if self._state == _VALUE and self._wanted[-1] == "}":
            self.bad = True
            return pos
        self.out.append("}" if self._wanted.pop() == "}" else "]")
        self._over()
        return pos + 1

    def _over(self) -> None:
        if self.key:
            self._state = _COLON
            self.key = False
            return
        self._state = _AFTER
        self.done = not self._wanted

    def _separator(self, char: str, pos: int) -> int:
        if self._state == _COLON and char == ":":
            self._state = _VALUE
            self.out.append(":")
        elif self._state == _AFTER and char == ",":
            self._state = _KEY if self._wanted[-1] == "}" else _VALUE
        elif self._state == _AFTER and char == self._wanted[-1]:
            self.key = False
            return self._close(pos)
        else:
            self.bad = True
            return pos
        return pos + 1

    def _string(self, buf: str, pos: int, final: bool) -> int:
        size = len(buf)
        mark = self._mark
        end = -1
        while pos < size:
            if end < pos:
                end = buf.find(mark, pos)
                end = size if end < 0 else end
            slash = buf.find("\\", pos, end) if self._dialect.escapes else -1
            if slash >= 0:
                self._emit(buf[pos:slash])
                after = self._escaped(buf, slash, final)
                if after < 0:
                    return after
                pos = after
                continue
            if end == size:
                return self._unfinished(buf, pos, final)
            self._emit(buf[pos:end])
            closes = self._closes(buf, end + len(mark), final)
            if closes is None:
                return ~end
            if closes:
                self.out.append('"')
                self._over()
                return end + len(mark)
            self._emit(mark)
            pos = end + len(mark)
        return ~pos

    def _emit(self, text: str) -> None:
        if text:
            self.out.append(escape(text))

    def _unfinished(self, buf: str, pos: int, final: bool) -> int:
        """No closing mark has come: pass on all text except a possible beginning of one."""
        keep = 0
        if not final:
            for length in range(min(len(self._mark) - 1, len(buf) - pos), 0, -1):
                if buf.endswith(self._mark[:length]):
                    keep = length
                    break
        self._emit(buf[pos : len(buf) - keep])
        return ~(len(buf) - keep)

    def _closes(self, buf: str, after: int, final: bool) -> bool | None:
        """Whether this mark closes the string. Models forget to escape marks; behind a real one stands a separator or bracket."""
        if not self._dialect.escapes:
            return True
        size = len(buf)
        limit = min(size, after + LOOKAHEAD)
        at = after
        while at < limit and buf[at] in SPACE:
            at += 1
        if at == size:
            return True if final or at - after >= LOOKAHEAD else None
        return at - after >= LOOKAHEAD or buf[at] in ",)]}:"

    def _escaped(self, buf: str, slash: int, final: bool) -> int:
        if slash + 1 >= len(buf):
            if final:
                self.out.append("\\\\")
                return slash + 1
            return ~slash
        char = buf[slash + 1]
        length = _ESCAPES_OF_LENGTH.get(char, 0)
        if length:
            return self._code(buf, slash, length, final)
        if char in _ESCAPES:
            self._emit(_ESCAPES[char])
        elif char in "\\'\"":
            self._emit(char)
        else:
            self._emit("\\" + char)
        return slash + 2

    def _code(self, buf: str, slash: int, length: int, final: bool) -> int:
        digits = buf[slash + 2 : slash + 2 + length]
        if len(digits) < length and not final:
            return ~slash
        try:
            code = int(digits, 16) if len(digits) == length and digits.isalnum() else -1
        except ValueError:
            code = -1
        if code < 0 or code > 0x10FFFF:
            self._emit(buf[slash : slash + 2])
            return slash + 2
        # A lone half of a surrogate pair cannot be written as text, only as an escape.
        if 0xD800 <= code <= 0xDFFF:
            self.out.append(f"\\u{code:04x}")
        else:
            self._emit(chr(code))
        return slash + 2 + length

    def _word(self, buf: str, pos: int, final: bool) -> int:
        stops = ",)]}:=" if not self._dialect.loose else ",]}:" if self.key else ",]}"
        size = len(buf)
        at = pos
        loose = self._dialect.loose
        while at < size and buf[at] not in stops and (loose or buf[at] not in SPACE):
            at += 1
        self._token.append(buf[pos:at])
        self._token_size += at - pos
        if self._token_size > TOKEN_LIMIT:
            self.bad = True
            return at
        if at == size and not final:
            return ~at
        value = self._value_of("".join(self._token).strip())
        self._token.clear()
        self._token_size = 0
        if value is None:
            self.bad = True
            return at
        self.out.append(value)
        self._over()
        return at

    def _value_of(self, token: str) -> str | None:
        if self.key:
            return quote(token) if token else None
        word = _WORDS.get(token)
        if word is not None:
            return word
        if token[:1] in "+-.0123456789" and token:
            if padded(token):
                return quote(token)
            written = integer(token) if "." not in token else None
            written = written or number(token) or based_integer(token)
            if written is not None or not self._dialect.loose:
                return written
        if self._dialect.loose or token.replace(".", "_").isidentifier():
            return quote(token) if token else None
        return None


def based_integer(token: str) -> str | None:
    """Hexadecimal, octal and binary whole numbers."""
    body = token.lstrip("+-").lower()
    if not body.startswith(("0x", "0o", "0b")) or len(body) > 64:
        return None
    try:
        return str(int(token, 0))
    except ValueError:
        return None


def literal_to_json(text: str, dialect: LiteralSyntax = PYTHON) -> str | None:
    """The JSON a whole literal stands for, or None when it is not one."""
    reader = LiteralReader(dialect)
    pos = 0
    while not (reader.done or reader.bad):
        reached = reader.step(text, pos, True)
        if reached < 0:
            break
        pos = reached
    return reader.tail() if reader.done and not text[pos:].strip() else None

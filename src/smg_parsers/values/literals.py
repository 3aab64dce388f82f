"""Literals that are not JSON, turned into JSON while they arrive: Python's, and Gemma's with its own string marks.

Decides: where such a literal ends and what JSON it stands for. Strings are passed on as they come; numbers are rewritten
as text, never through `float`, so that precision and size survive.
Above: `coerce`, the Python-like grammar, and lists of calls written as Python literals. Below: `partial_json`, `base`.
Does not know: tool calls or schemas.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Final

from smg_parsers.json_text.partial_json import MAX_DEPTH
from smg_parsers.pieces.base import LOOKAHEAD, SPACE, Within

TOKEN_LIMIT: Final = 65536
"""Longest number or bare word, in characters."""
GROUP_LIMIT: Final = 1 << 20
"""The most text in round brackets that is held until a comma says whether they are a tuple, in characters."""

_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY, _COLON, _AFTER, _STRING, _TOKEN, _NEXT_STRING = range(9)

_WORDS: Final = {"true": "true", "True": "true", "false": "false", "False": "false", "null": "null", "None": "null"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_ESCAPES_OF_LENGTH: Final = {"x": 2, "u": 4, "U": 8}
_LETTERS: Final = re.compile(r"(?:[uU]|[rR][fF]?|[fF][rR]?)?+")
"""The letters before a string that can be JSON. Bytes cannot, and are no literal here."""
_NUMBER: Final = re.compile(r"([+-]?+)([0-9]*+)(\.?+)([0-9]*+)([eE][+-]?+[0-9]++)?+")
_BRACES: Final = re.compile(r"[{}]")
_CLOSERS: Final = {"[": "]", "(": ")", "{": "}"}


@dataclass(frozen=True, slots=True)
class LiteralSyntax:
    """How one kind of literal is written.

    `marks` delimit strings. `python`: strings and brackets mean what they mean in Python: escapes, letters before a string
    (`r"…"`), strings that follow one another, brackets around one value. `loose`: bare words may hold spaces.
    """

    marks: tuple[str, ...]
    python: bool
    loose: bool


PYTHON: Final = LiteralSyntax(marks=("'''", '"""', "'", '"'), python=True, loose=False)


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


def has_leading_zeros(text: str) -> bool:
    """Whether a text would be a number but for zeros before it. Such a text is more often a code (`02139`) than a number."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits[:1] == "0" and digits[1:2].isdigit()


def number(text: str) -> str | None:
    """A number in JSON's spelling, its digits untouched, or None."""
    found = _NUMBER.fullmatch(text.replace("_", ""))
    if found is None:
        return None
    sign, whole, point, fraction, exponent = found.groups("")
    if not (whole or fraction):
        return None
    sign = "-" if sign == "-" else ""
    return f"{sign}{whole.lstrip('0') or '0'}{'.' + (fraction or '0') if point else ''}{exponent.lower()}"


class LiteralReader:
    """Reads one literal. `out` gathers JSON text (the caller empties it); `done` and `bad` say how it ended."""

    __slots__ = (
        "_dialect",
        "_forgot",
        "_formatted",
        "_groups",
        "_held",
        "_loosens",
        "_mark",
        "_outside",
        "_quoted",
        "_raw",
        "_state",
        "_token",
        "_token_size",
        "_unescaped",
        "_wanted",
        "bad",
        "done",
        "key",
        "out",
    )

    def __init__(self, dialect: LiteralSyntax) -> None:
        self.out: list[str] = []
        self._outside = self.out  # the same outside of round brackets that are not decided
        self.done = False
        self.bad = False
        self.key = False
        self._dialect = dialect
        self._wanted: list[str] = []  # closing brackets that are still to come
        self._state = _VALUE
        self._mark = ""
        self._raw = False  # the string that is open has no escapes
        self._formatted = False  # braces in it stand for values, which are not known
        self._forgot = False  # a mark in it was text, because its escape had been forgotten
        self._unescaped = False  # a mark in a string was text
        self._loosens = 0  # the part of `out` from which on text stands behind it
        self._quoted = 0  # strings that the open one quotes, and that are still open
        self._groups: list[
            tuple[int, list[str]]
        ] = []  # round brackets that may be no tuple: how deep, and `out` outside
        self._held = 0
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
        if self._state == _NEXT_STRING:
            return self._string_begins(buf, pos, final)
        size = len(buf)
        while pos < size and buf[pos] in SPACE:
            pos += 1
        if pos == size:
            return ~pos
        if self._state in (_COLON, _AFTER):
            return self._separator(buf[pos], pos)
        return self._open(buf, pos, final)

    def tail(self) -> str:
        """The text gathered and not yet taken, up to round brackets that are not decided."""
        text = "".join(self._outside)
        self._outside.clear()
        self._loosens = 0
        return text

    def loose(self) -> str:
        """What `tail` is going to give of the text behind a mark whose escape was forgotten."""
        return "".join(self._outside[self._loosens :]) if self._unescaped else ""

    def rest(self) -> str:
        """All text gathered and not yet taken, when no more will come."""
        return "".join("".join(out) for out in (*(outside for _, outside in self._groups), self.out))

    def _open(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if self._wanted and char == self._wanted[-1] and self._state in (_FIRST_ITEM, _FIRST_KEY, _VALUE, _KEY):
            return self._close(pos)
        self.key = self._state in (_FIRST_KEY, _KEY)
        begin, mark = self._string_mark(buf, pos, final)
        if mark is None:
            return ~pos
        if mark:
            self._comma()
            self.out.append('"')
            return self._string_begins(buf, pos, final)
        if char in _CLOSERS and not self.key:
            return self._container(char, pos)
        self._comma()
        self._state = _TOKEN
        return begin

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        passes = self._state == _STRING and not (self._formatted or self._groups or self._unescaped)
        return self._as_written if passes else None

    def _as_written(self, text: str) -> str | None:
        return escape(text) if text and self._mark[0] not in text and "\\" not in text else None

    def _string_begins(self, buf: str, pos: int, final: bool) -> int:
        """Read the opening mark of a string, and the letters before it."""
        begin, mark = self._string_mark(buf, pos, final)
        if not mark:
            return ~pos
        letters = buf[pos:begin].lower()
        self._quoted = 0
        self._mark, self._raw, self._formatted, self._forgot = mark, "r" in letters, "f" in letters, False
        self._state = _STRING
        return begin + len(mark)

    def _string_mark(self, buf: str, pos: int, final: bool) -> tuple[int, str | None]:
        """Where the mark of a string that begins at `pos` stands, and which it is: empty if none does, None if more text is
        needed to tell."""
        size = len(buf)
        letters = _LETTERS.match(buf, pos) if self._dialect.python else None
        begin = letters.end() if letters else pos
        if begin == size and not final:
            return pos, None
        for mark in self._dialect.marks:
            if buf.startswith(mark, begin):
                return begin, mark
            if not final and size - begin < len(mark) and mark.startswith(buf[begin:]):
                return pos, None
        return pos, ""

    def _comma(self) -> None:
        if self._groups:
            self._hold(1)
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
        if char == "(" and self._dialect.python:
            self._groups.append((len(self._wanted), self.out))
            self.out = []
        else:
            self.out.append("{" if char == "{" else "[")
        return pos + 1

    def _hold(self, size: int) -> None:
        self._held += size
        self.bad = self.bad or self._held > GROUP_LIMIT

    @property
    def _undecided(self) -> bool:
        """Whether the innermost brackets are round ones that may be no tuple."""
        return bool(self._groups) and self._groups[-1][0] == len(self._wanted)

    def _decide(self, begin: str) -> None:
        """Say what the innermost round brackets begin with: nothing, if they are no tuple."""
        inside, self.out = self.out, self._groups.pop()[1]
        self.out.append(begin)
        self.out += inside
        if not self._groups:
            self._held = 0

    def _close(self, pos: int) -> int:
        if self._state == _VALUE and self._wanted[-1] == "}":
            self.bad = True
            return pos
        alone = self._undecided and self._state == _AFTER
        if self._undecided:
            self._decide("" if alone else "[")
        closer = "}" if self._wanted.pop() == "}" else "]"
        if not alone:
            self.out.append(closer)
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
            if self._undecided:
                self._decide("[")
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
            slash = buf.find("\\", pos, end) if self._dialect.python or mark == '"' else -1
            if slash >= 0 and not (self._formatted and _BRACES.search(buf, pos, slash)):
                self._emit(buf[pos:slash])
                after = self._escaped(buf, slash, final)
                if after < 0:
                    return after
                pos = after
                continue
            if self._formatted and (brace := _BRACES.search(buf, pos, end)):
                pos = self._brace(buf, pos, brace.start(), final)
                if pos < 0 or self.bad:
                    return pos
                continue
            if end == size:
                return self._unfinished(buf, pos, final)
            self._emit(buf[pos:end])
            behind = end + len(mark)
            closes = self._closes(buf, behind, final)
            if closes is None:
                return ~end
            if closes:
                self.out.append('"')
                self._over()
                return behind
            goes_on = self._goes_on(buf, behind, final)
            if goes_on is None:
                return ~end
            if goes_on:
                self._state = _NEXT_STRING
                return behind + goes_on
            self._forget()
            pos = behind
        return ~pos

    def _forget(self) -> None:
        """A mark in the string is text, because its escape was forgotten, if it can be escaped."""
        self._forgot = True
        if not self._unescaped and (self._dialect.python or self._mark == '"'):
            self._unescaped, self._loosens = True, len(self.out)
        self._emit(self._mark)

    def _goes_on(self, buf: str, behind: int, final: bool) -> int | None:
        """How much white space stands before another string, which Python adds to the one that ends here; 0 if none follows.
        Where a mark in the string was text, it has marks of its own, and so may this one be."""
        at = behind
        while at < len(buf) and buf[at] in SPACE:
            at += 1
        if at == behind or self._forgot or not self._dialect.python:
            return 0
        mark = self._string_mark(buf, at, final)[1]
        return None if mark is None else at - behind if mark else 0

    def _brace(self, buf: str, pos: int, brace: int, final: bool) -> int:
        """A brace in a formatted string: two stand for one, and one alone for a value that is not known."""
        self._emit(buf[pos:brace])
        if brace + 1 == len(buf) and not final:
            return ~brace
        if buf[brace + 1 : brace + 2] != buf[brace]:
            self.bad = True
            return brace
        self._emit(buf[brace])
        return brace + 2

    def _emit(self, text: str) -> None:
        if text:
            self.out.append(encode_basestring(text)[1:-1])
            if self._groups:
                self._hold(len(text))

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
        size = len(buf)
        limit = min(size, after + LOOKAHEAD)
        at = after
        while at < limit and buf[at] in SPACE:
            at += 1
        if at == size and not final and at - after < LOOKAHEAD:
            return None
        follows = at == size or at - after >= LOOKAHEAD or buf[at] in ",)]}:"
        if self._dialect.python or self._mark == '"':
            return follows
        # Marks that cannot be escaped: one that nothing closing follows opens a string that this one quotes.
        if follows and self._quoted:
            self._quoted -= 1
            return False
        self._quoted += not follows
        return follows

    def _escaped(self, buf: str, slash: int, final: bool) -> int:
        if slash + 1 >= len(buf):
            if final:
                self.out.append("\\\\")
                return slash + 1
            return ~slash
        char = buf[slash + 1]
        if self._raw:
            self._emit("\\" + char)
            return slash + 2
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
        if self._groups:
            self._hold(len(value))
        self._over()
        return at

    def _value_of(self, token: str) -> str | None:
        if self.key:
            return quote(token) if token else None
        word = _WORDS.get(token)
        if word is not None:
            return word
        if token[:1] in "+-.0123456789" and token:
            if has_leading_zeros(token):
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

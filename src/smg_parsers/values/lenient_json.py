"""Nearly-JSON arguments, turned into JSON while they arrive: what models write by mistake is mended if it has one meaning.

Decides: which faults are mended, what stands in their place, and how much is held back until a fault is certain: a lone
backslash and the digits behind it, a comma and the white space behind it, a bare word or a number. Valid JSON is passed on
character by character. What is mended: a backslash that escapes nothing; raw control characters (which count as no fault);
a comma too many; comments; strings and names in single quotes; names and words without quotes; Python's words; numbers in
another spelling; closing brackets that are missing before another one or before the call's closing marker.
Above: every grammar whose arguments are JSON, and `coerce`. Below: `base`, `literals`, `partial_json`.
Does not know: tools, schemas, which marker closes which call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from smg_parsers.json_text.partial_json import MAX_DEPTH, JsonScanner, escape_control
from smg_parsers.pieces.base import LOOKAHEAD, NAME_LIMIT, SPACE, Within, match
from smg_parsers.values.literals import based_integer, has_leading_zeros, number, quote

_VALUE, _FIRST_VALUE, _FIRST_KEY, _KEY, _COLON, _AFTER, _STRING, _COMMENT, _LONG_NUMBER = range(9)

_SPACES: Final = re.compile(r"[ \t\r\n]*+")
_IN_QUOTES: Final = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_RUN: Final = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))++').fullmatch
"""Text that is all within a string in double quotes, and is JSON as it stands."""
_IN_SINGLE_QUOTES: Final = re.compile(r"""(?:[^'"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+""")
_COMMA: Final = re.compile(rf',[ \t\r\n]{{0,{LOOKAHEAD}}}(?=["\'{{\[\w.+-])')
"""A comma with the item behind it in sight, so that it is certainly not one too many."""
_BARE_VALUE: Final = re.compile(r"[\w.+\-:]*+")
_BARE_KEY: Final = re.compile(r"[\w.+\-$]*+")
_JSON_WORD: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEX: Final = re.compile(r"[0-9a-fA-F]*+")
_WORDS: Final = {
    "true": "true",
    "false": "false",
    "null": "null",
    "none": "null",
    "undefined": "null",
    **{f"{sign}{word}": "null" for sign in ("", "+", "-") for word in ("nan", "inf", "infinity")},
}
"""Words in any case of letters. JSON has no numbers that are none, so these are null."""
_COMMENTS: Final = ("//", "/*")
_COMMENT_ENDS: Final = {"//": "\n", "/*": "*/"}
_BEHIND_STRING: Final = ",}]\"'{[:"
_LATER: Final = -1
_NO: Final = -2


class LenientJsonReader:
    """Reads one value. `done`: it is complete. `bad`: it cannot be read, even with repairs. `fault`: here a repair is needed,
    and `mend` or `refuse` has to be called. `mended`: there was a repair.

    `closes` are the markers that can stand behind the value: before one of them missing brackets are closed. `lenient`:
    repairs need no permission. `escaped`: every quote in a string is escaped. `loose` is what was read last of the text behind
    a quote that was not. `early`: its brackets were missing before a marker, which a string may have quoted.
    """

    __slots__ = (
        "_closes",
        "_comma",
        "_comment",
        "_copied",
        "_escaped",
        "_key",
        "_lenient",
        "_long",
        "_loosens",
        "_mark",
        "_nesting",
        "_parts",
        "_state",
        "_unescaped",
        "bad",
        "done",
        "early",
        "fault",
        "loose",
        "mended",
        "opens",
    )

    def __init__(self, closes: tuple[str, ...] = (), *, lenient: bool = False, escaped: bool = False) -> None:
        self.done = False
        self.bad = False
        self.fault = False
        self.mended = False
        self.early = False
        self.opens = ""  # the value's first character, if it is a bracket or a quote
        self._closes = closes
        self._lenient = lenient
        self._escaped = escaped
        self._nesting: list[bool] = []  # one entry per open container: whether it is an object
        self._state = _VALUE
        self._key = False  # the string that is open is a member's name
        self._mark = '"'  # the quote that closes it
        self._comma = False  # a comma was read that is written as soon as an item follows it
        self._comment = ("", _VALUE)  # the comment that is open, and the state behind it
        self._long: JsonScanner | None = None
        self._parts: list[str] = []
        self._copied = 0
        self._unescaped = False  # a quote in a string was not escaped
        self._loosens = 0  # the part of what is read from which on it is `loose`
        self.loose = ""

    def take(self, buf: str, pos: int, final: bool = False) -> tuple[str, int]:
        """Read on from `pos`; returns the JSON for what was read, and where that ends. What is left over when the value is
        neither `done` nor `bad` is not decided yet: it has to be given again, with the text behind it."""
        size = len(buf)
        parts = self._parts = []
        self._copied = pos
        self._loosens = 0
        while pos < size and not (self.done or self.bad or self.fault):
            reached = _STATES[self._state](self, buf, pos, final)
            if reached < 0:
                pos = ~reached
                break
            pos = reached
        if not (parts or self._unescaped):
            return buf[self._copied : pos], pos
        parts.append(buf[self._copied : pos])
        self.loose = "".join(parts[self._loosens :]) if self._unescaped else ""
        return "".join(parts), pos

    @property
    def torn(self) -> bool:
        """Whether the value cannot be read behind a string: a quote in that has ended it, perhaps."""
        return self.bad and bool(self._nesting) and self._state in (_AFTER, _COLON, _KEY)

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        return _as_written if self._state == _STRING and self._mark == '"' and not self._unescaped else None

    def mend(self) -> None:
        """Allow the repair that is needed, and all further ones."""
        self._lenient, self.fault = True, False

    def refuse(self) -> str:
        """Forbid the repair: the value cannot be read. Returns a comma that was read and not passed on."""
        self.bad, self.fault = True, False
        return "," if self._comma else ""

    def begin_string(self, mark: str) -> None:
        """Take the opening quote of a value that is one string. A single one is a fault: the reader has to be `lenient`."""
        self.mended = mark == "'"
        self._string_begins(0, mark, key=False)

    def _mend(self, buf: str, at: int, text: str, after: int) -> int:
        """Write `text` in place of what stands between `at` and `after`, if repairs are allowed."""
        if not self._lenient:
            self.fault = True
            return at
        self.mended = True
        self._write(buf, at, text, after)
        return after

    def _write(self, buf: str, at: int, text: str, after: int) -> None:
        self._parts.append(buf[self._copied : at])
        self._parts.append(text)
        self._copied = after

    def _fail(self, buf: str, at: int) -> int:
        self._item(buf, at)
        self.bad = True
        return at

    def _item(self, buf: str, at: int) -> None:
        """Write the comma before the item that begins at `at`, if it has not been written yet."""
        if self._comma:
            self._write(buf, at, ",", at)
            self._comma = False

    def _mend_item(self, buf: str, at: int, text: str, after: int) -> int:
        """As `_mend`, for the beginning of an item."""
        reached = self._mend(buf, at, f",{text}" if self._comma else text, after)
        self._comma = self._comma and self.fault
        return reached

    def _value_over(self) -> None:
        self._state = _AFTER
        self.done = not self._nesting

    def _in_string(self, buf: str, pos: int, final: bool) -> int:
        run = (_IN_QUOTES if self._mark == '"' else _IN_SINGLE_QUOTES).match(buf, pos)
        end = run.end() if run else pos
        if end == len(buf):
            return end
        char = buf[end]
        if char == "\\":
            return self._escape(buf, end)
        if char == self._mark:
            return self._quote(buf, end, final)
        self._write(buf, end, '\\"' if char == '"' else escape_control(char), end + 1)
        return end + 1

    def _escape(self, buf: str, slash: int) -> int:
        """A backslash that begins no escape, or one of which more has to come."""
        char = buf[slash + 1 : slash + 2]
        if not char:
            return ~slash
        if char == "u":
            digits = _HEX.match(buf, slash + 2, slash + 6)
            if digits is None or digits.end() == len(buf):
                return ~slash
        if char == "'":
            return self._mend(buf, slash, "'", slash + 2)
        return self._mend(buf, slash, "\\\\", slash + 1)

    def _quote(self, buf: str, at: int, final: bool) -> int:
        """The end of a string, behind which stands what can follow one: a single quote may be an apostrophe, and a double one
        may not have been escaped. Where a quote or a bracket follows, a comma is missing, which has no single meaning."""
        if self._mark == "'":
            wanted = ":" if self._key else ",}]" if self._nesting else ",:}]"
            verdict = self._follows(buf, at + 1, wanted, final)
            if verdict == _LATER:
                return ~at
            if verdict == _NO:
                return at + 1
            self._write(buf, at, '"', at + 1)
        elif self._nesting and not (self._key or self._escaped):
            behind = buf[at + 1 : at + 2]
            verdict = at if behind and behind in ",}]" else self._follows(buf, at + 1, _BEHIND_STRING, final)
            if verdict == _LATER:
                return ~at
            if verdict == _NO:
                verdict = self._pairs(buf, at + 1, final)
                if verdict != _NO:
                    return ~at if verdict == _LATER else self._mend_quote(buf, at)
        if self._key:
            self._state = _COLON
        else:
            self._value_over()
        return at + 1

    def _mend_quote(self, buf: str, at: int) -> int:
        reached = self._mend(buf, at, '\\"', at + 1)
        if not (self.fault or self._unescaped):
            self._unescaped, self._loosens = True, len(self._parts)
        return reached

    def _pairs(self, buf: str, pos: int, final: bool) -> int:
        """Where another quote stands near, before a closing brace or marker; negative as of `match`. Only then may the one
        before `pos` have been a part of the string."""
        limit = pos + NAME_LIMIT
        at = buf.find('"', pos, limit)
        end = limit if at < 0 else at
        if any(buf.find(mark, pos, end) >= 0 for mark in ("}", *self._closes)):
            return _NO
        return at if at >= 0 else _LATER if len(buf) < limit and not final else _NO

    def _follows(self, buf: str, pos: int, wanted: str, final: bool, *, spaced: bool = False) -> int:
        """Where one of these characters, a comment or a closing marker follows, or more white space than is looked at; negative
        if something else does, or if that is not known yet. `spaced`: a comment has white space before it, since what is joined
        to a bare word is a part of it (`https://…`, `src/*.py`)."""
        limit = min(len(buf), pos + LOOKAHEAD)
        at = pos
        while at < limit and buf[at] in SPACE:
            at += 1
        if at - pos >= LOOKAHEAD:
            return at
        if at == len(buf):
            return at if final else _LATER
        if buf[at] in wanted:
            return at
        found = match(buf, at, self._closes if spaced and at == pos else (*_COMMENTS, *self._closes), final)
        return at if found >= 0 else found

    def _value(self, buf: str, pos: int, final: bool) -> int:
        """Before a value: in an array, behind a colon, or at the very beginning."""
        at = _past_space(buf, pos)
        if at == len(buf):
            return at
        char = buf[at]
        if char == '"':
            self._item(buf, at)
            return self._string_begins(at, char, key=False)
        if char in "{[":
            return self._container(buf, at, char)
        if char == "'" and (self._nesting or self._lenient):
            reached = self._mend_item(buf, at, '"', at + 1)
            return reached if self.fault else self._string_begins(at, char, key=False)
        if char in ",]}" and (self._comma or self._state == _FIRST_VALUE):
            return self._no_item(buf, at, final)
        bare = _BARE_VALUE.match(buf, at)
        end = bare.end() if bare else at
        return self._odd(buf, at, final) if end == at else self._bare_value(buf, at, end, final)

    def _string_begins(self, at: int, mark: str, *, key: bool) -> int:
        self.opens = self.opens or '"'
        self._state, self._mark, self._key = _STRING, mark, key
        return at + 1

    def _container(self, buf: str, at: int, char: str) -> int:
        if len(self._nesting) >= MAX_DEPTH:
            return self._fail(buf, at)
        self._item(buf, at)
        self.opens = self.opens or char
        self._nesting.append(char == "{")
        self._state = _FIRST_KEY if char == "{" else _FIRST_VALUE
        return at + 1

    def _bare_value(self, buf: str, at: int, end: int, final: bool) -> int:
        """A number or a word."""
        if end - at > NAME_LIMIT:
            self._item(buf, at)
            self._long, self._state = JsonScanner(), _LONG_NUMBER
            return at
        if end == len(buf) and (not final or self._nesting):
            return ~at
        ends = self._ends(buf, end, final)
        if ends < 0:
            return ~at if ends == _LATER else self._fail(buf, at)
        word = buf[at:end]
        if _JSON_WORD.fullmatch(word):
            self._item(buf, at)
            self._value_over()
            return end
        written = _WORDS.get(word.lower())
        if not self._nesting and written is None:
            return self._fail(buf, at)
        written = written or (None if has_leading_zeros(word) else number(word) or based_integer(word))
        if written is None:
            verdict = self._follows(buf, end, ",}]", final, spaced=True)
            if verdict < 0:
                return ~at if verdict == _LATER else self._fail(buf, at)
            written = quote(word)
        reached = self._mend_item(buf, at, written, end)
        if not self.fault:
            self._value_over()
        return reached

    def _ends(self, buf: str, end: int, final: bool) -> int:
        """`end`, where a number or a word ends there; negative as of `match` if it goes on, or if that is not known yet. A
        comment that is joined to it begins with white space (`5// metres`): what is joined otherwise is a part of it
        (`7//2`, `2024/*.py`)."""
        if not self._nesting or buf[end : end + 1] != "/":
            return end
        found = match(buf, end, _COMMENTS, final)
        if found < 0:
            return found
        behind = buf[end + 2 : end + 3]
        if not behind and not final:
            return _LATER
        return end if not behind or behind in SPACE else _NO

    def _long_number(self, buf: str, pos: int, final: bool) -> int:
        """A number that is too long to be held back: it has to be JSON."""
        scanner = self._long or JsonScanner()
        end = scanner.scan(buf, pos)
        if scanner.bad:
            return self._fail(buf, end)
        if scanner.done:
            ends = self._ends(buf, end, final)
            if ends < 0:
                return ~end if ends == _LATER else self._fail(buf, end)
            self._value_over()
        return end

    def _member(self, buf: str, pos: int, final: bool) -> int:
        """Before a member's name."""
        at = _past_space(buf, pos)
        if at == len(buf):
            return at
        char = buf[at]
        if char == '"':
            self._item(buf, at)
            return self._string_begins(at, char, key=True)
        if char == "'":
            reached = self._mend_item(buf, at, '"', at + 1)
            return reached if self.fault else self._string_begins(at, char, key=True)
        if char in ",]}" and (self._comma or self._state == _FIRST_KEY):
            return self._no_item(buf, at, final)
        bare = _BARE_KEY.match(buf, at)
        end = bare.end() if bare else at
        return self._odd(buf, at, final) if end == at else self._bare_key(buf, at, end, final)

    def _bare_key(self, buf: str, at: int, end: int, final: bool) -> int:
        if end - at > NAME_LIMIT:
            return self._fail(buf, at)
        verdict = _LATER if end == len(buf) else self._follows(buf, end, ":", final, spaced=True)
        if verdict < 0:
            return ~at if verdict == _LATER else self._fail(buf, at)
        reached = self._mend_item(buf, at, quote(buf[at:end]), end)
        if not self.fault:
            self._state = _COLON
        return reached

    def _no_item(self, buf: str, at: int, final: bool) -> int:
        """A comma or a closing bracket where an item may stand: the comma before it, or the comma itself, is one too many."""
        char = buf[at]
        if char == ",":
            return self._mend(buf, at, "", at + 1)
        if self._comma:
            self._mend(buf, at, "", at)
            if self.fault:
                return at
            self._comma, self._state = False, _AFTER
        return self._close(buf, at, char, final)

    def _colon(self, buf: str, pos: int, final: bool) -> int:
        at = _past_space(buf, pos)
        if at == len(buf):
            return at
        if buf[at] != ":":
            return self._odd(buf, at, final)
        self._state = _VALUE
        return at + 1

    def _after(self, buf: str, pos: int, final: bool) -> int:
        """Behind an item."""
        at = _past_space(buf, pos)
        if at == len(buf):
            return at
        char = buf[at]
        if char == ",":
            return self._behind_comma(buf, at)
        return self._close(buf, at, char, final) if char in "}]" else self._odd(buf, at, final)

    def _behind_comma(self, buf: str, at: int) -> int:
        state = _KEY if self._nesting[-1] else _VALUE
        sure = _COMMA.match(buf, at)
        if sure is not None:
            self._state = state
            return sure.end()
        begin = at + 1
        stop = min(len(buf), begin + LOOKAHEAD)
        while begin < stop and buf[begin] in SPACE:
            begin += 1
        if begin == len(buf):
            return ~at
        # Whether the comma is one too many is seen later; until then it is left out.
        self._write(buf, at, "", at + 1)
        self._comma, self._state = True, state
        return at + 1

    def _close(self, buf: str, at: int, char: str, final: bool) -> int:
        """A closing bracket. Where it closes an object and arrays are open in it, their brackets are missing."""
        if char != ("}" if self._nesting[-1] else "]"):
            if char != "}" or True not in self._nesting:
                return self._fail(buf, at)
            # What goes on behind it says that it was another bracket misspelt.
            verdict = self._follows(buf, at + 1, ",:", final)
            if verdict == _LATER:
                return ~at
            if verdict >= 0 and buf[verdict : verdict + 1] in (",", ":"):
                return self._fail(buf, at)
            missing = self._nesting[::-1].index(True)
            self._mend(buf, at, "]" * missing, at)
            if self.fault:
                return at
            del self._nesting[-missing:]
        self._nesting.pop()
        self._value_over()
        return at + 1

    def _odd(self, buf: str, at: int, final: bool) -> int:
        """What belongs to no value: the marker that closes the call, a comment, or an error."""
        if not self._nesting:
            return self._fail(buf, at)
        found = match(buf, at, (*_COMMENTS, *self._closes), final)
        if found < 0:
            return ~at if found == _LATER else self._fail(buf, at)
        if found < len(_COMMENTS):
            reached = self._mend(buf, at, "", at + len(_COMMENTS[found]))
            if not self.fault:
                self._comment, self._state = (_COMMENTS[found], self._state), _COMMENT
            return reached
        if not (self._comma or self._state in (_AFTER, _FIRST_KEY, _FIRST_VALUE)):
            return self._fail(buf, at)
        self._mend(buf, at, "".join("}" if each else "]" for each in reversed(self._nesting)), at)
        self.done = self.early = not self.fault
        return at

    def _in_comment(self, buf: str, pos: int, final: bool) -> int:
        """A line's comment ends before the call's closing marker too."""
        kind, behind = self._comment
        mark = _COMMENT_ENDS[kind]
        marks = (mark, *self._closes) if kind == "//" else (mark,)
        ends = [(at, at + len(mark) * (each == mark)) for each in marks if (at := buf.find(each, pos)) >= 0]
        if ends:
            end = min(ends)[1]
            self._state = behind
            self._write(buf, pos, "", end)
            return end
        begun = [size for each in marks for size in range(1, len(each)) if buf.endswith(each[:size], pos)]
        end = len(buf) - (max(begun, default=0) if not final else 0)
        self._write(buf, pos, "", end)
        return end if end > pos else ~end


_STATES: Final[tuple[Callable[[LenientJsonReader, str, int, bool], int], ...]] = (
    LenientJsonReader._value,
    LenientJsonReader._value,
    LenientJsonReader._member,
    LenientJsonReader._member,
    LenientJsonReader._colon,
    LenientJsonReader._after,
    LenientJsonReader._in_string,
    LenientJsonReader._in_comment,
    LenientJsonReader._long_number,
)


def _past_space(buf: str, pos: int) -> int:
    found = _SPACES.match(buf, pos)
    return found.end() if found else pos


def _as_written(text: str) -> str | None:
    return text if _RUN(text) else None


def mended_json(text: str) -> str | None:
    """The JSON for a whole text that is JSON or nearly so, or None."""
    reader = LenientJsonReader(lenient=True)
    written, end = reader.take(text, 0, True)
    return written if reader.done and not text[end:].strip(SPACE) else None

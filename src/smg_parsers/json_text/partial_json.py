"""JSON that arrives in parts: follows one value however the text is cut, and reads each character once.

Decides: where a JSON value ends, and whether it is valid JSON so far (RFC 8259). One exception: raw control characters inside
strings, which models write and JSON forbids, are accepted, and `take` escapes them.
Above: every grammar whose arguments are JSON. Below: nothing.
Does not know: tool calls.
"""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 256

_VALUE, _FIRST_VALUE, _FIRST_KEY, _KEY, _COLON, _AFTER, _STRING, _ESCAPE, _HEX, _NUMBER, _WORD, _OVER = range(12)

_HEXDIGITS: Final = frozenset("0123456789abcdefABCDEF")
_CONTROLS: Final = frozenset(chr(code) for code in range(32))
_ESCAPED: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_WORDS: Final = {"t": "true", "f": "false", "n": "null"}
_DIGITS: Final = "0123456789"

# A number as a table: state -> the characters it accepts, by class, and the state each leads to.
_MINUS, _ZERO, _INT, _DOT, _FRACTION, _E, _SIGN, _EXPONENT = range(8)
_NUMBERS: Final[dict[tuple[int, str], int]] = {
    (_MINUS, "0"): _ZERO,
    (_MINUS, "9"): _INT,
    (_ZERO, "."): _DOT,
    (_ZERO, "e"): _E,
    (_INT, "0"): _INT,
    (_INT, "9"): _INT,
    (_INT, "."): _DOT,
    (_INT, "e"): _E,
    (_DOT, "0"): _FRACTION,
    (_DOT, "9"): _FRACTION,
    (_FRACTION, "0"): _FRACTION,
    (_FRACTION, "9"): _FRACTION,
    (_FRACTION, "e"): _E,
    (_E, "+"): _SIGN,
    (_E, "0"): _EXPONENT,
    (_E, "9"): _EXPONENT,
    (_SIGN, "0"): _EXPONENT,
    (_SIGN, "9"): _EXPONENT,
    (_EXPONENT, "0"): _EXPONENT,
    (_EXPONENT, "9"): _EXPONENT,
}
_CLOSABLE: Final = frozenset((_AFTER, _FIRST_KEY, _FIRST_VALUE, _OVER))
_NUMBER_ENDS: Final = frozenset((_ZERO, _INT, _FRACTION, _EXPONENT))
_CLASSES: Final[dict[str, str]] = {
    **dict.fromkeys("123456789", "9"),
    "0": "0",
    ".": ".",
    "e": "e",
    "E": "e",
    "+": "+",
    "-": "+",
}


class JsonScanner:
    """Follows one JSON value. `done`: the value is complete; `bad`: the text is not JSON."""

    __slots__ = ("_depth", "_key", "_nesting", "_part", "_state", "_word", "bad", "controls", "done")

    def __init__(self, max_depth: int = MAX_DEPTH) -> None:
        self.done = False
        self.bad = False
        self.controls: list[int] = []
        self._depth = max_depth
        self._nesting: list[bool] = []  # one entry per open container: whether it is an object
        self._state = _VALUE
        self._key = False
        self._part = 0
        self._word = ""

    def scan(self, buf: str, pos: int) -> int:
        """Follow the value from `pos` on; returns where it ended, broke or ran out of text."""
        self.controls.clear()
        size = len(buf)
        quote = -1
        while pos < size and not (self.done or self.bad):
            if self._state == _STRING:
                # The quote is looked up again only once it has been passed, and escapes only before it: a long string
                # full of escapes stays linear, and so do many short ones without.
                if quote < pos:
                    quote = buf.find('"', pos)
                    quote = size if quote < 0 else quote
                slash = buf.find("\\", pos, quote)
                pos = self._string(buf, pos, quote, size if slash < 0 else slash)
            else:
                pos = self._other(buf, pos)
        return pos

    def take(self, buf: str, pos: int) -> tuple[str, int]:
        """As `scan`; returns also the text that was read, verbatim except that raw control characters in strings are escaped."""
        end = self.scan(buf, pos)
        if not self.controls:
            return buf[pos:end], end
        parts: list[str] = []
        for at in self.controls:
            parts.append(buf[pos:at])
            parts.append(escape_control(buf[at]))
            pos = at + 1
        parts.append(buf[pos:end])
        return "".join(parts), end

    def close(self) -> None:
        """To be called at the end of the text: a number that is the whole value is complete now."""
        if self._state == _NUMBER and not self._nesting and self._part in _NUMBER_ENDS:
            self.done = True

    @property
    def closable(self) -> bool:
        """Whether the text so far, followed by `closers`, is a complete value."""
        return self._state in _CLOSABLE or (self._state == _STRING and not self._key)

    @property
    def in_number(self) -> bool:
        """Whether the text ends in a number that may be complete; the next character decides."""
        return self._state == _NUMBER and self._part in _NUMBER_ENDS

    def closers(self, *, in_string: bool) -> str:
        """The characters that close the open string, if there is one, and every open object and array."""
        return ('"' if in_string else "") + "".join("}" if each else "]" for each in reversed(self._nesting))

    @property
    def in_string(self) -> bool:
        """Whether a string that is a value is open."""
        return self._state == _STRING and not self._key

    def _string(self, buf: str, pos: int, quote: int, slash: int) -> int:
        end = min(quote, slash)
        segment = buf[pos:end]
        if not segment.isprintable():
            self.controls.extend(at for at, char in enumerate(segment, pos) if char in _CONTROLS)
        if end == len(buf):
            return end
        if slash == end:
            self._state = _ESCAPE
        elif self._key:
            self._state = _COLON
        else:
            self._value_over()
        return end + 1

    def _other(self, buf: str, pos: int) -> int:
        state = self._state
        char = buf[pos]
        if state == _NUMBER:
            return self._number(char, pos)
        if state == _ESCAPE:
            if char == "u":
                self._state, self._part = _HEX, 0
            elif char in '"\\/bfnrt':
                self._state = _STRING
            else:
                self.bad = True
                return pos
            return pos + 1
        if state == _HEX:
            return self._hex(char, pos)
        if state == _WORD:
            return self._rest_of_word(char, pos)
        if char in " \t\r\n":
            return pos + 1
        return self._structure(state, char, pos)

    def _structure(self, state: int, char: str, pos: int) -> int:
        if char == '"' and state in (_VALUE, _FIRST_VALUE, _KEY, _FIRST_KEY):
            self._key = state in (_KEY, _FIRST_KEY)
            self._state = _STRING
        elif state == _COLON and char == ":":
            self._state = _VALUE
        elif state == _AFTER and char == ",":
            self._state = _KEY if self._nesting[-1] else _VALUE
        elif self._closes(char, state):
            self._nesting.pop()
            self._value_over()
        elif state in (_VALUE, _FIRST_VALUE):
            return self._value(char, pos)
        else:
            self.bad = True
            return pos
        return pos + 1

    def _closes(self, char: str, state: int) -> bool:
        if char == "}":
            return state in (_AFTER, _FIRST_KEY) and self._nesting[-1]
        return char == "]" and state in (_AFTER, _FIRST_VALUE) and not self._nesting[-1]

    def _value(self, char: str, pos: int) -> int:
        if char in "{[":
            if len(self._nesting) >= self._depth:
                self.bad = True
                return pos
            self._nesting.append(char == "{")
            self._state = _FIRST_KEY if char == "{" else _FIRST_VALUE
        elif char in _WORDS:
            self._state, self._word, self._part = _WORD, _WORDS[char], 1
        elif char == "-":
            self._state, self._part = _NUMBER, _MINUS
        elif char in _DIGITS:
            self._state, self._part = _NUMBER, _ZERO if char == "0" else _INT
        else:
            self.bad = True
            return pos
        return pos + 1

    def _number(self, char: str, pos: int) -> int:
        follow = _NUMBERS.get((self._part, _CLASSES.get(char, "")))
        if follow is not None:
            self._part = follow
            return pos + 1
        if self._part in _NUMBER_ENDS:
            self._value_over()
        else:
            self.bad = True
        return pos

    def _hex(self, char: str, pos: int) -> int:
        if char not in _HEXDIGITS:
            self.bad = True
            return pos
        self._part += 1
        if self._part == 4:
            self._state = _STRING
        return pos + 1

    def _rest_of_word(self, char: str, pos: int) -> int:
        if char != self._word[self._part]:
            self.bad = True
            return pos
        self._part += 1
        if self._part == len(self._word):
            self._value_over()
        return pos + 1

    def _value_over(self) -> None:
        self._state = _AFTER
        if not self._nesting:
            self._state = _OVER
            self.done = True


def escape_control(char: str) -> str:
    """One control character as a JSON escape."""
    return _ESCAPED.get(char) or f"\\u{ord(char):04x}"


def is_json(text: str, max_depth: int = MAX_DEPTH) -> bool:
    """Whether the whole text, white space aside, is one JSON value."""
    scanner = JsonScanner(max_depth)
    end = scanner.scan(text, 0)
    scanner.close()
    return scanner.done and not text[end:].strip(" \t\r\n")

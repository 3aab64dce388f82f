"""Regular expressions for free text, as the text is spelled inside a model's call.

A text is written into a call with quotes and backslashes escaped, so an engine that samples the call needs another expression:
one for the escaped text. Decides which expressions can be translated, and translates them: each character becomes its
spelling, everything else stays. What the engines' regular languages do not have (look-around, back-references, flags, anchors
inside, word boundaries, properties) is refused. Nothing is matched here.
Above: `constraints`. Below: the standard library. Does not know: families, tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Ranges = list[tuple[int, int]]

MOST_CHARACTERS: Final = 16_384
MOST_REPEATS: Final = 1000
MOST_NESTING: Final = 32
_LAST: Final = 0x10FFFF
_DIGITS: Final[Ranges] = [(0x30, 0x39)]
_WORD: Final[Ranges] = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
_SPACE: Final[Ranges] = [(0x09, 0x0D), (0x20, 0x20)]
_CLASSES: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_META: Final = frozenset("\\.^$|?*+()[]{}")
_CLASS_META: Final = frozenset("\\]^[-")
_HEX_LENGTHS: Final = {"x": 2, "u": 4, "U": 8}


class PatternError(ValueError):
    """The expression is malformed or cannot be translated; the message says why and where."""


@dataclass(frozen=True, slots=True, eq=False)
class Spelling:
    """How a text is written: `escapes` maps characters to their escapes; other characters of the range `never` cannot occur."""

    escapes: Mapping[str, str] = field(default_factory=dict)
    never: tuple[int, int] | None = None


_WHITE: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
RAW: Final = Spelling()
JSON: Final = Spelling({'"': '\\"', **_WHITE}, (0, 0x1F))
PYTHON: Final = Spelling({"'": "\\'", **_WHITE}, (0, 0x1F))
"""In single quotes; in double ones a text is spelled as in JSON."""


def spelled(pattern: str, spelling: Spelling = RAW, *, ignore_case: bool = False, dot_all: bool = False) -> str:
    """The expression for the spelled text. `pattern` matches a text as a whole; classes such as \\d mean ASCII.
    `ignore_case`: letters of ASCII match in both cases. `dot_all`: a dot matches a line feed too. Raises PatternError."""
    return _Translation(pattern, spelling, ignore_case=ignore_case, dot_all=dot_all).run()


def literal(text: str) -> str:
    """The expression that matches `text` alone."""
    return "".join("\\" + char if char in _META else _rendered(ord(char), frozenset()) for char in text)


class _Translation:
    """One pass over an expression."""

    def __init__(self, pattern: str, spelling: Spelling, *, ignore_case: bool, dot_all: bool) -> None:
        if len(pattern) > MOST_CHARACTERS:
            raise PatternError(f"it has more than {MOST_CHARACTERS} characters")
        self._ignore_case = ignore_case
        self._dot: Ranges = [] if dot_all else [(0x0A, 0x0A)]
        self._source = pattern
        self._at = 1 if pattern.startswith("^") else 0
        self._size = len(pattern)
        if pattern.endswith("$") and (len(pattern) - len(pattern[:-1].rstrip("\\"))) % 2 == 1:
            self._size -= 1
        self._spelling = spelling
        self._out: list[str] = []
        self._depth = 0
        self._atom = False  # whether there is something that can be repeated

    def run(self) -> str:
        while self._at < self._size:
            char = self._take()
            if char == "(":
                self._open()
            elif char == ")":
                self._depth -= 1
                if self._depth < 0:
                    raise self._wrong("a group ends that has not begun")
                self._put(")")
            elif char == "|":
                self._out.append("|")
                self._atom = False
            elif char in "*+?{":
                self._repeat(char)
            elif char in "^$":
                raise self._wrong("an anchor stands inside")
            else:
                self._characters(char)
        if self._depth:
            raise self._wrong("a group does not end")
        text = "".join(self._out)
        return f"(?:{text})" if "|" in text else text

    def _characters(self, char: str) -> None:
        if char == "[":
            self._put(self._class())
        elif char == ".":
            self._put(self._set(self._dot, negated=True))
        elif char == "\\":
            found = self._escape()
            self._put(self._letter(found) if isinstance(found, str) else self._set(*found))
        else:
            self._put(self._letter(char))

    # ------------------------------------------------------------------------------------------------ groups, repeats

    def _open(self) -> None:
        self._depth += 1
        if self._depth > MOST_NESTING:
            raise self._wrong(f"groups are nested more than {MOST_NESTING} deep")
        if self._next("?") and not self._next(":"):
            self._next("P")
            if not self._next("<") or self._peek("=") or self._peek("!"):
                raise self._wrong("look-around and flags are not supported")
            self._until(">")
        self._out.append("(?:")
        self._atom = False

    def _repeat(self, char: str) -> None:
        if not self._atom:
            raise self._wrong("there is nothing to repeat")
        text = char if char != "{" else self._counts()
        self._next("?")  # lazy: the same texts
        self._out.append(text)
        self._atom = False

    def _counts(self) -> str:
        low, comma, high = self._until("}").partition(",")
        if not low.isdecimal() or not low.isascii() or (high and not (high.isdecimal() and high.isascii())):
            raise self._wrong("a brace begins no repetition")
        least, most = int(low[:6]), int(high[:6] or low[:6])
        if max(least, most) > MOST_REPEATS or most < least:
            raise self._wrong(f"a repetition is not of 0 to {MOST_REPEATS}")
        return f"{{{low}{comma}{high}}}"

    # ----------------------------------------------------------------------------------------------------- characters

    def _escape(self) -> str | tuple[Ranges, bool]:
        """The character, or the class and whether it is negated, of an escape."""
        char = self._take()
        if char.lower() in _CLASSES:
            return _CLASSES[char.lower()], char.isupper()
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in _HEX_LENGTHS:
            return self._code_point(char)
        if char.isalnum():
            raise self._wrong(f"\\{char} is not supported")
        return char

    def _code_point(self, kind: str) -> str:
        braced = self._next("{")
        digits = self._until("}") if braced else "".join(self._take() for _ in range(_HEX_LENGTHS[kind]))
        if not digits or len(digits) > 8 or any(each not in "0123456789abcdefABCDEF" for each in digits):
            raise self._wrong(f"\\{kind} is not followed by a number")
        code = int(digits, 16)
        if code > _LAST or 0xD800 <= code < 0xE000:
            raise self._wrong(f"\\{kind}{digits} is no character")
        return chr(code)

    def _class(self) -> str:
        negated = self._next("^")
        ranges: Ranges = []
        first = True
        while first or not self._peek("]"):
            first = False
            ranges += self._member()
        self._take()
        return self._set(ranges, negated)

    def _member(self) -> Ranges:
        low = self._one_of_class()
        if not isinstance(low, str):
            return low
        if not self._peek("-") or self._source[self._at + 1 : self._at + 2] in ("]", ""):
            return [(ord(low), ord(low))]
        self._take()
        high = self._one_of_class()
        if not isinstance(high, str) or ord(high) < ord(low):
            raise self._wrong("a range in a class is the wrong way round")
        return [(ord(low), ord(high))]

    def _one_of_class(self) -> str | Ranges:
        char = self._take()
        if char == "[" and (self._peek(":") or self._peek("=") or self._peek(".")):
            raise self._wrong("named classes are not supported")
        if char != "\\":
            return char
        found = self._escape()
        if isinstance(found, str):
            return found
        ranges, negated = found
        return _without([(0, _LAST)], ranges) if negated else ranges

    def _letter(self, char: str) -> str:
        """One character of the expression, in both cases where case is ignored."""
        if self._ignore_case and char.isascii() and char.isalpha():
            return f"[{char.upper()}{char.lower()}]"
        return self._literal(char)

    def _literal(self, char: str) -> str:
        """One character, spelled."""
        if (escape := self._spelling.escapes.get(char)) is not None:
            return "".join("\\" + each if each in _META else each for each in escape)
        never = self._spelling.never
        if never is not None and never[0] <= ord(char) <= never[1]:
            raise self._wrong(f"the character {ord(char):#x} cannot be written")
        return "\\" + char if char in _META else _rendered(ord(char), frozenset())

    def _set(self, ranges: Ranges, negated: bool) -> str:
        """One character of a class, spelled: any that is written as it is, or one of the escapes."""
        if self._ignore_case:
            ranges = [*ranges, *_other_case(ranges)]
        allowed = _without([(0, _LAST)], ranges) if negated else ranges
        taken: Ranges = [(ord(each), ord(each)) for each in self._spelling.escapes]
        if self._spelling.never is not None:
            taken.append(self._spelling.never)
        plain = _without(allowed, taken)
        text = f"[^{_listed([*ranges, *taken])}]" if negated else f"[{_listed(plain)}]"
        escapes = [self._literal(each) for each in self._spelling.escapes if _holds(allowed, ord(each))]
        options = [*([text] if plain else []), *escapes]
        if not options:
            raise self._wrong("a class allows no character")
        return options[0] if len(options) == 1 else f"(?:{'|'.join(options)})"

    # -------------------------------------------------------------------------------------------------------- reading

    def _put(self, text: str) -> None:
        """Something that can be repeated."""
        self._out.append(text if len(text) < 3 or text[0] in "([)" else f"(?:{text})")
        self._atom = True

    def _peek(self, char: str) -> bool:
        return self._source[self._at : self._at + 1] == char

    def _next(self, char: str) -> bool:
        if self._at < self._size and self._peek(char):
            self._at += 1
            return True
        return False

    def _take(self) -> str:
        if self._at >= self._size:
            raise self._wrong("it ends too early")
        self._at += 1
        return self._source[self._at - 1]

    def _until(self, end: str) -> str:
        found = self._source.find(end, self._at, self._size)
        if found < 0:
            raise self._wrong(f"{end!r} is missing")
        text, self._at = self._source[self._at : found], found + 1
        return text

    def _wrong(self, what: str) -> PatternError:
        return PatternError(f"at character {self._at}: {what}")


def _holds(ranges: Ranges, code: int) -> bool:
    return any(low <= code <= high for low, high in ranges)


def _other_case(ranges: Ranges) -> Ranges:
    """The letters of ASCII in `ranges`, in the other case."""
    found: Ranges = []
    for low, high in ranges:
        for first, last, away in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)):
            start, end = max(low, first), min(high, last)
            found += [(start + away, end + away)] if start <= end else []
    return found


def _without(ranges: Ranges, taken: Ranges) -> Ranges:
    """The parts of `ranges` that are in none of `taken`."""
    left = ranges
    for low, high in taken:
        kept: Ranges = []
        for start, end in left:
            kept += [(start, min(end, low - 1))] if start < low else []
            kept += [(max(start, high + 1), end)] if end > high else []
        left = kept
    return left


def _listed(ranges: Ranges) -> str:
    return "".join(
        _rendered(low, _CLASS_META) + ("" if low == high else "-" + _rendered(high, _CLASS_META))
        for low, high in ranges
    )


def _rendered(code: int, meta: frozenset[str]) -> str:
    char = chr(code)
    if char in meta:
        return "\\" + char
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return char

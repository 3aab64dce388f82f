r"""Takes the patterns of a response template apart: into literal texts, named groups, and gaps of white space.

Decides: which texts a pattern matches, for the few constructs that such patterns are made of: characters, escapes, alternatives,
optional parts, `\s*` and named groups, whose inside is not looked at. Nothing is run; all other constructs are refused by name.
Above: `response_templates`. Below: the standard library.
Does not know: what the texts mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

MOST_CHARACTERS: Final = 1024
"""Longest pattern that is read."""
MOST_ALTERNATIVES: Final = 16
"""The most texts that one pattern may stand for."""
MOST_NESTING: Final = 8
"""The most groups within one another."""
GAP: Final = "\v"
"""White space of any length, or none; no pattern holds this character itself."""
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_SPECIAL: Final = frozenset(".^$*+?{}[]|()")


class UnreadPattern(ValueError):
    """A pattern with a construct that is not read."""


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """A named group; what it matches is not looked at."""

    name: str


Pieces: TypeAlias = tuple["str | NamedGroup", ...]


def choices_of(pattern: str) -> list[Pieces]:
    """All the sequences of texts, gaps and groups that a pattern stands for. Raises `UnreadPattern`."""
    if len(pattern) > MOST_CHARACTERS or GAP in pattern:
        raise UnreadPattern(f"a pattern of more than {MOST_CHARACTERS} characters, or with a vertical tab, is not read")
    reader = _Reader(pattern)
    found = reader.either(0)
    if reader.at < len(pattern):
        raise UnreadPattern(f"{pattern!r} closes a group that is not open")
    return [_joined(each) for each in found]


def literals(pattern: str) -> tuple[str, ...]:
    """The texts that a pattern without groups matches, white space at their edges aside; the output's end is none of them."""
    texts: dict[str, None] = {}
    for pieces in choices_of(pattern):
        kept = [piece for piece in pieces if piece != GAP]
        if len(kept) > 1 or any(isinstance(piece, NamedGroup) for piece in kept):
            raise UnreadPattern(f"{pattern!r} is more than a choice of texts")
        texts.update(dict.fromkeys(str(piece) for piece in kept))
    return tuple(text for text in texts if text)


def _joined(pieces: Pieces) -> Pieces:
    """Neighbouring texts joined into one; gaps and groups stand alone."""
    out: list[str | NamedGroup] = []
    for piece in pieces:
        last = out[-1] if out else GAP
        if isinstance(piece, str) and isinstance(last, str) and GAP not in (piece, last):
            out[-1] = last + piece
        elif piece != GAP or last != GAP or not out:
            out.append(piece)
    return tuple(out)


class _Reader:
    """Reads one pattern from its beginning to its end."""

    __slots__ = ("_pattern", "at")

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0

    def either(self, depth: int) -> list[Pieces]:
        """Alternatives, up to the pattern's end or to the parenthesis that closes their group."""
        if depth > MOST_NESTING:
            raise UnreadPattern(f"{self._pattern!r} has groups within groups more than {MOST_NESTING} deep")
        found = self._sequence(depth)
        while self._takes("|"):
            found += self._sequence(depth)
        return self._bounded(found)

    def _sequence(self, depth: int) -> list[Pieces]:
        found: list[Pieces] = [()]
        while self.at < len(self._pattern) and self._pattern[self.at] not in "|)":
            part = self._part(depth)
            found = self._bounded([(*before, *behind) for before in found for behind in part])
        return found

    def _part(self, depth: int) -> list[Pieces]:
        """One character or group, with what is said about how often it comes."""
        part, space = self._atom(depth)
        if self._takes("?"):
            return [(GAP,)] if space else [(), *part]
        if self._takes("*") or self._takes("+"):
            self._takes("?")
            if not space:
                raise UnreadPattern(f"{self._pattern!r} repeats something else than white space")
            return [(GAP,)]
        return part

    def _atom(self, depth: int) -> tuple[list[Pieces], bool]:
        """A character or group, and whether it is white space."""
        if self._takes("(?:"):
            return self._closed(self.either(depth + 1)), False
        if self._takes("(?="):
            self._closed(self.either(depth + 1))
            return [()], False  # what follows is not a part of the text
        if self._takes("(?P<"):
            return self._named(), False
        if self._takes("$") or self._takes("\\Z"):
            return [()], False
        if self._takes("\\"):
            return self._escape()
        char = self._pattern[self.at]
        if char in _SPECIAL:
            raise UnreadPattern(f"{self._pattern!r} has {char!r}, which is not read")
        self.at += 1
        return [(char,)], char.isspace()

    def _escape(self) -> tuple[list[Pieces], bool]:
        if self.at == len(self._pattern):
            raise UnreadPattern(f"{self._pattern!r} ends in a backslash")
        char = self._pattern[self.at]
        self.at += 1
        if char == "s":
            return [(GAP,)], True
        if char.isalnum() and char not in _ESCAPED:
            raise UnreadPattern(f"{self._pattern!r} has '\\{char}' outside a group, which is not read")
        text = _ESCAPED.get(char, char)
        return [(text,)], text.isspace()

    def _named(self) -> list[Pieces]:
        """A named group, to its closing parenthesis."""
        end = self._pattern.find(">", self.at)
        name = self._pattern[self.at : end]
        if end < 0 or not name.isidentifier():
            raise UnreadPattern(f"{self._pattern!r} has a group without a name")
        self.at = end + 1
        depth, in_class = 1, False
        while depth:
            if self.at >= len(self._pattern):
                raise UnreadPattern(f"{self._pattern!r} leaves a group open")
            char = self._pattern[self.at]
            self.at += 2 if char == "\\" else 1
            if in_class:
                in_class = char != "]"
            elif char == "[":
                in_class = True
                self._takes("^")
                self._takes("]")
            else:
                depth += {"(": 1, ")": -1}.get(char, 0)
        return [(NamedGroup(name),)]

    def _closed(self, found: list[Pieces]) -> list[Pieces]:
        if not self._takes(")"):
            raise UnreadPattern(f"{self._pattern!r} leaves a group open")
        return found

    def _takes(self, text: str) -> bool:
        taken = self._pattern.startswith(text, self.at)
        self.at += len(text) if taken else 0
        return taken

    def _bounded(self, found: list[Pieces]) -> list[Pieces]:
        if len(found) > MOST_ALTERNATIVES:
            raise UnreadPattern(f"{self._pattern!r} stands for more than {MOST_ALTERNATIVES} texts")
        return found

"""Mends an answer that must be one JSON object or array, as it arrives, if its meaning is certain.

Decides: which faults are mended (it was cut off; it stands in a code fence; words follow it; its strings hold raw control
characters), and how much is held back so that a cut can still be closed: at most a member's name, a number or a word. A
number at a cut is left out with its name, because digits may be missing. If mending gives nothing that `fits`, the text is
passed on as it was written, without a fence. Above: `smg_core`, which checks and sends answers. Below: `partial_json`.
Does not know: schemas, requests, why a text ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from smg_parsers.json_text.partial_json import JsonScanner

_SPACE: Final = " \t\r\n"
_FENCE: Final = "```"
_FENCE_LINE: Final = re.compile(r"```[A-Za-z0-9]{0,16}[ \t]{0,16}\r?\n")
_FENCE_BEGUN: Final = re.compile(r"`{1,2}|```[A-Za-z0-9]{0,16}[ \t]{0,16}\r?")
_TOKENS: Final = re.compile(r'["\\{}\[\],:]|[ \t\r\n]+|[^"\\{}\[\],: \t\r\n]+')
_HALF: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
_ENDS_NUMBER: Final = frozenset(",]}" + _SPACE)
_BEFORE, _WITHIN, _BEHIND, _AS_WRITTEN = range(4)

Fits = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Mended:
    """The `rest` of a text to send, and the `faults` that were mended: none if the text was right, or was not mended."""

    rest: str
    faults: tuple[str, ...] = ()


class JsonMender:
    """Mends one text: call `feed` with the text as it arrives, send what it returns, then call `finish`."""

    __slots__ = ("_faults", "_fenced", "_held", "_in_string", "_place", "_scanner")

    def __init__(self) -> None:
        self._place = _BEFORE
        self._scanner = JsonScanner()
        self._held: list[str] = []  # what came behind the last place at which the text can be closed
        self._in_string = False  # whether that place is inside a string
        self._fenced = False
        self._faults: dict[str, None] = {}

    def feed(self, text: str) -> str:
        """The text that can be sent now."""
        space = ""
        if self._place == _BEFORE:
            space, text = self._begin(text)
        if self._place == _WITHIN:
            return space + self._follow(text)
        if self._place == _AS_WRITTEN:
            return space + text
        if text:
            self._held.append(text)
        return space

    def finish(self, sent: str, fits: Fits) -> Mended:
        """End the text. `sent` is all that `feed` has returned; `fits` says whether a whole text is acceptable."""
        held = "".join(self._held)
        if self._place == _BEHIND:
            return self._end_behind(sent, held, fits)
        if self._place == _WITHIN:
            closers = self._scanner.closers(in_string=self._in_string)
            if fits(sent + closers):
                return Mended(closers, (*self._faults, "it was cut off"))
        return Mended(held)

    def as_written(self) -> str:
        """The text held back, for a caller that sends the text without mending."""
        return "".join(self._held)

    def _end_behind(self, sent: str, held: str, fits: Fits) -> Mended:
        left = held.strip(_SPACE)
        if self._fenced:
            left = left.removeprefix(_FENCE).strip(_SPACE)
        if not left:
            faults = tuple(self._faults)
            if faults and not fits(sent):
                faults = ()
            return Mended("" if self._fenced else held, faults)
        if "{" not in left and "[" not in left and fits(sent):
            return Mended("", (*self._faults, "words follow it"))
        return Mended(held)

    def _begin(self, text: str) -> tuple[str, str]:
        """Look for the beginning of the value. Returns the white space before it, and the text to read on or to send. Text
        that may be the beginning of a fence is held back."""
        held = "".join(self._held) + text
        self._held.clear()
        found = held.lstrip(_SPACE)
        space = held[: len(held) - len(found)]
        if found.startswith(("{", "[")):
            self._place = _WITHIN
        elif not self._fenced and (fence := _FENCE_LINE.match(found)):
            self._fenced = True
            self._faults["it stands in a code fence"] = None
            inner, found = self._begin(found[fence.end() :])
            space += inner
        elif found and (self._fenced or not _FENCE_BEGUN.fullmatch(found)):
            self._place = _AS_WRITTEN
        return space, found

    def _follow(self, text: str) -> str:
        """Read on in the value, token by token; hold back the text behind the last place where it can be closed."""
        sent: list[str] = []
        scanner, held = self._scanner, self._held
        at = 0
        for token in _TOKENS.finditer(text):
            if scanner.in_number and token[0][0] in _ENDS_NUMBER:
                self._release(sent, in_string=False)
            written, end = scanner.take(token[0], 0)
            if scanner.controls:
                self._faults["control characters are raw in it"] = None
            held.append(written)
            if scanner.closable and not self._half_a_character():
                self._release(sent, in_string=scanner.in_string)
            at = token.start() + end
            if scanner.done or scanner.bad:
                return "".join(sent) + self._past(text[at:])
        return "".join(sent)

    def _half_a_character(self) -> bool:
        """Whether the text held back ends with the first half of a surrogate pair."""
        return self._held[0] == "\\" and _HALF.search("".join(self._held)) is not None

    def _release(self, sent: list[str], *, in_string: bool) -> None:
        sent += self._held
        self._held.clear()
        self._in_string = in_string

    def _past(self, rest: str) -> str:
        """The value is over, or is no JSON; `rest` follows it. Returns the text to send."""
        if self._scanner.done:
            self._place = _BEHIND
            if rest:
                self._held.append(rest)
            return ""
        self._place = _AS_WRITTEN
        held = "".join(self._held)
        self._held.clear()
        return held + rest

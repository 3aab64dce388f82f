"""One value of a tagged call on its way out, and its possible ends until one is certain.

Decides: what is passed on at once, what is held until the value is whole, and which of several places is the value's end when
the output ends and none was certain. A value may quote calls; of two readings the one with fewer calls wins.
Above: `tool_xml`. Below: `base`, `literals`, `tool_xml_ends`.
Does not know: tags, or what a value becomes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from smg_parsers.grammars.tool_xml_ends import (
    CLOSED_AND_CALL,
    END_AND_CALL,
    ENDS,
    IN_CALL_END,
    IN_CALL_NEXT,
    LAST,
    LAST_AND_CALL,
    MISSING,
    NEXT,
    SUSPECT,
)
from smg_parsers.pieces.base import NAME_LIMIT, Sink
from smg_parsers.values.literals import escape

NULL: Final = "null"
"""What is null even where a schema admits strings only."""
VALUE_LIMIT: Final = 1 << 20
"""Longest value that is held until it is whole, in characters; a longer one is taken for a string and streamed."""


@dataclass(frozen=True, slots=True)
class EndPlace:
    """A place where the value may end: `offset` from where it began to be undecided, and what stands there. `doubtful`: calls
    that are found behind it may be a part of the value."""

    offset: int
    kind: int
    doubtful: bool = False


class ValueText:
    """The text of one value. `line`: it ends at the beginning of a line. `buffered`: it is held until it is whole. `skipped`: it
    is read and left out. `word`: it is held as long as it may be `null`. `undecided`: it may have ended already. `calls`,
    `parameters`: how many calls, and parameters outside of calls, it quotes that are still open.
    """

    __slots__ = (
        "_behind",
        "_elements",
        "_held",
        "_places",
        "_searched",
        "_since",
        "_sink",
        "_size",
        "_undecided",
        "buffered",
        "calls",
        "line",
        "parameters",
        "skipped",
        "undecided",
        "word",
    )

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._held: list[str] = []
        self._size = 0
        self._elements: set[str] = set()  # the elements that have been found in it,
        self._searched = (0, "")  # in how much of it, and the end of that
        self._undecided: list[str] = []  # what came behind the first place where the value may have ended
        self._since = 0  # its size
        self._places: list[EndPlace] = []
        self._behind: str | None = None  # the little that has come since the last closing tags of a call
        self.line = True
        self.undecided = False
        self.buffered = False
        self.skipped = False
        self.word = False
        self.calls = 0
        self.parameters = 0

    def begin(self, *, buffered: bool, skipped: bool, word: bool = False) -> None:
        """Begin another value."""
        self.buffered, self.skipped, self.word = buffered or word, skipped, word
        self.line = True
        self._size = self.calls = self.parameters = 0
        self._held.clear()
        self._elements.clear()
        self._searched = (0, "")
        self._forget()

    def write(self, text: str) -> None:
        """The next part of the value."""
        if not text:
            return
        if self.is_through:
            self._sink.arguments(self.through(text))
            return
        self.line = _begins_line(text, self.line)
        if self.undecided or self._behind is not None:
            self._write_quoted(text)
        else:
            self._put(text)

    @property
    def is_through(self) -> bool:
        """Whether the next part goes through at once."""
        return not (self.buffered or self.undecided) and self._behind is None

    def through(self, text: str) -> str:
        """The JSON for the next part of a value, which the caller passes on."""
        self.line = _begins_line(text, self.line)
        return escape(text)

    def _write_quoted(self, text: str) -> None:
        if self._behind is not None:
            self._behind = self._behind + text if len(self._behind) + len(text) <= NAME_LIMIT else None
        if not self.undecided:
            self._put(text)
            return
        self._undecided.append(text)
        self._since += len(text)
        self._sink.undecided -= len(text)
        if self._sink.undecided < 0:
            self.goes_on()

    def mark(self, kind: int, before: str, tag: str, fillers: tuple[str, ...]) -> None:
        """Note that the value may end behind `before`, at `tag`; both are written. Closing tags in a row, with only `fillers`
        between, are one such place, or none behind the end of a call that is quoted."""
        more = self._sink.undecided > 0
        if self.undecided:
            self.write(before)
            before, more = "", bool(self._places)
        closes = kind in (LAST, LAST_AND_CALL, CLOSED_AND_CALL)
        if more and not (closes and self._in_a_row(before, fillers)):
            self._places.append(EndPlace(self._since + len(before), kind))
            self.undecided = True
        self.write(before + tag)
        self._behind = "" if closes else None

    def _in_a_row(self, before: str, fillers: tuple[str, ...]) -> bool:
        if self._behind is None:
            return False
        between = self._behind + before
        for each in fillers:
            between = between.replace(each, "")
        return not between.strip()

    def call_closes(self, text: str) -> None:
        """A call that the value quotes ends with this text. Closing tags right behind it are its own."""
        self.calls -= 1
        self.write(text)
        self._behind = ""

    def elements(self, space: str, more: str) -> set[str]:
        """The names of the elements in the value and in `more` of it. Their tags begin with `space`. What was searched is not
        searched again."""
        parts, end = self._searched
        text = end + "".join(self._held[parts:])
        self._searched = (len(self._held), text[-NAME_LIMIT:])
        self._elements.update(re.findall(rf"{re.escape(space)}<([\w.-]+)>", text + more))
        return self._elements

    def goes_on(self) -> None:
        """The value did not end at any of the places."""
        text = "".join(self._undecided)
        self._forget()
        self._put(text)

    def _forget(self) -> None:
        self._undecided.clear()
        self._places.clear()
        self._since = 0
        self._behind = None
        self.undecided = False

    def nexts(self) -> list[tuple[EndPlace, str]]:
        """The places at which a parameter may begin, and the text from there on up to now."""
        text = "".join(self._undecided)
        return [(EndPlace(each.offset, MISSING), text[each.offset :]) for each in self._places if each.kind == NEXT]

    def settle(self) -> EndPlace | None:
        """The place where the value has ended, now that the output is over and no end was certain; None if there is none."""
        return _chosen(self._places)

    def reread(self) -> None:
        """Forget what was undecided: it is read again. The calls it quoted are no longer open."""
        self._sink.reread = self._since
        self._forget()
        self.calls = self.parameters = 0

    def _put(self, text: str) -> None:
        if not self.buffered:
            self._sink.arguments(escape(text))
        elif not self.skipped:
            room = VALUE_LIMIT - self._size
            self._size += len(text)
            self._held.append(text)
            if len(text) > room or (self.word and not NULL.startswith("".join(self._held))):
                self.buffered = self.word = False
                self._sink.arguments('"' + escape("".join(self._held)))
                self._held.clear()

    def take(self) -> str:
        """The text that was held, now that the value is whole."""
        if self.undecided:
            self.goes_on()
        text = "".join(self._held)
        self._held.clear()
        return text


def _begins_line(text: str, line: bool) -> bool:
    """Whether what comes behind the text is the first of a line, if what came before it was `line`."""
    cut = text.rfind("\n")
    return (cut >= 0 or line) and not text[cut + 1 :].strip(" \t")


def _chosen(places: list[EndPlace]) -> EndPlace | None:
    """The end of the value among the places where it may be. A call behind a missing end tag is begun only where all of the
    closing tags stand before it, or the value has no other end; it is told as a repair too. Else a proper end tag comes before
    a missing one, and of several the last: it leaves the fewest calls."""
    for each in places:
        if each.kind == CLOSED_AND_CALL:
            return EndPlace(each.offset, MISSING, True)
    before_calls = [each for each in places if each.kind in (END_AND_CALL, LAST_AND_CALL)]
    ends = [each.offset for each in places if each.kind == IN_CALL_END]
    certain = not before_calls and len(ends) < 2
    before = ends[-2] if len(ends) > 1 else -1
    nexts = [each.offset for each in places if each.kind == IN_CALL_NEXT and each.offset > before]
    if nexts:
        return EndPlace(nexts[0], ENDS if len(nexts) == 1 and certain else SUSPECT)
    if ends:
        return EndPlace(ends[-1], ENDS if certain else SUSPECT)
    for each in before_calls:
        return EndPlace(each.offset, SUSPECT if each.kind == END_AND_CALL else MISSING, True)
    missing = [each.offset for each in places if each.kind == LAST]
    return EndPlace(missing[-1], MISSING, True) if missing else None

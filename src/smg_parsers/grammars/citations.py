"""Citations that a model marks in its answer: removes the marks from the text and reports which part has which source.

Decides: where a cited part begins and ends, in characters of the answer, and which sources the marks name.
Above: `formats`. Below: `base`.
Does not know: what a source is; its name is passed on as the model wrote it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from smg_parsers.pieces.base import FAIL, MORE, RESUME, SPACE, Grammar, Sink
from smg_parsers.pieces.checked import Checked

TAIL_LIMIT: Final = 128
"""Longest list of sources in a mark, in characters."""
_RESULTS: Final = re.compile(r"(\d+)\s*:\s*\[([\d,\s]*)\]")
_WORD: Final = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class CitationMarks(Checked):
    """The citation marks of one family: `begins` stand before a cited part, `ends` behind it.

    `listing` has an entry for each mark that names sources: the mark, the character that begins the list ("" if the list
    follows the mark directly), and the one that ends it.
    """

    begins: tuple[str, ...]
    ends: tuple[str, ...]
    listing: tuple[tuple[str, str, str], ...]
    at_start: bool = False

    @property
    def opens(self) -> tuple[str, ...]:
        """See `CallSpec.opens`."""
        return (*self.begins, *self.ends)

    @property
    def headers(self) -> bool:
        """See `CallSpec.headers`: answers are cited without tools too."""
        return True

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`."""
        return CitationReader(self, sink, marker)


class CitationReader:
    """Reads one mark."""

    __slots__ = ("_ends", "_listing", "_sink", "status")

    def __init__(self, spec: CitationMarks, sink: Sink, marker: str) -> None:
        self.status = MORE
        self._sink = sink
        self._ends = marker in spec.ends
        self._listing = next((listing[1:] for listing in spec.listing if listing[0] == marker), None)

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        if self._listing is None:
            return self._over(pos, ())
        begin, end = self._listing
        at = pos
        limit = min(len(buf), pos + TAIL_LIMIT)
        while begin and at < limit and buf[at] in SPACE:
            at += 1
        if begin and at < limit and buf[at] != begin:
            return self._over(pos, ())
        stop = buf.find(end, at, limit)
        written = buf[at : limit if stop < 0 else stop]
        if "\n" in written or "<" in written or (stop < 0 and limit == pos + TAIL_LIMIT):
            self.status = FAIL
            return pos
        return ~pos if stop < 0 else self._over(stop + len(end), _sources(buf[at:stop]))

    def _over(self, pos: int, sources: tuple[str, ...]) -> int:
        failed = self._sink.cite_end(sources) if self._ends else self._sink.cite_begin(sources)
        self.status = RESUME if failed else FAIL
        return pos

    def finish(self, rest: str) -> None:
        """Nothing to do: no call is open here."""


def _sources(written: str) -> tuple[str, ...]:
    """The sources in a list: `0,1` names two, `0:[1,2]` the results 1 and 2 of call 0, `document_id: 1` one."""
    results = _RESULTS.findall(written)
    if results:
        return tuple(f"{call}:{number}" for call, numbers in results for number in _WORD.findall(numbers))
    return tuple(_WORD.findall(written.rpartition(":")[2]))

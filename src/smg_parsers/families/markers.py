"""Finds the first marker in text that arrives in pieces.

Decides: where ordinary text ends, and how much of its end could still become a marker (at most the longest marker less one
character). Every character is read a bounded number of times.
Above: the parser. Below: nothing.
Does not know: what a marker means.
"""

from __future__ import annotations

from collections.abc import Iterable


class MarkerSet:
    """A fixed set of markers, laid out for the search when it is first used: of all families that are known, few are read.

    `firsts` are the characters a marker can begin with: text without any of them is plain text.
    """

    __slots__ = ("_given", "_lengths", "_markers", "_prefixes", "firsts")

    firsts: str
    _markers: frozenset[str]
    _lengths: tuple[int, ...]
    _prefixes: frozenset[str]

    def __init__(self, markers: Iterable[str]) -> None:
        self._given = tuple(markers)

    def __getattr__(self, name: str) -> object:
        """What is not laid out yet."""
        if name == "_given" or name not in self.__slots__:
            raise AttributeError(name)
        self._markers = unique = frozenset(self._given)
        self._lengths = tuple(sorted({len(marker) for marker in unique}, reverse=True))
        self._prefixes = frozenset(marker[:end] for marker in unique for end in range(1, len(marker)))
        self.firsts = "".join(sorted({marker[0] for marker in unique}))
        return getattr(self, name)

    def find(self, buf: str, pos: int, final: bool, places: dict[str, int]) -> tuple[int, str]:
        """The first marker from `pos` on: its position and its text.

        `(position, "")` says that everything before `position` is plain text; text from there on, if any, may be the
        beginning of a marker and must be passed again with more text. `places` caches where each first character occurs
        next in `buf`; the caller passes the same dict as long as it passes the same `buf`.
        """
        size = len(buf)
        while pos < size:
            at = size
            for first in self.firsts:
                # Without `places`, searching again for every marker would make long texts quadratic.
                place = places.get(first, -1)
                if place < pos:
                    place = buf.find(first, pos)
                    if place < 0:
                        place = size
                    places[first] = place
                if place < at:
                    at = place
            if at == size:
                break
            found = self._at(buf, at, size, final)
            if found is not None:
                return at, found
            pos = at + 1
        return size, ""

    def _at(self, buf: str, at: int, size: int, final: bool) -> str | None:
        head = buf[at : at + 2]
        if len(head) == 2 and not (head in self._prefixes or head in self._markers or head[0] in self._markers):
            return None  # nearly every `<` of a text is no marker's
        if not final:
            # A longer marker that may still be completed wins over a shorter one that is complete.
            tail = buf[at : at + self._lengths[0]]
            if at + len(tail) == size and tail in self._prefixes:
                return ""
        for length in self._lengths:
            marker = buf[at : at + length]
            if marker in self._markers:
                return marker
        return None

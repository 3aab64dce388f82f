"""Calls that a model has put into a code fence, inside the markers that open and close their region.

Decides: whether a fence stands between the opening marker and the calls, and which line closes it; both lines are no text.
Above: `parser`. Below: `base`, and any grammar, which reads the calls.
Does not know: any format.
"""

from __future__ import annotations

import re
from typing import Final

from smg_parsers.pieces.base import LOOKAHEAD, MORE, SPACE, UNFENCED, Grammar, Sink

_OPENS: Final = re.compile(r"\s*(`{3,}|~{3,})[\w+.-]{0,32}[ \t]*\r?\n")
_OPENS_YET: Final = re.compile(r"\s*(?:(?:`{0,2}|~{0,2})|(?:`{3,}|~{3,})[\w+.-]{0,32}[ \t]*\r?)")
_LIMIT: Final = 2 * LOOKAHEAD
"""Longest line of a fence with the white space before it, in characters."""


class FencedReader:
    """Reads a region of calls whose first line may open a fence. Where none does, its status is `UNFENCED`, and `inner` goes
    on alone."""

    __slots__ = ("_before", "_closes", "_opened", "_sink", "inner", "status")

    def __init__(self, inner: Grammar, sink: Sink) -> None:
        self.status = MORE
        self.inner = inner
        self._sink = sink
        self._before = sink.count
        self._opened = False
        self._closes = ""  # what closes the fence, until it has come

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        if not self._opened:
            return self._opens(buf, pos, final)
        if self._closes and self._between():
            after = self._past_end(buf, pos, final)
            if after != pos:
                return after
        reached = self.inner.step(buf, pos, final)
        self.status = self.inner.status
        return reached

    def finish(self, rest: str) -> None:
        """See `Grammar.finish`."""
        self.inner.finish(rest)

    def _opens(self, buf: str, pos: int, final: bool) -> int:
        at = pos
        limit = min(len(buf), pos + _LIMIT)
        while at < limit and buf[at] in SPACE:
            at += 1
        if at < limit and buf[at] not in "`~":  # nearly always
            self.status = UNFENCED
            return pos
        window = buf[pos:limit]
        found = _OPENS.match(window)
        if found is not None:
            self._closes, self._opened = found[1], True
            return pos + found.end()
        if not final and len(window) < _LIMIT and _OPENS_YET.fullmatch(window):
            return ~pos
        self.status = UNFENCED
        return pos

    def _between(self) -> bool:
        """Whether a call has ended, or one is open of which nothing is open."""
        if self._sink.open:
            return bool(getattr(self.inner, "whole", False))
        return self._sink.count > self._before

    def _past_end(self, buf: str, pos: int, final: bool) -> int:
        """The position behind the fence's end if it stands at `pos`, else `pos`; its complement if that is not known yet."""
        at = pos
        limit = min(len(buf), pos + LOOKAHEAD)
        while at < limit and buf[at] in SPACE:
            at += 1
        if buf.startswith(self._closes, at):
            closes, self._closes = self._closes, ""
            return at + len(closes)
        return ~pos if not final and len(buf) - at < len(self._closes) and self._closes.startswith(buf[at:]) else pos

"""Gemma's channels: reads the name after `<|channel>` if it is not the one that the template writes.

Decides: what a channel's name is, and whether the channel is reasoning or the answer.
Above: `table`. Below: `base`.
Does not know: where a channel ends; its closing marker is one of reasoning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from smg_parsers.pieces.base import MORE, NAME_LIMIT, SWITCH, Grammar, Sink
from smg_parsers.pieces.checked import Checked

_ANSWERS: Final = ("final", "answer", "response")


@dataclass(frozen=True, slots=True)
class NamedChannels(Checked):
    """`<|channel>name⏎`. A channel without a name, or with an unknown one, is reasoning."""

    opens: tuple[str, ...]
    at_start: bool = False

    @property
    def headers(self) -> bool:
        """See `CallSpec.headers`."""
        return True

    def begin(self, marker: str, sink: Sink) -> Grammar:
        """See `CallSpec.begin`."""
        return ChannelReader(sink)


class ChannelReader:
    """Reads the name, if the rest of the line is one."""

    __slots__ = ("_sink", "status")

    def __init__(self, sink: Sink) -> None:
        self.status = MORE
        self._sink = sink

    def step(self, buf: str, pos: int, final: bool) -> int:
        """See `Grammar.step`."""
        at = pos
        limit = min(len(buf), pos + NAME_LIMIT)
        while at < limit and (buf[at].isalnum() or buf[at] == "_"):
            at += 1
        if at == len(buf) and not final:
            return ~pos
        named = buf[at : at + 1] == "\n"
        self._sink.reasoning = not (named and buf[pos:at] in _ANSWERS)
        self.status = SWITCH
        return at + 1 if named else pos

    def finish(self, rest: str) -> None:
        """Nothing to do: no call is open here."""

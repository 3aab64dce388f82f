"""A call's arguments written as JSON, which have to be an object, or a string that holds one.

Decides: whether what was read can be the arguments of a call, and what is held back to know it: a string, up to a bound. `null`
and an empty string are no arguments. Any other value is passed on, and the call has no end.
Above: the grammars whose arguments are JSON. Below: `base`, `lenient_json`, `partial_json`.
Does not know: tools, schemas, which marker closes which call.
"""

from __future__ import annotations

import json
from typing import Final

from smg_parsers.json_text.partial_json import is_json
from smg_parsers.pieces.base import Sink, Within
from smg_parsers.values.lenient_json import LenientJsonReader, mended_json

STRING_LIMIT: Final = 1 << 20
"""Longest arguments that are written as a JSON string and so have to be seen whole, in characters."""


class ArgumentsReader:
    """Reads the arguments of the open call. `json` says whether they are `done`, so that `close` tells the call's end, or `bad`.
    `closes` are the markers that can stand behind them."""

    __slots__ = ("_direct", "_held", "_size", "json")

    def __init__(self, closes: tuple[str, ...] = ()) -> None:
        self.json = LenientJsonReader(closes)
        self._direct = False  # it is known what the value is, and that it is passed on as it comes
        self._held: list[str] = []  # of a value that is not known to be an object
        self._size = 0

    def read(self, sink: Sink, buf: str, pos: int, final: bool) -> int:
        """Pass on the arguments from `pos` on; returns where they end, or from where text is held back."""
        reader = self.json
        if self._direct:
            return pass_arguments(reader, sink, buf, pos, final)
        while True:
            delta, end = reader.take(buf, pos, final)
            _note(reader, sink)
            self._hold(sink, delta)
            if end > pos:
                sink.touched = True
            if not reader.fault:
                break
            pos = end
            if sink.repair():
                reader.mend()
            else:
                self._give(sink)
                sink.arguments(reader.refuse())
        if reader.bad:
            self._give(sink)
        return end

    @property
    def within(self) -> Within | None:
        """See `Grammar.within`."""
        return self.json.within if self._direct else None

    def close(self, sink: Sink) -> None:
        """End the call, if what was read can be its arguments."""
        held = "".join(self._held).strip()
        given = _held_arguments(held) if held[:1] not in ("{", "[") else None
        mended = given is not None and held[:1] == '"' and given != "{}" and not is_json(json.loads(held).strip())
        if mended and not sink.repair():
            given = None
        if given is None:
            self._give(sink)
        else:
            self._held.clear()
            sink.arguments(given)
        if given is not None or self.json.opens == "{":
            sink.end()
        else:
            sink.leave()

    def finish(self, sink: Sink, rest: str) -> None:
        """The output is over; `rest` was held back. Passes on what has come."""
        self._give(sink)
        sink.arguments(rest)

    def _hold(self, sink: Sink, delta: str) -> None:
        self._held.append(delta)
        self._size += len(delta)
        if self.json.opens in ("{", "[") or self._size > STRING_LIMIT:
            self._direct = True
            self._give(sink)

    def _give(self, sink: Sink) -> None:
        sink.arguments("".join(self._held))
        self._held.clear()


def are_arguments(reader: LenientJsonReader) -> bool:
    """Whether the value that was read can be a call's arguments: an object."""
    return reader.opens == "{"


def _note(reader: LenientJsonReader, sink: Sink) -> None:
    """Tell what makes it doubtful whether the arguments end where they seem to."""
    if reader.loose:
        sink.unescaped(reader.loose)
    sink.doubtful = sink.doubtful or reader.early


def pass_arguments(reader: LenientJsonReader, sink: Sink, buf: str, pos: int, final: bool) -> int:
    """Pass on the arguments of the open call from `pos` on; returns where they end, or from where text is held back."""
    while True:
        delta, end = reader.take(buf, pos, final)
        _note(reader, sink)
        sink.arguments(delta)
        if end > pos:
            sink.touched = True
        if not reader.fault:
            return end
        pos = end
        if sink.repair():
            reader.mend()
        else:
            sink.arguments(reader.refuse())


def _held_arguments(held: str) -> str | None:
    """The arguments that a value other than an object or a list stands for; None if it stands for none."""
    if held == "null":
        return "{}"
    if held[:1] != '"':
        return None
    text = str(json.loads(held)).strip()
    if not text:
        return "{}"
    return mended_json(text) if text[0] == "{" else None

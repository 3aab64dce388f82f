"""The one block of an answer that is open, as the grammar of our events wants it: ended before anything else begins.

Text, reasoning and calls of a provider come as pieces; a block ends when a piece of another one comes, or when the provider says
so. Pure. Above: the decoders of answers. Below: events.
"""

from typing import Literal

from smg_core.events import (
    Annotation,
    Event,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from smg_parsers.json_text.partial_json import JsonScanner

__all__ = ["OpenBlock"]

_Kind = Literal["", "text", "refusal", "reasoning", "call"]


class OpenBlock:
    """The blocks of choice `index`: appends to `events` what each piece makes. `calls` counts the calls that began, `called`
    is whether there were any, `whole` whether the open call has all of its arguments, `length` the characters of the open
    text, `last` the kind of the block that is open or was last, `call_id` the id of the latest call."""

    __slots__ = ("_ids", "_index", "_scan", "_silent", "_valid", "call_id", "calls", "kind", "last", "length")

    def __init__(self, index: int) -> None:
        self._ids: set[str] = set()  # of the calls that began
        self.call_id = ""
        self._index = index
        self.calls = 0
        self.kind: _Kind = ""
        self.last: _Kind = ""
        self.length = 0
        self._scan = JsonScanner()
        self._valid = False
        self._silent = True

    @property
    def whole(self) -> bool:
        """Whether the call that is open, or was last, has all of its arguments."""
        return self._valid or (self.kind == "call" and self._silent)

    @property
    def incomplete(self) -> bool:
        """Whether an answer that is cut off here is so in the midst of a block."""
        return bool(self.last) and not (self.last == "call" and self.whole)

    def text(self, piece: str, events: list[Event]) -> None:
        """More text; an empty piece is none."""
        if piece:
            self._turn("text", events)
            self.length += len(piece)
            events.append(TextDelta(self._index, piece))

    def refusal(self, piece: str, events: list[Event]) -> None:
        """More of the words with which the model declines."""
        if piece:
            self._turn("refusal", events)
            events.append(RefusalDelta(self._index, piece))

    def annotate(
        self, kind: str, start: int, source: str, title: str, quote: str, events: list[Event], end: int | None = None
    ) -> None:
        """A source of the open text from `start` to `end`, or to here."""
        if self.kind == "text":
            last = self.length if end is None else end
            events.append(Annotation(self._index, kind, start, last, source, title, quote))

    def reasoning(self, piece: str, events: list[Event]) -> None:
        """More reasoning, or the beginning of one without text."""
        self._turn("reasoning", events)
        events.append(ReasoningDelta(self._index, piece))

    def own_id(self, given_id: str) -> str:
        """The id of the next call: what the provider said, unless an earlier call of the answer has it."""
        while given_id in self._ids:
            given_id = f"{given_id}_{self.calls}"
        return given_id

    def call(
        self, call_id: str, name: str, namespace: str | None, events: list[Event], *, custom: bool = False
    ) -> None:
        """A call begins. Calls of one answer have different ids, or a client could not answer them."""
        self.end(events)
        self.kind = self.last = "call"
        self._scan, self._valid, self._silent = JsonScanner(), custom, True
        call_id = self.own_id(call_id)
        self._ids.add(call_id)
        self.call_id = call_id
        events.append(ToolCallStart(self._index, self.calls, call_id, name, namespace, custom))
        self.calls += 1

    def arguments(self, piece: str, events: list[Event], *, custom: bool = False) -> None:
        """More arguments of the open call."""
        if not piece or self.kind != "call":
            return
        self._silent = False
        if not custom:
            end = self._scan.scan(piece, 0)
            self._valid = self._scan.done and not piece[end:].strip()
        events.append(ToolCallDelta(self._index, self.calls - 1, piece))

    def end(self, events: list[Event], *, seal: bytes | None = None, cut: bool = False) -> None:
        """End the open block, if there is one; `seal` is the original of reasoning."""
        kind, self.kind, self.length = self.kind, "", 0
        if kind in ("text", "refusal"):
            events.append(TextEnd(self._index))
        elif kind == "reasoning":
            events.append(ReasoningEnd(self._index, seal))
        elif kind == "call":
            if self._silent and not cut and not self._valid:
                events.append(ToolCallDelta(self._index, self.calls - 1, "{}"))
                self._valid = True
            events.append(ToolCallEnd(self._index, self.calls - 1, self._valid))

    def _turn(self, kind: _Kind, events: list[Event]) -> None:
        if self.kind != kind:
            self.end(events)
            self.kind = self.last = kind

"""The text held back of one choice of an answer, and the part that may leave.

Pure. Above: `answers`, which has guardrails asked. Below: the events, `texts`.
"""

from collections.abc import Collection, Sequence
from math import inf
from typing import ClassVar, Literal

import attrs
from msgspec.structs import replace

from smg_core.events import (
    Event,
    Finished,
    HostedEnd,
    HostedProgress,
    HostedStart,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from smg_core.guardrails.records import GuardSpan
from smg_core.guardrails.texts import merged, plain_json, with_masks

__all__ = ["HeldCall", "HeldChoice", "TextHeld", "masked_call"]

_CUT = b'{"text":"","content":[]}'
"""The result of a hosted call that is held back."""
_LONGEST = 4
"""How many times as much as is usually held back may be, where one part that is to be masked is so long."""


@attrs.frozen
class TextHeld:
    """A text that is looked at: its `text`, behind the `context` that has left already."""

    NEVER: ClassVar[float] = inf
    text: str
    context: str

    @property
    def in_context(self) -> str:
        """What guardrails are shown."""
        return self.context + self.text


@attrs.frozen
class HeldCall:
    """A call of a tool that has come whole: its events, its arguments, and whether these are free text."""

    events: tuple[Event, ...]
    arguments: str
    custom: bool


class HeldChoice:
    """One choice: what is held back of it, the last `tail` characters of a text among that. `opened` is the block of it that has
    begun to leave and has not ended; `changed` says whether its text left as something else, `clean` whether all of what is held
    back was looked at and passed, `since` when the oldest text that is held back came."""

    def __init__(self, index: int, tail: int) -> None:
        self.index, self._tail = index, tail
        self.over = self.blocked = self.changed = self.clean = False
        self.opened: Literal["text", "reasoning", "hosted"] | None = None
        self.since = TextHeld.NEVER
        self.kept = 0
        self._pending: list[tuple[Event, int]] = []  # with how many characters each has
        self._text: list[str] = []
        self._length = self._checked = 0
        self._context: dict[str, str] = {}  # by kind of block
        self._kind = ""
        self._call: list[Event] = []
        self._listing = False

    @property
    def unchecked(self) -> int:
        """Characters that no guardrail has seen yet."""
        return self._length - self._checked

    def hold(self, event: Event, text: str, now: float) -> None:
        """Hold back an event with this text."""
        if text:
            self._kind = type(event).__name__
            self._text.append(text)
            self._length += len(text)
            self.clean = False
            self.since = min(self.since, now)
        self._pending.append((event, len(text)))

    def held(self) -> TextHeld:
        """What is held back, to be looked at."""
        text = "".join(self._text)
        self._text = [text] if text else []
        return TextHeld(text, self._context.get(self._kind, ""))

    def release(self, held: TextHeld, found: Sequence[GuardSpan], *, last: bool, left: list[Event]) -> None:
        """Let go what may leave of a text that was looked at; `found` are parts of what was shown."""
        before = len(held.context)
        spans = merged(
            attrs.evolve(each, start=max(0, each.start - before), end=each.end - before)
            for each in found
            if each.end > before
        )
        count, end = self._leaving(spans, last=last)
        going, self._pending = self._pending[:count], self._pending[count:]
        if any(each.start < end for each in spans):
            self._let_go_changed(going, held.text[:end], [each for each in spans if each.end <= end], left)
        else:
            self._let_go(going, left)
        rest = held.text[end:]
        self._left(held.text[:end])
        self._text, self._length = [rest] if rest else [], len(rest)
        self._checked = len(rest)
        self.clean = not any(each.end > end for each in spans)
        if not rest:
            self.since = TextHeld.NEVER

    def _left(self, text: str) -> None:
        """Remember the end of what has left, to be shown with what follows."""
        kept = self._context.get(self._kind, "") + text
        self._context[self._kind] = kept[max(0, len(kept) - self._tail) :]

    def _leaving(self, spans: Sequence[GuardSpan], *, last: bool) -> tuple[int, int]:
        """How many of the events may leave, and how many characters those have: whole events alone, and no part of a span, unless
        that is so long that all of it must leave as its mask."""
        longest = any(not each.start and each.end > _LONGEST * max(1, self._tail) for each in spans)
        if last or longest:
            return len(self._pending), self._length
        most = max(0, self._length - self._tail)
        while True:
            count, end = self._up_to(most)
            cut = next((each.start for each in spans if each.start < end < each.end), None)
            if cut is None:
                return count, end
            most = cut

    def _up_to(self, most: int) -> tuple[int, int]:
        """The events within so many characters, and how many those have."""
        count = end = 0
        for _, size in self._pending:
            if end + size > most:
                break
            count, end = count + 1, end + size
        return count, end

    def _let_go(self, going: Sequence[tuple[Event, int]], left: list[Event]) -> None:
        for event, size in going:
            if self.changed and not size:
                continue  # it tells of the text as it was
            if size or isinstance(event, TextDelta | RefusalDelta | ReasoningDelta):
                self._open(event)
                left.append(_bare(event) if self.changed else event)
            else:
                left.append(event)

    def _let_go_changed(
        self, going: Sequence[tuple[Event, int]], text: str, spans: Sequence[GuardSpan], left: list[Event]
    ) -> None:
        """Let go a text with masks, and nothing that tells what stood in their places."""
        self.changed = True
        first = next(event for event, size in going if size)
        self._open(first)
        left.append(replace(_bare(first), text=with_masks(text, spans)))

    def _open(self, event: Event) -> None:
        self.opened = "reasoning" if isinstance(event, ReasoningDelta) else "text"

    def release_all(self, left: list[Event]) -> None:
        """Let go all that is held back: guardrails have passed it."""
        going, self._pending = self._pending, []
        self._let_go(going, left)
        self._left("".join(self._text))
        self._text, self._length, self._checked = [], 0, 0
        self.since = TextHeld.NEVER

    def end(self, event: TextEnd | ReasoningEnd, left: list[Event]) -> None:
        """The open block ends."""
        if self.opened is not None:
            left.append(event)
        self.opened, self.changed, self.clean = None, False, False

    # ------------------------------------------------------------------------------------------------------------ calls

    def keep(self, event: ToolCallStart | ToolCallDelta) -> None:
        """Hold back a part of a call."""
        if isinstance(event, ToolCallStart):
            self._call = [each for each, _ in self._pending]
            self._pending, self.kept = [], 0
        else:
            self.kept += len(event.arguments)
        self._call.append(event)

    def call(self, event: ToolCallEnd) -> HeldCall:
        """The call, which has come whole with this event."""
        events = (*self._call, *[each for each, _ in self._pending], event)
        self._call, self._pending, self.kept = [], [], 0
        custom = any(isinstance(each, ToolCallStart) and each.custom for each in events)
        return HeldCall(events, "".join([each.arguments for each in events if isinstance(each, ToolCallDelta)]), custom)

    def lists(self, event: HostedStart | HostedProgress | HostedEnd, kinds: Collection[str]) -> bool:
        """Whether a hosted block is of one of these kinds."""
        if isinstance(event, HostedStart):
            self._listing = event.kind in kinds
        return self._listing

    def cut(self, left: list[Event]) -> None:
        """End the choice here, as one that a filter has cut, with nothing of what is held back."""
        self._pending, self._text, self._call = [], [], []
        self.since = TextHeld.NEVER
        match self.opened:
            case "text":
                left.append(TextEnd(self.index))
            case "reasoning":
                left.append(ReasoningEnd(self.index))
            case "hosted":
                left.append(HostedEnd(self.index, _CUT, failed=True))
        left.append(Finished(self.index, "content_filter", cut=self.opened is not None))
        self.opened = None
        self.over = self.blocked = True


def masked_call(call: HeldCall, arguments: str | None) -> tuple[Event, ...]:
    """The events of a call with other arguments (None: with its own); none where these would be no arguments."""
    if arguments is None:
        return call.events
    if not call.custom and plain_json(arguments) is None:
        return ()
    found = list[Event]()
    for each in call.events:
        if isinstance(each, ToolCallStart):
            found += (each, ToolCallDelta(each.index, each.call, arguments))
        elif isinstance(each, ToolCallEnd):
            found.append(each)
    return tuple(found)


def _bare(event: Event) -> TextDelta | RefusalDelta | ReasoningDelta:
    """A delta without what tells its tokens."""
    if isinstance(event, TextDelta):
        return TextDelta(event.index, event.text, echo=event.echo)
    if isinstance(event, RefusalDelta | ReasoningDelta):
        return event
    raise AssertionError("only deltas have a text")

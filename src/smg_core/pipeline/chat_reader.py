"""Reads the turn of an engine that speaks chat: its events are the response's, less what only the answer may say.

The engine's own `Started` and `Usage` are kept for the counts; `Done` is dropped; `Failed` becomes the turn's error; tool calls
are numbered on from those of earlier turns. The counterpart of `OutputProcessor` for the second door. Pure. Above:
pipeline.attempt. Below: events.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from smg_core.errors import EngineGarbled, SmgError
from smg_core.events import (
    Cancelled,
    Done,
    Event,
    Failed,
    Finished,
    HostedEnd,
    HostedStart,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    Started,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

__all__ = ["ChatReader"]

_CALLS = (ToolCallStart, ToolCallDelta, ToolCallEnd)


class ChatReader:
    """All `choices` of one turn. It is done when the engine has said what it used, or closes after all choices have finished."""

    def __init__(self, choices: int, first_call: int = 0) -> None:
        self.done = False
        self.finishes: list[Finished] = []
        self.rest: list[Event] = []
        self.kv_transfer: str | None = None
        self._first_call = first_call
        self._choices = choices
        self._usage: Usage | None = None
        self._started: Started | None = None
        self._open: dict[int, Event] = {}
        self._ended: set[int] = set()
        self.next_call = first_call
        self.kept_ids: Sequence[int] = ()

    @property
    def whole(self) -> bool:
        return len(self.finishes) >= self._choices

    engine_done = whole

    @property
    def prompt_tokens(self) -> int:
        if self._usage is not None:
            return self._usage.prompt_tokens
        return self._started.prompt_tokens if self._started is not None else 0

    @property
    def cached_tokens(self) -> int:
        return self._usage.cached_tokens if self._usage is not None else 0

    def feed(self, outputs: Sequence[Event]) -> list[Event]:
        events: list[Event] = []
        try:
            for event in outputs:
                if isinstance(event, Started):
                    self._started = event
                elif isinstance(event, Usage):
                    self._usage = event
                elif isinstance(event, Failed):
                    raise event.error
                elif isinstance(event, Cancelled):
                    raise EngineGarbled("The engine gave the request up.", detail=event.reason)
                elif not isinstance(event, Done):
                    if not 0 <= event.index < self._choices or event.index in self._ended:
                        raise EngineGarbled(
                            f"The engine spoke for choice {event.index}, which has ended or was not asked for."
                        )
                    events.append(self._passed(event))
        except SmgError:
            self.rest = events
            raise
        if self._usage is not None and self.whole:
            self.done = True
        return events

    def _passed(self, event: Event) -> Event:
        if isinstance(event, Finished):
            self.finishes.append(event)
            self._ended.add(event.index)
        elif isinstance(event, _CALLS):
            event = replace(event, call=event.call + self._first_call)
            self.next_call = max(self.next_call, event.call + 1)
            self._note(event.index, None if isinstance(event, ToolCallEnd) else event)
        elif isinstance(event, TextDelta | RefusalDelta | ReasoningDelta | HostedStart):
            self._note(event.index, event)
        elif isinstance(event, TextEnd | ReasoningEnd | HostedEnd):
            self._note(event.index, None)
        return event

    def _note(self, index: int, block: Event | None) -> None:
        if block is None:
            self._open.pop(index, None)
        else:
            self._open[index] = block

    def usage(self) -> Usage:
        return self._usage or Usage(self.prompt_tokens, 0)

    def cut(self) -> list[Event]:
        """The ends of the blocks that are open."""
        ends: list[Event] = []
        for index, block in self._open.items():
            if isinstance(block, TextDelta | RefusalDelta):
                ends.append(TextEnd(index))
            elif isinstance(block, ReasoningDelta):
                ends.append(ReasoningEnd(index))
            elif isinstance(block, ToolCallStart | ToolCallDelta):
                ends.append(ToolCallEnd(index, block.call, valid=False))
            elif isinstance(block, HostedStart):
                ends.append(HostedEnd(index, failed=True))
        self._open.clear()
        return ends

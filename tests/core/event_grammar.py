"""The grammar of events.py as a checker: `check(events)` raises AssertionError with a sentence when a stream breaks it.

The table that plugins are held to says for every event of a choice in which states it may come and which state follows; ids of
tokens and a provider's own words, which plugins do not leave, come in all of them. What is of the whole response
(Started first, Usage and the end last) and how calls are numbered is checked beside it.
"""

from collections.abc import Iterable

import attrs

from smg_core.events import (
    Cancelled,
    Done,
    Event,
    Failed,
    SampledIds,
    Started,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    Verbatim,
)
from smg_core.middleware.event_order import OF_CHOICES

__all__ = ["ENDS", "NEXT", "check"]

CLOSED, FINISHED = "no block is open", "the choice is finished"
OPEN = {state for following in OF_CHOICES.values() for state in following}

ANYWHERE = (SampledIds, Verbatim)
NEXT: dict[type, dict[str, str]] = {**OF_CHOICES, **{kind: {state: state for state in OPEN} for kind in ANYWHERE}}
ENDS = (Done, Failed, Cancelled)


def check(events: Iterable[Event], complete: bool = True, choices: int | None = None) -> None:
    """Raise AssertionError, naming the event and its place, unless `events` are a response by the grammar.

    `complete` False takes the beginning of a response too. `choices` is how many choices a response that is Done must have;
    None: any number from 1.
    """
    stream = _Stream()
    for place, event in enumerate(events):
        stream.take(place, event)
    if complete:
        assert stream.end is not None, "the response has no end: neither Done nor Failed nor Cancelled"
    if isinstance(stream.end, Done) and choices is not None:
        assert len(stream.choices) == choices, f"{len(stream.choices)} choices, but {choices} were asked for"


@attrs.define
class _Choice:
    state: str = CLOSED
    calls: int = 0


@attrs.define
class _Stream:
    started: bool = False
    usage: bool = False
    end: Event | None = None
    choices: dict[int, _Choice] = attrs.field(factory=dict)

    def take(self, place: int, event: Event) -> None:
        at = f"event {place}, {event!r}"
        assert self.end is None, f"{at}: the response is over"
        if isinstance(event, Started):
            assert place == 0, f"{at}: Started is not the first event"
            self.started = True
        elif isinstance(event, ENDS):
            self._take_end(at, event)
        else:
            assert not self.usage, f"{at}: only the end may come after Usage"
            if isinstance(event, Usage):
                self.usage = True
            else:
                self._take_of_choice(at, event)

    def _take_end(self, at: str, event: Event) -> None:
        assert self.usage, f"{at}: there is no Usage before it"
        if isinstance(event, Done):
            assert self.started, f"{at}: a response that is Done has Started"
            open_ones = sorted(index for index, choice in self.choices.items() if choice.state != FINISHED)
            assert not open_ones, f"{at}: the choices {open_ones} are not finished"
            indexes = sorted(self.choices)
            assert indexes, f"{at}: there is no choice"
            assert indexes == list(range(len(indexes))), f"{at}: the choices are {indexes}, with a gap"
        self.end = event

    def _take_of_choice(self, at: str, event: Event) -> None:
        assert self.started, f"{at}: nothing comes before Started"
        choice = self.choices.setdefault(event.index, _Choice())  # type: ignore[union-attr]
        following = NEXT[type(event)].get(choice.state)
        assert following is not None, f"{at}: it may not come while {choice.state}"
        choice.state = following
        if isinstance(event, ToolCallStart):
            assert event.call == choice.calls, f"{at}: the call's number should be {choice.calls}"
            choice.calls += 1
        elif isinstance(event, ToolCallDelta | ToolCallEnd):
            assert event.call == choice.calls - 1, f"{at}: the open call's number is {choice.calls - 1}"

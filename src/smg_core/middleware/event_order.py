"""Whether events that a plugin puts in the place of others keep the order of `events`: blocks of a choice that open and close.

Decides only. Above: `said`. Below: the events.
"""

from typing import Final

from smg_core.events import (
    Annotation,
    Event,
    Finished,
    HostedEnd,
    HostedProgress,
    HostedStart,
    OpaqueBlock,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from smg_core.middleware.base import MiddlewareFault

__all__ = ["OF_CHOICES", "EventOrder", "checked_events", "is_of_choice"]

_CLOSED, _OVER = "no block is open", "the choice is finished"
_TEXT, _REFUSAL, _REASONING = "a text is open", "a refusal is open", "reasoning is open"
_CALL, _HOSTED = "a call is open", "a hosted call is open"
OF_CHOICES: Final[dict[type, dict[str, str]]] = {
    TextDelta: {_CLOSED: _TEXT, _TEXT: _TEXT},
    Annotation: {_TEXT: _TEXT},
    RefusalDelta: {_CLOSED: _REFUSAL, _REFUSAL: _REFUSAL},
    TextEnd: {_TEXT: _CLOSED, _REFUSAL: _CLOSED},
    ReasoningDelta: {_CLOSED: _REASONING, _REASONING: _REASONING},
    ReasoningEnd: {_REASONING: _CLOSED},
    ToolCallStart: {_CLOSED: _CALL},
    ToolCallDelta: {_CALL: _CALL},
    ToolCallEnd: {_CALL: _CLOSED},
    HostedStart: {_CLOSED: _HOSTED},
    HostedProgress: {_HOSTED: _HOSTED},
    HostedEnd: {_HOSTED: _CLOSED},
    OpaqueBlock: {_CLOSED: _CLOSED},
    Finished: {_CLOSED: _OVER},
}
"""For each event of a choice that a plugin may leave: in which states of the choice it may come, and which state follows."""
_OF_CHOICES: Final = tuple(OF_CHOICES)
"""The kinds of events that belong to a choice: a plugin may change, drop and add these. The others are of the whole response."""


class EventOrder:
    """The order of one response. `take` is called with each event that a plugin is shown, or leaves."""

    def __init__(self) -> None:
        self._states: dict[int, str] = {}
        self._calls: dict[int, int] = {}

    def __eq__(self, other: object) -> bool:
        """Whether both have the same blocks open, so that what follows in one can follow in the other."""
        return isinstance(other, EventOrder) and (self._states, self._calls) == (other._states, other._calls)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def copy(self) -> "EventOrder":
        """An order that is as far as this one."""
        made = EventOrder()
        made._states, made._calls = dict(self._states), dict(self._calls)
        return made

    def take(self, event: Event) -> None:
        """Raises MiddlewareFault for an event that may not come now."""
        index: int = event.index  # type: ignore[union-attr]
        state = self._states.get(index, _CLOSED)
        following = OF_CHOICES[type(event)].get(state)
        if following is None:
            raise MiddlewareFault(f"puts {type(event).__name__} where it may not come: {state}")
        if isinstance(event, ToolCallStart | ToolCallDelta | ToolCallEnd):
            begins = isinstance(event, ToolCallStart)
            number = self._calls.get(index, 0) - (not begins)
            if event.call != number:
                raise MiddlewareFault(f"numbers a call {event.call} that is {number}")
            self._calls[index] = number + 1
        self._states[index] = following


def checked_events(event: Event, left: tuple[Event, ...], order: EventOrder) -> tuple[Event, ...]:
    """The events that a plugin puts in the place of one; `order` takes them if all of them may come. Raises MiddlewareFault."""
    if not isinstance(event, _OF_CHOICES):
        if left != (event,):
            raise MiddlewareFault(f"changes {type(event).__name__}, which is of the whole response")
        return left
    if len(left) > 1:
        trial = order.copy()
        for each in left:
            _take(each, trial)
    for each in left:
        _take(each, order)
    return left


def _take(event: Event, order: EventOrder) -> None:
    if not isinstance(event, _OF_CHOICES):
        raise MiddlewareFault(f"puts {type(event).__name__} into an answer, which is the gateway's")
    order.take(event)


def is_of_choice(event: Event) -> bool:
    """Whether an event belongs to a choice, and not to the whole response."""
    return isinstance(event, _OF_CHOICES)

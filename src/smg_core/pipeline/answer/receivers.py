"""The receivers between an attempt and the answer: receivers that leave out or note some of a turn's events.

Pure. Above: pipeline.calls.streaming. Below: the events.
"""

from collections.abc import Container, Sequence
from typing import Protocol

from msgspec.structs import replace

from smg_core.events import Event, Finished, ToolCallDelta, ToolCallEnd, ToolCallStart
from smg_core.observability.tracing.content import TracedContent
from smg_core.pipeline.answer.attempt import EventReceiver
from smg_core.pipeline.answer.turn import Transcript

__all__ = ["Noting", "Recording", "Unseen", "WithoutCalls", "without_finishes"]


class HidesCalls(Protocol):
    """The part of an `Answer` that `WithoutCalls` needs: the numbers of the calls that the client does not get."""

    hidden: frozenset[int]


def without_finishes(receiver: EventReceiver) -> EventReceiver:
    """A receiver that passes events on to `receiver`, except the `Finished` of each choice: for a turn after which the response
    goes on with another one."""
    return _WithoutFinishes(receiver)


class _WithoutFinishes:
    """Passes a turn's events on, except `Finished`."""

    def __init__(self, receiver: EventReceiver) -> None:
        self._receiver = receiver

    def take(self, events: Sequence[Event], over: bool) -> None:
        self._receiver.take([event for event in events if not isinstance(event, Finished)], over)


class WithoutCalls:
    """Passes a turn's events on, except the calls of tools that run here. The calls that the client gets are numbered without
    gaps: `answer.hidden` has the numbers of those, of all turns, that it does not get."""

    def __init__(self, names: Container[str], answer: HidesCalls, receiver: EventReceiver) -> None:
        self._names, self._answer, self._receiver = names, answer, receiver

    def take(self, events: Sequence[Event], over: bool) -> None:
        self._receiver.take([kept for event in events if (kept := self._passed(event)) is not None], over)

    def _passed(self, event: Event) -> Event | None:
        if not isinstance(event, ToolCallStart | ToolCallDelta | ToolCallEnd):
            return event
        if isinstance(event, ToolCallStart) and event.name in self._names:
            self._answer.hidden |= {event.call}
        hidden = self._answer.hidden
        if event.call in hidden:
            return None
        return replace(event, call=event.call - len(hidden)) if hidden else event


class Unseen:
    """Tells that a turn is over, and passes none of its events on."""

    def __init__(self, receiver: EventReceiver) -> None:
        self._receiver = receiver

    def take(self, events: Sequence[Event], over: bool) -> None:
        if over:
            self._receiver.take((), True)


class Recording:
    """Passes a turn's events on, and adds them to a transcript."""

    def __init__(self, transcript: Transcript, receiver: EventReceiver) -> None:
        self._transcript = transcript
        self._receiver = receiver

    def take(self, events: Sequence[Event], over: bool) -> None:
        self._transcript.add(events)
        self._receiver.take(events, over)


class Noting:
    """Passes a turn's events on, and notes their texts for the request's trace."""

    def __init__(self, content: TracedContent, receiver: EventReceiver) -> None:
        self._content = content
        self._receiver = receiver

    def take(self, events: Sequence[Event], over: bool) -> None:
        self._content.take(events)
        self._receiver.take(events, over)

"""The places for connections to one HTTP server, some of them for questions, and their order.

A call takes a place that is free, or waits. What becomes free, a place or a connection that is open, goes to the oldest question
that waits, and else to the oldest call, unless it is one of those kept for questions. Pure. Above: `client`.
"""

from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

from smg_core.engines.connections.call_queue import CallQueue, QueuedCall
from smg_core.engines.settings import EnginesConfig

__all__ = ["ConnectionPlaces", "PlaceKind", "PlaceTaker"]


class PlaceKind(Enum):
    """What a place for a connection is for."""

    ANY = auto()
    QUESTIONS = auto()


L_contra = TypeVar("L_contra", contravariant=True)
L = TypeVar("L")


class PlaceTaker(QueuedCall, Protocol[L_contra]):
    """A call that waits."""

    def take(self, given: L_contra | PlaceKind | None) -> bool:
        """It is given an open connection, or a place for a new one; None: there will be none. False: it waits no more."""
        ...


class ConnectionPlaces(Generic[L]):
    """`limits.http_connections` places, and `limits.question_calls` beside them for questions alone. `waiting` are the calls that
    wait for one; `address` is the server's."""

    def __init__(self, limits: EnginesConfig, address: str) -> None:
        self.waiting: CallQueue[PlaceTaker[L]] = CallQueue(limits, f"for a connection to {address}")
        self._free = {PlaceKind.ANY: limits.http_connections, PlaceKind.QUESTIONS: limits.question_calls}

    def has_free(self, question: bool) -> bool:
        """Whether a new call, or question, need not wait."""
        return any(self._free[each] for each in _kinds(question))

    def take(self, question: bool) -> PlaceKind | None:
        """Take a place for a call, or for a question; None where none is free."""
        for each in _kinds(question):
            if self._free[each]:
                self._free[each] -= 1
                return each
        return None

    def give_back(self, place: PlaceKind) -> None:
        """A place is no longer used: it goes to a call that waits, or is free."""
        if not self.hand_on(place):
            self._free[place] += 1

    def hand_on(self, given: L | PlaceKind) -> bool:
        """Give a connection, or a place for one, to the call whose turn it is. False where none wants it."""
        while (call := self.waiting.take(questions_only=given is PlaceKind.QUESTIONS)) is not None:
            if call.take(given):
                return True
        return False


def _kinds(question: bool) -> tuple[PlaceKind, ...]:
    return (PlaceKind.ANY, PlaceKind.QUESTIONS) if question else (PlaceKind.ANY,)

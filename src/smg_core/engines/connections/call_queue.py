"""The calls that wait for room on the connections of one engine: questions about the engine first, each kind in its order. Pure.

A health check that waited behind generations would tell of them and not of the engine. A question for which even the queue has no
room has not waited at all: what it is told of the engine is what came of it since the oldest of the questions has waited. Above:
the transports, whose kinds of room differ (`h2.waiting`, `http.places`).
"""

from collections import deque
from typing import Generic, Protocol, TypeVar

from smg_core.engines.settings import EnginesConfig
from smg_core.errors import WorkerBusy

__all__ = ["CallQueue", "QueuedCall"]


class QueuedCall(Protocol):
    """A call that can wait. `question`: it asks about the engine. `heard` is how many answers had come when it began to wait."""

    question: bool
    heard: int


C = TypeVar("C", bound=QueuedCall)


class CallQueue(Generic[C]):
    """At most `limits.waiting_calls` calls, and before them as many questions and `limits.question_calls` more: one at least may
    wait, however few calls may. `room` says in errors what they wait for."""

    __slots__ = ("_limits", "_others", "_questions", "_room")

    def __init__(self, limits: EnginesConfig, room: str) -> None:
        self._limits = limits
        self._room = room
        self._questions: deque[C] = deque()
        self._others: deque[C] = deque()

    def __len__(self) -> int:
        return len(self._questions) + len(self._others)

    @property
    def questions(self) -> int:
        """How many questions wait."""
        return len(self._questions)

    def add(self, call: C, heard: int) -> None:
        """Let a new call wait, when so many answers have come. Raises WorkerBusy where too many wait."""
        if call.question:
            full = len(self._questions) >= self._limits.waiting_calls + max(1, self._limits.question_calls)
        else:
            full = len(self) >= self._limits.waiting_calls
        if full:
            busy = WorkerBusy("The engine has no room for the request.", detail=f"too many calls wait {self._room}")
            busy.answers_others = call.question and heard > self._questions[0].heard
            raise busy
        call.heard = heard
        self._of_its_kind(call).append(call)

    def add_again(self, call: C, heard: int) -> None:
        """Let a call wait that was sent before: it is the first of its kind."""
        call.heard = heard
        self._of_its_kind(call).appendleft(call)

    def first(self) -> C | None:
        """The call whose turn it is; None where none waits."""
        if self._questions:
            return self._questions[0]
        return self._others[0] if self._others else None

    def take(self, *, questions_only: bool = False) -> C | None:
        """Remove the call whose turn it is; None where none waits."""
        if self._questions:
            return self._questions.popleft()
        return self._others.popleft() if self._others and not questions_only else None

    def remove(self, call: C) -> None:
        """A call waits no more, if it did."""
        kind = self._of_its_kind(call)
        if call in kind:
            kind.remove(call)

    def drain(self) -> list[C]:
        """Remove all calls."""
        calls = [*self._questions, *self._others]
        self._questions.clear()
        self._others.clear()
        return calls

    def _of_its_kind(self, call: C) -> deque[C]:
        return self._questions if call.question else self._others

"""The calls of one HTTP/2 connection that wait for a free stream, and which streams are kept for questions about the engine.

A health check that waited behind generations would tell of them and not of the engine. So questions go before all other calls,
and the last few streams are theirs: `EnginesConfig.question_calls`, and at most an eighth of what the engine takes. Pure. Above:
`connection`.
"""

from collections import deque

from smg_core.engines.h2.stream import H2Stream
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import WorkerBusy

__all__ = ["WaitingCalls"]

_FEW = 8


class WaitingCalls:
    """At most `limits.waiting_calls` calls in the order in which they are sent, and before them as many questions and
    `limits.question_calls` more: one at least may wait, however few calls may."""

    __slots__ = ("_calls", "_limits")

    def __init__(self, limits: EnginesConfig) -> None:
        self._limits = limits
        self._calls: deque[H2Stream] = deque()

    def __bool__(self) -> bool:
        return bool(self._calls)

    def sends_now(self, call: H2Stream, used: int, most: int) -> bool:
        """Whether a new call need not wait, with `used` streams in use of `most`."""
        return self._has_stream(call, used, most) and not self._ahead_of(call)

    def add(self, call: H2Stream) -> None:
        """Let a new call wait. Raises WorkerBusy where too many do."""
        ahead = self._ahead_of(call)
        if ahead >= self._limits.waiting_calls + (max(1, self._limits.question_calls) if call.question else 0):
            raise WorkerBusy("The engine has no room for the request.", detail="too many calls wait for a free stream")
        self._calls.insert(ahead, call)

    def add_again(self, call: H2Stream) -> None:
        """Let a call wait that was sent before: it is the first of its kind."""
        self._calls.insert(0 if call.question else self._questions, call)

    def next(self, used: int, most: int) -> H2Stream | None:
        """Remove the call that is to be sent now, with `used` streams in use of `most`; None where there is none."""
        if not self._calls or not self._has_stream(self._calls[0], used, most):
            return None
        return self._calls.popleft()

    def remove(self, call: H2Stream) -> None:
        """A call waits no more, if it did."""
        if call in self._calls:
            self._calls.remove(call)

    def drain(self) -> list[H2Stream]:
        """Remove all calls."""
        calls = [*self._calls]
        self._calls.clear()
        return calls

    def _has_stream(self, call: H2Stream, used: int, most: int) -> bool:
        kept = 0 if call.question else min(self._limits.question_calls, most // _FEW)
        return used < most - kept

    def _ahead_of(self, call: H2Stream) -> int:
        return self._questions if call.question else len(self._calls)

    @property
    def _questions(self) -> int:
        """How many questions wait."""
        return next((at for at, each in enumerate(self._calls) if not each.question), len(self._calls))

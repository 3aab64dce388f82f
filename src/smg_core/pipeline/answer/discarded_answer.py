"""An answer beside the one that the client gets: of a call that may turn out to be used, or is only measured (edge).

`AsideAnswer` takes what an attempt says and sends nothing. `AsideTrace` notes the moments of that call, and passes on those that
belong to the request whatever comes of it. Above: hedging, serving.shadowing. Below: answer, trace.
"""

import asyncio
from collections.abc import Sequence

from smg_core.events import Event
from smg_core.hooks import AttemptEnded, FirstToken, FormatViolation, Moment, SilentObserver
from smg_core.pipeline.answer.answer import Answer
from smg_core.pipeline.answer.attempt import AnyAttempt
from smg_core.pipeline.answer.trace import Trace

__all__ = ["AsideAnswer", "AsideTrace"]


async def _nowhere(data: bytes, last: bool) -> None:
    """Nothing leaves."""


class AsideAnswer(Answer):
    """Takes one attempt after the other. `events` are those of the last one, if they are kept. `calls` is how many tool calls the
    turns before this one made."""

    __slots__ = ("_kept", "events")

    def __init__(self, calls: int = 0, *, keep: bool = True) -> None:
        super().__init__(_nowhere, model="")
        self._calls = calls
        self._kept = keep
        self.events: list[Event] = []

    @property
    def attempt(self) -> AnyAttempt | None:
        """The attempt that was begun last."""
        return self._attempt

    def _rewind(self) -> None:
        self.events.clear()

    def _keep(self, events: Sequence[Event]) -> None:
        if self._kept:
            self.events += events

    async def carry(self, attempt: AnyAttempt) -> None:
        while not attempt.over:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    async def _end(self, events: Sequence[Event]) -> None:
        self.state = "over"

    def tell(self, events: Sequence[Event]) -> None:
        """What a flow tells between two attempts is for the client alone."""

    def take(self, events: Sequence[Event], over: bool) -> None:
        if events:
            self._keep(events)
        if over:
            self._wake()


class AsideTrace(Trace):
    """The moments of a call beside the one of `trace`, with which it shares the span that calls are made in."""

    __slots__ = ("_of", "_withheld")

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace.started, SilentObserver(), trace.client_id)
        self.outgoing = trace.outgoing
        self._of = trace
        self._withheld: list[FormatViolation] = []

    def report(self, moment: Moment) -> None:
        super().report(moment)
        if isinstance(moment, FormatViolation):
            self._withheld.append(moment)
        elif isinstance(moment, AttemptEnded):
            self._of.note_other_call(moment)
        elif not isinstance(moment, FirstToken) or self._of.first is None:
            self._of.report(moment)

    def used(self) -> None:
        """The call's answer is the request's: it is the one that ended last, and its choices may have broken their format."""
        self._of.ended = self.ended
        for each in self._withheld:
            self._of.report(each)

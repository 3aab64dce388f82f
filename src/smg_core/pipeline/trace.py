"""What happened to one request: an observer of its moments, which passes them on.

The one account of a request: the explain header, the access log and `RequestFinished` are all read from it, so they cannot
disagree. A moment is kept as it was reported; what is asked for is found by looking through them, since most requests are asked
nothing. Pure. Above: the driver's performers report to it; the server reads it. Below: hooks.
"""

from collections.abc import Mapping
from typing import TypeVar

from smg_core.hooks import (
    AttemptEnded,
    EncodeDone,
    FirstToken,
    MediaLoaded,
    Moment,
    Observer,
    Rendered,
    WorkerPicked,
)
from smg_core.pipeline.prompted import Prompted

__all__ = ["Trace"]

M = TypeVar("M")

_PHASES: Mapping[type, str] = {
    Rendered: "render",
    EncodeDone: "encode",
    MediaLoaded: "media",
    WorkerPicked: "select",
    AttemptEnded: "failed_attempts",
    FirstToken: "first_token",
}
"""The part of the work that is over with each moment."""


class Trace:
    """Moments of the request that began at `started` (monotonic seconds), each passed on to `observer` at once."""

    __slots__ = ("_observer", "moments", "prompted", "started")

    def __init__(self, started: float, observer: Observer) -> None:
        self.started = started
        self.moments: list[Moment] = []
        self.prompted: Prompted | None = None
        self._observer = observer

    def report(self, moment: Moment) -> None:
        self.moments.append(moment)
        self._observer.report(moment)

    def last(self, kind: type[M]) -> M | None:
        """The latest moment of one kind, None when there was none."""
        for moment in reversed(self.moments):
            if isinstance(moment, kind):
                return moment
        return None

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of the workers that were chosen, in order; the last one served, or failed, the request."""
        return tuple(moment.worker for moment in self.moments if isinstance(moment, WorkerPicked))

    @property
    def attempts(self) -> int:
        """How many calls of engines have ended."""
        return sum(isinstance(moment, AttemptEnded) for moment in self.moments)

    @property
    def first_seconds(self) -> float | None:
        """Seconds from the start to the first output; None when there was none."""
        first = self.last(FirstToken)
        return first.seconds if first is not None else None

    def phases(self) -> list[tuple[str, float]]:
        """The parts of the work up to the first output, as far as they are over, in order, with the seconds each took: the time
        since the one before it. What was done again for another attempt is summed."""
        found: dict[str, float] = {}
        before = self.started
        for moment in self.moments:
            if isinstance(moment, Rendered | EncodeDone | MediaLoaded | WorkerPicked | AttemptEnded | FirstToken):
                name = _PHASES[type(moment)]
                found[name] = found.get(name, 0.0) + moment.at - before
                before = moment.at
            if isinstance(moment, FirstToken):
                break
        return list(found.items())

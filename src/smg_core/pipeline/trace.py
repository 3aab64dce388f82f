"""What happened to one request: an observer of its moments, which passes them on.

The one account of a request: the explain header, the access log and `RequestFinished` are all read from it, so they cannot
disagree. A moment is kept as it was reported; what is asked for is found by looking through them, since most requests are asked
nothing. Pure. Above: the driver's performers report to it; the server reads it. Below: hooks.
"""

from typing import TypeVar

from smg_core.hooks import (
    AttemptEnded,
    EncodeDone,
    FirstToken,
    MediaLoaded,
    Moment,
    Observer,
    Rendered,
    SilentObserver,
    WorkerPicked,
)
from smg_core.pipeline.prompted import Prompted

__all__ = ["Trace"]

M = TypeVar("M")

_PHASES: tuple[tuple[str, type[Rendered | EncodeDone | MediaLoaded | WorkerPicked | FirstToken]], ...] = (
    ("render", Rendered),
    ("encode", EncodeDone),
    ("media", MediaLoaded),
    ("select", WorkerPicked),
    ("first_token", FirstToken),
)


class Trace:
    """Moments of the request that began at `started` (monotonic seconds), each passed on to `observer` at once. `first` is the
    first output and `ended` the engine call that ended last, None while there is none; `attempts` counts the calls that ended."""

    __slots__ = ("_tell", "attempts", "ended", "first", "moments", "prompted", "started")

    def __init__(self, started: float, observer: Observer) -> None:
        self.started = started
        self.moments: list[Moment] = []
        self.prompted: Prompted | None = None
        self.first: FirstToken | None = None
        self.ended: AttemptEnded | None = None
        self.attempts = 0
        self._tell = None if isinstance(observer, SilentObserver) else observer.report

    def report(self, moment: Moment) -> None:
        self.moments.append(moment)
        kind = type(moment)
        if kind is FirstToken:
            self.first = moment  # type: ignore[assignment]  # the line above says so
        elif kind is AttemptEnded:
            self.ended = moment  # type: ignore[assignment]
            self.attempts += 1
        if self._tell is not None:
            self._tell(moment)

    def last(self, kind: type[M]) -> M | None:
        """The latest moment of one kind, None when there was none."""
        return next((moment for moment in reversed(self.moments) if isinstance(moment, kind)), None)

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of the workers that were chosen, in order; the last one served, or failed, the request."""
        return tuple(moment.worker for moment in self.moments if isinstance(moment, WorkerPicked))

    def phases(self) -> list[tuple[str, float]]:
        """The parts of the work that are over, in order, with the seconds each took: the time since the one before it."""
        found, before = [], self.started
        for name, kind in _PHASES:
            moment = self.last(kind)
            if moment is not None:
                found.append((name, moment.at - before))
                before = moment.at
        return found

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
    FormatBroken,
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

_PHASES: Mapping[type, str] = {
    Rendered: "render",
    EncodeDone: "encode",
    MediaLoaded: "media",
    WorkerPicked: "select",
    AttemptEnded: "failed_attempts",
    FirstToken: "first_token",
}
"""The part of the work that is over with each moment."""

_NOTED = frozenset({FirstToken, AttemptEnded, FormatBroken})
"""The moments that are looked for in every request."""


class Trace:
    """Moments of the request that began at `started` (monotonic seconds), each passed on to `observer` at once. `first` is the
    first output and `ended` the engine call that ended last, None while there is none; `attempts` counts the calls that ended,
    `violations` the choices that broke their format. `client_id` is the client's own name for the request."""

    __slots__ = ("_tell", "attempts", "client_id", "ended", "first", "moments", "prompted", "started", "violations")

    def __init__(self, started: float, observer: Observer, client_id: str = "") -> None:
        self.started = started
        self.client_id = client_id
        self.moments: list[Moment] = []
        self.prompted: Prompted | None = None
        self.first: FirstToken | None = None
        self.ended: AttemptEnded | None = None
        self.attempts = self.violations = 0
        self._tell = None if isinstance(observer, SilentObserver) else observer.report

    def report(self, moment: Moment) -> None:
        self.moments.append(moment)
        if type(moment) in _NOTED:
            self._note(moment)
        if self._tell is not None:
            self._tell(moment)

    def _note(self, moment: Moment) -> None:
        if isinstance(moment, FirstToken):
            self.first = moment
        elif isinstance(moment, AttemptEnded):
            self.ended = moment
            self.attempts += 1
        elif isinstance(moment, FormatBroken):
            self.violations += 1

    def last(self, kind: type[M]) -> M | None:
        """The latest moment of one kind, None when there was none."""
        return next((moment for moment in reversed(self.moments) if isinstance(moment, kind)), None)

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of the workers that were chosen, in order; the last one served, or failed, the request."""
        return tuple(moment.worker for moment in self.moments if isinstance(moment, WorkerPicked))

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

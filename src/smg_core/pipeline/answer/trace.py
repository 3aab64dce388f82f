"""Keeps the moments of one request, and passes them on to the observer.

The explain header, the access log and `RequestFinished` are all read from this one record, so they cannot disagree. Moments are
kept as they were reported; a question about them is answered by searching the list, since few requests are asked about. Pure.
Above: the driver's performers report to it; the server reads it. Below: hooks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from smg_core.hooks import (
    AttemptEnded,
    EncodeDone,
    FellBack,
    FirstToken,
    FormatViolation,
    Hedged,
    MediaLoaded,
    Migrating,
    Moment,
    Observer,
    Observers,
    Rendered,
    Reporter,
    RequestStarted,
    WorkerPicked,
)
from smg_core.lease import Charge
from smg_core.observability.trace_context import Outgoing, Propagation
from smg_core.observability.tracing.content import TracedContent
from smg_core.pipeline.prompt.documents import ReadDocuments
from smg_core.pipeline.prompt.kept_files import FilesInUse
from smg_core.pipeline.prompt.prompted import Prompted

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
"""The name of the phase that ends with each moment."""

_PART_PHASES: Mapping[str, str] = {"prefill": "prefill", "encode": "media_encode"}
"""The phase that ends when a worker in this role has done its part for the one that answers."""

_WHOLE = "generate"
"""The phase that ends with an answer that comes in one piece: there is no first output before it."""

_LAST = frozenset({"first_token", _WHOLE})

_NOTHING = Outgoing()
_NO_LOSSES: Mapping[str, str] = {}


def _nothing() -> Outgoing:
    return _NOTHING


class Awaited(Protocol):
    """A call of a worker whose times were predicted; `objective_words` is what its client is told of that, "" for nothing."""

    @property
    def objective_words(self) -> str: ...

    def note(self, moment: Moment) -> None:
        """Learn from a moment of the request."""


class PromptReader(Protocol):
    """A worker that may read a prompt, of which `prefill_tokens` tokens of others wait there. It has `in_flight` requests of this
    process and those of `others`."""

    @property
    def prefill_tokens(self) -> int: ...

    @property
    def in_flight(self) -> int: ...

    @property
    def others(self) -> int: ...


R = TypeVar("R", bound=PromptReader)


class NarrowedReading(Protocol):
    """Which of several workers a prompt may go to."""

    def __call__(self, workers: tuple[R, ...], reads: Sequence[int], /) -> tuple[R, ...]:
        """Those of `workers` that it may go to, of which each would have to read so many of its tokens."""


class Trace:
    """The moments of a request that began at `started` (monotonic seconds), each passed on to `observer` at once. `first` is
    the first output and `ended` the engine call that ended last, None while there is none; `attempts` counts the calls that
    ended, `violations` the choices that violated their format; `stream` says whether the answer is streamed. `client_id` is the
    client's own id for the request. `documents` are its documents that were read, `files` the kept files that it
    uses, None where it has none. `outgoing` says what the next call of an engine is sent of the trace that the request belongs
    to (`propagation`), whose id is `trace_id`; `content` takes the answer's texts where they are recorded there. `outrun`:
    another call has answered, so that a call which ends now is not the one that ended last. `losses` names what of the request
    the model or provider that answers was not told, with what was done in its place. `awaited` is the call under way, where its
    times were predicted; `reading` narrows the workers that may read the prompt, where people wait for theirs."""

    __slots__ = (
        "_reporters",
        "attempts",
        "awaited",
        "charge",
        "client_id",
        "content",
        "documents",
        "ended",
        "files",
        "first",
        "losses",
        "moments",
        "outgoing",
        "outrun",
        "prompted",
        "reading",
        "started",
        "stream",
        "trace_id",
        "violations",
    )

    def __init__(
        self,
        started: float,
        observer: Observer,
        client_id: str = "",
        propagation: Propagation | None = None,
        content: TracedContent | None = None,
    ) -> None:
        self.started = started
        self.outgoing: Callable[[], Outgoing] = _nothing if propagation is None else propagation.outgoing
        self.trace_id = "" if propagation is None else propagation.trace_id
        self.content = content
        self.client_id = client_id
        self.documents: ReadDocuments | None = None
        self.files: FilesInUse | None = None
        self.moments: list[Moment] = []
        self.prompted: Prompted | None = None
        self.charge: Charge | None = None
        self.awaited: Awaited | None = None
        self.reading: NarrowedReading | None = None
        self.first: FirstToken | None = None
        self.ended: AttemptEnded | None = None
        self.attempts = self.violations = 0
        self.stream = self.outrun = False
        self.losses: Mapping[str, str] = _NO_LOSSES
        observers = observer if isinstance(observer, Observers) else Observers(observer)
        self._reporters: Mapping[type, tuple[Reporter, ...]] = observers.reporters

    def report(self, moment: Moment) -> None:
        self.moments.append(moment)
        if isinstance(moment, FirstToken):
            self.first = moment
        elif isinstance(moment, AttemptEnded):
            if not self.outrun:
                self.ended = moment
            self.attempts += 1
        elif isinstance(moment, RequestStarted):
            self.stream = moment.stream
        elif isinstance(moment, FormatViolation):
            self.violations += 1
        for report in self._reporters[type(moment)]:
            report(moment)
        if self.charge is not None:
            self._tell(self.charge, moment)
        if self.awaited is not None:
            self.awaited.note(moment)

    def _tell(self, charge: Charge, moment: Moment) -> None:
        if isinstance(moment, EncodeDone):
            if moment.prompt_tokens:  # another server that counts them itself leaves none
                charge.read(moment.prompt_tokens)
        elif isinstance(moment, FellBack):
            charge.go_on_with(moment.to)

    def note_other_call(self, moment: AttemptEnded) -> None:
        """Keep the end of a call that was made beside the one that answers, as far as is known yet."""
        self.moments.append(moment)
        self.attempts += 1
        for report in self._reporters[AttemptEnded]:
            report(moment)

    def last(self, kind: type[M]) -> M | None:
        """The latest moment of one kind, None when there was none."""
        return next((moment for moment in reversed(self.moments) if isinstance(moment, kind)), None)

    @property
    def picked(self) -> WorkerPicked | None:
        """The choice of the worker that answers, as far as it is known; None before any."""
        ended = self.ended
        if ended is None or self.last(Hedged) is None:
            return self.last(WorkerPicked)
        found = (each for each in reversed(self.moments) if isinstance(each, WorkerPicked))
        return next((each for each in found if (each.worker, each.attempt) == (ended.worker, ended.attempt)), None)

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of the workers that were chosen to answer, in order; the last one served, or failed, the request."""
        picked = (moment for moment in self.moments if isinstance(moment, WorkerPicked))
        return tuple(moment.worker for moment in picked if moment.role not in _PART_PHASES)

    @property
    def migrations(self) -> list[Migrating]:
        """How the answer went on with other workers, in order."""
        return [moment for moment in self.moments if isinstance(moment, Migrating)]

    def phases(self) -> list[tuple[str, float]]:
        """The phases up to the first output (`generate`: up to the answer that came in one piece) that are over, in order, with
        the seconds that each took. A phase that was repeated for another attempt has the sum."""
        found: dict[str, float] = {}
        before = self.started
        for moment in self.moments:
            if isinstance(moment, Rendered | EncodeDone | MediaLoaded | WorkerPicked | AttemptEnded | FirstToken):
                name = _part_of(moment) or _PHASES[type(moment)]
                found[name] = found.get(name, 0.0) + moment.at - before
                before = moment.at
                if name in _LAST:
                    break
        return list(found.items())


def _part_of(moment: Moment) -> str | None:
    """The phase that ends with an engine's call that succeeded: its part for another engine, or the answer; None for any other
    moment."""
    if isinstance(moment, AttemptEnded) and moment.outcome == "ok":
        return _PART_PHASES.get(moment.role, _WHOLE)
    return None

"""The reports of a source of workers, and the role of the roster that takes them.

Pure records and roles. Above: every module of this room, and operation.discovery, which makes the sources and is the roster.
Below: workers.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Literal, Protocol

import attrs

from smg_core.workers.worker import WorkerSpec

__all__ = [
    "Condition",
    "Missed",
    "PresentWorker",
    "SourceAnswer",
    "Wanted",
    "WorkerRoster",
    "WorkerSource",
    "WorkersSeen",
]

Condition = Literal["ready", "unready", "leaving"]
"""How a source finds a worker: "ready" to be used; "unready", which is not to be added now, though it stays if it is there;
"leaving", which is to get no new requests."""


@attrs.frozen
class Wanted:
    """A worker that a source names."""

    spec: WorkerSpec
    condition: Condition = "ready"


@attrs.frozen(eq=False)
class WorkersSeen:
    """A source answered: these are all of its workers. The same object again says that nothing has changed since."""

    workers: tuple[Wanted, ...]


@attrs.frozen
class Missed:
    """A source gave no answer that can be used; `reason` is for the operator. What it said before still holds."""

    reason: str


SourceAnswer = WorkersSeen | Missed


class WorkerSource(Protocol):
    """A place that names workers. `name` is what logs and metrics call it; workers that it brought carry it as their source."""

    @property
    def name(self) -> str: ...

    def answers(self) -> AsyncIterator[SourceAnswer]:
        """Its answers, one after the other, for as long as the gateway runs. It waits by itself between two of them."""
        ...


@attrs.frozen
class PresentWorker:
    """A worker that the gateway has. `source` is the one that brought it; `leaving`: it gets no new requests, and is removed once
    those that it has have ended."""

    spec: WorkerSpec
    source: str
    leaving: bool = False

    @property
    def name(self) -> str:
        return self.spec.label


class WorkerRoster(Protocol):
    """Keeps the gateway's workers."""

    def present(self) -> Iterable[PresentWorker]:
        """All workers, whoever brought them."""
        ...

    async def add(self, spec: WorkerSpec, source: str) -> None:
        """Take a worker in. Raises ValueError where that cannot be, as all of these do."""
        ...

    async def update(self, spec: WorkerSpec) -> None:
        """Let the worker of that name be what `spec` says. Raises LookupError for an unknown name, as all the following do."""
        ...

    async def retire(self, name: str, within_s: float) -> None:
        """Send a worker no new requests, and remove it when those that it has have ended, or after so many seconds: what it
        still has then goes on elsewhere where it can."""
        ...

    async def resume(self, spec: WorkerSpec) -> None:
        """Use a worker again that was leaving, as `spec` says, which has its name."""
        ...

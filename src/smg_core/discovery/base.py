"""What a source of workers says, and what is asked of whoever keeps the workers.

Pure records and roles. Above: every module of this room, and server.discovering, which makes the sources and is the roster.
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
    """A worker that the gateway has. `source` is the one that brought it."""

    spec: WorkerSpec
    source: str

    @property
    def name(self) -> str:
        return self.spec.label


class WorkerRoster(Protocol):
    """Keeps the gateway's workers."""

    def present(self) -> Iterable[PresentWorker]:
        """All workers, whoever brought them."""
        ...

    def in_flight(self, name: str) -> int:
        """How many requests that worker has; 0 for an unknown name."""
        ...

    async def add(self, spec: WorkerSpec, source: str) -> None:
        """Take a worker in. Raises ValueError where that cannot be, as all of these do."""
        ...

    async def update(self, spec: WorkerSpec) -> None:
        """Let the worker of that name be what `spec` says. Raises LookupError for an unknown name, as all the following do."""
        ...

    async def drain(self, name: str) -> None:
        """Send a worker no new requests."""
        ...

    async def resume(self, name: str) -> None:
        """Use a worker again that was drained."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a worker; what it still has in flight goes on elsewhere where it can."""
        ...

"""All workers, found by model.

Decides which workers may take a request for a model, and tells apart the two ways of having none: nobody serves that
model (404), or those who do are not ready (503). Lookups happen per request and are dictionary reads; the index is
rebuilt when a worker's state or models change, which is rare. Below: worker. Above: the pipeline and the monitor.
"""

from collections.abc import Iterator

from smg_core.engines.base import EngineFacts
from smg_core.errors import ModelNotFound, NoWorker
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import Board, LocalBoard, Role, Signal, Worker, WorkerSpec

__all__ = ["Registry"]


class Registry:
    """Workers in the order they were added. At most `limit` of them. `retry_after`: seconds that a client is told for whom no
    worker is ready."""

    def __init__(
        self, board: Board | None = None, *, limit: int = WorkersConfig().most, retry_after: float = 1.0
    ) -> None:
        self._board = board or LocalBoard()
        self._workers: dict[str, Worker] = {}
        self._ready: dict[tuple[str, Role], tuple[Worker, ...]] = {}
        self._kinds: dict[tuple[str, Role], frozenset[EngineFacts]] = {}
        self._known: frozenset[str] = frozenset()
        self._limit = limit
        self._retry_after = retry_after
        self._rows = 0
        self._free: list[int] = []

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def __len__(self) -> int:
        return len(self._workers)

    def get(self, name: str) -> Worker | None:
        """The worker of that name."""
        return self._workers.get(name)

    def add(self, spec: WorkerSpec) -> Worker:
        """A new worker in state "joining". Raises ValueError when the name is taken or the registry is full."""
        if spec.label in self._workers:
            raise ValueError(f"there is a worker {spec.label!r} already")
        if len(self._workers) >= self._limit:
            raise ValueError(f"the registry holds at most {self._limit} workers")
        worker = Worker(spec=spec, row=self._row(), board=self._board)
        self._workers[spec.label] = worker
        return worker

    def _row(self) -> int:
        """A row of the board that nobody counts on: one given back whose requests have ended, else a new one."""
        for row in self._free:
            if not self._board.total(row):
                self._free.remove(row)
                return row
        self._rows += 1
        return self._rows - 1

    def signal(self, worker: Worker, signal: Signal, reason: str = "") -> bool:
        """Move a worker along its state machine and keep the index true. True when its state changed."""
        changed = worker.apply(signal, reason)
        if worker.state == "gone" and self._workers.pop(worker.name, None) is not None:
            self._free.append(worker.row)
        if changed:
            self._index()
        return changed

    def serve(self, worker: Worker, models: tuple[str, ...]) -> None:
        """State which model names `worker` answers to."""
        worker.models = models
        self._index()

    def _index(self) -> None:
        ready: dict[tuple[str, Role], list[Worker]] = {}
        for worker in self._workers.values():
            if worker.state == "ready":
                for model in worker.models:
                    ready.setdefault((model, worker.role), []).append(worker)
        self._ready = {key: tuple(workers) for key, workers in ready.items()}
        self._kinds = {key: frozenset(worker.facts for worker in workers) for key, workers in ready.items()}
        self._known = frozenset(model for worker in self._workers.values() for model in worker.models)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of all models that some worker serves, ready or not, sorted."""
        return tuple(sorted(self._known))

    def of(self, model: str) -> tuple[Worker, ...]:
        """All workers that answer to `model`, whatever their state."""
        return tuple(worker for worker in self._workers.values() if model in worker.models)

    @property
    def any_ready(self) -> bool:
        return bool(self._ready)

    def kinds(self, model: str, role: Role = "regular") -> frozenset[EngineFacts]:
        """What the engines of the ready workers for `model` can do, each kind once."""
        return self._kinds.get((model, role), frozenset())

    def uniform(self, model: str, role: Role = "regular") -> bool:
        """Whether all ready workers for `model` have engines of one kind."""
        return len(self._kinds.get((model, role), ())) == 1

    def candidates(
        self, model: str, exclude: frozenset[str] = frozenset(), role: Role = "regular"
    ) -> tuple[Worker, ...]:
        """The ready workers for `model` in `role` but those named in `exclude`. Raises ModelNotFound or NoWorker."""
        ready = self._ready.get((model, role), ())
        if exclude:
            ready = tuple(worker for worker in ready if worker.name not in exclude)
        if not ready:
            self.refuse(model)
        return ready

    def refuse(self, model: str) -> None:
        """Raise ModelNotFound, or NoWorker where the model is served but not now, or nobody has said yet what it serves."""
        if model in self._known:
            raise NoWorker(f"No worker for the model '{model}' is ready.", retry_after=self._retry_after)
        if any(worker.state == "joining" for worker in self._workers.values()) or not self._workers:
            raise NoWorker("The gateway has no worker yet.", retry_after=self._retry_after)
        raise ModelNotFound(model)

"""One worker: who it is, what it serves, and the state it is in.

The state machine is the table `TRANSITIONS`; `Worker.apply` is the only thing that moves along it. Counting requests in
flight goes through a `Board`, so that several processes can share one picture. Above: registry, monitor, pipeline. It
opens nothing: the engine's client is a value it carries for whoever streams.
"""

from typing import Any, Literal, Protocol

import attrs

from smg_core.engines.base import Loads, ModelInfo

__all__ = ["TRANSITIONS", "Board", "LocalBoard", "Signal", "State", "Worker", "WorkerSpec"]

State = Literal["joining", "ready", "unreachable", "draining", "gone"]
Signal = Literal["joined", "healthy", "failing", "drain", "removed"]

TRANSITIONS: dict[tuple[State, Signal], State] = {
    ("joining", "joined"): "ready",
    ("ready", "failing"): "unreachable",
    ("unreachable", "healthy"): "ready",
    ("unreachable", "joined"): "ready",
    ("joining", "drain"): "draining",
    ("ready", "drain"): "draining",
    ("unreachable", "drain"): "draining",
    ("joining", "removed"): "gone",
    ("ready", "removed"): "gone",
    ("unreachable", "removed"): "gone",
    ("draining", "removed"): "gone",
}
"""(state, signal) to state; a pair that is not here changes nothing."""


@attrs.frozen
class WorkerSpec:
    """A worker as configured. `url` is an engine target ("grpc://gpu-0:50051"); `name` what logs and metrics call it;
    `dialect` the engine protocol or "auto"; `model` overrides the name the engine gives its model."""

    url: str
    name: str = ""
    dialect: str = "auto"
    model: str | None = None
    weight: float = attrs.field(default=1.0, validator=attrs.validators.gt(0.0))

    @property
    def label(self) -> str:
        return self.name or self.url


class Board(Protocol):
    """Counts of requests in flight, a row per worker."""

    def add(self, row: int, change: int) -> None: ...

    def total(self, row: int) -> int: ...


class LocalBoard:
    """Counts of this process alone."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}

    def add(self, row: int, change: int) -> None:
        self._rows[row] = self._rows.get(row, 0) + change

    def total(self, row: int) -> int:
        return self._rows.get(row, 0)


@attrs.define(eq=False)
class Worker:
    """A worker as the gateway knows it now. `row` is its place on the board; `engine` the client that speaks to it
    (engines.client.EngineClient), `models` the names it answers to, `memory` the id of the shared memory that its
    engine sees ("" where that is of no interest)."""

    spec: WorkerSpec
    row: int
    board: Board
    state: State = "joining"
    engine: Any = None
    info: ModelInfo | None = None
    models: tuple[str, ...] = ()
    memory: str = ""
    load: Loads | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        return self.spec.label

    @property
    def weight(self) -> float:
        return self.spec.weight

    @property
    def in_flight(self) -> int:
        return self.board.total(self.row)

    @property
    def queued(self) -> int:
        return self.load.waiting if self.load is not None else 0

    def apply(self, signal: Signal, reason: str = "") -> bool:
        """Move along the table; True when the state changed."""
        after = TRANSITIONS.get((self.state, signal), self.state)
        changed = after != self.state
        self.state = after
        if changed:
            self.reason = reason
        return changed

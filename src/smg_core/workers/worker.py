"""One worker: who it is, what it serves, and the state it is in.

The state machine is the table `TRANSITIONS`; `Worker.apply` is the only thing that moves along it. Counting requests in
flight goes through a `Board`, so that several processes can share one picture. Above: registry, monitor, pipeline. It
opens nothing: the engine's client is a value it carries for whoever streams.
"""

from typing import Literal, Protocol

import attrs

from smg_core.cards import card
from smg_core.engines.base import Engine, EngineFacts, Loads, ModelInfo
from smg_core.errors import WorkerGone

__all__ = ["TRANSITIONS", "Board", "LocalBoard", "Role", "Signal", "State", "Worker", "WorkerSpec"]

Role = Literal["regular", "prefill", "decode"]
"""What part of a turn a worker computes: all of it, the prompt's KV cache for another worker, or the tokens from such a cache."""

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
    `dialect` the engine protocol or "auto"; `model` overrides the name the engine gives its model; `role` is what it computes."""

    url: str
    name: str = ""
    dialect: str = "auto"
    model: str | None = None
    weight: float = attrs.field(default=1.0, validator=attrs.validators.gt(0.0))
    role: Role = "regular"

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


_UNKNOWN = EngineFacts(dialect="")


@attrs.define(eq=False, repr=False)
class Worker:
    """A worker as the gateway knows it now. `row` is its place on the board; `models` the names it answers to; `facts` what its
    engine can do. `engine` is the client that speaks to it, and may be asked for once the worker has joined. `reason` says, for
    people, why it is in its state: what keeps it out while it joins."""

    spec: WorkerSpec
    row: int
    board: Board
    state: State = "joining"
    reached: Engine | None = None
    info: ModelInfo | None = None
    facts: EngineFacts = _UNKNOWN
    models: tuple[str, ...] = ()
    load: Loads | None = None
    reason: str = ""

    def __repr__(self) -> str:
        serves = ", ".join(self.models) or "no model yet"
        return f"<Worker {self.name} {self.state}: {serves}; {self.in_flight} in flight>"

    def _repr_html_(self) -> str:
        """The worker in a notebook."""
        names = ("worker", "state", "serves", "in flight", "why")
        return card(f"Worker {self.name}", zip(names, self.row_of_card(), strict=True))

    def row_of_card(self) -> tuple[str, str, str, int, str]:
        """What a card says of it: name, state, models, requests in flight, and why it is in that state."""
        return self.name, self.state, ", ".join(self.models), self.in_flight, self.reason

    @property
    def name(self) -> str:
        return self.spec.label

    @property
    def engine(self) -> Engine:
        """The client that speaks to its engine. Raises WorkerGone while there is none: before the worker has joined, and after
        it has left."""
        if self.reached is None:
            raise WorkerGone("The worker is not available.", detail=f"worker {self.name} is {self.state}")
        return self.reached

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self.reached = engine

    @property
    def role(self) -> Role:
        return self.spec.role

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

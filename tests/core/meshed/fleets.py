"""Gateways that count limits over a network in memory: of one process each, or of several that count in memory they share."""

import random
from collections.abc import Sequence
from contextlib import nullcontext

from tests.core.mesh.network import Member, Network

from smg_core.limits.counters import Instant
from smg_core.limits.decision import LimitClaim, LimitRefusal
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import LimitRule
from smg_core.limits.shared import SharedCounters
from smg_core.mesh.state.entries import MeshChange
from smg_core.mesh.state.node import Node, SideStanding
from smg_core.meshed.counters import MeshCounters
from smg_core.meshed.shared_counters import SharedMeshCounters, SharedSpeaker
from smg_core.meshed.shared_rows import SharedRows, rows_bytes

GUARD = 0.05
ROWS = 256


class Several:
    """A gateway of so many processes: each request comes to one of them, and one speaks for all."""

    spaces = MeshCounters.spaces

    def __init__(self, processes: int, rng: random.Random, partition: str, name: str, wall: "Fleet") -> None:
        self._rng, self._name, self._wall = rng, name, wall
        self.cells = memoryview(bytearray(8 * ROWS * (6 + processes) + 8)).cast("q")
        self.rows = SharedRows(memoryview(bytearray(rows_bytes(ROWS))).cast("q"), nullcontext())
        self._held = SharedCounters(self.cells, nullcontext(), processes, processes + 1, "UTC")
        self.processes = [
            SharedMeshCounters(
                SharedCounters(self.cells, nullcontext(), number, processes + 1, "UTC"),
                self.rows,
                "UTC",
                GUARD,
                partition,  # type: ignore[arg-type]
            )
            for number in range(processes)
        ]
        self._took: list[SharedMeshCounters] = []
        self.next_speaker()

    def next_speaker(self) -> None:
        """Another process speaks from now on."""
        born = int(self._wall.network.at * 1000)
        self.speaker = SharedSpeaker(
            self._held, self.rows, "UTC", self._name, born, lambda: self._wall.at_of(self._name).wall_s
        )
        self.speaker.knows = True

    def claim(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        self._last = self._rng.choice(self.processes)
        refusal = self._last.claim(claims, at)
        if refusal is None:
            self._took.append(self._last)
        return refusal

    def put_right(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        self._took[-1].put_right(claims, costs, taken_at, at)

    def settle(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        self._took.pop().settle(claims, costs, taken_at, at)

    def look(self, claims: Sequence[LimitClaim]) -> list:
        return self.processes[0].look(claims)

    def stands(self, standing: SideStanding, now: float) -> None:
        self.speaker.stands(standing, now)

    def tell(self, node: Node, now: float) -> None:
        self.speaker.tell(node, now)

    def hear(self, changes: Sequence[MeshChange], now: float) -> None:
        self.speaker.hear(changes, now)


class Fleet:
    """Gateways over a network in memory, each with counters of its own, of so many processes; `off` are the seconds by which the
    clocks of some are."""

    def __init__(
        self, count: int, rng: random.Random, partition: str = "majority", processes: int = 1, **network: float
    ) -> None:
        self.rng, self.partition, self.processes = rng, partition, processes
        self.network = Network(count, rng, **network)  # type: ignore[arg-type]
        self.counters: dict[str, MeshCounters | Several] = {}
        self.admitted: dict[str, int] = {}
        self.off: dict[str, float] = {}
        for name in self.network.members:
            self.open(name)
        self.network.hear = self.hear
        self.network.run(3.0, self.turn)

    def open(self, name: str) -> None:
        if self.processes > 1:
            self.counters[name] = Several(self.processes, self.rng, self.partition, name, self)
            return
        held = MemoryCounters(1000, "UTC")
        self.counters[name] = MeshCounters(
            held,
            "UTC",
            GUARD,
            self.partition,  # type: ignore[arg-type]
            1000,
            lambda: self.at_of(name).wall_s,
        )

    @property
    def names(self) -> list[str]:
        return list(self.network.members)

    @property
    def at(self) -> Instant:
        return Instant(int(self.network.at * 1_000_000), self.network.at)

    def at_of(self, name: str) -> Instant:
        """The time as a gateway has it."""
        return Instant(int(self.network.at * 1_000_000), self.network.at + self.off.get(name, 0.0))

    def turn(self) -> None:
        """What the member's edge does each period."""
        for name, member in self.network.members.items():
            if member.stopped:
                continue
            counters, now = self.counters[name], member.now(self.network.at)
            self.hear(member, member.node.take_changes())
            counters.stands(member.node.standing(now), now)
            counters.tell(member.node, now)

    def hear(self, member: Member, changes: list[MeshChange]) -> None:
        counters = self.counters[member.name]
        counters.hear([each for each in changes if each.space in counters.spaces], member.now(self.network.at))

    def ask(self, name: str, rule: LimitRule, cost: int = 1, scope: str = "s") -> bool:
        admitted = self.counters[name].claim([LimitClaim(rule, scope, cost)], self.at_of(name)) is None
        self.admitted[name] = self.admitted.get(name, 0) + (cost if admitted else 0)
        return admitted

    def demand(self, seconds: float, rule: LimitRule, per_s: dict[str, float], cost: int = 1) -> int:
        """Requests come at each gateway so often; how much was admitted."""
        before = sum(self.admitted.values())
        owed = dict.fromkeys(per_s, 0.0)

        def step() -> None:
            self.turn()
            for name, rate in per_s.items():
                owed[name] += rate * 0.1
                while owed[name] >= 1:
                    owed[name] -= 1
                    self.ask(name, rule, cost)

        self.network.run(seconds, step)
        return sum(self.admitted.values()) - before

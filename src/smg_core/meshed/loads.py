"""Tells the other gateways what this one has in flight at each worker, and how it finds it; and takes what they say.

Pure: the time is an argument. A worker is known by its engine's place, whatever each gateway calls it. What others have there
counts in routing (`Candidate.others`). A worker that others do not reach is probed at once, and has half its weight while most of
them do not; it is down by this gateway's own evidence alone. Where another one's breaker opens, the next call here is a probe.
Above: the opening. Below: the workers, the state of the mesh.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

import attrs
import msgspec

from smg_core.mesh.state.entries import MeshChange, Space, Writer
from smg_core.mesh.state.node import Node, SideStanding
from smg_core.workers.breaker import Breakers
from smg_core.workers.worker import Worker, WorkerSpec

__all__ = ["LoadsPart", "place_key"]

_LASTS_S, _AGAIN_S = 30.0, 10.0
"""For how long what is said counts, and how often it is said again."""
_PACE_S = 0.2
"""Seconds between two words about one worker's load."""
_MOST = 1 << 32
_UP, _DOWN, _JOINING = b"u", b"d", b"j"
_number = msgspec.msgpack.Decoder(int).decode


def place_key(spec: WorkerSpec) -> bytes:
    """What a worker is called between gateways: the same for the same engine and rank."""
    text = f"{spec.url} {'' if spec.rank is None else spec.rank}"
    return b"w" + blake2b(text.encode(), digest_size=8).digest()


@attrs.define(eq=False)
class _LastLoad:
    load: int = 0
    load_at: float = float("-inf")
    health: bytes = b""
    health_at: float = float("-inf")
    is_open: bool = False


class LoadsPart:
    """The loads and health of the workers that `workers` returns; `probe` has one asked at once how it is, and `breakers` are
    theirs."""

    spaces = frozenset({Space.LOAD, Space.HEALTH, Space.BREAKER})

    def __init__(
        self, workers: Callable[[], Iterable[Worker]], probe: Callable[[Worker], None], breakers: Breakers
    ) -> None:
        self._workers, self._probe, self._breakers = workers, probe, breakers
        self._last: dict[bytes, _LastLoad] = {}
        self._loads: dict[bytes, dict[Writer, int]] = {}
        self._down: dict[bytes, set[Writer]] = {}
        self._others = 0

    def stands(self, standing: SideStanding, now: float) -> None:
        self._others = standing.here - 1

    def tell(self, node: Node, now: float) -> None:
        """Say what has changed, and from time to time what is still so."""
        keys = set()
        for worker in self._workers():
            key = place_key(worker.spec)
            keys.add(key)
            last = self._last.setdefault(key, _LastLoad())
            load = worker.in_flight
            changed = load != last.load and (not load or abs(load - last.load) * 10 >= last.load)
            if (changed and now - last.load_at >= _PACE_S) or (load and now - last.load_at >= _AGAIN_S):
                last.load, last.load_at = load, now
                node.put(Space.LOAD, key, msgspec.msgpack.encode(load), _LASTS_S, now)
            health = _DOWN if worker.failing else _JOINING if worker.state == "joining" else _UP
            if health != last.health or now - last.health_at >= _AGAIN_S:
                last.health, last.health_at = health, now
                node.put(Space.HEALTH, key, health, _LASTS_S, now)
            left = self._breakers.seconds_open(worker.name, now)
            if bool(left) != last.is_open:
                last.is_open = bool(left)
                node.put(Space.BREAKER, key, b"o" if left else b"", max(1.0, left), now)
        for key in [key for key in self._last if key not in keys]:
            del self._last[key]
            for space in (Space.LOAD, Space.HEALTH, Space.BREAKER):
                node.put(space, key, b"", _LASTS_S, now)

    def hear(self, changes: Sequence[MeshChange], now: float) -> None:
        """Others have said something of a worker."""
        keys, worse, opened = set(), set(), set()
        for change in changes:
            if change.key[:1] != b"w":
                continue  # requests at once of a limit, which are counted elsewhere
            if change.space == Space.HEALTH:
                worse |= self._health(change)
            elif change.space == Space.BREAKER:
                opened |= {change.key} if change.value else set()
            else:
                self._load(change)
            keys.add(change.key)
        for worker in self._workers() if keys else ():
            key = place_key(worker.spec)
            if key in keys:
                doubted = len(self._down.get(key, ())) * 2 > self._others > 0
                worker.note_elsewhere(sum(self._loads.get(key, {}).values()), doubted=doubted and not worker.failing)
                if key in worse and worker.state == "ready":
                    self._probe(worker)
                if key in opened:
                    self._breakers.doubt(worker.name, now)

    def _load(self, change: MeshChange) -> None:
        try:
            load = _number(change.value) if change.value else 0
        except msgspec.MsgspecError:
            load = 0
        loads = self._loads.setdefault(change.key, {})
        loads[change.writer] = min(max(0, load), _MOST)
        if not change.value:
            del loads[change.writer]
        if not loads:
            del self._loads[change.key]

    def _health(self, change: MeshChange) -> set[bytes]:
        """Note what one says of a worker; the worker's key where that is worse than before."""
        down = self._down.setdefault(change.key, set())
        before = change.writer in down
        (down.add if change.value == _DOWN else down.discard)(change.writer)
        if not down:
            del self._down[change.key]
        return {change.key} if change.value == _DOWN and not before else set()

"""A fleet as one gateway replica sees it: its own requests, old reports of the engines' loads, and KV events that came through.

A replica holds one production policy object for each pool, and gives it what the gateway would give it. Pure. Above: replay.
Below: routing.base, trace.
"""

from array import array
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from smg_core.engines.kv_events import KvBlocksRemoved, KvBlocksStored, KvEvent
from smg_core.routing.base import Observing, Policy, RankState, RequestEnded, RoutingContext
from smg_core.tokens import TokenIds
from smg_simulator.fleet.block_cache import BlockChange
from smg_simulator.fleet.engine import FleetEngine
from smg_simulator.fleet.trace import FleetRequest

__all__ = ["MODEL", "Chooser", "PolicyChooser", "context_of", "events_of"]

MODEL = "simulated"
_TAIL = 0x9E3779B1  # spreads the ids of tokens that fill no block over all numbers
_IDS = 1 << 32


def context_of(key: int, request: FleetRequest, block: int) -> RoutingContext:
    """The routing context of request number `key`. All tokens of a block have the block's name as their id; those behind the last
    full block have one that no other request has."""
    names = np.array([each % _IDS for each in request.blocks], np.uint32)
    ids = np.full(request.prompt_tokens, (key + 1) * _TAIL % _IDS, np.uint32)
    ids[: len(names) * block] = np.repeat(names, block)
    headers = {"x-session-id": request.session} if request.session else {}
    return RoutingContext(
        str(key),
        MODEL,
        TokenIds(array("I", ids.tobytes())),
        headers,
        cache_key=request.session or None,
        now=request.at,
    )


class Chooser(Protocol):
    """Chooses an engine for a request, by what it knows of the fleet."""

    @property
    def listens(self) -> bool:
        """Whether it wants to be told what changes in the engines' caches."""
        ...

    def choose(self, ready: Sequence[int], request: FleetRequest, context: RoutingContext) -> int:
        """One of the engines `ready`, by number; `ready` is not empty."""
        ...

    @property
    def unread(self) -> int:
        """Tokens of the prompt that the engine which was chosen last is expected to have to read."""
        ...

    def waiting(self, engine: int) -> int:
        """Tokens of prompts that wait at the engine, as far as is known."""
        ...

    def sent(self, engine: int, key: int) -> None:
        """Request number `key`, which was just chosen for, goes to the engine."""
        ...

    def answered(self, engine: int, key: int) -> None:
        """Its first token has come."""
        ...

    def ended(self, engine: int, key: int, seconds: float, *, failed: bool) -> None:
        """It is over there, after `seconds`."""
        ...

    def loads(self, engines: Sequence[FleetEngine]) -> None:
        """What the engines report of themselves, from time to time."""
        ...

    @property
    def in_flight(self) -> Sequence[int]:
        """The requests that it has at each engine, as others are told."""
        ...

    def note_elsewhere(self, elsewhere: Sequence[int]) -> None:
        """What other gateways have at each engine, from time to time."""
        ...

    def left(self, engine: int) -> None:
        """The engine cannot be reached, or is back with an empty cache."""
        ...

    def changed(self, engine: int, events: Sequence[KvEvent], now: float) -> None:
        """KV events of the engine, in order."""
        ...


class _Seen:
    """An engine as a policy's candidate."""

    __slots__ = (
        "elsewhere",
        "in_flight",
        "kv_tokens",
        "kv_usage",
        "name",
        "others",
        "prefill_tokens",
        "queued",
        "rank_count",
        "ranks",
        "ranks_out",
        "reported",
        "running",
        "weight",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.in_flight = self.elsewhere = self.reported = 0
        self.queued = self.running = self.others = self.prefill_tokens = self.kv_tokens = 0
        self.weight = 1.0
        self.kv_usage = 0.0
        self.rank_count = 1
        self.ranks: tuple[RankState, ...] = ()
        self.ranks_out: tuple[int, ...] = ()


class PolicyChooser:
    """Gives a production policy what a gateway would give it."""

    def __init__(self, engines: Sequence[FleetEngine], policy: Policy) -> None:
        self._seen = [_Seen(engine.name) for engine in engines]
        self._numbers = {engine.name: at for at, engine in enumerate(engines)}
        self._policy = policy
        self._observer = policy if isinstance(policy, Observing) else None
        self._expected = 0  # tokens that the engine chosen last is to compute
        self._reading: dict[int, int] = {}  # the same of each request that waits for its first token

    @property
    def listens(self) -> bool:
        return self._observer is not None and self._observer.listens

    def choose(self, ready: Sequence[int], request: FleetRequest, context: RoutingContext) -> int:
        pick = self._policy.pick([self._seen[at] for at in ready], context)
        self._expected = max(0, request.prompt_tokens - pick.cached)
        return self._numbers[pick.worker.name]

    @property
    def unread(self) -> int:
        return self._expected

    def waiting(self, engine: int) -> int:
        return self._seen[engine].prefill_tokens

    def sent(self, engine: int, key: int) -> None:
        seen = self._seen[engine]
        seen.in_flight += 1
        seen.prefill_tokens += self._expected
        self._reading[key] = self._expected

    def answered(self, engine: int, key: int) -> None:
        self._seen[engine].prefill_tokens -= self._reading.pop(key, 0)

    def ended(self, engine: int, key: int, seconds: float, *, failed: bool) -> None:
        self.answered(engine, key)
        self._seen[engine].in_flight -= 1
        if self._observer is not None:
            self._observer.request_ended(RequestEnded(self._seen[engine].name, failed, seconds))

    def loads(self, engines: Sequence[FleetEngine]) -> None:
        for seen, engine in zip(self._seen, engines, strict=True):
            seen.queued, seen.running = engine.waiting, engine.running
            seen.reported = max(0, engine.waiting + engine.running - seen.in_flight)
            seen.others = max(seen.reported, seen.elsewhere)
            seen.kv_usage, seen.kv_tokens = engine.cache_use, engine.speed.cache_tokens

    @property
    def in_flight(self) -> list[int]:
        return [seen.in_flight for seen in self._seen]

    def note_elsewhere(self, elsewhere: Sequence[int]) -> None:
        for seen, count in zip(self._seen, elsewhere, strict=True):
            seen.elsewhere = count
            seen.others = max(seen.reported, count)

    def left(self, engine: int) -> None:
        if self._observer is not None:
            self._observer.worker_left(self._seen[engine].name)

    def changed(self, engine: int, events: Sequence[KvEvent], now: float) -> None:
        if self._observer is None:
            return
        name = self._seen[engine].name
        self._observer.kv_known(name, 0, "all")
        self._observer.kv_changed(name, 0, events, now)


def events_of(changes: Sequence[BlockChange], block: int) -> list[KvEvent]:
    """What a gateway is told of these changes in an engine's cache of blocks of `block` tokens."""
    return [_event(change, block) for change in changes]


def _event(change: BlockChange, block: int) -> KvEvent:
    """A change of an engine's cache as a gateway is told it: in tokens, those that `context_of` gives to prompts."""
    if not isinstance(change, tuple):
        return KvBlocksRemoved(change)
    parent, names = change
    ids = np.repeat(np.array([each % _IDS for each in names], np.uint32), block)
    return KvBlocksStored(names, array("I", ids.tobytes()), block, parent)

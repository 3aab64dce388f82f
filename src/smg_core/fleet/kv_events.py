"""Listens to what engines tell of their KV caches, for the policies that want to know (edge).

One subscription for each worker, as long as it is joined. Whether a batch may be applied is decided by `KvCursor` from the
numbers of the batches: where some are missing, the subscription goes on from the last one, and where the engine cannot do that,
all that was known of the engine is forgotten and begun anew. Above: gateway.assembly has the monitor run `listen` beside its
watch. Below: engines' subscriptions, the policies.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from smg_core.clock import CallLater, Clock
from smg_core.config.config import Config
from smg_core.engines.base import Engine, EngineSink
from smg_core.engines.calls import Call
from smg_core.engines.kv_events import FIRST_BATCH, KvBlocksStored, KvCursor, KvEvent, KvEventBatch
from smg_core.engines.kv_zmq.subscriber import KvAddress, KvSubscriber
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.status import cursor_refused, not_offered
from smg_core.errors import SmgError
from smg_core.routing import KvKnown, Policies
from smg_core.workers.worker import Worker

__all__ = ["KvListening", "listening"]

log = logging.getLogger("smg.routing")

_Lost = Literal["lost"]
_LIMITS = EnginesConfig()


@runtime_checkable
class KvTelling(Protocol):
    """An engine that may tell of its KV cache (`engines.token_ids.client`)."""

    async def subscribe_kv_events(
        self, sink: EngineSink[KvEventBatch], *, after: int | None = None, connect_timeout: float | None = None
    ) -> Call | None:
        """Have what changes pushed into `sink`; None when its dialect has no such call."""
        ...


def listening(config: Config, policies: Policies, clock: Clock, call_later: CallLater) -> "KvListening | None":
    """What listens to the engines' KV events for `policies`, while a worker is joined; None where the settings want none."""
    if not config.routing.kv_events:
        return None
    return KvListening(policies, clock, call_later, config.workers.join_interval_s, config.engines)


class KvListening:
    """Brings the KV events of engines to `policies`. `pause_s` is how long to wait before a subscription that ended is begun
    again; `limits` bound what engines publish."""

    def __init__(
        self, policies: Policies, clock: Clock, call_later: CallLater, pause_s: float, limits: EnginesConfig = _LIMITS
    ) -> None:
        self._policies = policies
        self._limits = limits
        self._clock = clock
        self._call_later = call_later
        self._pause_s = pause_s
        self._feeds: WeakKeyDictionary[Worker, _EngineFeed] = WeakKeyDictionary()
        self._changed = asyncio.Event()

    def policies_changed(self) -> None:
        """Called when other policies choose from now on, which know nothing: engines are listened to from the beginning, those
        too of which nobody wanted to know until now."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for worker, feed in list(self._feeds.items()):
            if worker.models:
                self._policies.listens(worker.models[0], worker.role)  # made now, so that it misses nothing
            feed.begin_anew()

    def restarted(self, worker: Worker) -> None:
        """Called when a worker's engine is another process than before: what it has told holds no more, and a subscription that
        runs is begun anew."""
        feed = self._feeds.get(worker)
        if feed is not None:
            feed.begin_anew()

    def emptied(self, worker: Worker) -> None:
        """Called when a worker's engine has emptied its caches, and goes on: what it tells from now on is all that it holds, if
        it was before."""
        feed = self._feeds.get(worker)
        if feed is not None:
            feed.emptied()

    async def listen(self, worker: Worker, engine: Engine) -> None:
        """Listen to the engine of a worker that has joined, until it is cancelled, as soon as somebody wants to know; returns at
        once where the engine does not tell. What it has told is kept for when the worker joins again: a worker that was merely
        slow has lost nothing."""
        telling = self._telling(worker, engine)
        if telling is None or worker.role not in ("regular", "prefill") or not worker.models:
            return
        while not self._policies.listens(worker.models[0], worker.role):
            await self._changed.wait()
        feed = self._feed_of(worker)
        try:
            await self._follow(feed, telling, worker.name)
        finally:
            if worker.state == "gone":
                feed.forget()
            else:
                feed.interrupted()

    def _telling(self, worker: Worker, engine: Engine) -> KvTelling | None:
        """Whom to ask: where the worker's engine publishes its events, if that is set; else the engine itself, if it tells."""
        spec = worker.spec
        if spec.kv_events:
            ranks = range(worker.rank_count) if spec.rank is None else range(spec.rank, spec.rank + 1)
            address = KvAddress(spec.kv_events, spec.kv_events_replay, spec.kv_events_topic)
            return KvSubscriber(address, ranks, self._limits)
        return engine if worker.facts.kv_events and isinstance(engine, KvTelling) else None

    def _feed_of(self, worker: Worker) -> "_EngineFeed":
        """What the worker's engine has told so far, if it is of the same model and kind as then."""
        feed = self._feeds.get(worker)
        if feed is None or not feed.is_of(worker):
            if feed is not None:
                feed.forget()
            feed = self._feeds[worker] = _EngineFeed(self._policies, self._clock, worker)
        return feed

    async def _follow(self, feed: "_EngineFeed", engine: KvTelling, name: str) -> None:
        """Subscribe, again and again."""
        reason = ""
        while True:
            ended = await self._subscribed(feed, engine)
            feed.interrupted()
            if isinstance(ended, SmgError) and not_offered(ended):
                log.info("worker %s: its engine does not tell of its KV cache", name)
                return
            if ended == "lost" and feed.goes_on:
                continue  # at once: the batches that are missing may still be had
            if ended == "lost" or (isinstance(ended, SmgError) and cursor_refused(ended)):
                feed.forget()
            if str(ended) != reason:
                reason = str(ended)
                log.info("worker %s: its KV events are subscribed to anew (%s)", name, reason or "they ended")
            await self._pause()

    async def _subscribed(self, feed: "_EngineFeed", engine: KvTelling) -> SmgError | _Lost | None:
        """Listen until the subscription ends; returns why."""
        sink = _Sink(feed)
        after = feed.begin(sink)
        try:
            call = await engine.subscribe_kv_events(sink, after=after)
        except SmgError as error:
            return error
        if call is None:
            return None
        try:
            return await sink.ended
        finally:
            call.cancel()

    async def _pause(self) -> None:
        over = asyncio.Event()
        timer = self._call_later(self._pause_s, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()


class _Sink:
    """The `EngineSink` of one subscription; `ended` is why it ended."""

    def __init__(self, feed: "_EngineFeed") -> None:
        self.ended: asyncio.Future[SmgError | _Lost | None] = asyncio.get_running_loop().create_future()
        self._feeds = feed

    def push(self, batches: Sequence[KvEventBatch]) -> None:
        if not self.ended.done() and not self._feeds.take(batches):
            self.lose()

    def lose(self) -> None:
        """End as if batches were missing."""
        if not self.ended.done():
            self.ended.set_result("lost")

    def closed(self, error: SmgError | None) -> None:
        if not self.ended.done():
            self.ended.set_result(error)


class _EngineFeed:
    """What one worker's engine has told: a cursor for each of its ranks, and whether all of the rank's cache is known."""

    def __init__(self, policies: Policies, clock: Clock, worker: Worker) -> None:
        self._policies, self._clock, self._worker = policies, clock, worker
        self._model, self._role, self._facts = worker.models[0], worker.role, worker.facts
        self._sink: _Sink | None = None
        self._first = 0 if worker.spec.kv_events else FIRST_BATCH.get(worker.facts.dialect, 0)
        self._cursors: dict[int, KvCursor] = {}
        self._known: dict[int, KvKnown] = {}
        self._after: int | None = None

    def is_of(self, worker: Worker) -> bool:
        """Whether it was told by an engine that is what the worker's is now."""
        return (self._model, self._role, self._facts) == (worker.models[0], worker.role, worker.facts)

    def begin(self, sink: _Sink) -> int | None:
        """A subscription that pushes into `sink` begins: the number of the batch that it goes on from. Of several ranks none can:
        they have numbers of their own."""
        self._sink = sink
        only = self._cursors.get(0) if len(self._cursors) == 1 else None
        self._after = None if only is None else only.last
        if only is not None and self._after is not None:
            self._cursors = {0: KvCursor(self._after, first=self._first, complete=only.complete)}
        else:
            self._cursors = {}
        return self._after

    @property
    def goes_on(self) -> bool:
        """Whether a subscription from the last batch may bring what is missing: not where one has just brought nothing."""
        only = self._cursors.get(0) if len(self._cursors) == 1 else None
        return only is not None and only.last is not None and only.last != self._after

    def take(self, batches: Sequence[KvEventBatch]) -> bool:
        """Apply batches, as many at once as belong together. False if batches are missing before one of them; those behind it are
        left."""
        held: list[KvEvent] = []
        of = 0  # the rank whose events are held
        for batch in batches:
            cursor = self._cursors.get(batch.rank)
            if cursor is None:
                cursor = self._cursors[batch.rank] = KvCursor(first=self._first)
            verdict = cursor.take(batch)
            if verdict == "lost":
                self._apply(of, held)
                return False
            rank = self._rank(batch.rank)
            if rank is None or verdict not in ("apply", "restart"):
                continue
            if verdict == "restart" or rank != of:
                self._apply(of, held)
                held, of = [], rank
            if verdict == "restart":
                self._say(rank, "nothing")
            held += batch.events
            known: KvKnown = "all" if cursor.complete else "part"
            if self._known.get(rank) != known:
                self._apply(rank, held)
                held = []
                self._say(rank, known)
        self._apply(of, held)
        return True

    def _apply(self, rank: int, events: Sequence[KvEvent]) -> None:
        if events:
            now = self._clock.monotonic()
            self._policies.kv_changed(self._model, self._role, self._worker.name, rank, self._renamed(events), now)

    def _rank(self, rank: int) -> int | None:
        """The rank as policies count it: of a worker that is one rank of its engine 0; None for one that is not the worker's."""
        if self._worker.spec.rank is not None:
            return 0 if rank == self._worker.spec.rank else None
        return rank if rank < self._worker.rank_count else None

    def _renamed(self, events: Sequence[KvEvent]) -> Sequence[KvEvent]:
        """The events with adapters by the names by which clients ask for them."""
        if not self._worker.adapters:
            return events
        names = {each: name for name, each in self._worker.adapters.items()}
        return [
            replace(event, lora=names.get(event.lora, event.lora))
            if isinstance(event, KvBlocksStored) and event.lora
            else event
            for event in events
        ]

    def interrupted(self) -> None:
        """The engine tells nothing for now."""
        for rank, known in list(self._known.items()):
            if known == "all":
                self._say(rank, "part")

    def emptied(self) -> None:
        """Forget the blocks, and go on. Of what was stored since then some may be forgotten, too: that names nothing wrong."""
        for rank, known in list(self._known.items()):
            self._say(rank, "nothing")
            self._say(rank, known)

    def begin_anew(self) -> None:
        """Forget all that was told, and have the subscription begun anew."""
        self.forget()
        if self._sink is not None:
            self._sink.lose()

    def forget(self) -> None:
        """Forget all that was told."""
        for rank in list(self._known):
            self._say(rank, "nothing")
        self._known.clear()
        self._cursors.clear()

    def _say(self, rank: int, known: KvKnown) -> None:
        self._known[rank] = known
        salted = self._worker.facts.cache_salt
        self._policies.kv_known(self._model, self._role, self._worker.name, rank, known, salted=salted)

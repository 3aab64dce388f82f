"""Keeps watch over workers: lets them join, probes them, asks for their load, changes their client (edge).

One task for each worker: it lets the worker join, probes it, and lets it join again when it comes back after an absence, since
a restarted engine may serve another model. What an outcome means is decided by `health` and by the worker's state table. The
pipeline reports how each call of an engine ended (`outcome`), so that a lost worker is probed at once instead of at the end of
the interval. Above: gateway.assembly, which passes in how to connect to an engine and what to do when a worker joins.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, TypeVar

from smg_core.clock import CallLater, Clock, SystemClock
from smg_core.engines.base import CountsConnections, Engine, EngineFacts, ProcessFacts
from smg_core.engines.loads import Loads
from smg_core.engines.openai.answers import serves_others
from smg_core.engines.status import not_offered
from smg_core.errors import EngineStalled, ReadingFailed, SmgError, WorkerBusy, WorkerGone
from smg_core.hooks import BreakerChanged, JoinEnded, Observer, WorkerStateChanged
from smg_core.workers.handovers import Blame, HandoverEnd
from smg_core.workers.health import HealthTracker, IdentityTracker, Outcome
from smg_core.workers.polls import Learned, loads_of, packed_loads
from smg_core.workers.probe_times import until_next_probe
from smg_core.workers.registry import Registry
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import ClientCalls, Signal, State, Worker

__all__ = ["Monitor"]

log = logging.getLogger("smg.workers")

CANNOT_JOIN = (SmgError, ValueError, LookupError, OSError)
"""Errors that keep a worker from joining: the engine's, and those of the tokenizer or settings that it needs. They are logged."""

AWAY: tuple[State, ...] = ("unreachable", "joining")
"""The states of a worker that was there before and joins again when it answers: it was lost, or drained and then wanted back."""

_LATE = 1.5
"""Intervals after which the process that asks an engine for all is late, beside the time that the engine may take."""
_OUTCOMES: dict[bytes, Outcome | Literal["unknown"]] = {
    b"ok": "ok",
    b"failed": "failed",
    b"refused": "refused",
    b"unknown": "unknown",
}

Connect = Callable[[Worker], Awaitable[Engine]]
Join = Callable[[Worker, Engine], Awaitable[tuple[str, ...]]]
WhileJoined = Callable[[Worker, Engine], Awaitable[None]]
Probed = Callable[[Worker, Engine], Coroutine[Any, Any, None]]
T = TypeVar("T")


class Monitor:
    """Watches every worker of a registry. `connect` opens a client in the engine's dialect, `join` learns the engine's model and
    returns the names that it serves; `call_later` is used to begin a watch again that failed. `on_lost` is called with a worker
    whose health checks fail, with each one and in any state: it may drain; `on_cache_lost` with one whose engine is another
    process than before, so that what it had in its caches is gone, and `on_probed` with one that was found well and its engine,
    after each probe. `while_joined` runs for each worker from when it has joined until it has to join again or leaves; it is then
    cancelled. Where processes ask engines for one another (`Board.polls`), `tell_others` has them look at once at what is known
    of the worker of that name (`heard`)."""

    def __init__(
        self,
        registry: Registry,
        connect: Connect,
        join: Join,
        observer: Observer,
        settings: WorkersConfig,
        *,
        call_later: CallLater,
        on_fault: Callable[[str, BaseException, str], None],
        on_lost: Callable[[Worker], None] | None = None,
        on_cache_lost: Callable[[Worker], None] | None = None,
        on_probed: Probed | None = None,
        while_joined: WhileJoined | None = None,
        clock: Clock | None = None,
        tell_others: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._tell_others = tell_others
        self._suspected: set[str] = set()  # workers that this process asks by itself the next time
        self._seen: dict[str, int] = {}  # number of the last health check of another process that was taken up
        self._clock = clock or SystemClock()
        self._on_fault = on_fault
        self._registry = registry
        self._connect = connect
        self._join = join
        self._observer = observer
        self._settings = settings
        self._call_later = call_later
        self._on_lost = on_lost
        self._on_cache_lost = on_cache_lost
        self._on_probed = on_probed
        self._while_joined = while_joined
        self._workers: dict[str, Worker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._alarms: dict[str, asyncio.Event] = {}
        self._renewals: dict[str, asyncio.Task[None]] = {}
        self._replaced: dict[
            Engine, asyncio.Task[None] | None
        ] = {}  # clients that still have calls, or are being closed
        self._ending: set[asyncio.Task[None]] = set()
        self._telling: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    def adopt(self, settings: WorkersConfig) -> None:
        """Go by these settings from now on."""
        self._settings = settings

    def watch(self, worker: Worker, joined: Engine | None = None) -> None:
        """Begin to watch a worker that was added to the registry, or that has joined by the client `joined`."""
        self._workers[worker.name] = worker
        self._alarms[worker.name] = asyncio.Event()
        task = asyncio.create_task(self._keep_watch(worker, joined), name=f"watch {worker.name}")
        self._tasks[worker.name] = task
        task.add_done_callback(lambda done: self._watch_ended(worker, done))

    def _watch_ended(self, worker: Worker, watch: asyncio.Task[None]) -> None:
        """A watch ends only when it is cancelled. One that raised is logged and started again."""
        if watch.cancelled() or self._tasks.get(worker.name) is not watch:
            return
        fault = watch.exception()
        if fault is not None:
            self._on_fault("the watch over a worker, which is begun again,", fault, f"worker {worker.name}")
        self.signal(worker, "failing", "its watch failed")
        self._call_later(self._settings.join_interval_s, lambda: self._watch_again(worker, watch))

    def _watch_again(self, worker: Worker, failed: asyncio.Task[None]) -> None:
        if self._tasks.get(worker.name) is failed:
            self.watch(worker)

    def renew(self, worker: Worker) -> None:
        """Called when a worker's spec has changed so that it needs another client. One that serves goes on with the client
        that it has until it has joined by a new one; the old one is closed when its calls have ended."""
        earlier = self._renewals.pop(worker.name, None)
        if earlier is not None:
            earlier.cancel()
        if worker.reached is None:  # nothing to go on with: it is reached as it is now, at once
            watch = self._tasks.pop(worker.name, None)
            if watch is not None:
                watch.cancel()
            self.watch(worker)
            return
        task = asyncio.create_task(self._renew(worker), name=f"renew {worker.name}")
        self._renewals[worker.name] = task
        task.add_done_callback(lambda done: self._renewal_ended(worker, done))

    def _renewal_ended(self, worker: Worker, renewal: asyncio.Task[None]) -> None:
        """A renewal ends when the worker has joined by its new client, and when it is cancelled. One that raised is logged; it is
        begun again if the worker still waits for it."""
        fault = None if renewal.cancelled() else renewal.exception()
        if fault is None:
            return
        self._on_fault("the change of a worker, which is tried again,", fault, f"worker {worker.name}")
        if self._renewals.get(worker.name) is renewal:
            worker.pending = "joining as it was changed to be has failed unexpectedly"
            self._call_later(self._settings.join_interval_s, lambda: self._renew_again(worker, renewal))

    def _renew_again(self, worker: Worker, failed: asyncio.Task[None]) -> None:
        if self._renewals.get(worker.name) is failed:
            self.renew(worker)

    async def _renew(self, worker: Worker) -> None:
        """Join by a new client, again and again until that succeeds. The same error is logged once."""
        worker.pending = worker.pending or "it has not joined yet"
        reason = ""
        while True:
            began = self._clock.monotonic()
            try:
                engine, models = await self._joined_anew(worker)
            except CANNOT_JOIN as error:
                worker.pending = str(error)
                if worker.pending != reason:
                    reason = worker.pending
                    log.warning("worker %s has not joined as it was changed to be: %s", worker.name, error)
                await self._pause(self._settings.join_interval_s, asyncio.Event())
            else:
                break
        worker.pending = ""
        self._renewals.pop(worker.name, None)
        self._take_over(worker, engine, models)
        self._look_at_process(worker, worker.stated_facts, began)

    async def _joined_anew(self, worker: Worker) -> tuple[Engine, tuple[str, ...]]:
        engine = await self._connect(worker)
        try:
            return engine, await self._join(worker, engine)
        except BaseException:
            await engine.close()
            raise

    def _take_over(self, worker: Worker, engine: Engine, models: tuple[str, ...]) -> None:
        """Let `engine` be the client of a worker from now on, and watch the worker through it."""
        before, worker.reached = worker.reached, engine
        calls, worker.client_calls = worker.client_calls, ClientCalls()
        worker.take_load(None)
        self._registry.serve(worker, models)
        watch = self._tasks.pop(worker.name, None)
        if watch is not None:
            watch.cancel()
        if worker.state != "ready":
            self.signal(worker, "joined", f"serves {', '.join(models)}")
        log.info("worker %s has joined as it was changed to be, in the dialect %s", worker.name, worker.facts.dialect)
        self.watch(worker, engine)
        if before is not None:
            self._replaced[before] = None
            calls.when_none(lambda: self._close_later(before))

    def _close_later(self, engine: Engine) -> None:
        if engine in self._replaced and self._replaced[engine] is None:
            task = asyncio.create_task(engine.close(), name="close a client")
            self._replaced[engine] = task
            task.add_done_callback(lambda _: self._replaced.pop(engine, None))

    def wake(self, worker: Worker) -> None:
        """Probe a worker now, not at the end of the interval. One that is watched no more is left alone: another may have its
        name."""
        if self._workers.get(worker.name) is worker:
            self._suspected.add(worker.name)
            self._alarms[worker.name].set()

    def heard(self, name: str) -> None:
        """Called when a process, which may be this one, has learned something of the worker of that name: look at it now. The
        engine is not asked for that."""
        if (alarm := self._alarms.get(name)) is not None:
            alarm.set()

    def unwatch(self, worker: Worker) -> "asyncio.Task[None]":
        """Stop watching a worker: from now on another may have its name. The task ends when its engine's client is closed."""
        watching = [self._renewals.pop(worker.name, None), self._tasks.pop(worker.name, None)]
        self._alarms.pop(worker.name, None)
        self._workers.pop(worker.name, None)
        self._seen.pop(worker.name, None)
        self._suspected.discard(worker.name)
        ended = [task for task in watching if task is not None and task.cancel()]
        ending = asyncio.create_task(self._end(worker, ended), name=f"leave {worker.name}")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return ending

    async def _end(self, worker: Worker, watching: "list[asyncio.Task[None]]") -> None:
        await asyncio.gather(*watching, return_exceptions=True)
        await self._close_engine(worker)

    async def _close_engine(self, worker: Worker) -> None:
        engine, worker.reached = worker.reached, None
        if engine is not None:
            await engine.close()

    def outcome(self, worker: Worker, error: SmgError | None, now: float, rank: int | None = None) -> None:
        """Called when a call of this worker, or of this rank of its engine, has ended, at `now` (monotonic seconds). Tells its
        breaker; probes the worker at once if the engine was lost or stalled."""
        state = self._registry.breakers.ended(worker.name, error, now, rank) if worker.state == "ready" else None
        if state is not None:
            name = worker.name if rank is None else f"{worker.name}@{rank}"
            log.warning("worker %s: its breaker is %s", name, state.replace("_", "-"))
            self._observer.report(BreakerChanged(worker.name, state, rank))
        if isinstance(error, WorkerGone | EngineStalled):
            self.wake(worker)

    def handover(
        self, start: tuple[Worker, int | None], end: tuple[Worker, int | None], error: SmgError | None, began: float
    ) -> None:
        """Called when it is known whether one worker, at a rank of its engine, got the cache of another one. `error` is what the
        call failed with that began at `began` and did not. It counts for the one of the two that is to blame, once that is
        known; the one that may be gone is probed at once."""
        first, last, now = HandoverEnd.of(*start), HandoverEnd.of(*end), self._clock.monotonic()
        if error is None:
            self._blame(self._registry.handovers.went_well(first, last, now))
            return
        self.wake(first.worker)
        if isinstance(error, EngineStalled):
            self.wake(last.worker)
        if first.worker.state == last.worker.state == "ready":
            self._blame(self._registry.handovers.failed(first, last, error, began, now))

    def _blame(self, blamed: tuple[Blame, ...]) -> None:
        now = self._clock.monotonic()
        for each in blamed:
            for _ in range(each.count):
                self.outcome(each.end.worker, each.error, now, each.end.rank)

    async def ready(self) -> None:
        """Return once at least one worker is ready."""
        while not self._registry.any_ready:
            self._changed.clear()
            await self._changed.wait()

    async def settled(self) -> None:
        """Return once each worker has joined, or is known to be kept from it (`Worker.reason`)."""
        while any(each.state == "joining" and not each.reason for each in self._workers.values()):
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Stop watching, and close every engine client."""
        tasks, workers = [*self._renewals.values(), *self._tasks.values()], list(self._workers.values())
        self._tasks.clear()
        self._renewals.clear()
        self._alarms.clear()
        self._workers.clear()
        tasks += self._telling
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in workers:
            await self._close_engine(worker)
        await asyncio.gather(*self._ending, return_exceptions=True)
        for engine in list(self._replaced):
            self._close_later(engine)
        await asyncio.gather(*[task for task in self._replaced.values() if task is not None], return_exceptions=True)

    async def _keep_watch(self, worker: Worker, joined: Engine | None = None) -> None:
        while True:
            engine, joined = joined or await self._wait_until_joined(worker), None
            async with asyncio.TaskGroup() as group:
                others = [group.create_task(self._watch_loads(worker, engine))]
                if self._while_joined is not None:
                    others.append(
                        group.create_task(_run(self._while_joined, worker, engine), name=f"beside {worker.name}")
                    )
                await self._watch_health(worker, engine)
                for each in others:
                    each.cancel()

    async def _wait_until_joined(self, worker: Worker) -> Engine:
        """Connect and join, again and again until that succeeds. The same error is logged once."""
        reason = ""
        while True:
            began = self._clock.monotonic()
            try:
                engine = worker.reached
                if engine is None:
                    engine = worker.engine = await self._connect(worker)
                models = await self._join(worker, engine)
            except CANNOT_JOIN as error:
                self._joined(worker, type(error).__name__, began)
                if isinstance(error, WorkerGone):
                    worker.process.unreachable()
                if str(error) != reason:
                    worker.reason = reason = str(error)
                    self._changed.set()
                    log.warning("worker %s has not joined: %s", worker.name, error)
                if not worker.in_flight:  # connect again the next time, perhaps in another dialect
                    await self._close_engine(worker)
                await self._pause(self._settings.join_interval_s, asyncio.Event())
            else:
                self._joined(worker, "ok", began)
                worker.take_load(None)
                self._registry.serve(worker, models)
                self._look_at_process(worker, worker.stated_facts, began)
                self.signal(worker, "joined", f"serves {', '.join(models)}")
                log.info("worker %s is spoken to in the dialect %s", worker.name, worker.facts.dialect)
                return engine

    def _joined(self, worker: Worker, outcome: str, began: float) -> None:
        """Tell how an attempt to join, which began at `began`, has ended."""
        self._observer.report(JoinEnded(worker.name, outcome, self._clock.monotonic() - began))

    async def _pause(self, seconds: float, alarm: asyncio.Event) -> bool:
        """Return after `seconds`, or earlier when `alarm` is set; whether the seconds are over."""
        over = False

        def end() -> None:
            nonlocal over
            over = True
            alarm.set()

        timer = self._call_later(seconds, end)
        try:
            await alarm.wait()
        finally:
            timer.cancel()
        alarm.clear()
        return over

    async def _watch_health(self, worker: Worker, engine: Engine) -> None:
        """Probe until the worker has to join again: when it answers after it was unreachable, perhaps in another
        dialect, and when it describes itself otherwise than when it joined, since an engine may be replaced between two
        probes; `IdentityTracker` says when it is asked for that."""
        tracker, alarm = HealthTracker(self._settings), self._alarms[worker.name]
        identity, counting = IdentityTracker(), engine if isinstance(engine, CountsConnections) else None
        while True:
            outcome, reason = await self._next_outcome(worker, engine, alarm)
            if outcome == "refused":
                worker.process.unreachable()
            if outcome == "unknown":
                if worker.state in AWAY and not worker.in_flight:
                    await self._close_engine(worker)
                    return
                outcome = "failed"
            verdict = tracker.note(outcome)
            if verdict == "healthy" and worker.state in AWAY:
                return
            if verdict is not None:
                self.signal(worker, verdict, reason)
            connections = counting.connections if counting is not None else None
            if worker.state == "ready" and identity.due(outcome, connections, self._settings.identity_probes):
                another = await self._is_another_engine(worker, engine)
                if another is None:
                    identity.forget()
                elif another:
                    self.signal(worker, "failing", "is another engine than when it joined")
                    return
            if outcome == "ok" and worker.state == "ready" and self._on_probed is not None:
                await self._in_time(self._on_probed(worker, engine))

    async def _in_time(self, asking: Coroutine[Any, Any, T]) -> T | None:
        """What an engine says to a question that is asked after a probe; None where it has not answered in the time of a probe. A
        longer question would hold up the next probe, and an engine that has frozen since the last one would not be noticed."""
        task = asyncio.ensure_future(asking)

        def over() -> None:
            task.cancel()

        timer = self._call_later(self._settings.probe_timeout_s, over)
        try:
            await asyncio.wait((task,))
        finally:
            timer.cancel()
            task.cancel()
        return None if task.cancelled() else task.result()

    async def _is_another_engine(self, worker: Worker, engine: Engine) -> bool | None:
        """Whether the engine describes another model, other abilities or another role than when the worker joined, or has the
        model no more; None if it does not say. An engine that describes itself as before may be another process all the same:
        its caches are empty then."""
        began = self._clock.monotonic()
        try:
            described = await self._in_time(engine.describe())
        except SmgError as error:
            return serves_others(error) or None  # the next probe finds the reason of any other
        if described is None:
            return None
        info, facts = described
        if worker.info is not None and info != worker.info:
            return True
        if worker.stated_facts is not None and (facts != worker.stated_facts or facts.kv != worker.stated_facts.kv):
            return True
        self._look_at_process(worker, facts, began)
        return False

    def _look_at_process(self, worker: Worker, facts: EngineFacts | None, asked: float) -> None:
        """The engine, asked at `asked`, has described itself by `facts`: tell if the memory that it had before is gone."""
        process = facts.process if facts is not None else ProcessFacts()
        if worker.process.seen(process, asked, self._clock.monotonic()):
            log.info("worker %s: its engine is another process than before; its caches are empty", worker.name)
            if worker.asleep:  # such a process is awake
                self._registry.sleep([worker], asleep=False)
            if self._on_cache_lost is not None:
                self._on_cache_lost(worker)

    async def _next_outcome(
        self, worker: Worker, engine: Engine, alarm: asyncio.Event
    ) -> tuple[Outcome | Literal["unknown"], str]:
        """The outcome of the next probe, and its reason."""
        while True:
            interval = self._settings.health_interval_s
            pause = until_next_probe(self._clock.monotonic(), interval, worker.name)
            if worker.state in AWAY:
                pause = interval = min(interval, self._settings.join_interval_s)
            due = await self._pause(pause, alarm)
            outcome, reason = await self._outcome(worker, engine, interval, due=due)
            if outcome is not None:
                return outcome, reason

    async def _outcome(
        self, worker: Worker, engine: Engine, pause: float, *, due: bool
    ) -> tuple[Outcome | Literal["unknown"] | None, str]:
        """The outcome of a probe, which this process or another one has made, and its reason; None where nothing new is known.
        `pause` is the time between two probes, in seconds; `due`: it is time for one; without it, this process suspects the
        worker, or was told to look."""
        polls, suspected = worker.board.polls, worker.name in self._suspected
        self._suspected.discard(worker.name)
        if polls is None:
            return await self._probe(engine)
        row, url, patience = worker.row, worker.spec.url, _LATE * pause + self._settings.probe_timeout_s
        if not due and not suspected:
            return self._taken_up(worker, polls.health.known(row, url))
        if not suspected:
            found = polls.health.turn(row, url, self._clock.monotonic(), patience)
            if found is not None:
                return self._taken_up(worker, found)
        outcome, reason = await self._probe(engine)
        number, new = polls.health.learned(row, url, self._clock.monotonic(), outcome.encode())
        self._seen[worker.name] = number  # one probe counts once, here as elsewhere
        if new and self._tell_others is not None:
            # Beside what follows from it here: a channel that is slow holds that up in no process.
            telling = asyncio.create_task(_call_back(self._tell_others, worker.name), name="tell of health")
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)
        return outcome, reason

    def _taken_up(self, worker: Worker, found: Learned | None) -> tuple[Outcome | Literal["unknown"] | None, str]:
        """The outcome that a process has found, where it was not taken up before."""
        if found is None:
            return None, ""
        new = found.answer and self._seen.get(worker.name) != found.number
        self._seen[worker.name] = found.number
        return (_OUTCOMES[found.answer], "another process has found that") if new else (None, "")

    async def _probe(self, engine: Engine) -> tuple[Outcome | Literal["unknown"], str]:
        """The outcome of one probe and its reason; "unknown" when the server there does not know the health call."""
        try:
            healthy = await engine.health(self._settings.probe_timeout_s)
        except WorkerGone as error:
            return "refused", str(error)
        except (
            WorkerBusy
        ) as error:  # one that answers others is no less well than full; one that says so itself is not well
            return "ok" if error.answers_others else "failed", str(error)
        except ReadingFailed as error:  # the engine has answered, and the fault is on this side
            log.warning("the answer to a probe could not be read: %s", error)
            return "ok", str(error)
        except SmgError as error:
            return "unknown" if not_offered(error) else "failed", str(error)
        return ("ok", "answers") if healthy else ("failed", "says that it is not healthy")

    async def _watch_loads(self, worker: Worker, engine: Engine) -> None:
        """Ask for the engine's load at an interval, while there is more than one worker to choose from."""
        while worker.facts.loads:
            pause = until_next_probe(self._clock.monotonic(), self._settings.loads_interval_s, worker.name)
            await self._pause(pause, asyncio.Event())
            if worker.state != "ready" or len(self._registry) < 2:
                continue
            try:
                worker.take_load(await self._load(worker, engine))
            except SmgError:
                worker.take_load(None)
            else:
                if worker.load is None:  # the engine does not report it
                    return

    async def _load(self, worker: Worker, engine: Engine) -> Loads | None:
        """The load of an engine, which this process or another one has asked for."""
        polls, url = worker.board.polls, worker.spec.url
        if polls is None:
            return await self._asked_load(worker, engine)
        patience = _LATE * self._settings.loads_interval_s + self._settings.probe_timeout_s
        found = polls.loads.turn(worker.row, url, self._clock.monotonic(), patience)
        if found is not None and found.answer:
            return loads_of(found.answer)
        loads = await self._asked_load(worker, engine)
        if found is None:
            polls.loads.learned(worker.row, url, self._clock.monotonic(), packed_loads(loads))
        return loads

    async def _asked_load(self, worker: Worker, engine: Engine) -> Loads | None:
        """The load that the engine reports, of the worker's rank alone where it is one, with the requests that others than this
        gateway have there."""
        before = worker.in_flight
        loads = await engine.loads()
        if loads is None:
            return None
        ranks = tuple(row for row in loads.ranks if worker.spec.rank in (None, row.rank)) or loads.ranks
        ours = max(before, worker.in_flight)  # one that comes or ends meanwhile is no one else's
        return Loads(ranks, max(0, sum(row.running + row.waiting for row in ranks) - ours))

    def signal(self, worker: Worker, signal: Signal, reason: str) -> None:
        """Send a signal to a worker's state machine. A change of state is logged and reported to the observer."""
        before = worker.state
        if self._registry.signal(worker, signal, reason, self._clock.monotonic()):
            log.info("worker %s: %s -> %s (%s)", worker.name, before, worker.state, reason)
            self._observer.report(WorkerStateChanged(worker.name, before, worker.state, reason))
            self._changed.set()
        if signal == "failing" and self._on_lost is not None:
            self._on_lost(worker)


async def _call_back(tell: Callable[[str], Awaitable[None]], name: str) -> None:
    await tell(name)


async def _run(while_joined: WhileJoined, worker: Worker, engine: Engine) -> None:
    await while_joined(worker, engine)

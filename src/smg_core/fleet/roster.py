"""Changes of the roster of workers while the gateway runs: add, change, drain, remove, in all its processes (edge).

A change is published as what one worker is to be (`workers.roster_entry`) and applied where it is received, in this process as in
all others, so that they apply the same changes in the same order. Without a channel it is applied at once. Whoever names a worker
(the settings, the admin door, something that discovers) is its source; `reconcile` makes the workers of one source be what that
source wants and touches no other's. Above: gateway.assembly, server.admin, operation.control. Below: registry, monitor,
onboarding.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from random import Random

import attrs

from smg_core.channel.base import Channel, Notice
from smg_core.channel.settling import known_everywhere
from smg_core.clock import CallLater, Clock
from smg_core.config.config import Config
from smg_core.errors import SmgError
from smg_core.fleet.leader import Leading
from smg_core.models.onboarding import Onboarding
from smg_core.routing import Policies
from smg_core.workers.monitor import Monitor
from smg_core.workers.registry import Registry
from smg_core.workers.roster_entry import RosterEntry, read_entry, written_entry
from smg_core.workers.worker import Board, Worker, WorkerSpec, needs_new_client

__all__ = ["ADMIN", "FILE", "MESH", "PROGRAM", "SETTINGS", "Reconciled", "Roster", "first_source", "registry_of"]

log = logging.getLogger("smg.workers")

KIND = "workers"
SETTINGS = "settings"
"""The source of the workers that the settings name."""
FILE = "file"
"""That of workers of the file that the settings name, which `discovery` may watch."""
PROGRAM = "program"
"""That of workers that a program has given, here or in `Gateway.add_worker`."""

ADMIN = "admin"
"""That of workers that were added at the admin door."""

MESH = "mesh"
"""That of workers that another gateway brought, by its settings, its file or what it has discovered."""

LOOKS_S = 0.05
"""Seconds between two looks at whether a worker that drains still has requests; those of other processes ring no bell here."""


def registry_of(config_now: Callable[[], Config], board: Board | None, rng: Random, clock: Clock) -> Registry:
    """The registry of a gateway with these settings, of which those of names may change while it runs."""
    config = config_now()
    return Registry(
        board,
        settings=config.workers,
        retry_after=config.limits.retry_after_s,
        breaker=config.breaker,
        draw=rng.random,
        monotonic=clock.monotonic,
        expected=lambda spec: config_now().model.expected(spec.model, [name for name, _ in spec.adapters]),
    )


@attrs.frozen
class Reconciled:
    """The names of the workers that a reconciliation added, changed and began to retire, in order."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = (("added", self.added), ("changed", self.changed), ("leaving", self.retired))
        changes = [f"{what} {', '.join(names)}" for what, names in named if names]
        return "; ".join(changes) or "none is new, changed or leaving"

    def and_also(self, other: "Reconciled") -> "Reconciled":
        """Both, one after the other."""
        return Reconciled(self.added + other.added, self.changed + other.changed, self.retired + other.retired)


def first_source(spec: WorkerSpec, named: Sequence[WorkerSpec], in_file: Container[str]) -> str:
    """Whose a worker is that is there when the gateway starts: of the settings that have `named` it, of their file, which has
    the names `in_file`, or of the program."""
    if spec.label in in_file:
        return FILE
    return SETTINGS if spec in named else PROGRAM


@attrs.define(eq=False)
class Roster:
    """The roster of one gateway. `check` raises ValueError for a spec that cannot work, `move` has the calls of a worker go on
    elsewhere; `settle_s` are the seconds that a change may take to be made in every process. In the process that leads
    (`leading`), workers that retire are seen off. `on_change`, which may be set, is told of each change that was asked for."""

    registry: Registry
    monitor: Monitor
    onboarding: Onboarding
    policies: Policies
    check: Callable[[WorkerSpec], None]
    move: Callable[[Worker], None]
    clock: Clock
    call_later: CallLater
    drain_s: Callable[[], float]
    settle_s: float
    leading: Leading = attrs.field(factory=Leading)
    channel: Channel | None = None
    on_change: Callable[[RosterEntry], None] | None = None
    _entries: dict[str, RosterEntry] = attrs.field(factory=dict)
    _leaving: dict[str, asyncio.Task[None]] = attrs.field(factory=dict)
    _closed: bool = False
    _started: Mapping[str, str] = attrs.field(factory=dict)
    _number: int = 0
    _altering: asyncio.Lock = attrs.field(factory=asyncio.Lock)

    def listen(self, started: Mapping[str, str] | None = None) -> None:
        """Apply what is published, beginning with what is kept of it. Called once, when the first workers are there. `started`
        has the URLs of workers whose engines were started with this gateway, by name: what is kept of them is of an earlier
        start, when their engines were elsewhere."""
        if self.channel is not None:
            self._started = started or {}
            self.channel.subscribe(KIND, self._receive)
            self._started = {}

    async def close(self) -> None:
        """Apply nothing more, and wait for nobody."""
        self._closed = True
        leaving = list(self._leaving.values())
        self._leaving.clear()
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)

    # -------------------------------------------------------------------------------------------------- what is asked

    async def add(self, spec: WorkerSpec, source: str) -> Worker:
        """Add a worker. Raises ValueError for an invalid one, for a name that is taken, and where no more fit."""
        async with self._altering:
            self.check(spec)
            self.registry.check_new(spec)
            return await self._publish(RosterEntry(spec.label, spec, source))

    async def change(self, name: str, spec: WorkerSpec) -> Worker:
        """Let a worker be what `spec` says, which has its name. Raises LookupError, and ValueError for an invalid spec."""
        return await self.edit(name, lambda _: spec)

    async def edit(self, name: str, edited: Callable[[WorkerSpec], WorkerSpec]) -> Worker:
        """Let a worker be what `edited` makes of what it is, under its name. Raises LookupError, ValueError for an invalid spec,
        and what `edited` raises."""

        def alter(entry: RosterEntry) -> RosterEntry:
            spec = edited(self.worker(name).spec)
            if spec.label != name:
                raise ValueError(f"the worker {name!r} cannot be called {spec.label!r}: remove it and add another")
            self.check(spec)
            return attrs.evolve(entry, spec=spec)

        return await self._alter(name, alter)

    async def drain(self, name: str, *, move: bool = False) -> Worker:
        """Send a worker no new requests; those that it has are finished. With `move` they go on with other workers now, if there
        are any and the requests can. Raises LookupError."""
        return await self._alter(name, lambda entry: attrs.evolve(entry, draining=True, move=move))

    async def undrain(self, name: str) -> Worker:
        """Let a worker that drains have requests again, once its engine has answered. Raises LookupError."""
        return await self._alter(name, lambda entry: attrs.evolve(entry, draining=False, move=False, retire_s=None))

    async def remove(self, name: str) -> None:
        """Remove a worker at once: its calls go on with others where they can. Raises LookupError."""
        async with self._altering:
            await self._publish_gone(self.worker(name))

    async def retire(self, name: str, within_s: float, *, move: bool = False) -> Worker:
        """Drain a worker, and remove it when its requests have ended, or after so many seconds. Raises LookupError."""
        until = self.clock.time() + within_s
        return await self._alter(
            name, lambda entry: attrs.evolve(entry, move=move, retire_s=within_s, retires_at=until)
        )

    async def restore(self, name: str, spec: WorkerSpec) -> Worker:
        """Let a worker that retires stay, as `spec` says; one that an operator drains goes on draining. Raises LookupError, and
        ValueError for an invalid spec."""
        self.check(spec)
        return await self._alter(name, lambda entry: attrs.evolve(entry, spec=spec, retire_s=None))

    async def reconcile(self, source: str, specs: Iterable[WorkerSpec]) -> Reconciled:
        """Make the workers of `source` be `specs`: what is missing is added, what is there and not wanted retires, and what an
        operator drains goes on draining. A name that another source has taken is left to that one, unless that worker retires.
        Raises ValueError if any of `specs` is invalid; nothing is changed then."""
        wanted = {spec.label: spec for spec in specs}
        for spec in wanted.values():
            self.check(spec)
        added, changed = [], []
        for name, spec in wanted.items():
            worker = self.registry.get(name)
            if worker is None:
                await self.add(spec, source)
                added.append(name)
            elif worker.source != source and not self.retires(name):
                log.warning("worker %s is there already, named by %s and not by %s", name, worker.source, source)
            elif worker.spec != spec or self.retires(name):
                await self._want(name, spec, source)
                changed.append(name)
        retired = await self._retire_all(
            each for each in self.registry if each.source == source and each.name not in wanted
        )
        return Reconciled(tuple(added), tuple(changed), retired)

    async def retire_others(self, sources: Container[str]) -> Reconciled:
        """Have the workers retire that a source brought which is none of `sources`."""
        return Reconciled(retired=await self._retire_all(each for each in self.registry if each.source not in sources))

    async def _retire_all(self, workers: Iterable[Worker]) -> tuple[str, ...]:
        """Have these workers retire; the names of those that did not yet."""
        names = [each.name for each in workers if not self.retires(each.name)]
        for name in names:
            await self.retire(name, self.drain_s())
        return tuple(names)

    def check_all(self, specs: Iterable[WorkerSpec]) -> None:
        """Raise ValueError for the first spec that cannot work, and where not all of them fit; LookupError for an unknown
        dialect."""
        new = set()
        for spec in specs:
            self.check(spec)
            new |= {spec.label} if self.registry.get(spec.label) is None else set()
        self.registry.check_room(len(new))

    async def settled(self) -> None:
        """Return once every process has made all changes that this one has. Called before somebody is answered who made one: a
        worker that is said to drain gets no new request from any process. Raises Overloaded after `settle_s`."""
        if self.channel is not None:
            await known_everywhere(self.channel, self._number, self.settle_s)

    async def drained(self, worker: Worker, seconds: float) -> int:
        """Wait until a worker has no requests in any process, for at most so many seconds; how many it has left."""
        until = self.clock.monotonic() + seconds
        while worker.in_flight and (left := until - self.clock.monotonic()) > 0:
            await self._paused(min(left, LOOKS_S))
        return worker.in_flight

    async def _paused(self, seconds: float) -> None:
        """Wait so many seconds."""
        over = asyncio.Event()
        timer = self.call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def worker(self, name: str) -> Worker:
        """The worker of that name. Raises LookupError."""
        worker = self.registry.get(name)
        if worker is None:
            raise LookupError(f"there is no worker {name!r}")
        return worker

    # -------------------------------------------------------------------------------------------------- what is applied

    def added(self, spec: WorkerSpec, source: str = PROGRAM) -> Worker:
        """Add a worker in this process alone. Raises ValueError as `add` does."""
        self.check(spec)
        worker = self.registry.add(spec, source)
        self.monitor.watch(worker)
        return worker

    def resume(self, worker: Worker) -> None:
        """Take a worker back that drains, in this process alone: it joins again when its engine answers."""
        if worker.state == "draining":
            self.monitor.signal(worker, "undrain", "asked to come back")
            self.monitor.wake(worker)

    def removed(self, worker: Worker) -> "asyncio.Task[None]":
        """Remove a worker in this process alone; the task ends when its engine's client is closed."""
        self.monitor.signal(worker, "removed", "asked to leave")
        self.onboarding.left(worker)
        self._entries.pop(worker.name, None)
        return self.monitor.unwatch(worker)

    def _entry_of(self, worker: Worker) -> RosterEntry:
        """What a worker is to be now."""
        known = self._entries.get(worker.name)
        if known is not None and known.spec is not None:
            return attrs.evolve(known, move=False)
        return RosterEntry(worker.name, worker.spec, worker.source, worker.state == "draining")

    async def _want(self, name: str, spec: WorkerSpec, source: str) -> None:
        """Let a worker be what this source wants; it is taken back if it retires, and not if an operator drains it."""
        await self._alter(name, lambda entry: attrs.evolve(entry, spec=spec, source=source, retire_s=None))

    async def _alter(self, name: str, alter: Callable[[RosterEntry], RosterEntry]) -> Worker:
        """Publish what `alter` makes of a worker's entry: one change at a time, so that none is made of what another one is about
        to replace. Raises LookupError, and what `alter` raises."""
        async with self._altering:
            return await self._publish(alter(self._entry_of(self.worker(name))))

    def retires(self, name: str) -> bool:
        """Whether a worker leaves once its requests have ended."""
        entry = self._entries.get(name)
        return entry is not None and entry.retire_s is not None

    async def _publish(self, entry: RosterEntry) -> Worker:
        if self.channel is None:
            self._apply(entry)
        else:
            await self.channel.publish(KIND, written_entry(entry), key=entry.name)
        return self.worker(entry.name)

    async def adopt(self, entry: RosterEntry) -> None:
        """Let a worker be what another gateway says, or go; whose it is here stays as it is. Raises ValueError for a spec that
        cannot work, and where it has no room."""
        async with self._altering:
            worker = self.registry.get(entry.name)
            if entry.spec is not None:
                self.check(entry.spec)
                if worker is None:
                    self.registry.check_new(entry.spec)
                source = worker.source if worker is not None else ADMIN if entry.source == ADMIN else MESH
                await self._publish(attrs.evolve(entry, source=source))
            elif worker is not None:
                await self._publish_gone(worker)

    async def _publish_gone(self, worker: Worker) -> None:
        name, gone = worker.name, RosterEntry(worker.name, None, worker.source)
        if self.channel is None:
            self._apply(gone)
        else:  # processes that start later know the workers of the settings, and of no others
            body = written_entry(gone) if worker.source in (SETTINGS, FILE) else b""
            await self.channel.publish(KIND, body, key=name)

    def _receive(self, message: Notice) -> None:
        if self._closed:
            return
        self._number = message.number
        try:
            entry = read_entry(message.body) if message.body else RosterEntry(message.key, None)
            if entry.spec is not None and (url := self._started.get(entry.name)):
                entry = attrs.evolve(entry, spec=attrs.evolve(entry.spec, url=url))
            self._apply(entry)
            if self.on_change is not None:
                self.on_change(entry)
        except ValueError as error:
            # The process that was asked has checked it; here the registry may be another one's size.
            log.warning("worker %s: a change that another process has made cannot be made here: %s", message.key, error)

    def _apply(self, entry: RosterEntry) -> None:
        worker = self.registry.get(entry.name)
        leaving = self._leaving.pop(entry.name, None)
        if leaving is not None:
            leaving.cancel()
        if entry.spec is None:
            if worker is not None:
                self.removed(worker)
            return
        if worker is None:
            worker = self.added(entry.spec, entry.source)
        else:
            worker.source = entry.source
            self.respec(worker, entry.spec)
        self._entries[entry.name] = entry
        self._apply_drain(worker, entry)

    def respec(self, worker: Worker, spec: WorkerSpec) -> None:
        """Let a worker be what `spec` says, in this process alone."""
        before = worker.spec
        if before == spec:
            return
        self.registry.change(worker, spec)
        if before.url != spec.url:  # what its cache was thought to have is at another place
            self.policies.cache_lost(worker.name, worker.models)
            self.policies.worker_left(worker.name, worker.models)
        if needs_new_client(before, spec):
            self.monitor.renew(worker)

    def _apply_drain(self, worker: Worker, entry: RosterEntry) -> None:
        if entry.takes_requests:
            self.resume(worker)
            return
        self.monitor.signal(worker, "drain", "asked to drain")
        if entry.move:
            self.move(worker)
        self._begin_to_see_off(entry)

    def take_the_lead(self) -> None:
        """Called when this process begins or ceases to lead: whoever leads sees off the workers that retire."""
        for task in self._leaving.values():
            task.cancel()
        self._leaving.clear()
        for entry in list(self._entries.values()):
            self._begin_to_see_off(entry)

    def _begin_to_see_off(self, entry: RosterEntry) -> None:
        worker = self.registry.get(entry.name)
        if worker is None or entry.retire_s is None or not self.leading.now or self._closed:
            return
        left = max(0.0, min(entry.retire_s, entry.retires_at - self.clock.time()))
        self._leaving[entry.name] = asyncio.create_task(self._see_off(worker, left))

    async def _see_off(self, worker: Worker, seconds: float) -> None:
        """Remove a worker that retires when its requests have ended, or after so many seconds."""
        if self.channel is not None:  # else another process, which does not know yet, could send it one more request
            await self.channel.settled(self._number, min(seconds, self.settle_s))
        left = await self.drained(worker, seconds)
        while True:
            try:
                async with self._altering:
                    if self.registry.get(worker.name) is not worker or not self.retires(worker.name):
                        return  # somebody was before this one, and took it back
                    if left:
                        log.warning("worker %s leaves with %d request(s) left", worker.name, left)
                    # What comes of it ends this task, as any change of the worker does.
                    await self._publish_gone(worker)
                    return
            except SmgError as error:
                log.warning("worker %s is to leave, and stays for now: %s", worker.name, error)
            await self._paused(self.settle_s)

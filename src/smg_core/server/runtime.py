"""Builds all objects of a gateway from a `Config`, starts and stops them (edge).

Imports edges so that nothing else has to. It decides nothing about requests: it builds registry, monitor, driver and onboarding.
Above: `server.app` and its handlers serve requests with it; `server.gateway`'s class inherits from it and adds ASGI app and
clients.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NoReturn, Protocol, Self, TypedDict, TypeVar, runtime_checkable

from smg_core.clock import CallLater, Clock, IdSource, SystemClock, random_ids
from smg_core.config import Config
from smg_core.errors import SmgError, WorkerError
from smg_core.hooks import Observer, SilentObserver, fan_out
from smg_core.pipeline.performers import Chosen, Rows, loop_call_later, performers
from smg_core.server.adapter_changes import AdapterChanges
from smg_core.server.admission import Admission, RequestPlace, compat_of
from smg_core.server.hosted_tools import hosted_kinds, hosted_tools
from smg_core.server.identity import Authenticator, Caller, Identify, VirtualKeys, anonymous, open_identity
from smg_core.server.keeping import Backend, GuardedStore, Hook, keeping, keeping_sent
from smg_core.server.onboarding import ModelLoader, Onboarding, ServedModel, executor_of, loading_place
from smg_core.server.plugins import Channel, LocalChannel, Plugins
from smg_core.server.policies import (
    Decisions,
    ModelChoice,
    Policy,
    PolicyFailures,
    RequestEnded,
    makes_other_policies,
    policies_of,
)
from smg_core.server.reaching import (
    WITHOUT_WORKERS,
    Board,
    Reaching,
    Worker,
    WorkerSpec,
    brings_workers,
    cache_losses,
    given_spec,
    specs_of,
    workers_in,
)
from smg_core.server.roster import (
    PROGRAM,
    Leading,
    Monitor,
    Roster,
    first_source,
    hear_others,
    registry_of,
    telling_others,
)
from smg_core.server.tracing import logs_of, tracing_of

__all__ = ["Beside", "RequestPlace", "Runtime", "RuntimeArguments"]


class Beside(Protocol):
    """What runs beside the requests while the gateway is started."""

    async def run(self) -> None:
        """Work until it is cancelled."""
        ...


@runtime_checkable
class Drains(Protocol):
    """What runs beside the requests and has something of its own to end."""

    def drain(self) -> None:
        """The gateway shuts down: begin nothing more."""
        ...


log = logging.getLogger("smg.server")

READY_S = 60.0
"""Seconds that a program waits for a worker which says nothing else."""

B = TypeVar("B", bound=Beside)
T = TypeVar("T")


class RuntimeArguments(TypedDict, total=False):
    """The keyword arguments of `Runtime`, for the constructors and functions that pass them on."""

    workers: Sequence[str | WorkerSpec]
    policy: str | Policy | Callable[[], Policy] | None
    tokenizer: str | Path | None
    config: Config | None
    observer: Observer | None
    history: Backend | None
    history_hooks: Sequence[Hook]
    identity: Authenticator | None
    clock: Clock | None
    ids: IdSource | None
    rng: random.Random | None
    board: Board | None
    channel: Channel | None
    call_later: CallLater | None


class Runtime:
    """A gateway without its HTTP side. `workers` are engine URLs or WorkerSpecs, beside those in `config`.

    `policy` is a name, a factory that is called for each model and role, or an object that serves them all, in place of what
    the settings name; `tokenizer` a folder, without which the engine is asked for its own. `history` is a store that is yours
    to close, in place of the one that the settings name; `history_hooks` are called around every use of it. `identity` says
    whose each request is, in place of the settings of the sections auth and oidc. `board` counts requests in flight over
    several processes, and over `channel` these tell each other of changes; `clock`, `ids`, `rng` and `call_later` (the event
    loop's, unless a test brings its own) are what the rooms are given of the world.
    """

    def __init__(
        self,
        workers: Sequence[str | WorkerSpec] = (),
        *,
        policy: str | Policy | Callable[[], Policy] | None = None,
        tokenizer: str | Path | None = None,
        config: Config | None = None,
        observer: Observer | None = None,
        history: Backend | None = None,
        history_hooks: Sequence[Hook] = (),
        identity: Authenticator | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        rng: random.Random | None = None,
        board: Board | None = None,
        channel: Channel | None = None,
        call_later: CallLater | None = None,
    ) -> None:
        self.config = config or Config()
        self.channel = channel or LocalChannel(self.config.channel)
        self.call_later = call_later or loop_call_later
        self.clock = clock or SystemClock()
        self.ids = ids or random_ids()
        self.rng = rng or random.Random()
        self.observer = observer or SilentObserver()
        self.faults, self.failures = logs_of(self.config, self.clock)
        self.tracing = tracing_of(self.config, self.clock, self.observer)
        self.models: dict[str, ServedModel] = {}
        limits = self.config.limits
        self.registry = registry_of(lambda: self.config, board, self.rng, self.clock)
        self.admission = Admission(
            limits.concurrent_requests,
            limits.pending_body_bytes,
            after_large=lambda: self.executor.large_ended(),
            retry_after=limits.retry_after_s,
            retries=self.config.routing,
        )
        self.started = self.stopped = self.retiring = False
        self.leading, told = Leading(), self.config.observability
        self._id_header, self._id_characters = told.request_id_header.lower(), told.request_id_characters
        self.hosted, self.explains = hosted_kinds(self.config.mcp), told.explain
        self.limits, self.compat = self.config.limits, compat_of(self.config)
        self.choice = ModelChoice(self.config.routing, self._stands_for)
        self.policies = policies_of(self.config.routing, policy, self.rng)
        self.decisions = Decisions(self.config.routing.decisions, self.config.routing.decision_bytes)
        self._folder = Path(tokenizer) if tokenizer is not None else _own_folder(self.config)
        self._given_policy = policy
        self._specs = [*(given_spec(each) for each in workers), *specs_of(self.config.workers)]
        self._from_file: list[WorkerSpec] = []
        self._in_file: frozenset[str] = frozenset()
        self._reaching = Reaching(self.config)
        self._further: Rows = {}
        self._history, self._history_hooks, self._identity = history, history_hooks, identity
        about = (self.config, self.channel, self.clock, self.call_later, self.observer)
        self.plugins = Plugins(*about, self.names_of, self.ids, self._apart)
        self._beside: dict[type[Beside], Beside] = {Plugins: self.plugins}
        self.identify: Identify = anonymous
        self.virtual_keys: VirtualKeys | None = None
        self._stack = AsyncExitStack()
        self._changing = asyncio.Lock()  # held while it starts and while it stops

    # --------------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Begin to reach the workers; returns before they are. Calling it again does nothing; who calls it meanwhile waits.

        Raises ConfigError for settings that could never work, ValueError for an invalid worker URL and for a folder without a
        tokenizer, StoreFailed if the history cannot be opened, UnknownDialect and UnknownPolicy for unknown names; everything
        that was started is then stopped.
        """
        async with self._changing:
            if self.started:
                return
            try:
                await self._start()
            except BaseException:
                await self._end()
                raise
            self.started, self.stopped = True, False

    async def _read_workers(self) -> None:
        """Read the file of workers. Raises what is wrong with it, with a worker, or with the policies."""
        self._from_file = await workers_in(self.config)
        self._in_file = frozenset(each.label for each in self._from_file)
        for spec in (*self._specs, *self._from_file):
            self._reaching.check(spec)
        self.policies.check()

    async def _start(self) -> None:
        await self._read_workers()
        self.admission.draining = False
        self.loop = asyncio.get_running_loop()
        self._stack = AsyncExitStack()
        self.executor = executor_of(self.config)
        self._stack.callback(self.executor.close)
        await self._stack.enter_async_context(self.plugins.opened())
        self.policies.on_fault = PolicyFailures(self.clock, self.observer, self.config.observability).note
        watching = await self._watching()
        opened = keeping(
            self.config.history, self.clock, self._history, self._history_hooks, watching, plugins=self.plugins
        )
        self.history: GuardedStore = await self._stack.enter_async_context(opened)
        self.identify, self.virtual_keys = await open_identity(
            self.config, self.clock, self._stack, self.history, self._identity
        )
        process = self.registry.process
        await self._stack.enter_async_context(
            keeping_sent(self.config.routing, self.policies, self.rng, self.call_later, process)
        )
        pool, scratch = await loading_place(self.config, self._stack)
        loader = ModelLoader(
            self.config, folder=self._folder, scratch=scratch, clock=self.clock, pool=pool, stack=self._stack
        )
        self.sealer = loader.sealing.sealer
        self.onboarding = Onboarding(
            self.config, loader=loader, registry=self.registry, policies=self.policies, models=self.models
        )
        await self.onboarding.start()
        self._begin_monitor()
        self.performers = performers(
            registry=self.registry,
            models=self.models,
            policies=self.policies,
            clock=self.clock,
            executor=self.executor,
            on_outcome=self._on_outcome,
            on_handover=self._on_handover,
            call_later=self.call_later,
            served_as=self._served_as,
            shared_out=lambda request: self.choice.model(request),
            content=loader.content,
            disaggregation=self.config.disaggregation,
            prefix_tokens=self.config.routing.prefix_tokens,
            decisions=self.decisions,
        )
        running = hosted_tools(self.config.mcp, self.history, self.clock, self._media_of)
        tools = await self._stack.enter_async_context(running)
        self.driver = self.performers.driver({**self._further, **tools})
        await self._begin_roster(scratch)
        for beside in self._beside.values():
            self._run(beside)

    def _begin_monitor(self) -> None:
        """Make what watches over workers, and what listens to their caches."""
        self.cache_losses = cache_losses(
            self.config, self.registry, self.policies, self.clock, self.call_later, self.channel
        )
        self._stack.callback(self.cache_losses.close)
        self.monitor = Monitor(
            self.registry,
            self._reaching.connect,
            self.onboarding.join,
            self.observer,
            self.config.workers,
            call_later=self.call_later,
            on_lost=self._on_lost,
            on_cache_lost=self.cache_losses.restarted,
            on_probed=self.onboarding.refresh_adapters,
            beside=self.cache_losses.listens,
            clock=self.clock,
            on_fault=self.faults.note,
            tell_others=telling_others(self.channel),
        )
        self._stack.push_async_callback(self.monitor.close)
        hear_others(self.channel, self.monitor.heard)

    async def _begin_roster(self, scratch: Path) -> None:
        """Add the workers to begin with, and from now on make the changes that processes tell each other of."""
        self.roster = Roster(
            registry=self.registry,
            monitor=self.monitor,
            onboarding=self.onboarding,
            policies=self.policies,
            check=self._reaching.check,
            move=self._move_all,
            clock=self.clock,
            call_later=self.call_later,
            drain_s=lambda: self.config.workers.drain_s,
            settle_s=self.config.channel.publish_s,
            leading=self.leading,
            channel=self.channel,
        )
        self._stack.push_async_callback(self.roster.close)
        self._stack.enter_context(self.leading.watched(self.roster.take_the_lead))
        named, first = specs_of(self.config.workers), await self._first_workers(self._stack, scratch)
        for spec in first:
            self.roster.added(spec, first_source(spec, named, self._in_file))
        given = set(map(id, (*self._specs, *self._from_file)))
        self.roster.listen({spec.label: spec.url for spec in first if id(spec) not in given})
        self.adapter_changes = AdapterChanges(
            self.registry, self.onboarding, self.monitor.wake, self.channel, self.config.channel.publish_s
        )
        self._stack.callback(self.adapter_changes.close)
        self.adapter_changes.listen()
        self.cache_losses.listen()

    def _move_all(self, worker: Worker) -> None:
        """Have the calls of a worker go on with others, as far as these can take them."""
        self.performers.streaming.move_all(worker)
        self.performers.pooling.move(worker)

    async def _watching(self) -> Observer:
        """Who is told of calls of the history: the observer, and the tracer, whose spans are sent from now on."""
        if self.tracing is None:
            return self.observer
        await self._stack.enter_async_context(self.tracing.sending())
        return fan_out(self.observer, self.tracing.tracer)

    async def _first_workers(self, stack: AsyncExitStack, scratch: Path) -> list[WorkerSpec]:
        """The workers to begin with. A subclass may start some of its own, which `stack` ends; `scratch` is a folder for their
        sockets."""
        return [*self._specs, *self._from_file]

    def _on_lost(self, worker: Worker) -> None:
        """Called each time that a worker does not answer a health check: its waiting requests are tried on other workers, as far
        as these can take them."""
        self.performers.streaming.move_waiting(worker, self.config.workers.probe_timeout_s)
        self.performers.pooling.move(worker)

    def _on_outcome(self, chosen: Chosen, error: SmgError | None, seconds: float, counts: bool) -> None:
        """Called when a call of a worker has ended: tells the monitor, if it says something of the worker, and the policies of
        the worker's models."""
        worker = chosen.worker
        rank = chosen.rank if worker.spec.rank is None else None
        first = chosen.probe is None or (counts and chosen.probe.told())
        if counts and (first or error is not None):
            self.monitor.outcome(worker, error, self.clock.monotonic(), rank)
        elif not counts:
            chosen.give_back()
        if self.policies.observing and worker.state != "gone":  # of one that is gone they have forgotten all
            ended = RequestEnded(worker.name, isinstance(error, WorkerError), seconds)
            self.policies.request_ended(ended, worker.models)

    def _on_handover(self, start: Chosen, end: Chosen, error: SmgError | None, began: float) -> None:
        """Called when it is known whether one worker got the cache of another one: tells the monitor."""
        self.monitor.handover((start.worker, start.rank), (end.worker, end.rank), error, began)

    async def stop(self) -> None:
        """Close workers, threads and embedded engines. A server that still has requests drains first. From now on requests get
        503, until `start`, `await gateway` or `async with gateway` starts it again."""
        await self.rest(for_good=True)

    async def rest(self, *, for_good: bool = False) -> None:
        """The same; unless it is `for_good`, the next request, which may come with another event loop, starts it again."""
        async with self._changing:
            self.stopped = self.stopped or for_good
            if self.started:
                self.started = False
                await self._end()

    def when_stopped(self, tell: Callable[[], object]) -> None:
        """Call `tell` when the gateway, which is started, ends."""
        self._stack.callback(tell)

    async def _end(self) -> None:
        for worker in list(self.registry):
            self.registry.signal(worker, "removed", alone=True)
            self.onboarding.left(worker)
        await self._stack.aclose()
        self.models.clear()
        if self.retiring:  # what succeeded it is no concern of one that is started again
            self.retiring = False
            self.leading.become(True)

    async def ready(self, timeout: float | None = READY_S) -> None:
        """Return once a worker is ready. Raises TimeoutError, which says which workers are missing and why, after `timeout`
        seconds; None waits for ever."""
        try:
            async with asyncio.timeout(timeout):
                await self.monitor.ready()
        except TimeoutError:
            raise TimeoutError(f"no worker has joined within {timeout:g} s: {self.registry.missing()}") from None

    def __await__(self) -> Generator[object, None, Self]:
        """`gateway = await Gateway(...)`, for a notebook: started, with a worker ready; `await gateway.stop()` ends it. Raises as
        `async with` does."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        """Started, with a worker ready. Raises TimeoutError where none is ready within `server.wait_for_workers_s`, or 60 seconds
        where that is 0."""
        try:
            await self.start()
            if not len(self.registry) and not brings_workers(self.config):
                log.warning(WITHOUT_WORKERS)
            await self.ready(self.config.server.wait_for_workers_s or READY_S)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    def perform(self, rows: Rows) -> None:
        """Add performers for further kinds of steps, which an API's own flow asks for."""
        self._further = {**self._further, **rows}
        if self.started:
            self.driver.learn(rows)

    def beside(self, kind: type[B], make: Callable[[], B]) -> B:
        """What runs beside the requests of this gateway, one of each kind however many apps ask for it: the one that is there,
        else what `make` makes, which then starts with the gateway, or at once."""
        found = self._beside.get(kind)
        if not isinstance(found, kind):
            found = make()
            self._beside[kind] = found
            if self.started:
                self.loop.call_soon_threadsafe(self._run, found)
        return found

    def _run(self, beside: Beside) -> None:
        name = type(beside).__name__
        task = self.loop.create_task(beside.run(), name=f"beside {name}")
        task.add_done_callback(partial(self.note_end, f"{name}, which runs beside the requests,"))
        self._stack.push_async_callback(_ended, task)

    def note_end(self, work: str, task: "asyncio.Task[None]") -> None:
        """Called when a task has ended whose end nobody waits for: what it failed with is logged."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.faults.note(work, fault)

    def served(self, name: str, caller: Caller) -> ServedModel | None:
        """The model that this caller asks for as `name`; None where there is none, or it is none of the caller's."""
        model = self.choice.foremost(name, caller.tenant)
        model = model if model in self.models else self.config.model.served_as(model, caller.tenant)
        return self.models.get(model) if caller.grants.may_use(name, model) else None

    def served_or_refused(self, name: str, caller: Caller) -> ServedModel:
        """The same. Raises ModelNotFound, or NoWorker where it has no worker now; a model that is none of the caller's is not
        found."""
        model = self.served(name, caller)
        if model is None:
            self.refuse(name, caller)
        return model

    def refuse(self, name: str, caller: Caller) -> NoReturn:
        """Raise what a request of this caller for `name` gets where no worker for it is there: ModelNotFound or NoWorker."""
        meant = self._stands_for(self.choice.foremost(name, caller.tenant), caller.tenant)
        hidden = not caller.grants.may_use(name, meant)
        self.registry.refuse(name if hidden else meant, hidden=hidden)

    def served_name(self, name: str, caller: Caller) -> str:
        """The first name of the model that this caller asks for as `name`; "" where it gets none by that name."""
        model = self.served(name, caller) if name else None
        return "" if model is None else model.primary or model.name

    def _apart(self, work: Callable[[], T], size: int, tenant: str) -> Awaitable[T]:
        return self.executor.apart(work, size, tenant)

    def names_of(self, name: str, caller: Caller) -> frozenset[str]:
        """All names of the models that a request of this caller for `name` may lead to, `name` too. "" is what a request asks for
        that names none: the only model, where there is but one."""
        if not name:
            served = {model.primary or model.name for model in map(self.models.__getitem__, self.names(caller))}
            name = served.pop() if len(served) == 1 else ""
        reached = self.choice.reach(name, caller.tenant)
        models = [self.models[each] for each in reached if each in self.models]
        served_alike = {(each.primary or each.name, each.adapter) for each in models}
        others = [
            name for name, each in self.models.items() if (each.primary or each.name, each.adapter) in served_alike
        ]
        return reached.union(others)

    def names(self, caller: Caller) -> list[str]:
        """The names of the models and adapters that this caller may use, sorted. The longer name of an adapter ("model:adapter")
        is there where its own is not the caller's, or another model's."""
        usable = {name for name in self.models if caller.grants.may_use(name)}

        def has_shorter(model: ServedModel) -> bool:
            own = model.adapter if model.adapter in usable and model.adapter != model.name else ""
            return bool(own) and self.models[own].primary == model.primary and self.models[own].adapter == own

        return sorted(name for name in usable if not has_shorter(self.models[name]))

    def _media_of(self, name: str, tenant: str) -> frozenset[str]:
        """The kinds of media that a model takes."""
        model = self.served(name, Caller(tenant))
        return model.media_kinds if model is not None else frozenset()

    def hosted_for(self, api: str) -> frozenset[str]:
        """The kinds of tools that run here for requests of the API of this name."""
        return hosted_kinds(self.config.mcp, api)

    def _served_as(self, name: str, tenant: str) -> str:
        """The model that a name stands for, by the settings as they are now."""
        return self.config.model.served_as(name, tenant)

    def _stands_for(self, name: str, tenant: str) -> str:
        """The model that a name stands for, if it is no model's own."""
        return name if name in self.models else self._served_as(name, tenant)

    def adopt(self, config: Config) -> None:
        """Run by these settings from now on, which differ from the present ones in live settings alone (`server.live_settings`).
        Keys are adopted by `identify`, since their file is read for that."""
        before, self.config = self.config, config
        self.limits, self.explains = config.limits, config.observability.explain
        self._id_characters = config.observability.request_id_characters
        self.admission.adopt(config.limits.concurrent_requests, config.limits.retry_after_s)
        self.registry.adopt(config.workers, config.breaker, config.limits.retry_after_s)
        self.monitor.adopt(config.workers)
        self.choice = ModelChoice(config.routing, self._stands_for)
        if makes_other_policies(before.routing, config.routing):
            self.policies.adopt(policies_of(config.routing, self._given_policy, self.rng))
            if self.started:
                self.cache_losses.policies_changed()

    @property
    def ready_now(self) -> bool:
        return self.registry.any_ready

    @property
    def body_bytes(self) -> int:
        """The largest body that is taken now, in bytes: more if a served model takes media, or may take some."""
        if any(model.media_kinds for model in self.models.values()):
            return self.limits.media_body_bytes
        return self.limits.body_bytes

    def drain(self) -> None:
        """Take no new requests: from now on each gets 503 with Retry-After. Those in flight finish."""
        self.admission.draining = True
        for each in self._beside.values():
            if isinstance(each, Drains):
                each.drain()

    def retire(self) -> None:
        """Leave new connections to the process that succeeds this one. Requests on those that are open are answered; work of
        which another process can take care is not begun."""
        self.retiring = True
        self.leading.become(False)

    @property
    def draining(self) -> bool:
        return self.admission.draining

    @property
    def in_flight(self) -> int:
        """Requests that are being answered now, or that plugins are asked about before they are."""
        return self.admission.in_flight + self.plugins.standing

    def add_worker(self, worker: str | WorkerSpec, *, source: str = PROGRAM) -> Worker:
        """Add a worker while running, in this process alone; `roster` changes all of them. `source` says who brings it. Raises
        ValueError for an invalid URL, or a name that is taken."""
        return self.roster.added(given_spec(worker), source)

    def drain_worker(self, name: str, *, move: bool = False) -> Worker:
        """Send a worker no new requests; those it has are finished. With `move` they go on with other workers now, if there are
        any and the requests can. Raises LookupError for an unknown name."""
        worker = self.roster.worker(name)
        self.monitor.signal(worker, "drain", "asked to drain")
        if move:
            self._move_all(worker)
        return worker

    async def remove_worker(self, name: str) -> None:
        """Remove a worker at once; its calls in flight go on with other workers where they can, and are lost where not (to avoid
        that, call `drain_worker` and wait until `in_flight` is 0). Models that it alone served are removed. Raises LookupError
        for an unknown name."""
        await self.roster.removed(self.roster.worker(name))

    def client_id(self, headers: Mapping[str, str]) -> str:
        """The client's own id of its request, if it is short and plain."""
        named = headers.get(self._id_header, "")
        plain = 0 < len(named) <= self._id_characters and named.isascii() and named.isprintable() and " " not in named
        return named if plain else ""

    def id_header(self, name: str) -> tuple[bytes, bytes]:
        """The header that names a request."""
        return self._id_header.encode(), name.encode()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _own_folder(config: Config) -> Path | None:
    return Path(config.tokenizer.path).expanduser() if config.tokenizer.path else None

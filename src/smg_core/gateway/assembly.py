"""Puts a gateway together from a `Config`: makes all of its objects, starts and stops them (edge).

Imports edges so that nothing else has to, and decides nothing about requests. Above: `gateway.gateway`, whose class adds the ASGI
app and the clients. Below: every room; what handlers need of it is in `serving.services`.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, TypeVar

import attrs

from smg_core import apis as public_apis
from smg_core.apis.images.asked import PicturesAsked
from smg_core.apis.mcp.asked_back import AskedBack
from smg_core.auth.base import Authenticator
from smg_core.channel.base import Channel
from smg_core.channel.local import LocalChannel
from smg_core.clock import CallLater, Clock, IdSource, SystemClock, random_ids
from smg_core.config.check import check
from smg_core.config.config import Config
from smg_core.containers.work import ContainerWork
from smg_core.files.work import FileWork
from smg_core.fleet.adapter_changes import AdapterChanges
from smg_core.fleet.cache_losses import cache_losses
from smg_core.fleet.connect import WITHOUT_WORKERS, Reaching, brings_workers, given_spec, specs_of, workers_in
from smg_core.fleet.health_broadcast import hear_others, telling_others
from smg_core.fleet.leader import Leading
from smg_core.fleet.roster import PROGRAM, Roster, first_source, registry_of
from smg_core.fleet.routing_journal import keeping_sent
from smg_core.gateway.adapters import load_adapters_on_demand, wake_on_demand
from smg_core.gateway.adopting import adopt_settings
from smg_core.gateway.call_outcomes import CallOutcomes
from smg_core.gateway.given import check_lists, check_others, check_roles, given_settings, given_workers
from smg_core.gateway.guardrails import guardrails_opened
from smg_core.gateway.ledger import kept_ledger
from smg_core.gateway.limits import adopt_limits
from smg_core.gateway.mesh import meshed
from smg_core.gateway.objectives import adopt_objectives
from smg_core.gateway.placement import adopt_placement
from smg_core.gateway.queueing import end_queueing
from smg_core.gateway.response_cache import begin_caching
from smg_core.gateway.tool_costs import ToolCosts
from smg_core.history.guard import Backend, GuardedStore
from smg_core.history.hooks import Hook
from smg_core.history.store.blobs import BlobStore
from smg_core.hooks import Observer, SilentObserver, fan_out
from smg_core.identity.client_secrets import ClientSecrets
from smg_core.identity.identity import open_identity
from smg_core.identity.virtual_keys import VirtualKeys
from smg_core.models.loading import ModelLoader
from smg_core.models.onboarding import Onboarding, executor_of, loading_place
from smg_core.models.policies import GivenPolicies, GivenPolicy, policies_of
from smg_core.observability.policy_failures import PolicyFailures
from smg_core.pipeline.flow.driver import loop_call_later
from smg_core.pipeline.performers import Rows, performers
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.plugins.registry import Plugins
from smg_core.request import Caller
from smg_core.routing.decisions import Decisions
from smg_core.routing.policies import Policies
from smg_core.sealing.shared import shared_sealer
from smg_core.serving.admission import admission_of, compat_of
from smg_core.serving.live import Live
from smg_core.serving.model_lookup import ModelLookup
from smg_core.serving.request_ids import RequestIds
from smg_core.serving.services import Life, Running, Services
from smg_core.serving.side_tasks import SideTasks
from smg_core.serving.spec import ApiSpec, table_of
from smg_core.serving.tracing import logs_of, tracing_of
from smg_core.stored.history import keeping
from smg_core.tools.opening import OpenTools, ToolFunctions, check_functions, hosted_tools
from smg_core.vector_stores.work import VectorStoreWork
from smg_core.workers.monitor import Monitor
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Board, Worker, WorkerSpec

if TYPE_CHECKING:
    from smg_core.gateway.limits import LimitMemory
    from smg_core.guardrails.records import Guardrail

__all__ = ["READY_S", "Assembly"]

log = logging.getLogger("smg.server")
T = TypeVar("T")

READY_S = 60.0
"""Seconds that a program waits for a worker which says nothing else."""


@attrs.frozen
class _World:
    """What a gateway is given of the world: time, ids, chance, who is told, and the channel to its other processes."""

    clock: Clock
    ids: IdSource
    rng: random.Random
    observer: Observer
    channel: Channel
    call_later: CallLater
    tools: ToolFunctions


class Assembly:
    """A gateway without its HTTP side. `workers` are engine URLs or WorkerSpecs, beside those in `config`.

    `policy` is a name, a factory that is called for each model and role, or an object that serves them all, in place of what
    the settings name; `tokenizer` a folder, without which the engine is asked for its own. `history` is a store that is yours
    to close, in place of the one that the settings name; `history_hooks` are called around every use of it; `files` is where
    contents of files lie in place of a folder. `identity` says whose each request is, in place of the settings of the
    sections auth and oidc. `board` counts requests in flight over several processes, and over `channel` these tell each other
    of changes; `clock`, `ids`, `rng` and `call_later` (the event loop's, unless a test brings its own) are what the rooms are
    given of the world. `apis` are rows of APIs, in place of all that there are. `tools` are Python functions that models may
    call: requests name them as the server of tools `functions`. `guardrails` are asked before those of the settings.
    `policies` are of one model or role each, by "MODEL", "MODEL/ROLE" or "*/ROLE"; `middleware` are plugins, as classes or as
    the settings name them; `config` may be a dictionary of sections. Raises ConfigError, ValueError or UnknownPolicy where one of
    them is not what it is to be.
    """

    on_trial = False  # whether the author of a policy or a plugin is the one who reads the log

    def __init__(
        self,
        workers: Sequence[str | WorkerSpec] = (),
        *,
        policy: GivenPolicy = None,
        policies: GivenPolicies = MappingProxyType({}),
        middleware: Sequence[type | str] = (),
        tokenizer: str | Path | None = None,
        config: Config | Mapping[str, object] | None = None,
        observer: Observer | None = None,
        history: Backend | None = None,
        history_hooks: Sequence[Hook] = (),
        files: BlobStore | None = None,
        identity: Authenticator | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        rng: random.Random | None = None,
        board: Board | None = None,
        channel: Channel | None = None,
        call_later: CallLater | None = None,
        apis: Sequence[ApiSpec] | None = None,
        tools: ToolFunctions = (),
        guardrails: "Sequence[Guardrail]" = (),
    ) -> None:
        settings, rng = given_settings(config, on_trial=self.on_trial), rng or random.Random()
        check_roles(observer=observer, history=history, files=files, identity=identity)
        check_roles(clock=clock, channel=channel, board=board)
        check_lists(apis=apis, guardrails=guardrails, history_hooks=history_hooks, tools=tools)
        check_others(policies, rng, tokenizer, ids=ids, call_later=call_later)
        check_functions(tools)
        world = _World(
            clock or SystemClock(),
            ids or random_ids(),
            rng,
            observer or SilentObserver(),
            channel or LocalChannel(settings.channel),
            call_later or loop_call_later,
            tuple(tools),
        )
        self.apis = tuple(public_apis.ALL if apis is None else apis)
        self.services = self._services(settings, policies_of(settings.routing, policy, rng, policies), world, board)
        self._calls = CallOutcomes(self.services)
        self.services.policies.check()
        self.services.plugins.give(middleware)
        self._folder = Path(tokenizer) if tokenizer is not None else _own_folder(settings)
        self._given_policy, self._identity, self._guardrails = (policy, policies), identity, tuple(guardrails)
        self._specs = [*given_workers(workers, settings), *specs_of(settings.workers)]
        self._from_file: list[WorkerSpec] = []
        self._in_file: frozenset[str] = frozenset()
        self._reaching = Reaching(settings)
        self._further: Rows = {}
        self._history, self._history_hooks, self.services.running.blobs = history, history_hooks, files
        self.limit_memory: LimitMemory | None = None
        self.media_shared_as = ""  # by which processes find what they have made of media
        self._stack = AsyncExitStack()
        self._changing = asyncio.Lock()  # held while it starts and while it stops

    def _services(self, config: Config, policies: Policies, world: "_World", board: Board | None) -> Services:
        """Make what the handlers work with, and what of it runs beside the requests."""
        clock, observer = world.clock, world.observer
        faults, failures = logs_of(config, clock)
        table = table_of(self.apis)
        models: dict[str, ServedModel] = {}
        live = Live(config, models)
        registry = registry_of(lambda: live.config, board, world.rng, clock)
        lookup = ModelLookup(models, live, registry)
        plugins = Plugins(
            config,
            world.channel,
            clock,
            world.call_later,
            observer,
            lookup.names_of,
            world.ids,
            self._offload,
            table.permissions,
        )
        side_tasks = SideTasks(faults)
        side_tasks.one_of(Plugins, lambda: plugins)
        return Services(
            clock=clock,
            ids=world.ids,
            rng=world.rng,
            call_later=world.call_later,
            channel=world.channel,
            observer=observer,
            faults=faults,
            failures=failures,
            tracing=tracing_of(config, clock, observer, table.operations),
            registry=registry,
            models=models,
            lookup=lookup,
            admission=admission_of(config, lambda: self.services.running.executor.large_ended()),
            policies=policies,
            decisions=Decisions(config.routing.decisions, config.routing.decision_bytes),
            plugins=plugins,
            leading=Leading(),
            side_tasks=side_tasks,
            request_ids=RequestIds(live),
            compat=compat_of(config),
            apis=table,
            live=live,
            life=Life(),
            running=Running(),
            functions=world.tools,
        )

    # --------------------------------------------------------------------------------------------------- life

    @property
    def config(self) -> Config:
        """The settings that it runs by now."""
        return self.services.live.config

    @property
    def registry(self) -> Registry:
        """The workers that it knows, and the state of each."""
        return self.services.registry

    @property
    def models(self) -> dict[str, ServedModel]:
        """The models that it serves, by each of their names."""
        return self.services.models

    @property
    def history(self) -> GuardedStore:
        """What it keeps: responses, conversations, files. There while it is started."""
        return self.services.running.history

    @property
    def virtual_keys(self) -> VirtualKeys | None:
        """The keys that it makes itself, where the settings have those. There while it is started."""
        return self.services.running.virtual_keys

    @property
    def decisions(self) -> Decisions:
        """The last decisions of routing, by request."""
        return self.services.decisions

    @property
    def started(self) -> bool:
        """Whether it is started, and not stopped since."""
        return self.services.life.started

    @property
    def in_flight(self) -> int:
        """Requests that are being answered now, or that plugins are asked about before they are."""
        return self.services.in_flight

    async def start(self) -> None:
        """Begin to reach the workers; returns before they are. Calling it again does nothing; who calls it meanwhile waits.

        Raises ConfigError for settings that could never work, ValueError for an invalid worker URL and for a folder without a
        tokenizer, StoreFailed if the history cannot be opened, UnknownDialect and UnknownPolicy for unknown names; everything
        that was started is then stopped.
        """
        life = self.services.life
        async with self._changing:
            if life.started:
                return
            try:
                await self._start()
            except BaseException:
                await self._end()
                raise
            life.started, life.stopped = True, False

    async def _read_workers(self) -> None:
        """Read the file of workers. Raises what is wrong with it, with a worker, or with the policies."""
        services = self.services
        live = services.live
        check(live.config, services.apis.permissions)
        self._from_file = await workers_in(live.config)
        self._in_file = frozenset(each.label for each in self._from_file)
        for spec in (*self._specs, *self._from_file):
            self._reaching.check(spec)
        services.policies.check()

    async def _start(self) -> None:
        services = self.services
        live, running = services.live, services.running
        await self._read_workers()
        adopt_limits(services, self.limit_memory)
        services.admission.draining = False
        running.loop = asyncio.get_running_loop()
        self._stack = AsyncExitStack()
        running.executor = executor_of(live.config)
        self._stack.callback(running.executor.close)
        await self._stack.enter_async_context(services.plugins.opened())
        await self._stack.enter_async_context(kept_ledger(services))
        services.policies.on_fault = PolicyFailures(services.clock, services.observer, live.config.observability).note
        running.history = await self._stack.enter_async_context(await self._kept_history())
        store, secrets = running.history, ClientSecrets(lambda: running.sealer, services.clock.time)
        running.identify, running.virtual_keys = await open_identity(
            live.config, services.clock, self._stack, store, services.apis.permissions, self._identity, secrets
        )
        process = services.registry.process
        await self._stack.enter_async_context(
            keeping_sent(live.config.routing, services.policies, services.rng, services.call_later, process)
        )
        pool, scratch = await loading_place(live.config, self._stack)
        loader = self._loader(pool, scratch)
        running.sealer = loader.sealing.sealer
        running.onboarding = Onboarding(
            live.config, loader=loader, registry=services.registry, policies=services.policies, models=services.models
        )
        await running.onboarding.start()
        self._begin_monitor()
        running.performers = performers(
            registry=services.registry,
            models=services.models,
            policies=services.policies,
            clock=services.clock,
            executor=running.executor,
            on_outcome=self._calls.ended,
            on_handover=self._calls.handed_over,
            call_later=services.call_later,
            served_as=services.live.served_as,
            shared_out=lambda request: live.choice.model(request),
            content=attrs.evolve(loader.content, files=FileWork.of(services).contents),
            disaggregation=live.config.disaggregation,
            prefix_tokens=live.config.routing.prefix_tokens,
            decisions=services.decisions,
        )
        adopt_placement(services)
        adopt_objectives(services)
        running.tools = await self._stack.enter_async_context(self._hosted_tools())
        await self._stack.enter_async_context(guardrails_opened(services, self._guardrails))
        running.driver = running.performers.driver({**self._further, **running.tools.performers})
        await begin_caching(services, self._stack)
        await self._begin_roster(scratch)
        await self._stack.enter_async_context(meshed(services, self.limit_memory))
        services.side_tasks.start(self._stack)

    async def _kept_history(self) -> AbstractAsyncContextManager[GuardedStore]:
        services = self.services
        return keeping(
            services.live.config,
            services.clock,
            self._history,
            self._history_hooks,
            await self._watching(),
            plugins=services.plugins,
            takes_work=lambda: not (services.admission.draining or services.life.retiring),
        )

    def _hosted_tools(self) -> AbstractAsyncContextManager[OpenTools]:
        """The tools that run in the gateway."""
        services = self.services
        config, running = services.live.config, services.running
        mark = shared_sealer(config.sealing, running.sealer).key_id
        return hosted_tools(
            *(config.mcp, running.history, services.clock, self._media_of, services.functions, mark),
            stores=None if _why_no_stores(config) else VectorStoreWork.of(services),
            code=ContainerWork.of(services).code,
            pictures=lambda: PicturesAsked(services),
            answers=lambda: AskedBack(services),
            paid=ToolCosts(services.live, services.observer).call,
        )

    def _loader(self, pool: Executor, scratch: Path) -> ModelLoader:
        """What makes models of the files of tokenizers and engines."""
        services, folder, name = self.services, self._folder, self.media_shared_as
        config, clock, stack = services.live.config, services.clock, self._stack
        return ModelLoader(config, folder=folder, scratch=scratch, clock=clock, pool=pool, stack=stack, shared_as=name)

    def _begin_monitor(self) -> None:
        """Make what watches over workers, and what listens to their caches."""
        services = self.services
        live, running = services.live, services.running
        running.cache_losses = cache_losses(
            live.config, services.registry, services.policies, services.clock, services.call_later, services.channel
        )
        self._stack.callback(running.cache_losses.close)
        running.monitor = Monitor(
            services.registry,
            self._reaching.connect,
            running.onboarding.join,
            services.observer,
            live.config.workers,
            call_later=services.call_later,
            on_lost=self._calls.lost,
            on_cache_lost=running.cache_losses.restarted,
            on_probed=running.onboarding.refresh_adapters,
            while_joined=running.cache_losses.listens,
            clock=services.clock,
            on_fault=services.faults.note,
            tell_others=telling_others(services.channel),
        )
        self._stack.push_async_callback(running.monitor.close)
        hear_others(services.channel, running.monitor.heard)

    async def _begin_roster(self, scratch: Path) -> None:
        """Add the workers to begin with, and from now on make the changes that processes tell each other of."""
        services = self.services
        live, running = services.live, services.running
        running.roster = Roster(
            registry=services.registry,
            monitor=running.monitor,
            onboarding=running.onboarding,
            policies=services.policies,
            check=self._reaching.check,
            move=self._calls.move,
            clock=services.clock,
            call_later=services.call_later,
            drain_s=lambda: live.config.workers.drain_s,
            settle_s=live.config.channel.publish_s,
            leading=services.leading,
            channel=services.channel,
        )
        self._stack.push_async_callback(running.roster.close)
        self._stack.enter_context(services.leading.watched(running.roster.take_the_lead))
        named, first = specs_of(live.config.workers), await self._first_workers(self._stack, scratch)
        for spec in first:
            running.roster.added(spec, first_source(spec, named, self._in_file))
        given = set(map(id, (*self._specs, *self._from_file)))
        running.roster.listen({spec.label: spec.url for spec in first if id(spec) not in given})
        running.adapter_changes = AdapterChanges(
            services.registry, running.onboarding, running.monitor.wake, services.channel, live.config.channel.publish_s
        )
        self._stack.callback(running.adapter_changes.close)
        running.adapter_changes.listen()
        load_adapters_on_demand(services, self._stack)
        wake_on_demand(services, self._stack)
        running.cache_losses.listen()

    async def _watching(self) -> Observer:
        """Who is told of calls of the history: the observer, and the tracer, whose spans are sent from now on."""
        services = self.services
        if services.tracing is None:
            return services.observer
        await self._stack.enter_async_context(services.tracing.sending())
        return fan_out(services.observer, services.tracing.tracer)

    async def _first_workers(self, stack: AsyncExitStack, scratch: Path) -> list[WorkerSpec]:
        """The workers to begin with. A subclass may start some of its own, which `stack` ends; `scratch` is a folder for their
        sockets."""
        return [*self._specs, *self._from_file]

    async def stop(self) -> None:
        """Close workers, threads and embedded engines. A server that still has requests drains first. From now on requests get
        503, until `start`, `await gateway` or `async with gateway` starts it again."""
        await self.rest(for_good=True)

    async def rest(self, *, for_good: bool = False) -> None:
        """The same; unless it is `for_good`, the next request, which may come with another event loop, starts it again."""
        life = self.services.life
        async with self._changing:
            life.stopped = life.stopped or for_good
            if life.started:
                life.started = False
                await self._end()

    def when_stopped(self, tell: Callable[[], object]) -> None:
        """Call `tell` when the gateway, which is started, ends."""
        self._stack.callback(tell)

    async def _end(self) -> None:
        services = self.services
        life = services.life
        running = services.running
        for worker in list(services.registry):
            services.registry.signal(worker, "removed", alone=True)
            running.onboarding.left(worker)
        end_queueing(services)
        await self._stack.aclose()
        services.models.clear()
        if life.retiring:  # what succeeded it is no concern of one that is started again
            life.retiring = False
            services.leading.become(True)

    async def ready(self, timeout: float | None = READY_S) -> None:
        """Return once a worker is ready. Raises TimeoutError, which says which workers are missing and why, after `timeout`
        seconds; None waits for ever."""
        services = self.services
        running = services.running
        try:
            async with asyncio.timeout(timeout):
                await running.monitor.ready()
        except TimeoutError:
            raise TimeoutError(f"no worker has joined within {timeout:g} s: {services.registry.missing()}") from None

    def __await__(self) -> Generator[object, None, Self]:
        """`gateway = await Gateway(...)`, for a notebook: started, with a worker ready; `await gateway.stop()` ends it. Raises as
        `async with` does."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        """Started, with a worker ready. Raises TimeoutError where none is ready within `server.wait_for_workers_s`, or 60 seconds
        where that is 0."""
        services = self.services
        live = services.live
        try:
            await self.start()
            if not len(services.registry) and not brings_workers(live.config):
                log.warning(WITHOUT_WORKERS)
            await self.ready(live.config.server.wait_for_workers_s or READY_S)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    def perform(self, rows: Rows) -> None:
        """Add performers for further kinds of steps, which an API's own flow asks for."""
        services = self.services
        life = services.life
        running = services.running
        self._further = {**self._further, **rows}
        if life.started:
            running.driver.learn(rows)

    def _offload(self, work: Callable[[], T], size: int, tenant: str) -> Awaitable[T]:
        return self.services.running.executor.offload(work, size, tenant)

    def _media_of(self, name: str, tenant: str) -> frozenset[str]:
        """The kinds of media that a model takes."""
        services = self.services
        model = services.lookup.served(name, Caller(tenant))
        return model.media_kinds if model is not None else frozenset()

    def adopt(self, config: Config) -> None:
        """Run by these settings from now on, which differ from the present ones in live settings alone
        (`operation.live_settings`). Keys are adopted by `identify`, since their file is read for that."""
        adopt_settings(self.services, config, self.limit_memory, self._given_policy)

    def drain(self) -> None:
        """Take no new requests: from now on each gets 503 with Retry-After. Those in flight finish."""
        self.services.admission.draining = True
        self.services.side_tasks.drain()

    def retire(self) -> None:
        """Leave new connections to the process that succeeds this one. Requests on those that are open are answered; work of
        which another process can take care is not begun."""
        self.services.life.retiring = True
        self.services.leading.become(False)

    def add_worker(self, worker: str | WorkerSpec, *, source: str = PROGRAM) -> Worker:
        """Add a worker while running, in this process alone; `roster` changes all of them. `source` says who brings it. Raises
        ValueError for an invalid URL, or a name that is taken."""
        return self.services.running.roster.added(given_spec(worker), source)

    def drain_worker(self, name: str, *, move: bool = False) -> Worker:
        """Send a worker no new requests; those it has are finished. With `move` they go on with other workers now, if there are
        any and the requests can. Raises LookupError for an unknown name."""
        running = self.services.running
        worker = running.roster.worker(name)
        running.monitor.signal(worker, "drain", "asked to drain")
        if move:
            self._calls.move(worker)
        return worker

    async def remove_worker(self, name: str) -> None:
        """Remove a worker at once; its calls in flight go on with other workers where they can, and are lost where not (to avoid
        that, call `drain_worker` and wait until `in_flight` is 0). Models that it alone served are removed. Raises LookupError
        for an unknown name."""
        running = self.services.running
        await running.roster.removed(running.roster.worker(name))


def _own_folder(config: Config) -> Path | None:
    return Path(config.tokenizer.path).expanduser() if config.tokenizer.path else None


def _why_no_stores(config: Config) -> str:
    """Why no tool searches vector stores; "" where one may."""
    return config.vector_stores.why_not(config.history.url or "memory:", sealed=bool(config.history.keys))

"""Puts a gateway together from a `Config`: makes all of its objects, starts and stops them (edge).

Imports edges so that nothing else has to, and decides nothing about requests. Above: `gateway.gateway`, which loads this when a
gateway is made. Below: every room; what handlers need of it is in `serving.services`.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import TypeAlias, TypeVar

import attrs

from smg_core import apis as public_apis
from smg_core.apis.images.asked import PicturesAsked
from smg_core.apis.mcp.asked_back import AskedBack
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
from smg_core.gateway.arguments import GatewayArguments
from smg_core.gateway.call_outcomes import CallOutcomes
from smg_core.gateway.given import check_lists, check_others, check_roles, given_settings, given_workers
from smg_core.gateway.guardrails import guardrails_opened
from smg_core.gateway.ledger import kept_ledger
from smg_core.gateway.limits import LimitMemory, adopt_limits
from smg_core.gateway.mesh import meshed
from smg_core.gateway.objectives import adopt_objectives
from smg_core.gateway.placement import adopt_placement
from smg_core.gateway.queueing import end_queueing
from smg_core.gateway.response_cache import begin_caching
from smg_core.gateway.tool_costs import ToolCosts
from smg_core.history.guard import GuardedStore
from smg_core.hooks import Observer, SilentObserver, fan_out
from smg_core.identity.client_secrets import ClientSecrets
from smg_core.identity.identity import open_identity
from smg_core.models.loading import ModelLoader
from smg_core.models.onboarding import Onboarding, executor_of, loading_place
from smg_core.models.policies import policies_of
from smg_core.observability.policy_failures import PolicyFailures
from smg_core.operation.discovery import discovery_of
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
from smg_core.serving.spec import table_of
from smg_core.serving.tracing import logs_of, tracing_of
from smg_core.stored.history import keeping
from smg_core.tools.opening import OpenTools, ToolFunctions, check_functions, hosted_tools
from smg_core.vector_stores.work import VectorStoreWork
from smg_core.workers.monitor import Monitor
from smg_core.workers.worker import Board, Worker, WorkerSpec

__all__ = ["Assembly"]

log = logging.getLogger("smg.server")
T = TypeVar("T")

FirstWorkers: TypeAlias = Callable[[AsyncExitStack, Path], Awaitable[list[WorkerSpec]]]
"""The workers to begin with: it may start some, which the stack ends, with sockets in the folder."""


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
    """All objects of one gateway, made of what a program gives, opened at the start and closed at the end.

    `given` has every argument of `Gateway`, checked here; `on_trial` says whether the author of a policy or a plugin is the one
    who reads the log. Raises as `Gateway` does.
    """

    def __init__(self, given: GatewayArguments, *, on_trial: bool) -> None:
        policy, policies, tools = given["policy"], given["policies"], given["tools"]
        tokenizer, rng = given["tokenizer"], given["rng"] or random.Random()
        settings = given_settings(given["config"], on_trial=on_trial)
        history, files, hooks = given["history"], given["files"], given["history_hooks"]
        check_roles(observer=given["observer"], history=history, files=files, identity=given["identity"])
        check_roles(clock=given["clock"], channel=given["channel"], board=given["board"])
        check_lists(apis=given["apis"], guardrails=given["guardrails"], history_hooks=hooks, tools=tools)
        check_others(policies, rng, tokenizer, ids=given["ids"], call_later=given["call_later"])
        check_functions(tools)
        world = _World(
            given["clock"] or SystemClock(),
            given["ids"] or random_ids(),
            rng,
            given["observer"] or SilentObserver(),
            given["channel"] or LocalChannel(settings.channel),
            given["call_later"] or loop_call_later,
            tuple(tools),
        )
        self.apis = tuple(public_apis.ALL if given["apis"] is None else given["apis"])
        chosen = policies_of(settings.routing, policy, rng, policies)
        self.services = self._services(settings, chosen, world, given["board"])
        self._calls = CallOutcomes(self.services)
        self.services.policies.check()
        self.services.plugins.give(given["middleware"])
        self._folder = Path(tokenizer) if tokenizer is not None else _own_folder(settings)
        self._given_policy, self._identity = (policy, policies), given["identity"]
        self._guardrails = tuple(given["guardrails"])
        self._specs = [*given_workers(given["workers"], settings), *specs_of(settings.workers)]
        self._from_file: list[WorkerSpec] = []
        self._in_file: frozenset[str] = frozenset()
        self._reaching = Reaching(settings)
        self._further: Rows = {}
        self._history, self._history_hooks, self.services.running.blobs = history, hooks, files
        self._limit_memory: LimitMemory | None = None
        self._media_shared_as = ""
        self._stack = AsyncExitStack()

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

    @property
    def named_workers(self) -> list[WorkerSpec]:
        """The workers that the program, the settings and their file name."""
        return [*self._specs, *self._from_file]

    def share(self, limits: LimitMemory | None, media: str) -> None:
        """Have what all processes of one gateway share, before the start: the counters of `limits`, and the name by which they
        find what they have made of `media`."""
        self._limit_memory, self._media_shared_as = limits, media

    async def open(self, first_workers: FirstWorkers) -> None:
        """Begin to reach the workers, those of `first_workers` first. Raises as `Gateway.start` does; everything that was opened
        is then closed."""
        discovery_of(self.services)
        try:
            await self._open(first_workers)
        except BaseException:
            await self.close()
            raise

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

    async def _open(self, first_workers: FirstWorkers) -> None:
        services = self.services
        live, running = services.live, services.running
        await self._read_workers()
        adopt_limits(services, self._limit_memory)
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
        await self._begin_roster(first_workers, scratch)
        await self._stack.enter_async_context(meshed(services, self._limit_memory))
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
        services, folder, name = self.services, self._folder, self._media_shared_as
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

    async def _begin_roster(self, first_workers: FirstWorkers, scratch: Path) -> None:
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
        named, first = specs_of(live.config.workers), await first_workers(self._stack, scratch)
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

    def when_closed(self, tell: Callable[[], object]) -> None:
        """Call `tell` when what is open is closed."""
        self._stack.callback(tell)

    async def close(self) -> None:
        """Close workers, threads and embedded engines; it may be opened again."""
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

    def perform(self, rows: Rows) -> None:
        """Add performers for further kinds of steps."""
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
        """Run by these settings from now on, which differ from the present ones in live settings alone."""
        adopt_settings(self.services, config, self._limit_memory, self._given_policy)

    def added(self, worker: str | WorkerSpec, source: str | None) -> Worker:
        """Add a worker that `source` brings, by default the program, in this process alone. Raises ValueError."""
        return self.services.running.roster.added(given_spec(worker), source or PROGRAM)

    def move_calls(self, worker: Worker) -> None:
        """Have the calls of a worker go on with others, where they can."""
        self._calls.move(worker)

    def warn_without_workers(self) -> None:
        """Warn who waits for workers where none is named and none can come."""
        if not len(self.services.registry) and not brings_workers(self.services.live.config):
            log.warning(WITHOUT_WORKERS)


def _own_folder(config: Config) -> Path | None:
    return Path(config.tokenizer.path).expanduser() if config.tokenizer.path else None


def _why_no_stores(config: Config) -> str:
    """Why no tool searches vector stores; "" where one may."""
    return config.vector_stores.why_not(config.history.url or "memory:", sealed=bool(config.history.keys))

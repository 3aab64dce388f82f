"""`Gateway`, the class that users make: started and stopped, with its ASGI app and its clients in process (edge).

The same object runs in a notebook, in a test, inside another application and under `smg-gateway serve`: as an async context
manager, as an ASGI app, or as an HTTP client that calls that app in process. Decides nothing; `gateway.assembly` wires. Importing
this loads none of the rooms: they are loaded when a gateway is made. Above: users, the server. Below: `assembly`, `in_process`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Self, Unpack

import msgspec

from smg_core.cards import card
from smg_core.simulator_package import require_simulator

if TYPE_CHECKING:
    from smg_core.app.app import App
    from smg_core.auth.base import Authenticator
    from smg_core.channel.base import Channel
    from smg_core.clock import CallLater, Clock, IdSource
    from smg_core.config.config import Config
    from smg_core.gateway.arguments import GatewayArguments
    from smg_core.gateway.launched import LaunchArguments, LaunchedGateway
    from smg_core.gateway.limits import LimitMemory
    from smg_core.gateway.simulated import SimulatedGateway
    from smg_core.guardrails.records import Guardrail
    from smg_core.history.guard import Backend, GuardedStore
    from smg_core.history.hooks import Hook
    from smg_core.history.store.blobs import BlobStore
    from smg_core.hooks import Observer
    from smg_core.identity.virtual_keys import VirtualKeys
    from smg_core.models.policies import GivenPolicies, GivenPolicy
    from smg_core.pipeline.performers import Rows
    from smg_core.pipeline.prompt.served import ServedModel
    from smg_core.routing.decisions import Decisions
    from smg_core.serving.spec import ApiSpec
    from smg_core.tools.opening import ToolFunctions
    from smg_core.wire.explain import Explanation
    from smg_core.workers.registry import Registry
    from smg_core.workers.worker import Board, Worker, WorkerSpec
    from smg_simulator.engine.engine import SimulatorConfig

__all__ = ["READY_S", "Gateway"]

READY_S = 60.0
"""Seconds that a program waits for a worker which says nothing else."""


class Gateway:
    """A gateway in front of `workers` (engine URLs or WorkerSpecs, beside those in `config`).

    Use it as an async context manager, mount `asgi()`, or let `smg-gateway serve` do so. The first one that a process makes loads
    the rooms that gateways are made of, which takes most of a second: make it before the event loop has other work, or by
    `await asyncio.to_thread(Gateway, ...)`. What a start or a request loads beyond that is what the settings and engines need.

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
        guardrails: Sequence[Guardrail] = (),
    ) -> None:
        from smg_core.gateway.assembly import Assembly
        from smg_core.gateway.in_process import InProcess

        given: GatewayArguments = {
            "workers": workers,
            "policy": policy,
            "policies": policies,
            "middleware": middleware,
            "tokenizer": tokenizer,
            "config": config,
            "observer": observer,
            "history": history,
            "history_hooks": history_hooks,
            "files": files,
            "identity": identity,
            "clock": clock,
            "ids": ids,
            "rng": rng,
            "board": board,
            "channel": channel,
            "call_later": call_later,
            "apis": apis,
            "tools": tools,
            "guardrails": guardrails,
        }
        self._assembly = Assembly(given, on_trial=self.on_trial)
        self.apis, self.services = self._assembly.apis, self._assembly.services
        self._in_process = InProcess(self)
        self._changing = asyncio.Lock()  # held while it starts and while it stops

    @staticmethod
    def simulated(
        simulator: SimulatorConfig | None = None, *, engines: int = 1, **arguments: Unpack[GatewayArguments]
    ) -> SimulatedGateway:
        """A gateway in front of embedded engines: no GPU and no port, but real gRPC over a Unix socket.

        `arguments` are the constructor's. Raises ConfigError where the package smg_simulator is not installed.
        """
        require_simulator("Gateway.simulated")
        from smg_core.gateway.simulated import SimulatedGateway
        from smg_simulator.engine.engine import SimulatorConfig

        return SimulatedGateway([simulator or SimulatorConfig()] * engines, **arguments)

    @staticmethod
    def launch(
        command: str | Sequence[str], *, model: str = "", **arguments: Unpack[LaunchArguments]
    ) -> LaunchedGateway:
        """A gateway that starts its engine, waits for it and stops it:

            async with Gateway.launch("vllm", model="Qwen/Qwen3-8B") as gateway: ...

        Further arguments are `LaunchedGateway`'s. Raises ValueError for an engine that is not known by name."""
        from smg_core.gateway.launched import LaunchedGateway

        return LaunchedGateway(command, model=model, **arguments)

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
        """The store of responses, conversations and files. There while it is started."""
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
        """Begin to reach the workers, and to look for those that come and go; returns before they are reached. Calling it again
        does nothing; who calls it meanwhile waits.

        Raises ConfigError for settings that could never work, ValueError for an invalid worker URL and for a folder without a
        tokenizer, StoreFailed if the history cannot be opened, UnknownDialect and UnknownPolicy for unknown names; everything
        that was started is then stopped.
        """
        life = self.services.life
        async with self._changing:
            if not life.started:
                await self._assembly.open(self._first_workers)
                life.started, life.stopped = True, False

    async def _first_workers(self, stack: AsyncExitStack, scratch: Path) -> list[WorkerSpec]:
        """The workers to begin with. A subclass may start some of its own, which `stack` ends; `scratch` is a folder for their
        sockets."""
        return self._assembly.named_workers

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
                await self._assembly.close()

    def when_stopped(self, tell: Callable[[], object]) -> None:
        """Call `tell` when the gateway, which is started, ends."""
        self._assembly.when_closed(tell)

    async def ready(self, timeout: float | None = READY_S) -> None:
        """Return once a worker is ready. Raises TimeoutError, which says which workers are missing and why, after `timeout`
        seconds; None waits for ever."""
        services = self.services
        try:
            async with asyncio.timeout(timeout):
                await services.running.monitor.ready()
        except TimeoutError:
            raise TimeoutError(f"no worker has joined within {timeout:g} s: {services.registry.missing()}") from None

    def __await__(self) -> Generator[object, None, Self]:
        """`gateway = await Gateway(...)`, for a notebook: started, with a worker ready; `await gateway.stop()` ends it. Raises as
        `async with` does."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        """Started, with a worker ready. Raises TimeoutError where none is ready within `server.wait_for_workers_s`, or 60 seconds
        where that is 0."""
        try:
            await self.start()
            self._assembly.warn_without_workers()
            await self.ready(self.config.server.wait_for_workers_s or READY_S)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    def drain(self) -> None:
        """Take no new requests: from now on each gets 503 with Retry-After. Those in flight finish."""
        self.services.admission.draining = True
        self.services.side_tasks.drain()

    def retire(self) -> None:
        """Leave new connections to the process that succeeds this one. Requests on those that are open are answered; work of
        which another process can take care is not begun."""
        self.services.life.retiring = True
        self.services.leading.become(False)

    # ------------------------------------------------------------------------------------------------- what it is made of

    def share(self, limits: LimitMemory | None, media: str) -> None:
        """Have what all processes of one gateway share, before the start: the counters of `limits`, and the name by which they
        find what they have made of `media`."""
        self._assembly.share(limits, media)

    def adopt(self, config: Config) -> None:
        """Run by these settings from now on. They differ from the present ones in live settings alone
        (`operation.live_settings`). Keys are adopted by `identify`, since their file is read for that."""
        self._assembly.adopt(config)

    def perform(self, rows: Rows) -> None:
        """Add performers for further kinds of steps, which an API's own flow asks for."""
        self._assembly.perform(rows)

    def add_worker(self, worker: str | WorkerSpec, *, source: str | None = None) -> Worker:
        """Add a worker while running, in this process alone; `roster` changes all of them. `source` says who brings it, by
        default the program. Raises ValueError for an invalid URL, or a name that is taken."""
        return self._assembly.added(worker, source)

    def drain_worker(self, name: str, *, move: bool = False) -> Worker:
        """Send a worker no new requests; those it has are finished. With `move` they go on with other workers now, if there are
        any and the requests can. Raises LookupError for an unknown name."""
        running = self.services.running
        worker = running.roster.worker(name)
        running.monitor.signal(worker, "drain", "asked to drain")
        if move:
            self._assembly.move_calls(worker)
        return worker

    async def remove_worker(self, name: str) -> None:
        """Remove a worker at once; its calls in flight go on with other workers where they can, and are lost where not (to avoid
        that, call `drain_worker` and wait until `in_flight` is 0). Models that it alone served are removed. Raises LookupError
        for an unknown name."""
        running = self.services.running
        await running.roster.removed(running.roster.worker(name))

    # ------------------------------------------------------------------------------------------------- what calls it

    def asgi(self) -> App:
        """The gateway as an ASGI application."""
        return self._in_process.app()

    def http_client(self, sdk: ModuleType | None = None, **arguments: object) -> Any:
        """An async HTTP client that calls this gateway in process, of the kind the official SDKs take: of `sdk` (a module
        such as `openai`), else of whichever of httpx2 and httpx an imported SDK uses. `arguments` are its constructor's."""
        return self._in_process.client(sdk, **arguments)

    def sync_http_client(self, sdk: ModuleType | None = None, **arguments: object) -> Any:
        """A synchronous client likewise, for threads other than the one in which the gateway was started. Raises RuntimeError
        before the start."""
        self._check_started()
        return self._in_process.sync_client(sdk, **arguments)

    async def chat(
        self, body: Mapping[str, object] | msgspec.Struct, *, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The whole answer to a Chat Completions request, without an HTTP client. `headers` are those of the request, such as
        `{"authorization": "Bearer ..."}` where the gateway asks for a key. Raises RequestRefused. Other APIs are asked by
        `smg_core.app.direct.DirectCalls`."""
        return await self._in_process.direct(headers).answer("/v1/chat/completions", body)

    def stream(
        self, body: Mapping[str, object] | msgspec.Struct, *, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The chunks of a Chat Completions answer as they come; who leaves the loop stops the request. Raises RequestRefused."""
        fields = body if isinstance(body, Mapping) else msgspec.to_builtins(body)
        return self._in_process.direct(headers).events("/v1/chat/completions", {**fields, "stream": True})

    async def embed(
        self, body: Mapping[str, object] | msgspec.Struct, *, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The answer to a request for embeddings. Raises RequestRefused."""
        return await self._in_process.direct(headers).answer("/v1/embeddings", body)

    async def explain(self, body: Mapping[str, object] | bytes) -> Explanation:
        """The plan for this Chat Completions request, without doing it: rendered prompt, ids, cache, worker, timings. Raises
        RuntimeError before the start."""
        self._check_started()
        return await self._in_process.explain(body)

    def _check_started(self) -> None:
        if not self.started:
            raise RuntimeError("the gateway is not started: use `async with gateway:` or `await gateway` first")

    def __repr__(self) -> str:
        workers = list(self.registry)
        ready = sum(worker.state == "ready" for worker in workers)
        serves = ", ".join(sorted(self.models)) or "no model yet"
        state = "started" if self.started else "stopped" if self.services.life.stopped else "not started"
        return f"<Gateway {state}: {serves}; {ready} of {len(workers)} workers ready, {self.in_flight} in flight>"

    def _repr_html_(self) -> str:
        """The gateway in a notebook."""
        head = ("worker", "state", "serves", "in flight", "why")
        return card(repr(self)[1:-1], [worker.row_of_card() for worker in self.registry], head)

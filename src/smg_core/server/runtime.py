"""What runs behind every way in: configuration in, everything wired together out (edge).

Imports edges so that nothing else has to. It decides nothing about requests: it builds registry, monitor, driver and models
from a `Config` and arguments, starts and stops them. Above: `server.app` and its handlers serve requests with it;
`server.gateway` is it with the ways in.
"""

import asyncio
import logging
import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs

from smg_core.clock import Clock, IdSource, SystemClock, random_ids
from smg_core.config import Config
from smg_core.engines.base import EngineFacts, ModelInfo, Transport
from smg_core.engines.client import EngineClient
from smg_core.engines.dialects import AUTO, dialect, names
from smg_core.engines.h2.frames import Limits
from smg_core.engines.target import Target, Tls
from smg_core.errors import InternalError, ModelNotFound, SmgError, WorkerGone
from smg_core.hooks import Observer, SilentObserver
from smg_core.pipeline.driver import Driver
from smg_core.pipeline.flow import RetryPolicy
from smg_core.pipeline.media import suggests_media
from smg_core.pipeline.served import ServedModel
from smg_core.protocols.base import RequestLimits
from smg_core.protocols.models import ModelCard
from smg_core.routing import Policy
from smg_core.routing import policy as policy_by_name
from smg_core.server.memory import give_back
from smg_core.tokenizer.base import Tokenizer
from smg_core.tokenizer.cache import CacheConfig
from smg_core.tokenizer.chat_template import ChatTemplate
from smg_core.tokenizer.loader import TokenizerBundle, load_tokenizer, unpack_archive
from smg_core.workers.monitor import Monitor, MonitorSettings
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Board, Worker, WorkerSpec
from smg_parsers import Family, UnknownModelFamily, explain
from smg_parsers.models import family as family_named

if TYPE_CHECKING:
    from smg_core.server.media import GatewayMedia, ModelMedia
    from smg_core.simulator.engine import SimulatorConfig

__all__ = ["Runtime"]

log = logging.getLogger("smg.gateway")

LONGEST_ID = 128  # characters of a request id that a client may choose

AHEAD = Limits(stream_window=128 * 1024)
"""An engine's stream may run this far ahead of a client that does not read: thousands of tokens, each of which is some
fifteen bytes here and two hundred in the client's buffer."""


class Runtime:
    """Everything between `workers` (engine URLs or WorkerSpecs, beside those in `config`) and whoever answers requests.

    `policy` is a name or an object; `tokenizer` a folder, without which the engine is asked for its own. `board` counts
    requests in flight over several processes; `clock`, `ids` and `rng` are what the rooms are given of the world.
    """

    def __init__(
        self,
        workers: Sequence[str | WorkerSpec] = (),
        *,
        policy: str | Policy | None = None,
        tokenizer: str | Path | None = None,
        config: Config | None = None,
        observer: Observer | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        rng: random.Random | None = None,
        board: Board | None = None,
    ) -> None:
        self.config = config or Config()
        self.clock = clock or SystemClock()
        self.ids = ids or random_ids()
        self.rng = rng or random.Random()
        self.observer = observer or SilentObserver()
        self.registry = Registry(board)
        self.models: dict[str, ServedModel] = {}
        self.in_flight = 0
        self.draining = False
        self.started = False
        self.retry_after = 1.0
        self._id_header = self.config.observability.request_id_header.lower()
        self.explains = self.config.observability.explain
        self.response_buffer = self.config.limits.response_buffer_bytes
        self.max_in_flight = self.config.limits.concurrent_requests
        self.retry = RetryPolicy(attempts=self.config.routing.retries + 1)
        self.limits = _request_limits(self.config)
        self._policy = policy if policy is not None and not isinstance(policy, str) else None
        self._policy_name = policy if isinstance(policy, str) else self.config.routing.policy
        self._folder = Path(tokenizer) if tokenizer is not None else _path(self.config.tokenizer.path)
        self._specs = [*(_spec(each) for each in workers), *map(_spec, self.config.workers.urls)]
        self._bundles: dict[str, TokenizerBundle] = {}
        self._media: GatewayMedia | None = None
        self._loading = asyncio.Lock()
        self._transports: dict[str, Transport] = {}
        self._stack = AsyncExitStack()
        self._simulator: SimulatorConfig | None = None
        self._engines: list[Any] = []

    # --------------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Begin to reach the workers; returns before they are. Calling it again does nothing.

        Raises ValueError for a worker's URL that is none, and for a tokenizer folder that holds none; UnknownDialect for a
        dialect that is neither built in nor installed.
        """
        if self.started:
            return
        for spec in self._specs:
            self._check(spec)
        self.started = True
        self.draining = False
        self._loop = asyncio.get_running_loop()
        self._stack = AsyncExitStack()
        pool = ThreadPoolExecutor(self.config.tokenizer.encode_threads, thread_name_prefix="smg-encode")
        self._stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        self._pool = pool
        if self._folder is not None:
            await self._load(self._folder)
        await self._start_engines()
        policy = self._policy or policy_by_name(self._policy_name)
        workers = self.config.workers
        settings = MonitorSettings(health_interval=workers.health_interval_s, loads_interval=workers.loads_interval_s)
        self.monitor = Monitor(self.registry, self._connect, self._join, self.observer, settings)
        self._stack.push_async_callback(self.monitor.close)
        self.driver = Driver(
            registry=self.registry,
            models=self.models,
            policy=policy,
            observer=self.observer,
            clock=self.clock,
            pool=pool,
            request_timeout=workers.request_timeout_s,
            on_worker_error=self.monitor.suspect,
        )
        for spec in self._specs:
            self.add_worker(spec)

    async def stop(self) -> None:
        """Let go of workers, threads and embedded engines. Whoever serves requests drains first."""
        if not self.started:
            return
        self.started = False
        for worker in list(self.registry):
            self.registry.signal(worker, "removed")
        await self._stack.aclose()
        for transport in self._transports.values():
            await transport.close()
        self._transports.clear()
        self.models.clear()

    async def ready(self, timeout: float = 60.0) -> None:
        """Return once a worker is ready. Raises TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            await self.monitor.ready()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
            await self.ready()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    @property
    def ready_now(self) -> bool:
        return self.registry.any_ready

    def drain(self) -> None:
        """Take nothing new: from now on every request gets 503 with Retry-After; those in flight finish."""
        self.draining = True

    def add_worker(self, worker: str | WorkerSpec) -> Worker:
        """Let one more worker join, while running. Raises ValueError for a URL that is none, or a name that is taken."""
        self._check(_spec(worker))
        added = self.registry.add(_spec(worker))
        self.monitor.watch(added)
        return added

    def _check(self, spec: WorkerSpec) -> None:
        Target.parse(spec.url)
        if (wanted := self._dialect(spec)) != AUTO:
            dialect(wanted)

    def id_header(self, headers: Mapping[str, str], request_id: str) -> tuple[bytes, bytes]:
        """The header that names a request: the client's own name for it, where that is short and plain, else `request_id`."""
        named = headers.get(self._id_header, "")
        plain = 0 < len(named) <= LONGEST_ID and named.isascii() and named.isprintable() and " " not in named
        return self._id_header.encode(), (named if plain else request_id).encode()

    def cards(self) -> list[ModelCard]:
        """A card for every model, sorted by name."""
        return [self.card(name) for name in sorted(self.models)]

    def card(self, name: str) -> ModelCard:
        """The card of one model. Raises ModelNotFound."""
        model = self.models.get(name)
        if model is None:
            raise ModelNotFound(name)
        return ModelCard(
            id=name, created=model.created, max_model_len=model.context_length or None, root=model.root or name
        )

    # ---------------------------------------------------------------------------------------------- the workers

    async def _start_engines(self) -> None:
        if self._simulator is None:
            return
        from smg_core.simulator.server import SimulatedEngine

        folder = Path(tempfile.mkdtemp(prefix="smg-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        self._specs = []
        for number in range(len(self._engines)):
            engine = SimulatedEngine(self._simulator, listen=f"unix://{folder}/{number}.sock")
            self._engines[number] = await self._stack.enter_async_context(engine)
            self._specs.append(WorkerSpec(engine.target, name=f"simulator-{number}"))

    @property
    def engines(self) -> tuple[Any, ...]:
        """The embedded engines of a simulated gateway, for tests to look into and to break."""
        return tuple(self._engines)

    async def _connect(self, worker: Worker) -> EngineClient:
        transport = self._transports.get(worker.name)
        if transport is None:
            transport = self._transports[worker.name] = self._transport(worker.spec)
        wanted = self._dialect(worker.spec)
        if wanted != AUTO:
            return EngineClient(dialect(wanted).codec(), transport)
        failure: SmgError | None = None
        for name in names():
            client = EngineClient(dialect(name).codec(), transport)
            try:
                await client.health()
            except WorkerGone:
                raise
            except SmgError as error:
                failure = error
            else:
                return client
        raise WorkerGone("The engine speaks no dialect that is known here.", detail=str(failure))

    def _dialect(self, spec: WorkerSpec) -> str:
        return spec.dialect if spec.dialect != AUTO else self.config.workers.dialect

    def _transport(self, spec: WorkerSpec) -> Transport:
        settings = self.config.workers
        tls = Tls(ca=settings.tls_ca, cert=settings.tls_cert, key=settings.tls_key)
        target = Target.parse(spec.url, tls=tls if tls != Tls() else None)
        if settings.transport == "grpcio":
            from smg_core.engines.grpc_transport import GrpcioTransport

            return GrpcioTransport(target, connect_timeout=settings.connect_timeout_s)
        from smg_core.engines.h2.transport import H2Transport

        return H2Transport(target, limits=AHEAD, connect_timeout=settings.connect_timeout_s)

    async def _join(self, worker: Worker, engine: EngineClient) -> tuple[str, ...]:
        """Learn a worker's model, load what is needed to serve it, and return the names it goes by."""
        info, facts = await engine.describe()
        settings = self.config.model
        name = worker.spec.model or settings.name or info.model or worker.name
        names = (name, *settings.served_names)
        worker.info = info
        async with self._loading:
            if name not in self.models:
                bundle = await self._bundle(engine, info)
                served = self._served(name, info, bundle, facts, await self._service(name, bundle, facts))
                self.models |= {each: attrs.evolve(served, name=each) for each in names}
        media = self.models[name].media
        if media is not None:
            if facts.normalizes != media.raw:
                raise WorkerGone(
                    "The engine does not take pictures as others of its model do.",
                    detail=f"{worker.name} {'' if facts.normalizes else 'does not '}normalise pixels (mm_device_do_normalize)",
                )
            worker.memory = facts.shared_memory if self.config.media.shared_memory != "off" else ""
        return names

    async def _bundle(self, engine: EngineClient, info: ModelInfo) -> TokenizerBundle:
        return await self._load(self._folder or await self._fetch_tokenizer(engine, info))

    async def _load(self, folder: Path) -> TokenizerBundle:
        key = str(folder)
        if key not in self._bundles:
            settings = self.config.tokenizer
            cache = CacheConfig(l0_bytes=settings.l0_bytes, l1_bytes=settings.l1_bytes)
            # A thread of its own, that ends: what a tokenizer keeps for each thread it ever worked on goes with it.
            with ThreadPoolExecutor(1, thread_name_prefix="smg-load") as loader:
                self._bundles[key] = await asyncio.get_running_loop().run_in_executor(
                    loader, lambda: load_tokenizer(folder, cache=cache, fast=settings.fast, clock=self.clock)
                )
            give_back()
            if settings.chat_template is not None:
                self._bundles[key] = _with_template(self._bundles[key], Path(settings.chat_template), self.clock)
        return self._bundles[key]

    async def _fetch_tokenizer(self, engine: EngineClient, info: ModelInfo) -> Path:
        """The engine's own tokenizer; where it cannot send it, the folder it names, if that is on this machine."""
        try:
            sent = await engine.tokenizer()
        except WorkerGone:
            raise
        except SmgError as error:
            return _named_folder(info, str(error))
        if sent is None:
            return _named_folder(info, "its dialect has no call for it")
        archive, digest = sent
        folder = Path(tempfile.mkdtemp(prefix="smg-tokenizer-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        unpack_archive(archive, digest, folder)
        return folder

    async def _service(self, name: str, bundle: TokenizerBundle, facts: EngineFacts) -> "ModelMedia | None":
        """What serves a model's media; None for a model of text. Only then is anything about media loaded."""
        if not suggests_media(bundle.model_config, [file.name for file in bundle.folder.iterdir()]):
            return None
        try:
            from smg_core.server.media import GatewayMedia
        except ImportError as error:
            log.warning(
                "model %s: text only: media need more packages (%s): pip install 'smg-sdk[vision]'", name, error
            )
            return None
        loop = asyncio.get_running_loop()
        if self._media is None:
            self._media = await loop.run_in_executor(self._pool, GatewayMedia, self.config.media)
            self._stack.push_async_callback(self._close_media)
        service = partial(self._media.service, name, bundle.folder, bundle.model_config, bundle.tokenizer)
        return await loop.run_in_executor(
            self._pool, partial(service, facts.dialect, raw=facts.normalizes, said=facts.media)
        )

    async def _close_media(self) -> None:
        media, self._media = self._media, None
        if media is not None:
            await media.close()

    def _served(
        self, name: str, info: ModelInfo, bundle: TokenizerBundle, facts: EngineFacts, media: "ModelMedia | None"
    ) -> ServedModel:
        settings = self.config.model
        context = settings.context_length or info.context_length
        return ServedModel(
            name=name,
            tokenizer=bundle.tokenizer,
            template=bundle.template if media is None else _placing(bundle, media.texts, self.clock),
            context_length=context,
            vocab_size=min(filter(None, (info.vocab_size, bundle.tokenizer.vocab_size)), default=0),
            dialect=facts.dialect,
            capabilities=facts,
            parser=self._family(name, info, bundle),
            default_sampling=info.default_sampling,
            protect_control=self.config.tokenizer.protect_control,
            encode_inline=_encode_inline(bundle.tokenizer, self.clock),
            created=int(self.clock.time()),
            root=info.model,
            media=media,
        )

    def _family(self, name: str, info: ModelInfo, bundle: TokenizerBundle) -> Family | None:
        """The parser family of a model, None for plain text."""
        settings = self.config.model
        own = dict(each.partition("=")[::2] for each in settings.parsers)
        wanted = own.get(name, settings.parser)
        if wanted == "none":
            return None
        if wanted != "auto":
            return family_named(wanted)
        source = bundle.template.sources.get("default") if bundle.template is not None else None
        for each in (info.model, name, info.tokenizer_path):
            try:
                found = explain(each, source)
            except UnknownModelFamily:
                continue
            log.info("model %s: output is read as %s (%s)", name, found.family.name, found.reason)
            return found.family
        log.warning("model %s: no parser family is known for it; its output is passed on as plain text", name)
        return None


def _named_folder(info: ModelInfo, reason: str) -> Path:
    """The folder an engine took its tokenizer from, if that is on this machine. Raises InternalError with `reason`."""
    for place in (info.tokenizer_path, info.model):
        if place and Path(place).is_dir():
            return Path(place)
    raise InternalError("The engine sends no tokenizer; name a folder with tokenizer.path.", detail=reason)


def _with_template(bundle: TokenizerBundle, file: Path, clock: Clock) -> TokenizerBundle:
    """The same bundle with the operator's own chat template."""
    try:
        source = file.expanduser().read_text()
    except OSError as error:
        raise InternalError("The chat template cannot be read.", detail=str(error)) from error
    template = ChatTemplate(source, special=bundle.tokenizer.special, name=str(file), clock=clock)
    return attrs.evolve(bundle, template=template)


def _placing(bundle: TokenizerBundle, texts: Mapping[str, str], clock: Clock) -> ChatTemplate | None:
    """The template, knowing what to write for media where it takes content as one string."""
    own = bundle.template
    if own is None:
        return None
    return ChatTemplate(own.sources, special=bundle.tokenizer.special, name=own.name, clock=clock, media=texts)


def _encode_inline(tokenizer: Tokenizer, clock: Clock) -> int:
    """Characters that `tokenizer` encodes in half a millisecond, measured on this thread, which warms it up too."""
    text = " ".join(f"{word}{number}" for number in range(500) for word in ("The quick brown ", "Zürich, ", "f(x) = "))
    best = float("inf")
    for _ in range(4):
        began = clock.monotonic()
        tokenizer.encode(text)
        best = min(best, clock.monotonic() - began)
    return round(min(max(0.0005 * len(text) / max(best, 1e-9), 1_000), 100_000))


def _spec(worker: str | WorkerSpec) -> WorkerSpec:
    return WorkerSpec(worker) if isinstance(worker, str) else worker


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None


def _request_limits(config: Config) -> RequestLimits:
    limits = config.limits
    return RequestLimits(
        body_bytes=limits.body_bytes,
        json_depth=limits.json_depth,
        messages=limits.messages,
        n=limits.n,
        stop=limits.stop,
        tools=limits.tools,
        logprobs=limits.logprobs,
    )

"""Makes the client of a worker's engine from its URL and the settings (edge).

The URL's scheme decides the kind of engine: gRPC for engines that take ids, HTTP for engines that speak chat. A gRPC engine
without a configured dialect is asked in each dialect, in the order of the table. Above: gateway.assembly passes `connect` to the
monitor. Below: engines.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from smg_core.config.check import check_url
from smg_core.config.config import Config, parse_file
from smg_core.discovery.file import FileReading, text_of
from smg_core.engines.base import Engine, Transport
from smg_core.engines.connections.target import Target, Tls, door
from smg_core.engines.grpc.credentials import WithHeaders
from smg_core.engines.grpc.h2.transport import H2Transport
from smg_core.engines.kinds.grpc import AUTO, dialect, dialect_names
from smg_core.engines.kinds.opening import check_http_dialect, open_engine
from smg_core.engines.kv_zmq.subscriber import KvAddress
from smg_core.engines.token_ids.client import EngineClient
from smg_core.errors import SmgError, WorkerGone
from smg_core.settings import ConfigError
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import Worker, WorkerSpec
from smg_core.workers.worker_file import check_headers, workers_of

__all__ = ["WITHOUT_WORKERS", "Reaching", "brings_workers", "given_spec", "specs_of", "worker_file", "workers_in"]


def given_spec(worker: str | WorkerSpec) -> WorkerSpec:
    """A worker that a program has given, as its URL or whole."""
    return WorkerSpec(worker) if isinstance(worker, str) else worker


def specs_of(settings: WorkersConfig) -> list[WorkerSpec]:
    """The workers that the settings name by their URLs alone."""
    return [
        *(WorkerSpec(url) for url in settings.urls),
        *(WorkerSpec(url, role="prefill") for url in settings.prefill_urls),
        *(WorkerSpec(url, role="decode") for url in settings.decode_urls),
        *(WorkerSpec(url, role="encode") for url in settings.encode_urls),
    ]


WITHOUT_WORKERS = (
    "no engine to send requests to: give Gateway(workers=['grpc://host:port']), or settings of workers or discovery, or begin "
    "with Gateway.simulated(); until then this waits for add_worker"
)


def brings_workers(config: Config) -> bool:
    """Whether the settings name something that workers come from while the gateway runs."""
    return bool(config.workers.file or config.discovery.dns or config.discovery.kubernetes)


async def workers_in(config: Config) -> list[WorkerSpec]:
    """The workers of the file that `workers.file` names, [] without one. Raises ConfigError, which says what is wrong."""
    if config.workers.file is None:
        return []
    reading = await asyncio.to_thread(worker_file, Path(config.workers.file).expanduser(), config)
    return list(reading.workers)


def worker_file(path: Path, config: Config) -> FileReading:
    """The workers of the file at `path`, and all files that were read. To be called in a thread. Raises ConfigError, which says
    what is wrong, also of a worker that could not be added: a file is taken whole or not at all."""
    files, most = [path], config.discovery.file_bytes

    def read(name: str) -> str:
        files.append(Path(name).expanduser())
        return text_of(files[-1], most)

    try:
        content = parse_file(text_of(path, most), path.suffix.lower(), secret=True)
    except (OSError, ValueError) as error:
        raise ConfigError(f"workers.file: {error}") from None
    found = workers_of(content, read, config.engines.metadata_bytes)
    reaching, problems = Reaching(config), []
    for at, each in enumerate(found, 1):
        try:
            reaching.check(each)
        except (ValueError, LookupError) as error:
            problems.append(f"workers.file: worker {at}: {error}")
    if problems:
        raise ConfigError(*problems)
    return FileReading(found, tuple(files))


class Reaching:
    """Makes clients of engines by `config`."""

    def __init__(self, config: Config) -> None:
        self._settings = config.workers
        self._model = config.model.name
        self._limits = config.engines
        self._connect_timeout = config.timeouts.connect_s

    def check(self, spec: WorkerSpec) -> None:
        """Raise ValueError for an invalid URL, and UnknownDialect for an unknown dialect."""
        check_url(spec.url)
        if not spec.name.isprintable():
            raise ValueError("the name of a worker has printable characters alone")
        KvAddress(spec.kv_events, spec.kv_events_replay, spec.kv_events_topic).check()
        if door(spec.url) == "chat" and spec.role not in (None, "regular"):
            raise ValueError(f"worker {spec.label!r} is an HTTP server, which cannot be a {spec.role} worker")
        check_headers(spec.headers, self._limits.metadata_bytes)
        if door(spec.url) == "ids":
            Target.parse(spec.url, tls=self._tls(spec))
        elif self._tls(spec) is not None and not spec.url.startswith("https:"):
            raise ValueError(f"worker {spec.label!r} is spoken to without TLS, yet has TLS settings; use https://")
        if door(spec.url) == "chat":
            check_http_dialect(spec.dialect)
        if door(spec.url) == "ids" and (wanted := self._dialect(spec)) != AUTO:
            dialect(wanted)

    def _dialect(self, spec: WorkerSpec) -> str:
        return spec.dialect if spec.dialect != AUTO else self._settings.dialect

    async def connect(self, worker: Worker) -> Engine:
        """A client for the worker's engine, which has answered in its dialect. Raises SmgError if it does not answer."""
        if door(worker.spec.url) == "chat":
            return self._over_http(worker.spec)
        transport = self._transport(worker.spec)
        wanted = self._dialect(worker.spec)
        try:
            return await self._speaking(transport, dialect_names() if wanted == AUTO else (wanted,))
        except BaseException:
            await transport.close()
            raise

    def _over_http(self, spec: WorkerSpec) -> Engine:
        return open_engine(
            self._dialect(spec),
            spec.url,
            model=spec.model or self._model or "",
            headers=spec.headers,
            tls=self._tls(spec),
            limits=self._limits,
            connect_timeout=self._connect_timeout,
        )

    async def _speaking(self, transport: Transport, wanted: Sequence[str]) -> EngineClient:
        """A client in the first of the dialects `wanted` that the engine answers in; a single one is used without asking."""
        failure: SmgError | None = None
        if len(wanted) == 1:
            return EngineClient(dialect(wanted[0]).codec(), transport, self._limits)
        for at, name in enumerate(wanted):
            found = f"it answered; asked before: {', '.join(wanted[:at]) or 'none'}"
            client = EngineClient(dialect(name).codec(), transport, self._limits, found)
            try:
                await client.health()
            except WorkerGone:
                raise
            except SmgError as error:
                failure = error
            else:
                return client
        raise WorkerGone("The engine speaks no dialect that is known here.", detail=str(failure))

    def _tls(self, spec: WorkerSpec) -> Tls | None:
        """The worker's own certificates, else those of the settings; None where neither names any."""
        settings = self._settings
        if spec.tls is not None:
            return spec.tls
        if spec.url.startswith(("http:", "http+unix:")):
            return None  # the settings speak of engines that are spoken to with TLS
        tls = Tls(ca=settings.tls_ca, cert=settings.tls_cert, key=settings.tls_key)
        return tls if tls != Tls() else None

    def _transport(self, spec: WorkerSpec) -> Transport:
        target = Target.parse(spec.url, tls=self._tls(spec))
        transport: Transport
        if self._settings.transport == "grpcio":
            from smg_core.engines.grpc.grpcio import GrpcioTransport

            transport = GrpcioTransport(target, limits=self._limits, connect_timeout=self._connect_timeout)
        else:
            transport = H2Transport(target, limits=self._limits, connect_timeout=self._connect_timeout)
        return WithHeaders(transport, spec.headers) if spec.headers else transport

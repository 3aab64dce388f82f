"""Makes the client of a worker's engine from its URL and the settings (edge).

The scheme of the URL and the dialect decide the kind of engine, by the table of `engines.kinds`. Above: gateway.assembly passes
`connect` to the monitor. Below: engines.
"""

import asyncio
from pathlib import Path

from smg_core.config.config import Config, parse_file
from smg_core.discovery.file import FileReading, text_of
from smg_core.engines.base import Engine
from smg_core.engines.connections.target import Tls
from smg_core.engines.kinds.kind import EnginePlace
from smg_core.engines.kinds.opening import open_engine
from smg_core.engines.kinds.table import check_place
from smg_core.engines.kv_zmq.subscriber import KvAddress
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
        check_place(self.place(spec))
        if not spec.name.isprintable():
            raise ValueError("the name of a worker has printable characters alone")
        KvAddress(spec.kv_events, spec.kv_events_replay, spec.kv_events_topic).check()
        check_headers(spec.headers, self._limits.metadata_bytes)
        if spec.credential is not None:
            spec.credential.check()

    async def connect(self, worker: Worker) -> Engine:
        """A client for the worker's engine, which has answered in its dialect. Raises SmgError if it does not answer."""
        return await open_engine(self.place(worker.spec))

    def place(self, spec: WorkerSpec) -> EnginePlace:
        """Where the engine is, and what the worker and the settings say of it."""
        settings = self._settings
        tls = Tls(ca=settings.tls_ca, cert=settings.tls_cert, key=settings.tls_key)
        return EnginePlace(
            spec.url,
            kind=spec.dialect,
            usual_kind=settings.dialect,
            label=spec.label,
            role=spec.role,
            model=spec.model or self._model or "",
            headers=spec.headers,
            tls=spec.tls,
            usual_tls=tls if tls != Tls() else None,
            limits=self._limits,
            connect_timeout=self._connect_timeout,
            credential=spec.credential,
            region=spec.region,
            vendor_model=spec.vendor_model,
            api_version=spec.api_version,
            library=settings.transport,
        )

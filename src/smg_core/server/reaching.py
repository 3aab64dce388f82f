"""Makes the client of a worker's engine from its URL and the settings (edge).

The URL's scheme decides the kind of engine: gRPC for engines that take ids, HTTP for engines that speak chat. A gRPC engine
without a configured dialect is asked in each dialect, in the order of the table. Above: server.runtime passes `connect` to the
monitor. Below: engines.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smg_core.config import Config
from smg_core.engines.base import Engine, Transport
from smg_core.engines.client import EngineClient
from smg_core.engines.dialects import AUTO, dialect, dialect_names
from smg_core.engines.h2.transport import H2Transport
from smg_core.engines.target import Target, Tls, door
from smg_core.errors import SmgError, WorkerGone
from smg_core.server.config_check import check_url
from smg_core.workers.worker import Worker, WorkerSpec

if TYPE_CHECKING:
    from smg_core.engines.openai.engine import OpenAiEngine

__all__ = ["Reaching"]


def _chat_engine() -> "type[OpenAiEngine]":
    """The class of HTTP engines. Its HTTP client takes long to load, and a gateway of gRPC engines does without it. To be called
    in a thread."""
    from smg_core.engines.openai.engine import OpenAiEngine

    return OpenAiEngine


class Reaching:
    """Makes clients of engines by `config`."""

    def __init__(self, config: Config) -> None:
        self._settings = config.workers
        self._limits = config.engines
        self._connect_timeout = config.timeouts.connect_s

    def check(self, spec: WorkerSpec) -> None:
        """Raise ValueError for an invalid URL, and UnknownDialect for an unknown dialect."""
        check_url(spec.url)
        if door(spec.url) == "ids" and (wanted := self._dialect(spec)) != AUTO:
            dialect(wanted)

    def _dialect(self, spec: WorkerSpec) -> str:
        return spec.dialect if spec.dialect != AUTO else self._settings.dialect

    async def connect(self, worker: Worker) -> Engine:
        """A client for the worker's engine, which has answered in its dialect. Raises SmgError if it does not answer."""
        if door(worker.spec.url) == "chat":
            chat_engine = await asyncio.to_thread(_chat_engine)
            return chat_engine(worker.spec.url, limits=self._limits, connect_timeout=self._connect_timeout)
        transport = self._transport(worker.spec)
        wanted = self._dialect(worker.spec)
        try:
            return await self._speaking(transport, dialect_names() if wanted == AUTO else (wanted,))
        except BaseException:
            await transport.close()
            raise

    async def _speaking(self, transport: Transport, wanted: Sequence[str]) -> EngineClient:
        """A client in the first of the dialects `wanted` that the engine answers in; a single one is used without asking."""
        failure: SmgError | None = None
        for name in wanted:
            client = EngineClient(dialect(name).codec(), transport, self._limits)
            if len(wanted) == 1:
                return client
            try:
                await client.health()
            except WorkerGone:
                raise
            except SmgError as error:
                failure = error
            else:
                return client
        raise WorkerGone("The engine speaks no dialect that is known here.", detail=str(failure))

    def _transport(self, spec: WorkerSpec) -> Transport:
        settings = self._settings
        tls = Tls(ca=settings.tls_ca, cert=settings.tls_cert, key=settings.tls_key)
        target = Target.parse(spec.url, tls=tls if tls != Tls() else None)
        if settings.transport == "grpcio":
            from smg_core.engines.grpc_transport import GrpcioTransport

            return GrpcioTransport(target, limits=self._limits, connect_timeout=self._connect_timeout)
        return H2Transport(target, limits=self._limits, connect_timeout=self._connect_timeout)

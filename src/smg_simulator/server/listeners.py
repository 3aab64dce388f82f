"""The listeners of the embedded engine, stopped so that no connection is left open (edge). Above: whatever of it listens."""

import asyncio
import ctypes
from pathlib import Path

import grpc
import grpc.aio

from smg_simulator.engine.engine import SimulatorConfig

__all__ = ["GrpcListener", "Witness", "take_no_more"]

_MOST_RECEIVED = 512 * 1024 * 1024
_ROUNDS = 5  # of the event loop, from an accepted socket to a connection


async def take_no_more(server: asyncio.Server) -> None:
    """Stop looking at the sockets of `server`, wait until what it has accepted is a connection, and close it. Called before the
    connections of a server are cut: asyncio leaves one open that is still on its way there when the server closes, and it would
    be a warning when its memory is freed. Other event loops than asyncio's own close it themselves."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for listener in server.sockets:
            loop.remove_reader(listener.fileno())
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
    server.close()


class Witness:
    """Notices that all tasks of the event loop were cancelled, as `asyncio.run` does at its end: it waits for nothing else."""

    def __init__(self) -> None:
        self._task: asyncio.Task[bool] | None = None

    def begin(self) -> None:
        """Watch, if it does not yet."""
        if self._task is None:
            self._task = asyncio.create_task(asyncio.Event().wait(), name="the embedded engine's witness")

    def end(self) -> None:
        """Watch no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    @property
    def all_cancelled(self) -> bool:
        """Whether all tasks were cancelled while it watched."""
        return self._task is not None and self._task.cancelling() > 0


class GrpcListener:
    """A server of gRPC that also stops well when the event loop ends.

    `asyncio.run` cancels every task before what waits for a cancellation can clean up, and so the tasks of grpcio's server too.
    They free what the core of grpcio still writes to when that server is told to shut down, which then overwrites other objects
    and ends the process (grpcio 1.85). So a server whose tasks have been cancelled is not told, and is kept until the process
    ends.
    """

    def __init__(self, handlers: grpc.GenericRpcHandler, config: SimulatorConfig, witness: Witness) -> None:
        self._config, self._witness = config, witness
        self._server = grpc.aio.server(
            handlers=[handlers],
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", _MOST_RECEIVED)],
        )

    async def start(self, listen: str) -> int:
        """Start to listen, and return the port. Raises OSError when the address is taken."""
        try:
            if self._config.tls_certificate:
                port: int = self._server.add_secure_port(listen, _credentials(self._config))
            else:
                port = self._server.add_insecure_port(listen)
        except RuntimeError as error:
            raise OSError(f"the embedded engine cannot listen on {listen}") from error
        self._witness.begin()
        await self._server.start()
        return port

    async def stop(self, grace: float | None = None) -> None:
        """Stop listening; calls in flight get `grace` seconds to finish, then they are cut."""
        if self._witness.all_cancelled:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))  # where its memory is freed it shuts down too
        else:
            await self._server.stop(grace)


def _credentials(config: SimulatorConfig) -> grpc.ServerCredentials:
    certificate, key = Path(config.tls_certificate).read_bytes(), Path(config.tls_key).read_bytes()
    ca = Path(config.tls_client_ca).read_bytes() if config.tls_client_ca else None
    return grpc.ssl_server_credentials([(key, certificate)], root_certificates=ca, require_client_auth=ca is not None)

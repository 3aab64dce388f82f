"""The engine's side of the conformance suite: a grpcio server whose methods do what a request tells them, and a receiver
that writes down what it is told."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from smg_core.errors import SmgError

__all__ = ["SERVICE", "PeerEngine", "Recorder", "order"]

SERVICE = "conformance.Engine"
GUARD = 20.0  # seconds after which a test that hangs is failed


def order(**what: Any) -> bytes:
    """A request for `Serve`: `count` messages of `size` bytes, then `hang` or end with `code` and `details`."""
    return json.dumps(what).encode()


class Recorder:
    """A receiver. `error` is meaningful once `wait` has returned."""

    def __init__(self, raises: Exception | None = None) -> None:
        self.messages_seen: list[bytes] = []
        self.error: SmgError | None = None
        self.closed_times = 0
        self.raises = raises
        self._changed = asyncio.Event()

    def messages(self, batch: list[bytes]) -> None:
        assert batch, "an empty push"
        assert all(type(message) is bytes for message in batch)
        assert not self.closed_times, "a message after the end"
        if self.raises is not None:
            raise self.raises
        self.messages_seen += batch
        self._changed.set()

    def closed(self, error: SmgError | None) -> None:
        self.closed_times += 1
        self.error = error
        self._changed.set()

    async def wait(self) -> SmgError | None:
        """Until the call is over."""
        await self._until(lambda: self.closed_times > 0)
        assert self.closed_times == 1
        return self.error

    async def reach(self, count: int) -> None:
        """Until `count` messages are here."""
        await self._until(lambda: len(self.messages_seen) >= count)

    async def _until(self, condition: Any) -> None:
        async with asyncio.timeout(GUARD):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class PeerEngine:
    """One grpcio server. `entered` and `cancelled` count calls of `Serve`; `release` lets those that hang end."""

    def __init__(self, *options: tuple[str, Any]) -> None:
        self.entered = self.cancelled = self.running = self.most_running = self.written = 0
        self.release = asyncio.Event()
        self.changed = asyncio.Condition()
        self.port = 0
        self._server = grpc.aio.server(
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1), *options]
        )
        methods = {
            "Serve": grpc.unary_stream_rpc_method_handler(self._serve),
            "Echo": grpc.unary_unary_rpc_method_handler(self._echo),
            "Metadata": grpc.unary_unary_rpc_method_handler(self._metadata),
            "Two": grpc.unary_stream_rpc_method_handler(self._two),
            "Fail": grpc.unary_unary_rpc_method_handler(self._fail),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))

    async def listen(self, *, port: int = 0, path: Path | None = None, credentials: Any = None) -> "PeerEngine":
        address = f"unix:{path}" if path else f"127.0.0.1:{port}"
        if credentials is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, credentials)
        await self._server.start()
        return self

    async def stop(self, grace: float | None = None) -> None:
        await self._server.stop(grace)

    async def until(self, condition: Any) -> None:
        """Until `condition()` holds of this engine's counters."""
        async with asyncio.timeout(GUARD), self.changed:
            await self.changed.wait_for(condition)

    async def _note(self, **changes: int) -> None:
        async with self.changed:
            for name, change in changes.items():
                setattr(self, name, getattr(self, name) + change)
            self.most_running = max(self.most_running, self.running)
            self.changed.notify_all()

    async def _serve(self, request: bytes, context: Any) -> None:
        # Writes rather than yields: a generator is not told when it is cancelled while grpcio writes for it.
        what = json.loads(request)
        await self._note(entered=1, running=1)
        try:
            for number in range(what.get("count", 0)):
                await context.write(f"{number}:".encode().ljust(what.get("size", 0), b"."))
                self.written += 1
            if what.get("hang"):
                await self.release.wait()
            for number in range(what.get("after", 0)):
                await context.write(f"after {number}".encode())
            if "code" in what:
                await context.abort(grpc.StatusCode[what["code"]], what.get("details", ""))
        except asyncio.CancelledError:
            await self._note(cancelled=1)
            raise
        finally:
            await self._note(running=-1)

    async def _echo(self, request: bytes, context: Any) -> bytes:
        return request

    async def _metadata(self, request: bytes, context: Any) -> bytes:
        fields = [(key, value) for key, value in context.invocation_metadata() if isinstance(value, str)]
        return json.dumps([fields, context.time_remaining()]).encode()

    async def _two(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async def _fail(self, request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no, thank you")
        return b""

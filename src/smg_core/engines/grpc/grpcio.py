"""The reference transport: the client of the grpcio library, carrying bytes (edge).

An edge: grpcio opens the sockets, resolves names and reads its environment variables. Above: `engines.token_ids.client`.
grpcio is the reference implementation of gRPC: the default transport passes the same tests as this one, and an operator who
needs a feature that only grpcio has can choose it. It costs one task per call and several times the CPU per message.

grpcio itself decides when to reconnect: after a refused connection it fails calls at once for up to `backoff_s` seconds.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import grpc
import grpc.aio

from smg_core.engines.base import Receiver
from smg_core.engines.connections.target import Target, Tls
from smg_core.engines.grpc.h2.headers import check_metadata
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.status import error_from_status
from smg_core.errors import EngineFailed, EngineGarbled, ReadingFailed, SmgError, WorkerGone

__all__ = ["GrpcioTransport"]

ChannelOption = tuple[str, str | int]

_CLOSED = "The connection to the engine was closed."

_DEFAULTS = EnginesConfig()


class _Call:
    """One call in flight and the task that reads it."""

    __slots__ = ("_call", "_done", "_ended", "_receiver", "_resumed", "_task", "_transport")

    def __init__(self, call: grpc.aio.UnaryStreamCall, receiver: Receiver, transport: "GrpcioTransport") -> None:
        self._call = call
        self._receiver = receiver
        self._transport = transport
        self._done = False
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._task = asyncio.get_running_loop().create_task(self._read())

    def cancel(self) -> None:
        self._done = True
        self._call.cancel()
        self._resumed.set()

    def pause(self) -> None:
        self._resumed.clear()

    def resume(self) -> None:
        self._resumed.set()

    def end(self, error: SmgError) -> None:
        """Tell the receiver that the call is over, once."""
        if not self._done:
            self._done = True
            self._call.cancel()
            self._receiver.closed(error)

    async def _read(self) -> None:
        error: SmgError | None = None
        try:
            error = await self._push_all()
        except grpc.aio.AioRpcError as failed:
            error = _translated(failed)
        except asyncio.CancelledError:
            # grpcio raises this when the call was cancelled, by us or because its channel was closed.
            error = WorkerGone(_CLOSED, detail=str(self._transport.target))
        except grpc.aio.UsageError as misused:
            error = EngineFailed(
                "The engine failed while it worked on the request.", detail=str(misused), outside_text=str(misused)
            )
        except Exception as fault:  # noqa: BLE001  # the receiver's own
            error = ReadingFailed.of(fault)
        finally:
            self._transport.forget(self)
            if not self._done:
                self._done = True
                self._call.cancel()  # harmless when it is over
                self._receiver.closed(error)

    async def _push_all(self) -> SmgError | None:
        while not self._done:
            await self._resumed.wait()
            message = await self._call.read()
            if self._done or message is grpc.aio.EOF:
                break
            self._receiver.messages([message])
        if self._done:
            return None
        return error_from_status(_number(await self._call.code()), await self._call.details() or "")


class GrpcioTransport:
    """A `Transport` on grpc.aio. `target` is a URL or a `Target`; `connect_timeout` is in seconds.

    `channel` is a program's own, used as it is and not closed here; certificates, options and `limits.message_bytes` are then its
    own matter. `interceptors` are those of the channel that is made here.
    """

    def __init__(
        self,
        target: str | Target,
        *,
        limits: EnginesConfig = _DEFAULTS,
        connect_timeout: float = 5.0,
        channel: grpc.aio.Channel | None = None,
        interceptors: Sequence[grpc.aio.ClientInterceptor] = (),
    ) -> None:
        if channel is not None and interceptors:
            raise ValueError("a channel of one's own has its interceptors already")
        self.target = Target.parse(target)
        if self.target.tls is not None and self.target.tls.insecure_skip_verify:
            raise ValueError("grpcio always verifies certificates: insecure_skip_verify needs the HTTP/2 transport")
        self._options = _options(self.target, limits, connect_timeout)
        self._limits = limits
        self._channel = channel
        self._owns_channel = channel is None
        self._interceptors = list(interceptors)
        self._methods: dict[str, grpc.aio.UnaryStreamMultiCallable] = {}
        self._calls: set[_Call] = set()
        self._closed = False

    async def start(
        self,
        path: str,
        message: bytes,
        receiver: Receiver,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> _Call:
        """See `Transport.start`. One task a call reads it."""
        call = (await self._method(path, metadata))(message, metadata=tuple(metadata), timeout=timeout)
        try:
            async with asyncio.timeout(connect_timeout):
                await call.wait_for_connection()
        except TimeoutError:
            call.cancel()
            reason = f"{self.target}: not connected within {connect_timeout} s"
            raise WorkerGone("The engine is not reachable.", detail=reason) from None
        except grpc.aio.AioRpcError as failed:
            # On a channel that stands, even UNAVAILABLE is an answer, which is the receiver's to hear.
            if failed.code() is grpc.StatusCode.UNAVAILABLE and not self._connected():
                raise _translated(failed) from None
        except asyncio.CancelledError:
            call.cancel()
            if self._closed:
                raise WorkerGone(_CLOSED, detail=str(self.target)) from None
            raise
        running = _Call(call, receiver, self)
        self._calls.add(running)
        return running

    async def unary(
        self,
        path: str,
        message: bytes,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        work: bool = False,
    ) -> bytes:
        """See `Transport.unary`. grpcio queues calls for a free stream itself: no room is kept for questions."""
        call = (await self._method(path, metadata))(message, metadata=tuple(metadata), timeout=timeout)
        try:
            messages = [message async for message in call]
        except grpc.aio.AioRpcError as failed:
            raise _translated(failed) from None
        except asyncio.CancelledError:
            call.cancel()
            if self._closed:
                raise WorkerGone(_CLOSED, detail=str(self.target)) from None
            raise
        if len(messages) != 1:
            reason = f"{len(messages)} messages where one was due"
            raise EngineGarbled("The engine broke its own protocol.", detail=reason)
        return bytes(messages[0])

    async def close(self) -> None:
        """See `Transport.close`. Idempotent."""
        self._closed = True
        for call in list(self._calls):
            call.end(WorkerGone(_CLOSED, detail=f"{self.target}: closed by us"))
        if self._channel is not None:
            channel, self._channel = self._channel, None
            if self._owns_channel:
                await channel.close()

    def forget(self, call: _Call) -> None:
        """A call is over."""
        self._calls.discard(call)

    def _connected(self) -> bool:
        return self._channel is not None and self._channel.get_state() is grpc.ChannelConnectivity.READY

    async def _method(self, path: str, metadata: Sequence[tuple[str, str]]) -> grpc.aio.UnaryStreamMultiCallable:
        if self._closed:
            raise WorkerGone(_CLOSED, detail=f"{self.target}: closed by us")
        if metadata:
            check_metadata(metadata, self._limits.metadata_bytes)
        if self._channel is None:
            # Reading certificate files blocks; a channel is made once.
            try:
                credentials = (
                    None if self.target.tls is None else await asyncio.to_thread(_credentials, self.target.tls)
                )
            except OSError as error:
                raise WorkerGone("The engine is not reachable.", detail=f"{self.target}: {error}") from None
            if self._channel is None:
                self._channel = _channel(self.target, credentials, self._options, self._interceptors)
        method = self._methods.get(path)
        if method is None:
            method = self._channel.unary_stream(path, request_serializer=None, response_deserializer=None)
            if len(self._methods) < 256:
                self._methods[path] = method
        return method


def _channel(
    target: Target,
    credentials: grpc.ChannelCredentials | None,
    options: Sequence[ChannelOption],
    interceptors: Sequence[grpc.aio.ClientInterceptor],
) -> grpc.aio.Channel:
    if credentials is None:
        return grpc.aio.insecure_channel(target.address, options=options, interceptors=interceptors)
    return grpc.aio.secure_channel(target.address, credentials, options=options, interceptors=interceptors)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Reads certificate files, so it blocks."""
    return grpc.ssl_channel_credentials(_bytes(tls.ca), _bytes(tls.key), _bytes(tls.cert))


def _bytes(material: bytes | Path | None) -> bytes | None:
    return material.read_bytes() if isinstance(material, Path) else material


def _options(target: Target, limits: EnginesConfig, connect_timeout: float) -> list[ChannelOption]:
    # Not grpc.minimal_stack: it is faster, and leaves the bound on message sizes out.
    options: list[ChannelOption] = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.min_reconnect_backoff_ms", int(connect_timeout * 1000)),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", max(int(limits.backoff_s * 1000), 100)),
        ("grpc.keepalive_time_ms", 301_000),  # what every server forgives
        ("grpc.keepalive_timeout_ms", int(limits.ping_timeout_s * 1000)),
    ]
    if target.tls is not None and target.tls.server_name is not None:
        options.append(("grpc.ssl_target_name_override", target.tls.server_name))
    return options


def _number(code: grpc.StatusCode | int) -> int:
    """A grpc.StatusCode, or the bare number grpcio gives for one it does not know."""
    return int(code.value[0]) if isinstance(code, grpc.StatusCode) else int(code)


def _translated(failed: grpc.aio.AioRpcError) -> SmgError:
    error = error_from_status(_number(failed.code()), failed.details() or "")
    return error or EngineGarbled("The engine broke its own protocol.", detail="an error with status OK")

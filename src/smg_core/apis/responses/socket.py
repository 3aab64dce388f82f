"""The Responses API over a WebSocket (edge): many responses on one connection, each as by HTTP.

A `response.create` is answered by the handler of `POST /v1/responses`, as an exchange of its own whose events become frames: what
is admitted, refused, timed, kept and counted is so by the same code. A lane (`stream_id`) makes one response at a time; lanes do
not wait for one another. The connection remembers responses that are not stored. It ends with its lifetime, once what is under
way is complete; a client that leaves cancels all of it. Above: app.generating_routes puts the route into the table. Below: the
handler of the API, the frames, the connection's memory.
"""

import asyncio
from collections.abc import Awaitable, Callable

import attrs
from msgspec.structs import replace

from smg_core.apis.responses.memory import ResponseMemory
from smg_core.apis.responses.socket_memory import ConnectionMemory, RecentResponses
from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.apis.responses.wire.frames import ClientFrame, error_frame, event_frames, read_frame, steer_failed
from smg_core.errors import Conflict, InvalidRequest, MethodNotAllowed, PayloadTooLarge, RateLimited, SmgError
from smg_core.http.exchange import DISCONNECT, AsgiMessage, Disconnect, Exchange, Header
from smg_core.http.routes import WEBSOCKET
from smg_core.http.stream_errors import ERROR_WRITTEN
from smg_core.http.websocket import Received, WebSocket
from smg_core.plugins.exchange import PluggedExchange, exchange_within
from smg_core.serving.inference import DECODED_INLINE, Inference, internal_error
from smg_core.serving.services import Services
from smg_core.wire.errors import error_headers, responses_error

__all__ = ["ResponsesSocket"]


_LEFT, _TOO_LARGE = 1001, 1009  # why a connection is closed (RFC 6455, 7.4.1)
_OF_THE_CONNECTION = (b"connection", b"upgrade", b"expect", b"transfer-encoding")
_PREFIXES = (b"content-", b"sec-websocket-")


class ResponsesSocket:
    """`GET /v1/responses` with an upgrade to a WebSocket."""

    def __init__(self, services: Services, inference: Inference[ResponsesRequest], memory: ResponseMemory) -> None:
        self._services = services
        self._inference = inference
        self._memory = memory

    async def __call__(self, exchange: Exchange) -> None:
        if not isinstance(exchange, WebSocket):
            raise MethodNotAllowed("There are only WebSockets here.")
        settings = self._services.live.config.responses
        recent = RecentResponses(settings.socket_responses, settings.socket_kept_bytes)
        memory = ConnectionMemory(self._memory, recent)
        exchange.take_id(self._services.ids, "req_")
        exchange.always.append(self._services.request_ids.header(exchange.name))
        await exchange.accept()
        await _Connection(self._services, exchange, self._inference.with_memory(memory)).run()


def _too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The frame is over the limit of {most} bytes.")


def _frame_of(message: Received, most: int) -> ClientFrame:
    """The frame in a message. Raises PayloadTooLarge, and as `read_frame`."""
    data = message.encoded()
    if len(data) > most:
        raise _too_large(most)
    return read_frame(data)


def _framed_error(error: SmgError, id: str) -> bytes:
    """An error at the end of a response that has begun, as a frame tells it."""
    return error_frame(error.status, responses_error(error, id), error_headers(error)).encode()


@attrs.define(eq=False)
class _Lane:
    """The response that a lane makes. `ended` once its last event is on its way: the client may ask for the next then. `sent` are
    the bytes of its frames."""

    sent: int = 0
    disconnect: Disconnect = attrs.field(factory=Disconnect)
    begun: bool = False
    ended: bool = False
    task: "asyncio.Task[None] | None" = None


class _Connection:
    """One connection, from its acceptance to its end."""

    def __init__(self, services: Services, socket: WebSocket, inference: Inference[ResponsesRequest]) -> None:
        self._services = services
        self._socket = socket
        self._inference = inference
        self._settings = services.live.config.responses
        self._lanes: dict[str | None, _Lane] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._expired = False
        self._closing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Answer frames until the client leaves or the connection's lifetime is over."""
        expiry = self._services.call_later(self._settings.socket_s, self._expire)
        try:
            while (message := await self._socket.read()) is not None:
                await self._take(message)
        finally:
            expiry.cancel()
            for lane in self._lanes.values():
                lane.disconnect.happened()
            last = [*self._running, *((self._closing,) if self._closing is not None else ())]
            await asyncio.gather(*last, return_exceptions=True)

    # ----------------------------------------------------------------------------------------------------------- frames

    async def _take(self, message: Received) -> None:
        """Begin what a message asks for: a frame, as this API calls it."""
        frame: ClientFrame | None = None
        try:
            frame = await self._read(message)
            if frame.kind == "response.steer":
                self._socket.count(await self._socket.send(steer_failed(frame)))
            else:
                self._create(frame)
        except PayloadTooLarge as error:
            self._socket.outcome = error.outcome
            await self._refuse(error, None)
            await self._socket.close(_TOO_LARGE)
        except SmgError as error:
            await self._refuse(error, frame.stream_id if frame is not None else None)

    async def _read(self, message: Received) -> ClientFrame:
        if not message.text:
            raise InvalidRequest("A frame is text.")
        size, most = len(message.data), self._settings.socket_frame_bytes
        if size > most:
            raise _too_large(most)
        if size <= DECODED_INLINE:
            return _frame_of(message, most)
        tenant = self._socket.caller.tenant
        return await self._services.running.executor.run(lambda _: _frame_of(message, most), size=size, caller=tenant)

    def _create(self, frame: ClientFrame) -> None:
        """Begin a response on the frame's lane."""
        if self._expired:
            raise InvalidRequest(
                "The connection's lifetime is over; open another.", code="websocket_connection_limit_reached"
            )
        before = self._lanes.get(frame.stream_id)
        if before is not None and not before.ended:
            raise Conflict("A response is being made on this lane already.", param="stream_id")
        if before is None and len(self._lanes) >= self._settings.socket_lanes:
            raise RateLimited(f"At most {self._settings.socket_lanes} responses are made at once on a connection.")
        lane = self._lanes[frame.stream_id] = _Lane()
        earlier = before.task if before is not None else None
        task = lane.task = asyncio.get_running_loop().create_task(self._answer(frame, lane, earlier))
        self._running.add(task)
        task.add_done_callback(lambda done: self._over(done, frame.stream_id, lane))

    async def _answer(self, frame: ClientFrame, lane: _Lane, earlier: "asyncio.Task[None] | None") -> None:
        """One response: the exchange that it would be by HTTP, and its line in the access log. It waits for what is left of the
        lane's `earlier` one, which has sent its last event."""
        services = self._services
        if earlier is not None:
            await asyncio.wait([earlier])
        if not await self._permitted(frame):
            return
        exchange, join = self._exchange(frame, lane)
        started, outcome = services.clock.monotonic(), "error"
        try:
            outcome = await self._made(exchange, join)
        finally:
            exchange.unplug()
            ended = exchange.ended(outcome, services.clock.monotonic() - started)
            services.observer.report(replace(ended, method=WEBSOCKET, route=exchange.path, sent=lane.sent))

    async def _permitted(self, frame: ClientFrame) -> bool:
        """Whether the key of the connection is still good, and it has met all plugins that it would meet now. If not, the client
        is told, and the connection closed."""
        socket = self._socket
        try:
            now = self._services.plugins.plan.at_the_door(socket.about())
            if not all(any(each is one for one in socket.met) for each in now):
                raise InvalidRequest(
                    "The gateway has other plugins now than when this connection was opened; open another."
                )
            if socket.identify is not None:
                socket.caller = await socket.identify()
        except SmgError as error:
            self._close(frame.stream_id, error)
            return False
        return True

    async def _made(self, exchange: Exchange, join: Callable[[], Awaitable[None]]) -> str:
        """Make one response, or tell what it is refused for; returns the outcome."""
        try:
            await join()
            await self._inference(exchange)
        except SmgError as error:
            if isinstance(exchange, PluggedExchange) and exchange.told_at_its_end:
                return error.outcome
            if exchange.started:
                raise
            told = await exchange.told(error)
            exchange.take_id(self._services.ids, exchange.request_id.partition("-")[0] or "req_")
            await exchange.respond(told.status, responses_error(told, exchange.request_id), error_headers(told))
            return error.outcome
        return "ok"

    def _exchange(self, frame: ClientFrame, lane: _Lane) -> tuple[Exchange, Callable[[], Awaitable[None]]]:
        """The request by HTTP that the frame is: its body, with the head of the handshake; and what has plugins meet it."""
        socket, stream_id = self._socket, frame.stream_id
        status, head, refused = 0, list[Header](), b""

        async def receive() -> AsgiMessage:
            return {"type": "http.request", "body": frame.body, "more_body": False}

        async def send(message: AsgiMessage) -> None:
            nonlocal status, head, refused
            if message["type"] == "http.response.start":
                status, head = message["status"], message["headers"]
                return
            more = message.get("more_body", False)
            lane.begun, lane.ended = True, not more
            if status == 200:
                for text in event_frames(message["body"], stream_id):
                    lane.sent += await socket.send(text)
                return
            refused += message["body"]
            if not more:
                lane.sent += await socket.send(error_frame(status, refused, head, stream_id))

        headers = [
            each
            for each in socket.scope["headers"]
            if each[0] not in _OF_THE_CONNECTION and not each[0].startswith(_PREFIXES)
        ]
        made = {**socket.scope, "type": "http", "method": "POST", "headers": headers, DISCONNECT: lane.disconnect}
        made[ERROR_WRITTEN] = _framed_error
        exchange, join = exchange_within(self._services.plugins, self._inference, made, receive, send, socket.caller)
        exchange.client_id = socket.client_id
        return exchange, join

    async def _refuse(self, error: SmgError, stream_id: str | None) -> None:
        """Answer a frame that begins no response: a request of its own, as it would be by HTTP."""
        id = self._services.ids("req_")
        sent = await self._tell(error, stream_id, id)
        socket = self._socket
        ended = socket.ended(error.outcome, 0.0)
        self._services.observer.report(
            replace(ended, status=error.status, sent=sent, outcome=error.outcome, request_id=id)
        )

    async def _tell(self, error: SmgError, stream_id: str | None, id: str) -> int:
        """Tell an error that no response has; returns the bytes of its frame."""
        told = responses_error(error, id)
        return await self._socket.send(error_frame(error.status, told, error_headers(error), stream_id))

    # ------------------------------------------------------------------------------------------------------------- ends

    def _over(self, task: "asyncio.Task[None]", stream_id: str | None, lane: _Lane) -> None:
        """Called when the task of a response is done. What nobody has foreseen is logged, and the client told."""
        self._running.discard(task)
        if self._lanes.get(stream_id) is lane:
            del self._lanes[stream_id]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._services.faults.note("a response on a WebSocket", error, f"WebSocket {self._socket.name}")
        if error is not None or (self._expired and not self._running):
            self._close(stream_id, None if error is None else internal_error())

    def _expire(self) -> None:
        """The connection's lifetime is over: nothing new is begun, and it closes when nothing is under way."""
        self._expired = True
        if not self._running:
            self._close(None, None)

    def _close(self, stream_id: str | None, failure: SmgError | None) -> None:
        """Close the connection: one that failed could not say how far its responses have come, and one whose key is good no more
        begins none."""
        if self._closing is None and not self._socket.gone:
            self._closing = asyncio.get_running_loop().create_task(self._leave(stream_id, failure))

    async def _leave(self, stream_id: str | None, failure: SmgError | None) -> None:
        reached = InvalidRequest(
            "The connection's lifetime is over; open another.", code="websocket_connection_limit_reached"
        )
        if failure is not None:
            self._socket.outcome = failure.outcome
        self._socket.count(await self._tell(failure or reached, stream_id, self._socket.request_id))
        await self._socket.close(_LEFT)

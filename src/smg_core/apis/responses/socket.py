"""The Responses API over a WebSocket (edge): many responses on one connection, each as by HTTP.

A `response.create` is answered by the handler of `POST /v1/responses`, as an exchange of its own whose events become frames: what
is admitted, refused, timed, kept and counted is so by the same code. A lane (`stream_id`) makes one response at a time; lanes do
not wait for one another. The connection remembers responses that are not stored. Reading, bounds and the connection's end are
`serving.socket_session`. Above: the routes of the API. Below: the session, the handler of the API, the frames, the connection's
memory.
"""

import asyncio

import attrs

from smg_core.apis.responses.memory import ResponseMemory
from smg_core.apis.responses.socket_memory import ConnectionMemory, RecentResponses
from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.apis.responses.wire.frames import ClientFrame, error_frame, event_frames, read_frame, steer_failed
from smg_core.errors import Conflict, InvalidRequest, MethodNotAllowed, RateLimited, SmgError
from smg_core.http.exchange import Exchange
from smg_core.http.scope import AsgiMessage, Disconnect, Header
from smg_core.http.websocket import WebSocket
from smg_core.serving.inference import Inference
from smg_core.serving.services import Services
from smg_core.serving.socket_session import PluginsMeet, SocketSession, answer_frame, exchange_of_frame
from smg_core.wire.errors import error_headers, responses_error

__all__ = ["ResponsesSocket"]


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
        session = SocketSession[ClientFrame](
            self._services, exchange, lifetime_s=settings.socket_s, most=settings.socket_frame_bytes
        )
        await session.run(_Lanes(self._services, exchange, self._inference.with_memory(memory), session))


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


class _Lanes:
    """The responses of one connection, a lane for each that may be made at once."""

    def __init__(
        self,
        services: Services,
        socket: WebSocket,
        inference: Inference[ResponsesRequest],
        session: SocketSession[ClientFrame],
    ) -> None:
        self._services = services
        self._socket = socket
        self._inference = inference
        self._session = session
        self._most = services.live.config.responses.socket_lanes
        self._lanes: dict[str | None, _Lane] = {}

    def read(self, data: bytes | bytearray) -> ClientFrame:
        return read_frame(data)

    async def take(self, frame: ClientFrame) -> None:
        if frame.kind == "response.steer":
            self._socket.count(await self._socket.send(steer_failed(frame)))
        else:
            self._create(frame)

    def error(self, error: SmgError, id: str, about: ClientFrame | None) -> str:
        stream_id = about.stream_id if about is not None else None
        return error_frame(error.status, responses_error(error, id), error_headers(error), stream_id)

    def expired(self) -> SmgError:
        return InvalidRequest(
            "The connection's lifetime is over; open another.", code="websocket_connection_limit_reached"
        )

    def left(self) -> None:
        for lane in self._lanes.values():
            lane.disconnect.happened()

    def _create(self, frame: ClientFrame) -> None:
        """Begin a response on the frame's lane."""
        if self._session.expired:
            raise self.expired()
        before = self._lanes.get(frame.stream_id)
        if before is not None and not before.ended:
            raise Conflict("A response is being made on this lane already.", param="stream_id")
        if before is None and len(self._lanes) >= self._most:
            raise RateLimited(f"At most {self._most} responses are made at once on a connection.")
        lane = self._lanes[frame.stream_id] = _Lane()
        earlier = before.task if before is not None else None
        lane.task = self._session.begin(
            self._answer(frame, lane, earlier), frame, lambda: self._over(frame.stream_id, lane)
        )

    def _over(self, stream_id: str | None, lane: _Lane) -> None:
        """Called when the task of a response is done."""
        if self._lanes.get(stream_id) is lane:
            del self._lanes[stream_id]

    async def _answer(self, frame: ClientFrame, lane: _Lane, earlier: "asyncio.Task[None] | None") -> None:
        """One response: the exchange that it would be by HTTP. It waits for what is left of the lane's `earlier` one, which has
        sent its last event."""
        if earlier is not None:
            await asyncio.wait([earlier])
        if not await self._session.permitted(frame):
            return
        exchange, join = self._exchange(frame, lane)
        await answer_frame(self._services, exchange, join, self._inference, lambda: lane.sent)

    def _exchange(self, frame: ClientFrame, lane: _Lane) -> tuple[Exchange, PluginsMeet]:
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

        return exchange_of_frame(
            self._services, socket, self._inference, receive, send, disconnect=lane.disconnect, written=_framed_error
        )

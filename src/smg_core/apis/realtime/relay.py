"""A session that a worker's server has, passed through (edge): frames go both ways, with what the gateway owes around them.

Each response is a request of this gateway: it is admitted, limited, timed, shown to plugins and accounted for as such, before the
server is asked for it; one that the server begins by itself is held until it is admitted, and cancelled where it is not. Whoever
reads slowly, client or server, is waited for. Above: the socket of sessions. Below: servers of Realtime, the socket session.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import attrs
import msgspec

from smg_core.apis.realtime.outbox import Outbox
from smg_core.apis.realtime.wire.encode import error_object
from smg_core.apis.realtime.wire.events import SessionIds, error_frame, written
from smg_core.apis.realtime.wire.limits_left import limits_left
from smg_core.apis.realtime.wire.relayed import (
    RelayedRequest,
    SentEvent,
    ServerEvent,
    asking_of,
    ended_by_loss,
    error_about,
    failure_of,
    named_as,
    read_sent,
    read_server_event,
    response_id,
    usage_of,
    with_event_id,
    without_event_id,
)
from smg_core.engines.openai.answers import one_line
from smg_core.engines.realtime.engine import RealtimeEngine
from smg_core.engines.realtime.forms import SessionSocket
from smg_core.engines.realtime.turn import RelayedTurn
from smg_core.errors import (
    EngineGarbled,
    EngineRejected,
    EngineTimeout,
    InternalError,
    InvalidRequest,
    NoWorker,
    SmgError,
    WorkerError,
)
from smg_core.events import Event, Failed
from smg_core.http.scope import AsgiMessage, Disconnect, Send
from smg_core.http.websocket import WebSocket
from smg_core.json_types import JsonObject
from smg_core.pipeline.flow.flow import Terms, respond
from smg_core.pipeline.flow.steps import Flow
from smg_core.serving.api import Api
from smg_core.serving.inference import DECODED_INLINE, Inference, internal_error
from smg_core.serving.services import Services
from smg_core.serving.socket_session import SocketSession, answer_frame, exchange_of_frame
from smg_core.wire.errors import responses_error
from smg_core.wire.json_text import encode_object
from smg_core.workers.worker import Worker

__all__ = ["PeerSession", "RelayedSession", "open_peer", "relay", "relayed_handler"]

_ENDED, _LOST = 1001, 1011  # why a connection is closed (RFC 6455, 7.4.1)
_BEFORE = 16
"""Events of a server before the one that its session has the settings of a client secret."""
_TRIES = 3
"""Servers that are asked for a session before its client is refused."""
_RESPONSES = 64
"""Responses of one session that may be asked for, or under way, at once: a server has its own, lower bound."""


@attrs.frozen(eq=False)
class PeerSession:
    """A session that is open at a worker's server, which calls the model `name_there`."""

    worker: Worker
    engine: RealtimeEngine
    socket: SessionSocket
    name_there: str


async def open_peer(services: Services, model: str, session: str) -> PeerSession | None:
    """A session of `model`, called `session` here, at the server with the fewest, or at another one where that cannot be had;
    None for a model whose engines have no sessions of their own. Raises NoWorker, and what kept the last one from opening it."""
    tried: frozenset[str] = frozenset()
    last: SmgError | None = None
    registry, clock = services.registry, services.clock
    for _ in range(_TRIES):
        try:
            found = registry.candidates(model, tried)
        except SmgError as error:
            raise last or error from None
        able = tuple(each for each in found if each.facts.realtime and isinstance(each.engine, RealtimeEngine))
        if not able:
            if last is not None:
                raise last
            return None
        open_to = registry.admitted(registry.with_room(able), clock.monotonic())
        worker = min(open_to, key=_load)
        engine = worker.engine
        if not isinstance(engine, RealtimeEngine):
            raise NoWorker(f"No worker for the model '{model}' is ready.")
        try:
            socket = await engine.open(session)
        except SmgError as error:
            last, tried = error, tried | {worker.name}
            if isinstance(error, WorkerError):
                services.running.monitor.outcome(worker, error, clock.monotonic())
            if not error.another_worker_may_do:
                raise
        else:
            services.running.monitor.outcome(worker, None, clock.monotonic())
            return PeerSession(worker, engine, socket, engine.model)
    raise last or NoWorker(f"No worker for the model '{model}' is ready.")


def _load(worker: Worker) -> float:
    engine = worker.engine
    sessions = engine.sessions if isinstance(engine, RealtimeEngine) else 0
    return (sessions + worker.in_flight) / worker.spec.weight


class _Unheard:
    """The encoder of a response whose events have left already: writes nothing, and keeps the `error` that it ends with."""

    content_type = "application/x-ndjson"

    def __init__(self) -> None:
        self.error: SmgError | None = None

    def start(self) -> bytes:
        """Nothing."""
        return b""

    def keep_alive(self) -> bytes:
        """Nothing: a connection is kept alive by pings."""
        return b""

    def encode(self, events: Sequence[Event]) -> bytes:
        """Nothing."""
        for event in events:
            if isinstance(event, Failed):
                self.error = event.error
        return b""


async def _not_asked() -> None:
    """A response that nobody makes."""


_UNASKED = RelayedTurn(_not_asked, lambda: None, lambda: None)
"""What stands for no response, in the row that the rows of all of them are made of."""


@attrs.define(eq=False)
class _Response:
    """A response under way: its call, the event that told of its beginning, what is left of limits with it, and what it was
    refused with. `waited` is set once it is known whether it may be made; `event_id` is that of the event that asks for it;
    `reported`: the server has told of its failure."""

    call: RelayedTurn
    about: SentEvent | None
    event_id: str = ""
    created: bytes = b""
    left: Callable[[], list[JsonObject]] = list
    refused: bytes = b""
    reported: bool = False
    heard: _Unheard = attrs.field(factory=_Unheard)
    waited: asyncio.Event = attrs.field(factory=asyncio.Event)
    disconnect: Disconnect = attrs.field(factory=Disconnect)

    @property
    def admitted(self) -> bool:
        """Whether it is made, or was."""
        return not self.refused and self.waited.is_set()


class RelayedSession:
    """One session, called `session` here, of the model that the client calls `model`."""

    def __init__(
        self,
        services: Services,
        socket: WebSocket,
        handler: Inference[RelayedRequest],
        peer: PeerSession,
        model: str,
        session: str,
        sockets: SocketSession[SentEvent],
        outbox: Outbox,
    ) -> None:
        self._services, self._socket, self._handler = services, socket, handler
        self._peer, self._model, self._session = peer, model, session
        self._sockets, self._outbox = sockets, outbox
        self._names = SessionIds(session.removeprefix("sess_"))
        self._asked: deque[_Response] = deque()  # those that the server was asked for, and has not begun
        self._under_way: dict[str, _Response] = {}  # by the server's id
        self._muted: set[str] = set()  # the ids of those that are not to be
        self._held = 0  # responses that are not over
        self._sending: set[asyncio.Task[None]] = set()
        self._has_left = False

    async def run(self, before: Sequence[bytes]) -> None:
        """Pass frames on, both ways, until one side ends the session; first those that its server has said `before`."""
        peer = self._peer
        peer.engine.sessions += 1
        try:
            telling = asyncio.get_running_loop().create_task(self._tell(before))
            telling.add_done_callback(self._all_read)
            try:
                await self._sockets.run(self)
            finally:
                for task in (telling, *self._sending):
                    task.cancel()
                await asyncio.gather(telling, *self._sending, return_exceptions=True)
        finally:
            peer.engine.sessions -= 1
            await peer.socket.close()

    # ------------------------------------------------------------------------------------------------ from the client

    def read(self, data: bytes | bytearray) -> SentEvent:
        return read_sent(data, self._model, self._peer.name_there)

    async def take(self, frame: SentEvent) -> None:
        if frame.fault is not None:
            raise frame.fault
        if self._sockets.expired and frame.kind != "response.cancel":
            raise self.expired()
        if frame.kind == "response.create":
            await self._ask(frame)
        else:
            await self._peer.socket.send(frame.data)
        await self._outbox.room()

    async def _ask(self, frame: SentEvent) -> None:
        """Have a response admitted, and then asked for; what the client sends next waits for that, so that all comes in order."""
        if self._held >= _RESPONSES:
            raise InvalidRequest(
                f"At most {_RESPONSES} responses of a session are made at once.", code="too_many_active_responses"
            )
        event_id = frame.id or self._names("evt_")

        async def ask() -> None:
            self._asked.append(response)
            await self._peer.socket.send(frame.data if frame.id else with_event_id(frame.data, event_id))

        response = self._response(ask, frame)
        response.event_id = event_id
        await response.waited.wait()

    def error(self, error: SmgError, id: str, about: SentEvent | None) -> str:
        return error_frame(error, self._names("event_"), None if about is None else about.id).decode()

    def expired(self) -> SmgError:
        return InvalidRequest("Your session hit the maximum duration.", code="session_expired")

    def left(self) -> None:
        self._has_left = True
        for response in [*self._asked, *self._under_way.values()]:
            response.disconnect.happened()

    # ------------------------------------------------------------------------------------------------ from the server

    async def _tell(self, before: Sequence[bytes]) -> None:
        """Pass on what the server says, as fast as the client reads."""
        socket, waiting = self._peer.socket, deque(before)
        try:
            while True:
                data = waiting.popleft() if waiting else await socket.receive()
                event = await self._read(data)
                if event is None:
                    raise EngineGarbled("The server of this session sent what is no event.")
                if told := await self._take_event(event, data):
                    self._socket.count(await self._outbox.pass_on(told))
                else:
                    await self._outbox.room()
        except WorkerError as error:
            self._lose(error, _ENDED if socket.closed_well else _LOST)

    def _all_read(self, task: "asyncio.Task[None]") -> None:
        """Called when nothing more is read of the server. What nobody has foreseen is logged, and ends the session."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._services.faults.note("a session that is passed through", error, f"WebSocket {self._socket.name}")
            self._lose(internal_error(), _LOST)

    async def _read(self, data: bytes) -> ServerEvent | None:
        if len(data) <= DECODED_INLINE:
            return read_server_event(data)
        tenant = self._socket.caller.tenant
        return await self._services.running.executor.run(
            lambda _: read_server_event(data), size=len(data), caller=tenant
        )

    async def _take_event(self, event: ServerEvent, data: bytes) -> bytes:
        """Do what an event asks for, and return what the client is told of it: nothing of a response that is not to be."""
        kind = event.type
        if kind == "rate_limits.updated":
            return b""  # those of the operator's account there
        if not kind.startswith("response."):
            return self._renamed(event, data)
        id = event.response_id or response_id(event.response)
        if kind == "response.created":
            await self._created(id, data)
            return b""
        if id in self._muted:
            if kind == "response.done":
                self._muted.discard(id)
            return b""
        response = self._under_way.get(id)
        if kind == "response.done":
            self._under_way.pop(id, None)
            self._put(data)
            if response is not None:
                response.call.ended(usage_of(event.response), failure_of(event.response))
            return b""
        if response is not None and not response.call.over:
            response.call.at_work()
            if text := event.text():
                response.call.add_text(text)
            if response.call.over:  # plugins have refused what was said
                return b""
        return data

    def _renamed(self, event: ServerEvent, data: bytes) -> bytes:
        """An event that is of no response, as the client knows what it speaks of."""
        if event.type in ("session.created", "session.updated"):
            return named_as(data, self._model)
        if event.type == "error" and (about := error_about(event.error)) is not None:
            for response in list(self._asked):
                if response.event_id == about:
                    self._asked.remove(response)
                    response.reported = True
                    response.call.ended(None, EngineRejected("The server of this session refused the response."))
                    if response.about is not None and response.about.id is None:
                        return without_event_id(data)
        return data

    async def _created(self, id: str, data: bytes) -> None:
        """A response has begun: one that was asked for, or one that the server makes by itself, which may have to be given up."""
        if self._asked:
            response = self._asked.popleft()
            admitted = not response.refused
        else:

            async def begun() -> None:
                """It has begun already."""

            response = self._response(begun, None, id)
            await response.waited.wait()
            admitted = response.admitted
        if not admitted or self._has_left:
            self._muted.add(id)
            self._cancel(id)
            return
        response.created = data
        self._under_way[id] = response
        self._put(data)
        if limits := response.left():
            self._put(written("rate_limits.updated", self._names("event_"), rate_limits=limits))
        if response.call.over:  # it was given up before it had begun
            self._cancel(id)

    def _cancel(self, id: str) -> None:
        """Have the server end a response."""
        task = asyncio.get_running_loop().create_task(self._send_cancel(id))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_cancel(self, id: str) -> None:
        try:
            await self._peer.socket.send(encode_object({"type": "response.cancel", "response_id": id}))
        except WorkerError:
            return  # whoever reads its frames notices that too

    def _lose(self, error: SmgError, code: int) -> None:
        """The server's session is over: what is under way has failed, and the client's connection ends."""
        error_body = error_object(error)
        for response in self._under_way.values():
            ended = ended_by_loss(response.created, "failed", error_body)
            self._put(written("response.done", self._names("event_"), response=ended))
        for response in [*self._asked, *self._under_way.values()]:
            response.call.ended(None, error)
        self._asked.clear()
        self._under_way.clear()
        self._sockets.end(error, code)

    # ------------------------------------------------------------------------------------------- responses as requests

    def _response(self, ask: Callable[[], Awaitable[None]], about: SentEvent | None, id: str = "") -> _Response:
        """Have a response admitted and accounted for; `id` is that of one that the server has begun."""
        waited = asyncio.Event()

        def give_up() -> None:
            known = id or next((each for each, of in self._under_way.items() if of is response), "")
            if known:
                self._cancel(known)

        response = _Response(RelayedTurn(ask, give_up, waited.set), about, waited=waited)
        self._held += 1
        self._sockets.begin(self._answer(response), about, lambda: self._over(response))
        return response

    async def _answer(self, response: _Response) -> None:
        """Answer the request that a response is."""
        if self._sockets.expired and response.about is None:
            response.refused = responses_error(self.expired())
            return
        if not await self._sockets.permitted(response.about):
            response.refused = b"-"
            return
        services = self._services
        api = relayed_api(self._model, self._session, self._peer.worker.name, response.call, response.heard)
        handler = self._handler.with_api(api)

        async def receive() -> AsgiMessage:
            return {"type": "http.request", "body": b"", "more_body": False}

        exchange, join = exchange_of_frame(
            services,
            self._socket,
            handler,
            receive,
            self._sender(response),
            disconnect=response.disconnect,
            written=lambda error, id: b"",
        )
        response.left = lambda: limits_left(exchange.always)
        await answer_frame(services, exchange, join, handler, lambda: 0)

    def _sender(self, response: _Response) -> Send:
        status = 0

        async def send(message: AsgiMessage) -> None:
            nonlocal status
            if message["type"] != "http.response.start":
                if status != 200:
                    response.refused += message["body"]
                return
            status = message["status"]

        return send

    def _over(self, response: _Response) -> None:
        """Called when the request of a response is over; what the gateway has ended it with is told."""
        self._held -= 1
        refused, own = response.refused, None if response.about is None else response.about.id
        began = response.waited.is_set()
        response.waited.set()
        if self._has_left or response.reported or refused == b"-":
            return
        if refused and (not began or response.call.over):
            error_body = msgspec.json.decode(refused)["error"]
            self._put(written("error", self._names("event_"), error={**error_body, "event_id": own}))
        elif not refused and response.heard.error is not None and not isinstance(response.heard.error, WorkerError):
            self._put(error_frame(response.heard.error, self._names("event_"), own))

    def _put(self, data: bytes) -> None:
        self._socket.count(self._outbox.put([data]))


async def relay(
    services: Services,
    socket: WebSocket,
    handler: Inference[RelayedRequest],
    peer: PeerSession,
    model: str,
    session: str,
    begins_with: JsonObject | None,
    subprotocol: str,
) -> None:
    """Accept a handshake, and pass its session through, which begins with these settings."""
    settings = services.live.config.realtime
    try:
        before = [] if begins_with is None else await _begun_with(services, peer, begins_with)
        await socket.accept(subprotocol)
    except BaseException:
        await peer.socket.close()
        raise
    outbox = Outbox(socket, settings.waiting_bytes)
    sockets = SocketSession[SentEvent](
        services, socket, lifetime_s=settings.session_s, most=settings.frame_bytes, send=outbox.send
    )
    await RelayedSession(services, socket, handler, peer, model, session, sockets, outbox).run(before)


async def _begun_with(services: Services, peer: PeerSession, settings: JsonObject) -> list[bytes]:
    """Have a session begin with the settings of its client secret; returns what its server has said by then. A session without
    them is not what the maker of the secret has allowed. Raises InvalidRequest, and WorkerError."""
    asked = {**settings, **({"model": peer.name_there} if "model" in settings else {})}
    reported: list[bytes] = []
    try:
        async with asyncio.timeout(services.live.config.engines.question_timeout_s):
            await peer.socket.send(encode_object({"type": "session.update", "session": asked}))
            while len(reported) < _BEFORE:
                reported.append(await peer.socket.receive())
                event = read_server_event(reported[-1])
                if event is not None and event.type == "error":
                    refusal = one_line(reported[-1].decode())
                    message = "The server of this model does not take the settings of the client secret."
                    raise InvalidRequest(
                        message, param="session", detail=f"{peer.worker.name}: {refusal}", outside_text=refusal
                    )
                if event is not None and event.type == "session.updated":
                    return reported
    except TimeoutError:
        raise EngineTimeout("The engine did not answer in time.", detail="it has not answered session.update") from None
    raise EngineGarbled("The server of this session has not taken its settings.")


def relayed_handler(services: Services) -> Inference[RelayedRequest]:
    """What answers the requests of all sessions that are passed through, without what each response has of its own."""
    return Inference(services, relayed_api("", "", "", _UNASKED, _Unheard()))


def relayed_api(model: str, session: str, home: str, live: RelayedTurn, heard: _Unheard) -> Api[RelayedRequest]:
    """The row of the API for one response of a session that is passed through."""

    def once(decoded: RelayedRequest, terms: Terms) -> Flow[object]:
        retries = attrs.evolve(terms.retries, retries=0)
        return respond(decoded.generation, msgspec.structs.replace(terms, retries=retries))

    def of_none(decoded: RelayedRequest, created: int) -> NoReturn:
        raise InternalError("A response of a session is always streamed.")

    return Api(
        name="realtime",
        id_prefix="resp_",
        decode=lambda incoming: asking_of(incoming, model, session, home, live),
        stream=lambda decoded, created: heard,
        whole=of_none,
        error=responses_error,
        flow=once,
    )

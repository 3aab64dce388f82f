"""A session that a worker's server has, passed through (edge): frames go both ways, with what the gateway owes around them.

Each response is a request of this gateway: it is admitted, limited, timed, shown to plugins and accounted for as such, before the
server is asked for it; one that the server begins by itself is held until it is admitted, and cancelled where it is not. Whoever
reads slowly, client or server, is waited for. Above: the socket of sessions. Below: servers of Realtime, the socket session.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from smg_core.apis.realtime.in_order import EventsInOrder
from smg_core.apis.realtime.injecting import InjectedResponse, ToolInjection
from smg_core.apis.realtime.merged import MergedResponse, call_of
from smg_core.apis.realtime.outbox import Outbox
from smg_core.apis.realtime.peers import PeerSession, begin_with
from smg_core.apis.realtime.relayed_response import RelayedResponse, relayed_api
from smg_core.apis.realtime.wire.effective import settings_at
from smg_core.apis.realtime.wire.encode import error_object
from smg_core.apis.realtime.wire.events import SessionIds, error_frame, written
from smg_core.apis.realtime.wire.limits_left import limits_left
from smg_core.apis.realtime.wire.relayed import (
    RelayedRequest,
    SentEvent,
    ServerEvent,
    ended_at_server,
    ended_by_loss,
    error_about,
    failure_of,
    named_as,
    plain_event,
    read_sent,
    read_server_event,
    response_id,
    usage_of,
    with_event_id,
    without_event_id,
)
from smg_core.engines.realtime.turn import RelayedTurn, RelayedTurns
from smg_core.errors import (
    EngineGarbled,
    EngineRejected,
    InvalidJson,
    InvalidRequest,
    SmgError,
    WorkerError,
)
from smg_core.events import FinishReason
from smg_core.http.scope import AsgiMessage, Send
from smg_core.http.websocket import WebSocket
from smg_core.json_types import JsonObject
from smg_core.request import GenerationRequest
from smg_core.serving.inference import DECODED_INLINE, Inference, internal_error
from smg_core.serving.services import Services
from smg_core.serving.socket_session import SocketSession, answer_frame, exchange_of_frame
from smg_core.wire.errors import responses_error
from smg_core.wire.json_text import encode_object

__all__ = ["RelayedSession", "relay"]

_ENDED, _LOST = 1001, 1011  # why a connection is closed (RFC 6455, 7.4.1)
_RESPONSES = 64
"""Responses of one session that may be asked for, or under way, at once: a server has its own, lower bound."""
_OF_TOOLS = ("session.update", "response.create", "response.cancel", "conversation.item.delete")
"""The events of a client that may have to do with tools that run here."""
_ARGUMENTS = ("response.function_call_arguments.delta",)
_INTERRUPTED = "This call has no result: it was interrupted."


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
        injection: ToolInjection,
    ) -> None:
        self._services, self._socket, self._handler = services, socket, handler
        self._injection = injection
        self._peer, self._model, self._session = peer, model, session
        self._sockets, self._outbox = sockets, outbox
        self._names = injection.names
        self._in_order = EventsInOrder(
            self._pass,
            sockets.refuse,
            lambda work, about: sockets.begin(work, about, lambda: None),
            services.live.config.realtime.waiting_bytes,
        )
        self._waiting: RelayedResponse | None = None  # the one that the client has asked for last
        self._asked: deque[RelayedResponse] = deque()  # those that the server was asked for, and has not begun
        self._under_way: dict[str, RelayedResponse] = {}  # by the server's id
        self._paused: set[RelayedResponse] = set()  # those whose tools are run, while the server waits
        self._muted: set[str] = set()  # the ids of those that are not to be
        self._own: deque[str] = deque(maxlen=_RESPONSES)  # the ids of events that no client has sent
        self._interrupts = True  # whether a user who begins to speak ends the response
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
        await self._in_order.take(frame)
        await self._outbox.room()

    async def _pass(self, frame: SentEvent) -> asyncio.Event | None:
        """Do what an event asks for; returns what is set once the next may follow, for one that may have to wait."""
        if frame.fault is not None:
            raise frame.fault
        if self._sockets.expired and frame.kind != "response.cancel":
            raise self.expired()
        if frame.kind in _OF_TOOLS and self._injection.concerns(frame.data):
            return await self._take_concerned(frame)
        if frame.kind == "response.create":
            return self._ask(frame, InjectedResponse())
        await self._peer.socket.send(frame.data)
        return None

    async def _take_concerned(self, frame: SentEvent) -> asyncio.Event | None:
        """Do what an event asks for that has, or may have, to do with tools that run here."""
        whole, socket = await self._plain(frame.data), self._peer.socket
        part = "session" if frame.kind == "session.update" else "response"
        fields = whole.get(part)
        if frame.kind == "session.update" and isinstance(fields, dict):
            sent, lines = await self._injection.session(fields)
            await socket.send(encode_object({**whole, part: sent}))
            self._socket.count(self._outbox.put(lines))
        elif frame.kind == "response.create" and isinstance(fields, dict | None):
            asked = await self._injection.response(fields or {})
            if asked.fields is not (fields or {}) and asked.fields:
                frame = replace(frame, data=encode_object({**whole, part: asked.fields}))
            return self._ask(frame, asked)
        elif frame.kind == "response.create":
            return self._ask(frame, InjectedResponse())
        elif frame.kind == "response.cancel":
            await self._cancelled(frame, whole)
        else:
            await socket.send(frame.data)
            for output in self._injection.view.outputs_of(str(whole.get("item_id"))):
                await socket.send(self._own_event("conversation.item.delete", item_id=output))
        return None

    async def _cancelled(self, frame: SentEvent, whole: JsonObject) -> None:
        """End a response that the client has given up; its server knows the newest part of it by another name."""
        wanted = whole.get("response_id")
        for response in list(self._paused):
            if response.merged is not None and wanted in (None, response.merged.id):
                self._cut(response, "client_cancelled")
                if response.task is not None:
                    await asyncio.wait([response.task])
                return
        for id, response in self._under_way.items():
            if response.merged is not None and response.merged.id == wanted and id != wanted:
                await self._peer.socket.send(encode_object({**whole, "response_id": id}))
                return
        await self._peer.socket.send(frame.data)

    def _ask(self, frame: SentEvent, asked: InjectedResponse) -> asyncio.Event:
        """Have a response admitted, and then asked for; returns what is set before the next event may follow."""
        if self._held >= _RESPONSES:
            raise InvalidRequest(
                f"At most {_RESPONSES} responses of a session are made at once.", code="too_many_active_responses"
            )
        for paused in self._paused:
            if paused.merged is not None and asked.fields.get("conversation") != "none":
                raise InvalidRequest(
                    f"Conversation already has an active response in progress: {paused.merged.id}. Wait until the response is "
                    "finished.",
                    code="conversation_already_has_active_response",
                )
        event_id = frame.id or self._names("evt_")
        data = frame.data if frame.id else with_event_id(frame.data, event_id)

        async def ask() -> None:
            self._asked.append(response)
            await self._peer.socket.send(data)

        response = self._response(ask, frame, asked)
        response.event_id, self._waiting = event_id, response
        return response.waited

    async def _plain(self, data: bytes) -> JsonObject:
        """An event as plain JSON."""
        if len(data) <= DECODED_INLINE:
            return plain_event(data)
        tenant = self._socket.caller.tenant
        return await self._services.running.executor.run(lambda _: plain_event(data), size=len(data), caller=tenant)

    def _own_event(self, kind: str, **fields: object) -> bytes:
        """An event for the server that no client has sent."""
        id = self._names("evt_")
        self._own.append(id)
        return written(kind, id, **fields)

    def error(self, error: SmgError, id: str, about: SentEvent | None) -> str:
        return error_frame(error, self._names("event_"), None if about is None else about.id).decode()

    def expired(self) -> SmgError:
        return InvalidRequest("Your session hit the maximum duration.", code="session_expired")

    def left(self) -> None:
        self._has_left = True
        self._in_order.left()
        waiting = () if self._waiting is None else (self._waiting,)
        for response in [*waiting, *self._asked, *self._under_way.values(), *self._paused]:
            response.disconnect.happened()

    # ------------------------------------------------------------------------------------------------ from the server

    async def _tell(self, before: Sequence[bytes]) -> None:
        """Pass on what the server says, as fast as the client reads."""
        socket, waiting = self._peer.socket, deque(before)
        try:
            while True:
                data = waiting.popleft() if waiting else await socket.receive()
                if rendered := await self._heard(data):
                    self._socket.count(await self._outbox.pass_on(rendered))
                else:
                    await self._outbox.room()
        except WorkerError as error:
            self._lose(error, _ENDED if socket.closed_well else _LOST)

    async def _heard(self, data: bytes) -> bytes:
        """Take an event of the server, and return what the client is told of it. Raises EngineGarbled for what is none."""
        event = await self._read(data)
        try:
            if event is not None:
                return await self._take_event(event, data)
        except InvalidJson:
            pass
        raise EngineGarbled("The server of this session sent what is no event.")

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
            return await self._renamed(event, data)
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
            self._done(response, event, data)
            return b""
        if response is None:
            return data
        if not response.call.over:
            response.call.at_work()
            if (text := event.text()) and not (response.merged is not None and kind in _ARGUMENTS):
                response.call.add_text(text)
            if response.call.over:  # plugins have refused what was said
                return b""
        return data if response.merged is None else await self._merged(response, response.merged, kind, data)

    async def _merged(self, response: RelayedResponse, merged: MergedResponse, kind: str, data: bytes) -> bytes:
        """What the client is told of an event of a response for which tools run here."""
        if merged.as_it_comes and not kind.startswith("response.output_item."):
            return data
        whole = await self._plain(data)
        call = call_of(whole.get("item")) if kind == "response.output_item.done" else None
        if call is not None and not response.call.over:
            response.call.add_call(*call)
        rendered = merged.rendered(whole)
        return b"" if rendered is None else encode_object(rendered)

    def _done(self, response: RelayedResponse | None, event: ServerEvent, data: bytes) -> None:
        """The server has ended a response. Where it has called tools that run here, that is not the end of it for the client."""
        merged = None if response is None else response.merged
        reason: FinishReason = "stop"
        if response is None or merged is None:
            self._put(data)
        else:
            as_it_comes, listens = merged.as_it_comes, not response.call.over
            ended = ended_at_server(event.response)
            reason = ended.reason
            if merged.over(ended.response) or not listens:
                self._put(data if as_it_comes else merged.done())
                self._interrupt(merged)
            else:
                self._paused.add(response)
        if response is not None:
            response.call.ended(usage_of(event.response), failure_of(event.response), reason)

    async def _renamed(self, event: ServerEvent, data: bytes) -> bytes:
        """An event that is of no response, as the client knows what it speaks of."""
        kind, injection = event.type, self._injection
        if kind in ("session.created", "session.updated"):
            return self._rendered_settings(named_as(data, self._model))
        if kind == "error" and (about := error_about(event.error)) is not None:
            return self._error(about, data)
        if kind == "input_audio_buffer.speech_started" and self._interrupts:
            self._cut_paused()
        if injection.tools.used and (kind.startswith("conversation.item.") or b'"previous_item_id"' in data):
            rendered = injection.view.rendered(await self._plain(data))
            return b"" if rendered is None else encode_object(rendered)
        return data

    def _rendered_settings(self, named: bytes) -> bytes:
        whole = plain_event(named)
        session = whole.get("session")
        if not isinstance(session, dict):
            return named
        detection = settings_at(session, "audio", "input", "turn_detection") or {}
        self._interrupts = detection.get("interrupt_response") is not False
        rendered = self._injection.tools.rendered(session)
        return named if rendered is session else encode_object({**whole, "session": rendered})

    def _error(self, about: str, data: bytes) -> bytes:
        """An error about an event: one that asks for a response, another of the client's, or one that it has not sent."""
        for response in list(self._asked):
            if response.event_id == about:
                self._asked.remove(response)
                response.reported = response.merged is None
                response.call.ended(None, EngineRejected("The server of this session refused the response."))
                if response.about is not None and response.about.id is None:
                    return b"" if about in self._own else without_event_id(data)
        return b"" if about in self._own else data

    async def _created(self, id: str, data: bytes) -> None:
        """A response has begun: one that was asked for, or one that the server makes by itself, which may have to be given up."""
        if self._asked:
            response = self._asked.popleft()
            admitted = not response.refused
        else:
            self._cut_paused()

            async def begun() -> None:
                """It has begun already."""

            response = self._response(begun, None, self._injection.begun(), id)
            await response.waited.wait()
            admitted = response.admitted
        if not admitted or self._has_left or response.over:
            self._muted.add(id)
            self._cancel(id)
            return
        self._under_way[id] = response
        if response.merged is not None:
            self._paused.discard(response)
            response.merged.goes_on()
            return
        response.created = data
        if response.asked.tools:
            response.heard.merged = MergedResponse(id, self._injection.view, self._injection.tools, self._names)
        self._put(data)
        if limits := response.left():
            self._put(written("rate_limits.updated", self._names("event_"), rate_limits=limits))
        if response.call.over:  # it was given up before it had begun
            self._cancel(id)

    def _cancel(self, id: str) -> None:
        """Have the server end a response."""
        self._send_soon(encode_object({"type": "response.cancel", "response_id": id}))

    def _send_soon(self, data: bytes) -> None:
        """Send an event to the server, behind those that are on their way."""
        task = asyncio.get_running_loop().create_task(self._send(data))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, data: bytes) -> None:
        try:
            await self._peer.socket.send(data)
        except WorkerError:
            return  # whoever reads its frames notices that too

    def _lose(self, error: SmgError, code: int) -> None:
        """The server's session is over: what is under way has failed, and the client's connection ends."""
        error_body = error_object(error)
        for response in {*self._under_way.values(), *self._paused}:
            if response.merged is not None:
                self._put(response.merged.done("failed", {"error": error_body}))
                continue
            ended = ended_by_loss(response.created, "failed", error_body)
            self._put(written("response.done", self._names("event_"), response=ended))
        for response in [*self._asked, *self._under_way.values()]:
            response.call.ended(None, error)
        self._asked.clear()
        self._under_way.clear()
        self._sockets.end(error, code)

    # ------------------------------------------------------------------------------------------- responses as requests

    def _response(
        self, ask: Callable[[], Awaitable[None]], about: SentEvent | None, asked: InjectedResponse, id: str = ""
    ) -> RelayedResponse:
        """Have a response admitted and accounted for; `id` is that of one that the server has begun."""
        waited = asyncio.Event()

        def give_up() -> None:
            known = next(
                (each for each, of in self._under_way.items() if of is response), "" if response.merged else id
            )
            if known:
                self._cancel(known)

        def following(request: GenerationRequest) -> RelayedTurn:
            return RelayedTurn(lambda: self._go_on(response, request), give_up, waited.set)

        turns = RelayedTurns(RelayedTurn(ask, give_up, waited.set), following if asked.tools else None)
        response = RelayedResponse(turns, about, asked, waited=waited)
        self._held += 1
        response.task = self._sockets.begin(self._answer(response), about, lambda: self._over(response))
        return response

    async def _go_on(self, response: RelayedResponse, request: GenerationRequest) -> None:
        """Have the server go on with a response, now that its calls are answered."""
        merged = response.merged
        if merged is None or response.cut:
            raise EngineRejected("The response is over.")
        fields = self._injection.tools.following(response.asked.fields, request, merged.asked)
        data = self._own_event("response.create", **({"response": fields} if fields else {}))
        response.event_id = self._own[-1]
        self._asked.append(response)
        await self._peer.socket.send(data)

    async def _answer_calls(self, response: RelayedResponse, merged: MergedResponse) -> None:
        """Give the server the outputs of calls that are over."""
        answers, response.heard.answers = response.heard.answers, []
        for call, text in answers:
            await self._peer.socket.send(self._output(merged, call, text))

    def _output(self, merged: MergedResponse, call: str, text: str) -> bytes:
        """The event that gives the server the output of a call."""
        id = self._names("item_")
        merged.answered(call, id)
        item: JsonObject = {"id": id, "type": "function_call_output", "call_id": call, "output": text}
        return self._own_event("conversation.item.create", item=item)

    def _interrupt(self, merged: MergedResponse) -> None:
        """Give the server an output for each call that gets none: a conversation with an open call cannot go on."""
        for call in list(merged.open):
            self._send_soon(self._output(merged, call, _INTERRUPTED))

    def _cut(self, response: RelayedResponse, why: str) -> None:
        """Give up a response whose tools are run."""
        response.cut = response.cut or why
        response.disconnect.happened()

    def _cut_paused(self) -> None:
        """The user speaks, or the server answers what was said: a response whose tools are run is over."""
        for response in self._paused:
            self._cut(response, "turn_detected")

    async def _answer(self, response: RelayedResponse) -> None:
        """Answer the request that a response is."""
        if self._sockets.expired and response.about is None:
            response.refused = responses_error(self.expired())
            return
        if not await self._sockets.permitted(response.about):
            response.refused = b"-"
            return
        services = self._services
        tools, home = response.asked.tools, self._peer.worker.name
        api = relayed_api(self._model, self._session, home, tools, response.calls, response.heard)
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

    def _sender(self, response: RelayedResponse) -> Send:
        status = 0

        async def send(message: AsgiMessage) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif status != 200:
                response.refused += message["body"]
            elif (merged := response.merged) is not None and message["body"]:
                self._socket.count(self._outbox.put(message["body"].splitlines()))
                await self._answer_calls(response, merged)
                await self._outbox.room()

        return send

    def _over(self, response: RelayedResponse) -> None:
        """Called when the request of a response is over; what the gateway has ended it with is told."""
        self._held -= 1
        refused, own = response.refused, None if response.about is None else response.about.id
        began, merged = response.waited.is_set(), response.merged
        response.waited.set()
        response.over = True
        self._paused.discard(response)
        if merged is not None and merged.paused and not merged.ended and not self._has_left:
            self._put(response.heard.done(merged, response.cut))
            self._interrupt(merged)
            return
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
    injection = ToolInjection(services, socket, SessionIds(session.removeprefix("sess_")))
    try:
        before = [] if begins_with is None else await begin_with(services, peer, begins_with, injection)
        await socket.accept(subprotocol)
    except BaseException:
        await peer.socket.close()
        raise
    outbox = Outbox(socket, settings.waiting_bytes)
    sockets = SocketSession[SentEvent](
        services, socket, lifetime_s=settings.session_s, most=settings.frame_bytes, send=outbox.send
    )
    await RelayedSession(services, socket, handler, peer, model, session, sockets, outbox, injection).run(before)

"""Calls by WebRTC (edge): begun by an offer, carried to their end, hung up, and listened in to.

A call belongs to the process that answered its offer, which the others ask (`elsewhere`). Its session is that of a WebSocket,
whose client is the carrier of the call. Loaded with the first call, since it loads aiortc. Above: the routes. Below: the carrier,
the connection, the socket of sessions.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs

from smg_core.apis.realtime.carrier import CallCarrier
from smg_core.apis.realtime.elsewhere import AskedCall, CallsElsewhere, CallSocket
from smg_core.apis.realtime.rtc import CallEnds, PortsInUse, RtcPeer
from smg_core.apis.realtime.settings import UdpPorts
from smg_core.apis.realtime.socket import SUBPROTOCOL, RealtimeSocket, check_beta
from smg_core.apis.realtime.wire.offer import read_call
from smg_core.channel.local import LocalChannel
from smg_core.errors import MethodNotAllowed, NotFound, PermissionDenied, RateLimited
from smg_core.http.exchange import Exchange
from smg_core.http.scope import DISCONNECT
from smg_core.http.websocket import WebSocket
from smg_core.identity.client_secrets import has_client_secret
from smg_core.identity.identity import anonymous, permitted
from smg_core.json_types import JsonObject
from smg_core.request import Caller
from smg_core.serving.services import Services

__all__ = ["CallHandler", "CallsHere", "HangUpHandler", "ListenHandler"]

_BODY_BYTES = 1 << 20  # of an offer, and the settings of its session
_LAST_S = 1.0  # in which a caller takes what is said last


@attrs.define(eq=False)
class _Call:
    """A call under way, of this `tenant`."""

    tenant: str
    carrier: CallCarrier
    peer: RtcPeer


class CallsHere:
    """The calls of one process, while the gateway is started."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._sessions = RealtimeSocket(services)
        self._calls: dict[str, _Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ports: tuple[str, PortsInUse] | None = None
        self._elsewhere: CallsElsewhere | None = None
        if not isinstance(services.channel, LocalChannel):
            most = services.live.config.realtime.frame_bytes
            self._elsewhere = CallsElsewhere(services.channel, most, self._asked)

    async def run(self) -> None:
        """Work until the gateway ends, which ends all calls."""
        try:
            await asyncio.Event().wait()
        finally:
            for call in self._calls.values():
                call.carrier.end()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._elsewhere is not None:
                await self._elsewhere.close()

    async def begin(self, exchange: Exchange, offer: str, given: JsonObject | None) -> tuple[str, str]:
        """Begin a call, whose session begins with the settings that were `given`; returns its id, and the answer to its offer.
        Raises SmgError."""
        settings, tenant = self._services.live.config.realtime, exchange.caller.tenant
        if sum(call.tenant == tenant for call in self._calls.values()) >= settings.calls:
            raise RateLimited(f"At most {settings.calls} calls are made at once.", code="too_many_calls")
        id = self._services.ids("rtc_")
        call = self._calls[id] = self._made(id, tenant)
        try:
            answer = await call.peer.answer(offer)
            await self._accepted(id, call, exchange, given)
            if self._elsewhere is not None:
                await self._elsewhere.tell(id)
        except BaseException:
            call.carrier.end()
            self._calls.pop(id, None)
            await call.peer.close()
            raise
        return id, answer

    def _made(self, id: str, tenant: str) -> _Call:
        config = self._services.live.config
        settings = config.realtime
        if self._ports is None or self._ports[0] != settings.udp_ports:
            self._ports = settings.udp_ports, PortsInUse(UdpPorts.read(settings.udp_ports))

        async def send(text: str) -> bool:
            return await peer.send(text)

        carrier = CallCarrier(id, send, settings.frame_bytes, settings.waiting_bytes)
        given_up = self._services.call_later(settings.call_s, carrier.end)
        ends = CallEnds(carrier.from_client, carrier.heard, given_up.cancel, carrier.end, carrier.play)
        peer = RtcPeer(self._ports[1], ends, settings.waiting_bytes, config.timeouts.write_s)
        return _Call(tenant, carrier, peer)

    async def _accepted(self, id: str, call: _Call, exchange: Exchange, given: JsonObject | None) -> None:
        """Begin the session of a call; returns once it is open. Raises SmgError where it is refused."""
        task = asyncio.get_running_loop().create_task(self._carry(id, call, exchange, given))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        ends: list[asyncio.Future[Any]] = [task, call.carrier.accepted]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not call.carrier.accepted.done():
            await task
            raise NotFound("The call is over.", code="call_id_not_found")
        task.add_done_callback(partial(self._services.side_tasks.note_end, "a call by WebRTC"))

    async def _carry(self, id: str, call: _Call, exchange: Exchange, given: JsonObject | None) -> None:
        services = self._services
        socket = self._socket(call.carrier, exchange)
        began = services.clock.monotonic()
        try:
            await self._sessions.open(socket, given)
        finally:
            call.carrier.end()
            if socket.started:
                services.observer.report(socket.ended(socket.outcome, services.clock.monotonic() - began))
                await call.peer.sent(_LAST_S)
            self._calls.pop(id, None)
            await call.peer.close()
            if self._elsewhere is not None:
                await self._elsewhere.forget(id)

    def _socket(self, carrier: CallCarrier, exchange: Exchange) -> WebSocket:
        """The connection that the session of a call has: asked for as the call was, by the same caller."""
        scope = {**exchange.scope, "type": "websocket", "subprotocols": []}
        scope.pop(DISCONNECT, None)
        socket = WebSocket(scope, carrier.receive, carrier.send)
        socket.caller, socket.route, socket.client_id = exchange.caller, exchange.route, exchange.client_id
        socket.met = self._services.plugins.plan.on_arrival()
        identify = self._services.running.identify
        if identify is not anonymous:
            socket.identify = lambda: permitted(identify, socket, "realtime")
        return socket

    # ------------------------------------------------------------------------------------------- who asks about a call

    async def hang_up(self, id: str, caller: Caller) -> None:
        """End a call of the caller's tenant. Raises NotFound."""
        if id in self._calls or self._elsewhere is None:
            self._found(id, caller.tenant).end()
        else:
            await self._elsewhere.hang_up(id, caller.tenant)

    async def listen(self, id: str, exchange: WebSocket, accept: Callable[[], Awaitable[None]]) -> None:
        """Have a connection that `accept` accepts listen in to a call of its caller's tenant, until either is over. Raises
        NotFound, Conflict and Overloaded before that."""
        tenant = exchange.caller.tenant
        if id not in self._calls and self._elsewhere is not None:
            await self._elsewhere.listen(id, tenant, exchange, accept)
            return
        carrier = self._found(id, tenant)
        carrier.check_joins()
        await accept()
        await carrier.join(exchange)

    def _found(self, id: str, tenant: str) -> CallCarrier:
        call = self._calls.get(id)
        if call is None or call.tenant != tenant:
            raise NotFound("This server has no such call.", param="call_id", code="call_id_not_found")
        return call.carrier

    async def _asked(self, question: AskedCall, socket: CallSocket) -> None:
        """Do what another process asks. Raises SmgError where it is refused."""
        carrier = self._found(question.call, question.tenant)
        if question.wish == "listen":
            carrier.check_joins()
        socket.say(b'["ok",""]')
        if question.wish == "listen":
            await carrier.join(socket)
        else:
            carrier.end()


def _calls_of(services: Services) -> CallsHere:
    return services.side_tasks.one_of(CallsHere, lambda: CallsHere(services))


def _check_key(exchange: Exchange) -> None:
    """Raise PermissionDenied for a client secret: who has one has a call of its own, and nothing to do with those of others."""
    if has_client_secret(exchange):
        raise PermissionDenied("A client secret is for sessions of its own; send an API key.")


class CallHandler:
    """`POST /v1/realtime/calls`: begins a call."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, exchange: Exchange) -> None:
        services = self._services
        check_beta(exchange)
        services.admission.check_room()
        with services.admission.bodies.open() as held:
            body = await exchange.body(_BODY_BYTES, held)
            lease = services.admission.admit(exchange.caller, "tokens", len(body))
            try:
                kind, limits = exchange.headers.get("content-type", ""), services.live.limits
                offer, given = await services.running.executor.run(
                    lambda _: read_call(kind, body, limits), size=len(body), caller=exchange.caller.tenant
                )
                id, answer = await _calls_of(services).begin(exchange, offer, given)
            finally:
                lease.release()
        exchange.take_id(services.ids, "req_")
        await exchange.respond(
            201,
            answer.encode(),
            [
                (b"content-type", b"application/sdp"),
                (b"location", f"/v1/realtime/calls/{id}".encode()),
                services.request_ids.header(exchange.name),
            ],
        )


class HangUpHandler:
    """`POST /v1/realtime/calls/{call_id}/hangup`: ends a call."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, exchange: Exchange) -> None:
        services = self._services
        _check_key(exchange)
        await _calls_of(services).hang_up(exchange.path_values["call_id"], exchange.caller)
        exchange.take_id(services.ids, "req_")
        await exchange.respond(200, b"", [services.request_ids.header(exchange.name)])


class ListenHandler:
    """`GET /v1/realtime?call_id=` with an upgrade to a WebSocket: joins the session of a call."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, exchange: Exchange) -> None:
        if not isinstance(exchange, WebSocket):
            raise MethodNotAllowed("There are only WebSockets here.")
        services = self._services
        check_beta(exchange)
        _check_key(exchange)
        id = next(iter(exchange.query.get("call_id", ())), "")
        exchange.take_id(services.ids, "sess_")
        exchange.always.append(services.request_ids.header(exchange.name))
        await _calls_of(services).listen(id, exchange, lambda: exchange.accept(SUBPROTOCOL))

"""A request in a frame of a WebSocket, answered as the exchange that it would be by HTTP (edge).

It has the head of the handshake and the body of the frame, so that what is admitted, refused, timed, shown to plugins and counted
is so by the same code. Above: the sockets of APIs. Below: the handler of requests, plugins.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec.structs import replace

from smg_core.errors import SmgError
from smg_core.http.exchange import Exchange
from smg_core.http.routes import WEBSOCKET
from smg_core.http.scope import DISCONNECT, Disconnect, Receive, Send
from smg_core.http.stream_errors import ERROR_WRITTEN
from smg_core.http.websocket import WebSocket
from smg_core.plugins.exchange import PluggedExchange, exchange_within
from smg_core.serving.inference import Inference
from smg_core.serving.services import Services
from smg_core.wire.base import Decoded
from smg_core.wire.errors import error_headers, responses_error

__all__ = ["Join", "answer_frame", "exchange_of_frame"]

D = TypeVar("D", bound=Decoded)

_OF_THE_CONNECTION = (b"connection", b"upgrade", b"expect", b"transfer-encoding")
_PREFIXES = (b"content-", b"sec-websocket-")
Join = Callable[[], Awaitable[None]]
"""Has plugins meet an exchange."""


def exchange_of_frame(
    services: Services,
    socket: WebSocket,
    handler: Inference[D],
    receive: Receive,
    send: Send,
    *,
    disconnect: Disconnect,
    written: Callable[[SmgError, str], bytes],
) -> tuple[Exchange, Join]:
    """The request to `handler` that came in a frame over `socket`, and what has plugins meet it. `disconnect` gives it up,
    `written` is how an error at the end of a stream is told."""
    headers = [
        each
        for each in socket.scope["headers"]
        if each[0] not in _OF_THE_CONNECTION and not each[0].startswith(_PREFIXES)
    ]
    made = {**socket.scope, "type": "http", "method": "POST", "headers": headers, DISCONNECT: disconnect}
    made[ERROR_WRITTEN] = written
    exchange, join = exchange_within(services.plugins, handler, made, receive, send, socket.caller)
    exchange.client_id, exchange.kind = socket.client_id, "frame"
    return exchange, join


async def answer_frame(
    services: Services, exchange: Exchange, join: Join, handler: Inference[D], sent: Callable[[], int]
) -> None:
    """Answer such a request, and write its line in the access log; `sent` says how many bytes its frames had."""
    started, outcome = services.clock.monotonic(), "error"
    try:
        outcome = await _made(services, exchange, join, handler)
    finally:
        exchange.unplug()
        ended = exchange.ended(outcome, services.clock.monotonic() - started)
        services.observer.report(replace(ended, method=WEBSOCKET, route=exchange.path, sent=sent()))


async def _made(services: Services, exchange: Exchange, join: Join, handler: Inference[D]) -> str:
    """Make one response, or tell what it is refused for; returns the outcome."""
    try:
        await join()
        await handler(exchange)
    except SmgError as error:
        if isinstance(exchange, PluggedExchange) and exchange.told_at_its_end:
            return error.outcome
        if exchange.started:
            raise
        told = await exchange.told(error)
        exchange.take_id(services.ids, exchange.request_id.partition("-")[0] or "req_")
        await exchange.respond(told.status, responses_error(told, exchange.request_id), error_headers(told))
        return error.outcome
    return "ok"

"""One request of a batch, sent to the handler of its API as if a client had sent it (edge).

It is admitted, timed, retried, observed and refused as any other, and its answer has the status and the body that a client would
get. No socket and no ASGI app: the handler is given an exchange that reads the body from memory and gathers the answer. Above:
the runs of batches. Below: the handlers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import attrs

from smg_core.errors import SmgError
from smg_core.hooks import RequestFinished
from smg_core.http.endpoint import Handler
from smg_core.http.exchange import Exchange
from smg_core.http.scope import DISCONNECT, AsgiMessage, Disconnect
from smg_core.observability.faults import FaultLog
from smg_core.plugins.exchange import exchange_within
from smg_core.plugins.registry import Plugins
from smg_core.request import Caller
from smg_core.serving.inference import internal_error
from smg_core.wire.base import ErrorEncoder

__all__ = ["BatchAnswer", "BatchEndpoint", "called"]


@attrs.frozen
class BatchEndpoint:
    """Where requests of batches go: a path, the permission that its callers need, its handler, and the envelope of its errors."""

    path: str
    needs: str
    handler: Handler
    error: ErrorEncoder


@attrs.frozen
class BatchAnswer:
    """The answer to one request. `status` is 0 where there is none. `outcome` says how it ended, `finished` too where a model was
    asked; `trace_id` is that of the request."""

    status: int
    body: bytes
    request_id: str
    outcome: str = ""
    finished: RequestFinished | None = None
    trace_id: str = ""


async def called(
    endpoint: BatchEndpoint,
    body: bytes,
    headers: Mapping[str, str],
    caller: Caller,
    *,
    faults: FaultLog,
    plugins: Plugins,
) -> BatchAnswer:
    """The answer to a request, which `plugins` are shown as any other. A fault of the gateway is told to `faults`, and is an
    answer too."""
    gathered: list[bytes] = []
    waiting = [body]

    async def receive() -> AsgiMessage:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return {"type": "http.disconnect"}

    async def send(message: AsgiMessage) -> None:
        gathered.append(message.get("body", b""))

    scope = {
        "type": "http",
        "method": "POST",
        "path": endpoint.path,
        "query_string": b"",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
        "client": None,
        DISCONNECT: Disconnect(),
    }
    exchange, join = exchange_within(plugins, endpoint.handler, scope, receive, send, caller)
    exchange.kind = "batch"
    handling = asyncio.ensure_future(_handled(endpoint, exchange, join))
    try:
        await asyncio.wait([handling])
    finally:
        handling.cancel()
        await asyncio.gather(handling, return_exceptions=True)
        exchange.unplug()
    if handling.cancelled():
        return BatchAnswer(0, b"", exchange.request_id)
    fault = handling.exception()
    if fault is not None:
        faults.note("a request of a batch", fault, f"request {exchange.request_id}")
        error = internal_error()
        return BatchAnswer(error.status, endpoint.error(error, exchange.request_id), exchange.request_id, "error")
    ended = exchange.ended(handling.result(), 0.0)
    done, trace_id = ended.finished, ended.trace_id
    return BatchAnswer(exchange.status, b"".join(gathered), exchange.request_id, ended.outcome, done, trace_id)


async def _handled(endpoint: BatchEndpoint, exchange: Exchange, join: Callable[[], Awaitable[None]]) -> str:
    """Answer a request, also with what plugins refuse it for; returns the outcome."""
    try:
        await join()
        await endpoint.handler(exchange)
    except SmgError as error:
        if exchange.started:
            raise
        refusal = await exchange.replaced_error(error)
        await exchange.respond(refusal.status, endpoint.error(refusal, exchange.request_id), ())
        return error.outcome
    return "ok"

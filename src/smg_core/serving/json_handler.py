"""A handler that reads a JSON body, answers with one, and puts errors into the API's envelope (edge)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from smg_core.errors import SmgError
from smg_core.http.endpoint import Handler
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header
from smg_core.request import Caller
from smg_core.serving.api import usual_status
from smg_core.serving.inference import incoming_of, refusal_headers, take_back_cancellation
from smg_core.serving.offload import worked
from smg_core.serving.services import Services
from smg_core.wire.base import ErrorEncoder, Incoming, Locate

__all__ = ["JSON_TYPE", "Answerer", "decoded_body", "json_handler", "made_of"]


JSON_TYPE: Header = (b"content-type", b"application/json")

T = TypeVar("T")


def json_handler(
    services: Services,
    prefix: str,
    error: ErrorEncoder,
    answer: "Answerer",
    *,
    status: Callable[[SmgError], int] = usual_status,
    id_header: bytes | None = None,
) -> Handler:
    """A handler that reads a body, has `answer` make the answer's body of it, and puts errors into the API's envelope. A client
    that leaves gives the work up, and so does a gateway that shuts down. `prefix`, `status` and `id_header` as of `Api`."""

    async def handle(exchange: Exchange) -> None:
        exchange.request_id = exchange.request_id or services.ids(prefix)
        named_by = [services.request_ids.header(exchange.name)]
        if id_header is not None:
            named_by.append((id_header, exchange.request_id.encode()))
        located: list[Locate] = []
        try:
            made = await _made(services, exchange, answer, located)
        except SmgError as failure:
            exchange.unwatch()
            if exchange.gone:
                raise
            failure = await exchange.replaced_error(failure)
            headers = [*refusal_headers(services, failure), *named_by]
            refusal = error(failure, exchange.request_id, located[0] if located else None)
            await exchange.respond(status(failure), refusal, headers)
            return
        exchange.unwatch()
        if made is not None:
            await exchange.respond(200, made, [JSON_TYPE, *named_by])

    return handle


async def _made(services: Services, exchange: Exchange, answer: "Answerer", located: list[Locate]) -> bytes | None:
    """The answer's body, None where the client has left meanwhile. The request counts as in flight once its body is read."""
    try:
        services.admission.check_room()
        with services.admission.bodies.open() as held:
            body = await exchange.body(services.lookup.body_bytes, held)
            exchange.lease = services.admission.admit(exchange.caller, exchange.kind or "tokens", len(body))
            exchange.watch()
            return await answer(incoming_of(services, exchange, body), located)
    except asyncio.CancelledError:
        if not exchange.gone and not services.admission.draining:
            raise
        take_back_cancellation()
        if exchange.gone:
            return None
        raise services.admission.shut_down() from None
    finally:
        if exchange.lease is not None:
            exchange.lease.release()


Answerer = Callable[[Incoming, list[Locate]], Awaitable[bytes]]
"""`await answer(incoming, located)` makes the body of the answer; what it appends to `located` says where fields of the request
were read from, for errors that come later."""


async def decoded_body(services: Services, incoming: Incoming, decode: Callable[[Incoming], T]) -> T:
    """The body, decoded off the event loop where that takes long."""
    return await made_of(services, incoming.caller, len(incoming.body), lambda: decode(incoming))


async def made_of(services: Services, caller: Caller, size: int, make: Callable[[], T]) -> T:
    """What `make` makes of JSON texts of that many bytes, off the event loop where they are many."""
    return await worked(services, caller.tenant, size, make)

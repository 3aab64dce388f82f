"""A request within another one: a model is asked for what a tool needs, as if the same caller had sent it (edge).

It is admitted, limited, accounted, timed and observed as any other; its answer goes to whoever asks here and to no socket. Who
gives up waiting cancels it. Above: tools that ask models. Below: the handler of requests, the exchange.
"""

import asyncio
from collections.abc import Mapping
from typing import TypeVar

import attrs
import msgspec
from msgspec import Struct

from smg_core.errors import EngineFailed, InternalError, SmgError
from smg_core.http.scope import DISCONNECT, AsgiMessage, Disconnect
from smg_core.plugins.exchange import exchange_within
from smg_core.request import Caller
from smg_core.serving.inference import Inference
from smg_core.serving.services import Services
from smg_core.wire.base import Decoded

__all__ = ["InnerAnswer", "asked_within"]

D = TypeVar("D", bound=Decoded)


@attrs.frozen
class InnerAnswer:
    """What a handler has answered: a status, and the body in the envelope or the form of its API."""

    status: int
    body: bytes

    def check(self) -> None:
        """Raise what the request was refused for, of an API whose errors are OpenAI's."""
        if self.status == 200:
            return
        try:
            body = msgspec.json.decode(self.body, type=_Envelope).error
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise EngineFailed("The model that was asked gave no answer.") from None
        error = EngineFailed(body.message)
        error.code = body.code or error.code
        raise error


class _ErrorBody(Struct):
    message: str = "The model that was asked gave no answer."
    code: str | None = None


class _Envelope(Struct):
    error: _ErrorBody


async def asked_within(
    services: Services, handler: Inference[D], caller: Caller, path: str, headers: Mapping[str, str]
) -> InnerAnswer:
    """The answer of `handler` to a request of this caller without a body, which its decoder does not look at."""
    gathered: list[bytes] = []
    gone = Disconnect()

    async def receive() -> AsgiMessage:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: AsgiMessage) -> None:
        gathered.append(message.get("body", b""))

    named = [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": named, "client": None}
    exchange, join = exchange_within(services.plugins, handler, {**scope, DISCONNECT: gone}, receive, send, caller)

    async def handled() -> None:
        try:
            await join()
            await handler(exchange)
        except SmgError as error:
            if exchange.started:
                raise
            await handler.refuse(exchange, error, exchange.request_id)

    handling = asyncio.ensure_future(handled())
    try:
        await asyncio.wait([handling])
    finally:
        handling.cancel()
        await asyncio.gather(handling, return_exceptions=True)
        exchange.unplug()
    fault = None if handling.cancelled() else handling.exception()
    if isinstance(fault, SmgError):
        raise fault
    if fault is not None or handling.cancelled():
        if fault is not None:
            services.faults.note("a request within another one", fault, f"request {exchange.request_id}")
        raise InternalError("The gateway failed on a request within this one.")
    return InnerAnswer(exchange.status, b"".join(gathered))

"""Answers of the admin door: JSON that no cache keeps (edge). Above: the routes. Below: the exchange."""

import msgspec

from smg_core.http.exchange import Exchange
from smg_core.serving.runtime import Runtime

__all__ = ["respond_json"]


async def respond_json(gateway: Runtime, exchange: Exchange, answer: object, status: int = 200) -> None:
    """Answer with this record."""
    exchange.take_id(gateway.ids, "req-")
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    headers.append(gateway.id_header(exchange.name))
    await exchange.respond(status, msgspec.json.encode(answer), headers)

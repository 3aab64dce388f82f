"""Answers of the admin door: JSON that no cache keeps (edge). Above: the routes. Below: the exchange."""

import msgspec

from smg_core.http.exchange import Exchange
from smg_core.serving.services import Services
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["admin_operation", "respond_json"]


async def respond_json(services: Services, exchange: Exchange, answer: object, status: int = 200) -> None:
    """Answer with this record."""
    exchange.take_id(services.ids, "req_")
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    headers.append(services.request_ids.header(exchange.name))
    await exchange.respond(status, msgspec.json.encode(answer), headers)


def admin_operation(name: str, summary: str, group: str, body: object, details: object) -> Operation:
    return Operation(name, summary, group, body, (OperationResponse(200, "As it is now.", details),))

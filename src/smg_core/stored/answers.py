"""The answers of handlers of stored things (edge).

Above: `stored_responses`, `conversations`, files and batches. Below: the gateway, which has the thread pool.
"""

from collections.abc import Callable

from smg_core.apis.responses.wire.decode import check_include
from smg_core.http.exchange import Exchange
from smg_core.json_types import JsonObject
from smg_core.serving.json_handler import JSON_TYPE, made_of
from smg_core.serving.services import Services
from smg_core.wire.json_text import encode_body

__all__ = ["StoredHandlers"]


class StoredHandlers:
    """What the handlers have in common."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def check_include(self, exchange: Exchange) -> frozenset[str]:
        """What `include` of the query names; it is refused as creating refuses it. SDKs write the name with brackets."""
        names = [name for key in ("include", "include[]") for name in exchange.query.get(key, ())]
        check_include(names)
        return frozenset(names)

    async def answer(self, exchange: Exchange, found: JsonObject) -> None:
        await self.respond(exchange, encode_body(found))

    async def answer_long(self, exchange: Exchange, size: int, make: Callable[[], JsonObject]) -> None:
        """Answer with what `make` makes of stored texts of that many bytes, off the event loop where they are many."""
        answer = await made_of(self._services, exchange.caller, size, lambda: encode_body(make()))
        await self.respond(exchange, answer)

    async def respond(self, exchange: Exchange, body: bytes) -> None:
        if not exchange.request_id:
            exchange.take_id(self._services.ids, "req_")
        await exchange.respond(200, body, [JSON_TYPE, self._services.request_ids.header(exchange.name)])

"""Responses that are kept, read, followed, cancelled and deleted by their ids (edge).

Every id is looked up among those of the caller's tenant; another's is as if it did not exist. Above: `stored`, which has their
routes. Below: the history, the background, the wire's objects.
"""

import asyncio

import msgspec

from smg_core.apis.conversations.types import (
    ItemsQuery,
    item_list,
    read_items_query,
)
from smg_core.apis.responses.wire.decode import ORIGIN, SEALED, ResponsesRequest
from smg_core.apis.responses.wire.parts import Seal, with_sealed_reasoning
from smg_core.background.api import BackgroundApi
from smg_core.background.service import BackgroundService
from smg_core.errors import InvalidRequest, NotFound
from smg_core.history.store.base import (
    StoredResponse,
)
from smg_core.http.exchange import Exchange
from smg_core.json_types import JsonObject
from smg_core.sealing.sealer import load_ciphers
from smg_core.serving.json_handler import made_of
from smg_core.serving.services import Services
from smg_core.stored.answers import StoredHandlers
from smg_core.wire.fields import not_in_list

__all__ = ["StoredResponses"]


class StoredResponses(StoredHandlers):
    """Responses by their ids."""

    def __init__(self, services: Services, background: BackgroundService, api: BackgroundApi[ResponsesRequest]) -> None:
        super().__init__(services)
        self._background, self._api = background, api

    async def _found(self, exchange: Exchange) -> StoredResponse:
        id = exchange.path_values["id"]
        found = await self._services.running.history.response(exchange.caller.tenant, id)
        if found is None or not id.startswith(self._api.api.id_prefix):
            raise NotFound(f"Response with id '{id[:100]}' not found.")
        return found

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/responses/{id}"""
        include = self.check_include(exchange)
        streams = exchange.query.get("stream", ("false",))[-1]
        if streams not in ("true", "false"):
            raise InvalidRequest("Invalid value for 'stream'. Supported values are: 'true', 'false'.", param="stream")
        found = await self._found(exchange)
        if streams == "true":
            await self._background.resume(
                self._api, exchange, found.id, _starting_after(exchange.query.get("starting_after", ()))
            )
            return
        seal = self._sealing(found, exchange, include)
        if seal is not None:
            await asyncio.to_thread(load_ciphers)
        await self.answer_long(exchange, len(found.body) + len(found.output), lambda: _whole(found, seal))

    def _sealing(self, found: StoredResponse, exchange: Exchange, include: frozenset[str]) -> Seal | None:
        """What seals the reasoning of a response that was made without that; None where the client does not ask for it, and where
        the model is not served any more."""
        model = self._services.models.get(found.model)
        if SEALED not in include or model is None or model.seals is None:
            return None
        seals, tenant = model.seals, exchange.caller.tenant
        return lambda text: seals.sealed(ORIGIN.seals, tenant, text).decode()

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/responses/{id}"""
        found = await self._found(exchange)
        await self._background.delete((exchange.caller.tenant, found.id))
        await self.answer(exchange, {"id": found.id, "object": "response", "deleted": True})

    async def cancel(self, exchange: Exchange) -> None:
        """POST /v1/responses/{id}/cancel"""
        found = await self._found(exchange)
        if not await made_of(self._services, exchange.caller, len(found.body), lambda: _is_of_background(found)):
            raise InvalidRequest("Only a response that was created with 'background' can be cancelled.", param="id")
        now = await self._background.cancel(self._api, (exchange.caller.tenant, found.id), found)
        await self.answer_long(exchange, len(now.body) + len(now.output), lambda: _whole(now))

    async def input_items(self, exchange: Exchange) -> None:
        """GET /v1/responses/{id}/input_items"""
        self.check_include(exchange)
        found, query = await self._found(exchange), read_items_query(exchange.query)
        await self.answer_long(exchange, len(found.input), lambda: _input_page(found, query))


def _is_of_background(found: StoredResponse) -> bool:
    body: JsonObject = msgspec.json.decode(found.body)
    return body.get("background") is True


def _whole(found: StoredResponse, seal: Seal | None = None) -> JsonObject:
    body: JsonObject = msgspec.json.decode(found.body)
    output: list[JsonObject] = msgspec.json.decode(found.output)
    body["output"] = output if seal is None else [with_sealed_reasoning(item, seal) for item in output]
    return body


def _input_page(found: StoredResponse, query: ItemsQuery) -> JsonObject:
    """The items of a response's request that `query` asks for. Raises InvalidRequest."""
    items: list[JsonObject] = msgspec.json.decode(found.input)
    if query.newest_first:
        items.reverse()
    ids = [item.get("id") for item in items]
    if query.after is not None:
        if query.after not in ids:
            raise not_in_list(query.after)
        items = items[ids.index(query.after) + 1 :]
    return item_list(items[: query.limit], len(items) > query.limit)


def _starting_after(values: tuple[str, ...]) -> int:
    """The number behind which a stream is resumed; without one it is sent from its beginning. Raises InvalidRequest."""
    if not values:
        return -1
    text = values[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise InvalidRequest(
            f"Invalid 'starting_after': expected the number of an event, but got {text[:40]!r}.", param="starting_after"
        )
    return int(text)

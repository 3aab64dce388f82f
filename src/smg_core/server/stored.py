"""What is kept of responses and conversations, read, changed and deleted by their ids (edge).

Every id is looked up among those of the caller's tenant; another's is as if it did not exist: 404 in the API's envelope. Above:
server.generating puts the routes into the table. Below: the history, the wire's objects.
"""

from collections.abc import Callable

import msgspec

from smg_core.errors import InvalidRequest, NotFound
from smg_core.history.base import (
    AppendItems,
    DeleteConversation,
    DeleteItem,
    PutConversation,
    StoredConversation,
    StoredItem,
    StoredResponse,
    StoreOperation,
)
from smg_core.json_types import JsonObject
from smg_core.protocols.base import Incoming, Locate
from smg_core.protocols.conversations import (
    ItemsQuery,
    conversation_object,
    item_list,
    read_conversation,
    read_items_query,
    read_new_items,
)
from smg_core.protocols.errors import openai_error
from smg_core.protocols.json_text import encode_body
from smg_core.request import Caller
from smg_core.server.background import Background
from smg_core.server.endpoint import Endpoint, Handler
from smg_core.server.exchange import Exchange
from smg_core.server.routes import Route
from smg_core.server.runtime import Runtime
from smg_core.server.stored_descriptions import STORED
from smg_core.server.tokenizing import JSON_TYPE, answering, decoded_body, made_of

__all__ = ["stored_routes"]

_RESPONSE = "/v1/responses/{id}"
_CONVERSATION = "/v1/conversations/{id}"
_ITEM = "/v1/conversations/{id}/items/{item_id}"
_READ = frozenset(("POST", pattern) for pattern in ("/v1/conversations", _CONVERSATION, f"{_CONVERSATION}/items"))
"""The routes that read a body."""


def stored_routes(gateway: Runtime, background: Background) -> tuple[Route[Endpoint], ...]:
    """The routes, over `gateway`; `background` has what is made there, and what a request continues."""
    responses, conversations = _Responses(gateway, background), _Conversations(gateway)
    rows: tuple[tuple[str, str, Handler], ...] = (
        ("GET", _RESPONSE, responses.retrieve),
        ("DELETE", _RESPONSE, responses.delete),
        ("POST", f"{_RESPONSE}/cancel", responses.cancel),
        ("GET", f"{_RESPONSE}/input_items", responses.input_items),
        ("POST", "/v1/conversations", conversations.create),
        ("GET", _CONVERSATION, conversations.retrieve),
        ("POST", _CONVERSATION, conversations.update),
        ("DELETE", _CONVERSATION, conversations.delete),
        ("GET", f"{_CONVERSATION}/items", conversations.items),
        ("POST", f"{_CONVERSATION}/items", conversations.add),
        ("GET", _ITEM, conversations.item),
        ("DELETE", _ITEM, conversations.delete_item),
    )
    return tuple(
        Route(
            method,
            pattern,
            Endpoint(handler, reads_json=(method, pattern) in _READ, about=STORED[method, pattern]),
        )
        for method, pattern, handler in rows
    )


class _Handlers:
    """What the handlers of both have in common."""

    def __init__(self, gateway: Runtime) -> None:
        self._gateway = gateway

    async def _answer(self, exchange: Exchange, found: JsonObject) -> None:
        await self._respond(exchange, encode_body(found))

    async def _answer_long(self, exchange: Exchange, size: int, make: Callable[[], JsonObject]) -> None:
        """Answer with what `make` makes of stored texts of that many bytes, off the event loop where they are many."""
        told = await made_of(self._gateway, exchange.caller, size, lambda: encode_body(make()))
        await self._respond(exchange, told)

    async def _respond(self, exchange: Exchange, body: bytes) -> None:
        if not exchange.request_id:
            exchange.request_id = self._gateway.ids("req-")
        await exchange.respond(200, body, [JSON_TYPE, self._gateway.id_header(exchange.name)])


class _Responses(_Handlers):
    """Responses by their ids."""

    def __init__(self, gateway: Runtime, background: Background) -> None:
        super().__init__(gateway)
        self._background = background

    async def _found(self, exchange: Exchange) -> StoredResponse:
        id = exchange.path_values["id"]
        found = await self._gateway.history.response(exchange.caller.tenant, id)
        if found is None:
            raise NotFound(f"Response with id '{id[:100]}' not found.")
        return found

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/responses/{id}"""
        found = await self._found(exchange)
        if exchange.query.get("stream", ("false",))[-1] == "true":
            await self._background.resume(exchange, found.id)
            return
        await self._answer_long(exchange, len(found.body) + len(found.output), lambda: _whole(found))

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/responses/{id}"""
        found = await self._found(exchange)
        await self._background.delete((exchange.caller.tenant, found.id))
        await self._answer(exchange, {"id": found.id, "object": "response", "deleted": True})

    async def cancel(self, exchange: Exchange) -> None:
        """POST /v1/responses/{id}/cancel"""
        found = await self._found(exchange)
        if _whole(found).get("background") is not True:
            raise InvalidRequest("Only a response that was created with 'background' can be cancelled.", param="id")
        found = await self._background.cancel((exchange.caller.tenant, found.id), found)
        await self._answer(exchange, _whole(found))

    async def input_items(self, exchange: Exchange) -> None:
        """GET /v1/responses/{id}/input_items"""
        found, query = await self._found(exchange), read_items_query(exchange.query)
        await self._answer_long(exchange, len(found.input), lambda: _input_page(found, query))


def _whole(found: StoredResponse) -> JsonObject:
    body: JsonObject = msgspec.json.decode(found.body)
    body["output"] = msgspec.json.decode(found.output)
    return body


def _input_page(found: StoredResponse, query: ItemsQuery) -> JsonObject:
    """The items of a response's request that `query` asks for. Raises InvalidRequest."""
    items: list[JsonObject] = msgspec.json.decode(found.input)
    if query.newest_first:
        items.reverse()
    ids = [item.get("id") for item in items]
    if query.after is not None:
        if query.after not in ids:
            raise InvalidRequest(f"No item with id '{query.after[:100]}' is in this list.", param="after")
        items = items[ids.index(query.after) + 1 :]
    return item_list(items[: query.limit], len(items) > query.limit)


class _Conversations(_Handlers):
    """Conversations and their items."""

    def __init__(self, gateway: Runtime) -> None:
        super().__init__(gateway)
        self.create = answering(gateway, "req-", openai_error, self._create)
        self.update = answering(gateway, "req-", openai_error, self._update)
        self.add = answering(gateway, "req-", openai_error, self._add)

    async def _found(self, exchange: Exchange) -> StoredConversation:
        return await self._of(exchange.caller, exchange.path_values["id"])

    async def _of(self, caller: Caller, id: str) -> StoredConversation:
        found = await self._gateway.history.conversation(caller.tenant, id)
        if found is None:
            raise NotFound(f"Conversation with id '{id[:100]}' not found.")
        return found

    async def _write(self, caller: Caller, *operations: StoreOperation) -> None:
        await self._gateway.history.write(caller.tenant, operations, principal=caller.principal)

    def _items(self, items: list[JsonObject]) -> tuple[StoredItem, ...]:
        now = self._gateway.clock.time()
        return tuple(StoredItem(id=str(item["id"]), body=encode_body(item), created_at=now) for item in items)

    async def _create(self, incoming: Incoming, located: list[Locate]) -> bytes:
        """POST /v1/conversations"""
        id, suffix = self._gateway.ids("conv_"), self._gateway.ids("")

        def read() -> tuple[dict[str, str] | None, tuple[StoredItem, ...]]:
            metadata, items = read_conversation(incoming.body, incoming.limits, suffix)
            return metadata, self._items(items)

        metadata, items = await made_of(self._gateway, incoming.caller, len(incoming.body), read)
        made = StoredConversation(id=id, created_at=self._gateway.clock.time(), metadata=encode_body(metadata or {}))
        first = [AppendItems(id, items)] if items else []
        await self._write(incoming.caller, PutConversation(made, if_version=0), *first)
        return encode_body(_conversation(made))

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/conversations/{id}"""
        await self._answer(exchange, _conversation(await self._found(exchange)))

    async def _update(self, incoming: Incoming, located: list[Locate]) -> bytes:
        """POST /v1/conversations/{id}"""
        found = await self._of(incoming.caller, incoming.path_values["id"])
        metadata, items = await decoded_body(
            self._gateway, incoming, lambda given: read_conversation(given.body, given.limits, "")
        )
        if items:
            raise InvalidRequest("Unknown parameter: 'items'.", param="items", code="unknown_parameter")
        kept = msgspec.json.decode(found.metadata) if metadata is None else metadata
        made = StoredConversation(id=found.id, created_at=found.created_at, metadata=encode_body(kept))
        await self._write(incoming.caller, PutConversation(made, if_version=found.version))
        return encode_body(_conversation(made))

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/conversations/{id}"""
        found = await self._found(exchange)
        await self._write(exchange.caller, DeleteConversation(found.id))
        await self._answer(exchange, {"id": found.id, "object": "conversation.deleted", "deleted": True})

    async def items(self, exchange: Exchange) -> None:
        """GET /v1/conversations/{id}/items"""
        found, query = await self._found(exchange), read_items_query(exchange.query)
        page = await self._gateway.history.items(
            exchange.caller.tenant,
            found.id,
            after=query.after,
            limit=query.limit,
            newest_first=query.newest_first,
        )
        size = sum(len(item.body) for item in page.data)
        await self._answer_long(
            exchange, size, lambda: item_list([msgspec.json.decode(item.body) for item in page.data], page.has_more)
        )

    async def _add(self, incoming: Incoming, located: list[Locate]) -> bytes:
        """POST /v1/conversations/{id}/items"""
        found = await self._of(incoming.caller, incoming.path_values["id"])
        suffix = self._gateway.ids("")

        def read() -> tuple[tuple[StoredItem, ...], bytes]:
            items = read_new_items(incoming.body, incoming.limits, suffix)
            return self._items(items), encode_body(item_list(items, False))

        items, told = await made_of(self._gateway, incoming.caller, len(incoming.body), read)
        await self._write(incoming.caller, AppendItems(found.id, items))
        return told

    async def _one(self, exchange: Exchange) -> StoredItem:
        conversation, id = await self._found(exchange), exchange.path_values["item_id"]
        found = await self._gateway.history.item(exchange.caller.tenant, conversation.id, id)
        if found is None:
            raise NotFound(f"Item with id '{id[:100]}' not found in this conversation.")
        return found

    async def item(self, exchange: Exchange) -> None:
        """GET /v1/conversations/{id}/items/{item_id}"""
        await self._respond(exchange, (await self._one(exchange)).body)

    async def delete_item(self, exchange: Exchange) -> None:
        """DELETE /v1/conversations/{id}/items/{item_id}"""
        found, conversation = await self._one(exchange), await self._found(exchange)
        await self._write(exchange.caller, DeleteItem(conversation.id, found.id))
        await self._answer(exchange, _conversation(conversation))


def _conversation(kept: StoredConversation) -> JsonObject:
    return conversation_object(kept.id, kept.created_at, msgspec.json.decode(kept.metadata))

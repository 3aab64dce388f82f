"""Conversations and their items, read, changed and deleted by their ids (edge).

Every id is looked up among those of the caller's tenant; another's is as if it did not exist. Above: `stored`, which has their
routes. Below: the history, the wire's objects.
"""

import msgspec

from smg_core.apis.conversations.types import (
    ConversationBody,
    ItemsBody,
    conversation_object,
    item_list,
    read_conversation,
    read_items_query,
    read_new_items,
)
from smg_core.errors import InvalidRequest, NotFound
from smg_core.history.store.base import (
    AppendItems,
    DeleteConversation,
    DeleteItem,
    PutConversation,
    StoredConversation,
    StoredItem,
    StoreOperation,
)
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.json_types import JsonObject
from smg_core.request import Caller
from smg_core.serving.json_handler import decoded_body, json_handler, made_of
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiContext, ApiSpec
from smg_core.stored.answers import StoredHandlers
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.errors import openai_error
from smg_core.wire.fields import not_in_list
from smg_core.wire.json_text import encode_body
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SPEC", "Conversations"]


class Conversations(StoredHandlers):
    """Conversations and their items."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.create = json_handler(services, "req_", openai_error, self._create)
        self.update = json_handler(services, "req_", openai_error, self._update)
        self.add = json_handler(services, "req_", openai_error, self._add)

    async def _found(self, exchange: Exchange) -> StoredConversation:
        return await self._of(exchange.caller, exchange.path_values["id"])

    async def _of(self, caller: Caller, id: str) -> StoredConversation:
        found = await self._services.running.history.conversation(caller.tenant, id)
        if found is None:
            raise NotFound(f"Conversation with id '{id[:100]}' not found.")
        return found

    async def _write(self, caller: Caller, *operations: StoreOperation) -> None:
        await self._services.running.history.write(caller.tenant, operations, principal=caller.principal)

    def _items(self, items: list[JsonObject]) -> tuple[StoredItem, ...]:
        now = self._services.clock.time()
        return tuple(StoredItem(id=str(item["id"]), body=encode_body(item), created_at=now) for item in items)

    async def _create(self, incoming: Incoming, located: list[Locate]) -> bytes:
        """POST /v1/conversations"""
        id, suffix = self._services.ids("conv_"), self._services.ids("")

        def read() -> tuple[dict[str, str] | None, tuple[StoredItem, ...]]:
            metadata, items = read_conversation(incoming.body, incoming.limits, suffix)
            return metadata, self._items(items)

        metadata, items = await made_of(self._services, incoming.caller, len(incoming.body), read)
        made = StoredConversation(id=id, created_at=self._services.clock.time(), metadata=encode_body(metadata or {}))
        first = [AppendItems(id, items)] if items else []
        await self._write(incoming.caller, PutConversation(made, if_version=0), *first)
        return encode_body(_conversation(made))

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/conversations/{id}"""
        await self.answer(exchange, _conversation(await self._found(exchange)))

    async def _update(self, incoming: Incoming, located: list[Locate]) -> bytes:
        """POST /v1/conversations/{id}"""
        found = await self._of(incoming.caller, incoming.path_values["id"])
        metadata, items = await decoded_body(
            self._services, incoming, lambda given: read_conversation(given.body, given.limits, "")
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
        await self.answer(exchange, {"id": found.id, "object": "conversation.deleted", "deleted": True})

    async def items(self, exchange: Exchange) -> None:
        """GET /v1/conversations/{id}/items"""
        self.check_include(exchange)
        found, query = await self._found(exchange), read_items_query(exchange.query)
        history, tenant, after = self._services.running.history, exchange.caller.tenant, query.after
        page = await history.items(tenant, found.id, after=after, limit=query.limit, newest_first=query.newest_first)
        if not page.data and after is not None and await history.item(tenant, found.id, after) is None:
            raise not_in_list(after)
        size = sum(len(item.body) for item in page.data)
        await self.answer_long(
            exchange, size, lambda: item_list([msgspec.json.decode(item.body) for item in page.data], page.has_more)
        )

    async def _add(self, incoming: Incoming, located: list[Locate]) -> bytes:
        """POST /v1/conversations/{id}/items"""
        found = await self._of(incoming.caller, incoming.path_values["id"])
        suffix = self._services.ids("")

        def read() -> tuple[tuple[StoredItem, ...], bytes]:
            items = read_new_items(incoming.body, incoming.limits, suffix)
            return self._items(items), encode_body(item_list(items, False))

        items, headers = await made_of(self._services, incoming.caller, len(incoming.body), read)
        await self._write(incoming.caller, AppendItems(found.id, items))
        return headers

    async def _one(self, exchange: Exchange) -> StoredItem:
        conversation, id = await self._found(exchange), exchange.path_values["item_id"]
        found = await self._services.running.history.item(exchange.caller.tenant, conversation.id, id)
        if found is None:
            raise NotFound(f"Item with id '{id[:100]}' not found in this conversation.")
        return found

    async def item(self, exchange: Exchange) -> None:
        """GET /v1/conversations/{id}/items/{item_id}"""
        self.check_include(exchange)
        await self.respond(exchange, (await self._one(exchange)).body)

    async def delete_item(self, exchange: Exchange) -> None:
        """DELETE /v1/conversations/{id}/items/{item_id}"""
        found, conversation = await self._one(exchange), await self._found(exchange)
        await self._write(exchange.caller, DeleteItem(conversation.id, found.id))
        await self.answer(exchange, _conversation(conversation))


def _conversation(kept: StoredConversation) -> JsonObject:
    return conversation_object(kept.id, kept.created_at, msgspec.json.decode(kept.metadata))


def _stored(name: str, summary: str, body: object = None) -> Operation:
    return Operation(
        name, summary, "conversations", body, (OperationResponse(200, "What is kept, as it is now.", JsonObject),)
    )


def conversation_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes of conversations and their items."""
    conversations = Conversations(context.services)
    rows: tuple[tuple[str, str, Handler, Operation], ...] = (
        (
            "POST",
            "/v1/conversations",
            conversations.create,
            _stored("createConversation", "Begin a conversation.", ConversationBody),
        ),
        ("GET", "/v1/conversations/{id}", conversations.retrieve, _stored("retrieveConversation", "A conversation.")),
        (
            "POST",
            "/v1/conversations/{id}",
            conversations.update,
            _stored("updateConversation", "Change its metadata.", ConversationBody),
        ),
        (
            "DELETE",
            "/v1/conversations/{id}",
            conversations.delete,
            _stored("deleteConversation", "Forget a conversation and its items."),
        ),
        (
            "GET",
            "/v1/conversations/{id}/items",
            conversations.items,
            _stored("listConversationItems", "The items of a conversation."),
        ),
        (
            "POST",
            "/v1/conversations/{id}/items",
            conversations.add,
            _stored("createConversationItems", "Put items at its end.", ItemsBody),
        ),
        (
            "GET",
            "/v1/conversations/{id}/items/{item_id}",
            conversations.item,
            _stored("retrieveConversationItem", "One item."),
        ),
        (
            "DELETE",
            "/v1/conversations/{id}/items/{item_id}",
            conversations.delete_item,
            _stored("deleteConversationItem", "Take one item out."),
        ),
    )
    return tuple(
        Route(method, pattern, Endpoint(handler, "conversations", reads_json=about.body is not None, about=about))
        for method, pattern, handler, about in rows
    )


SPEC = ApiSpec(
    (),
    {"conversations": "Conversations"},
    conversation_routes,
    (EnvelopeRule("/v1/conversations", openai_error),),
)

"""What is kept of responses and conversations, read, changed and deleted by their ids (edge).

Every id is looked up among those of the caller's tenant; another's is as if it did not exist: 404 in the API's envelope. Above:
server.generating puts the routes into the table. Below: the history, the wire's objects.
"""

import msgspec
from msgspec.structs import replace

from smg_core.errors import InvalidRequest, NotFound, PromptTooLong, SmgError, UnsupportedParameter
from smg_core.history.base import (
    AppendItems,
    DeleteConversation,
    DeleteItem,
    DeleteResponse,
    PutConversation,
    StoredConversation,
    StoredItem,
    StoredResponse,
    StoreOperation,
)
from smg_core.hooks import SilentObserver
from smg_core.json_types import JsonObject
from smg_core.pipeline.trace import Trace
from smg_core.protocols.base import Incoming
from smg_core.protocols.conversations import (
    conversation_object,
    item_list,
    read_conversation,
    read_items_query,
    read_new_items,
)
from smg_core.protocols.errors import error_headers, responses_error
from smg_core.protocols.json_text import encode_body
from smg_core.protocols.responses import ResponsesRequest, decode_responses
from smg_core.server.apis import Memory
from smg_core.server.endpoint import Endpoint, Handler
from smg_core.server.exchange import Exchange
from smg_core.server.routes import Route
from smg_core.server.runtime import Runtime
from smg_core.server.stored_descriptions import STORED

__all__ = ["stored_routes"]

_RESPONSE = "/v1/responses/{id}"
_CONVERSATION = "/v1/conversations/{id}"
_ITEM = "/v1/conversations/{id}/items/{item_id}"


def stored_routes(gateway: Runtime, memory: Memory[ResponsesRequest]) -> tuple[Route[Endpoint], ...]:
    """The routes, over `gateway`; `memory` has what a request continues."""
    responses, conversations = _Responses(gateway, memory), _Conversations(gateway)
    rows: tuple[tuple[str, str, Handler], ...] = (
        ("POST", "/v1/responses/input_tokens", responses.input_tokens),
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
        Route(method, pattern, Endpoint(handler, about=STORED[method, pattern])) for method, pattern, handler in rows
    )


class _Handlers:
    """What the handlers of both have in common."""

    def __init__(self, gateway: Runtime) -> None:
        self._gateway = gateway

    async def _answer(self, exchange: Exchange, found: JsonObject) -> None:
        if not exchange.request_id:
            exchange.request_id = self._gateway.ids("req-")
        head = [(b"content-type", b"application/json"), self._gateway.id_header(exchange.name)]
        await exchange.respond(200, encode_body(found), head)


class _Responses(_Handlers):
    """Responses by their ids, and the count of a request's tokens."""

    def __init__(self, gateway: Runtime, memory: Memory[ResponsesRequest]) -> None:
        super().__init__(gateway)
        self._memory = memory

    async def input_tokens(self, exchange: Exchange) -> None:
        """POST /v1/responses/input_tokens: the tokens that such a request's prompt has, made as for an answer."""
        gateway = self._gateway
        exchange.request_id = gateway.ids("resp_")
        body = await exchange.body(gateway.body_bytes)
        incoming = Incoming(
            body, exchange.request_id, headers=exchange.headers, caller=exchange.caller, limits=gateway.limits
        )
        tenant = exchange.caller.tenant
        decoded = await gateway.executor.run(lambda _: decode_responses(incoming), size=len(body), caller=tenant)
        unkept = replace(decoded.generation, history=replace(decoded.history, store=False))
        decoded = await self._memory.recall(replace(decoded, generation=unkept))
        try:
            prompted = await gateway.performers.preparing.prepare(
                replace(decoded.generation, truncation=None, generate=True),
                Trace(gateway.clock.monotonic(), SilentObserver()),
            )
        except PromptTooLong as error:
            if error.at_least:
                raise
            await self._answer(exchange, _count(error.prompt_tokens))
            return
        except SmgError as error:
            told = responses_error(error, exchange.request_id, decoded.locate)
            await exchange.respond(error.status, told, [*error_headers(error), gateway.id_header(exchange.name)])
            return
        if prompted.model.tokenizer is None:
            raise UnsupportedParameter(
                "The engines of this model encode prompts themselves, and do not say how many tokens one has.",
                param="model",
            )
        await self._answer(exchange, _count(len(prompted.ids)))

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
            raise InvalidRequest("The events of this response are not kept.", param="stream")
        await self._answer(exchange, _whole(found))

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/responses/{id}"""
        found = await self._found(exchange)
        await self._gateway.history.write(exchange.caller.tenant, [DeleteResponse(found.id)])
        await self._answer(exchange, {"id": found.id, "object": "response", "deleted": True})

    async def cancel(self, exchange: Exchange) -> None:
        """POST /v1/responses/{id}/cancel"""
        whole = _whole(await self._found(exchange))
        if whole.get("background") is not True:
            raise InvalidRequest("Only a response that was created with 'background' can be cancelled.", param="id")
        await self._answer(exchange, whole)

    async def input_items(self, exchange: Exchange) -> None:
        """GET /v1/responses/{id}/input_items"""
        found, query = await self._found(exchange), read_items_query(exchange.query)
        items: list[JsonObject] = msgspec.json.decode(found.input)
        if query.newest_first:
            items.reverse()
        ids = [item.get("id") for item in items]
        if query.after is not None:
            if query.after not in ids:
                raise InvalidRequest(f"No item with id '{query.after[:100]}' is in this list.", param="after")
            items = items[ids.index(query.after) + 1 :]
        await self._answer(exchange, item_list(items[: query.limit], len(items) > query.limit))


def _count(tokens: int) -> JsonObject:
    return {"object": "response.input_tokens", "input_tokens": tokens}


def _whole(found: StoredResponse) -> JsonObject:
    body: JsonObject = msgspec.json.decode(found.body)
    body["output"] = msgspec.json.decode(found.output)
    return body


class _Conversations(_Handlers):
    """Conversations and their items."""

    async def _found(self, exchange: Exchange) -> StoredConversation:
        id = exchange.path_values["id"]
        found = await self._gateway.history.conversation(exchange.caller.tenant, id)
        if found is None:
            raise NotFound(f"Conversation with id '{id[:100]}' not found.")
        return found

    async def _body(self, exchange: Exchange) -> bytes:
        return await exchange.body(self._gateway.limits.body_bytes)

    async def _write(self, exchange: Exchange, *operations: StoreOperation) -> None:
        caller = exchange.caller
        await self._gateway.history.write(caller.tenant, operations, principal=caller.principal)

    def _items(self, items: list[JsonObject]) -> tuple[StoredItem, ...]:
        now = self._gateway.clock.time()
        return tuple(StoredItem(id=str(item["id"]), body=encode_body(item), created_at=now) for item in items)

    async def create(self, exchange: Exchange) -> None:
        """POST /v1/conversations"""
        id = self._gateway.ids("conv_")
        suffix = self._gateway.ids("")
        metadata, items = read_conversation(await self._body(exchange), self._gateway.limits, suffix)
        made = StoredConversation(id=id, created_at=self._gateway.clock.time(), metadata=encode_body(metadata or {}))
        first = [AppendItems(id, self._items(items))] if items else []
        await self._write(exchange, PutConversation(made, if_version=0), *first)
        await self._answer(exchange, _conversation(made))

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/conversations/{id}"""
        await self._answer(exchange, _conversation(await self._found(exchange)))

    async def update(self, exchange: Exchange) -> None:
        """POST /v1/conversations/{id}"""
        found = await self._found(exchange)
        metadata, items = read_conversation(await self._body(exchange), self._gateway.limits, "")
        if items:
            raise InvalidRequest("Unknown parameter: 'items'.", param="items", code="unknown_parameter")
        kept = msgspec.json.decode(found.metadata) if metadata is None else metadata
        made = StoredConversation(id=found.id, created_at=found.created_at, metadata=encode_body(kept))
        await self._write(exchange, PutConversation(made, if_version=found.version))
        await self._answer(exchange, _conversation(made))

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/conversations/{id}"""
        found = await self._found(exchange)
        await self._write(exchange, DeleteConversation(found.id))
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
        await self._answer(exchange, item_list([msgspec.json.decode(item.body) for item in page.data], page.has_more))

    async def add(self, exchange: Exchange) -> None:
        """POST /v1/conversations/{id}/items"""
        found = await self._found(exchange)
        items = read_new_items(await self._body(exchange), self._gateway.limits, self._gateway.ids(""))
        await self._write(exchange, AppendItems(found.id, self._items(items)))
        await self._answer(exchange, item_list(items, False))

    async def _one(self, exchange: Exchange) -> StoredItem:
        conversation, id = await self._found(exchange), exchange.path_values["item_id"]
        found = await self._gateway.history.item(exchange.caller.tenant, conversation.id, id)
        if found is None:
            raise NotFound(f"Item with id '{id[:100]}' not found in this conversation.")
        return found

    async def item(self, exchange: Exchange) -> None:
        """GET /v1/conversations/{id}/items/{item_id}"""
        await self._answer(exchange, msgspec.json.decode((await self._one(exchange)).body))

    async def delete_item(self, exchange: Exchange) -> None:
        """DELETE /v1/conversations/{id}/items/{item_id}"""
        found, conversation = await self._one(exchange), await self._found(exchange)
        await self._write(exchange, DeleteItem(conversation.id, found.id))
        await self._answer(exchange, _conversation(conversation))


def _conversation(kept: StoredConversation) -> JsonObject:
    return conversation_object(kept.id, kept.created_at, msgspec.json.decode(kept.metadata))

"""The meeting of a gateway's plugins with its history: a hook of the store that asks them (edge).

A write is shown operation by operation, with its texts; other calls are shown by name. Leases, what only keeps things longer, the
gateway's own keys, and work for all tenants are not. Above: gateway.assembly gives it to the store. Below: `middleware.storing`,
the records of the history.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from smg_core.history.hooks import Rejected, StoreCall
from smg_core.history.store.base import (
    KEYS_OWNER,
    AppendEvents,
    AppendItems,
    DeleteConversation,
    DeleteEvents,
    DeleteItem,
    DeleteRecord,
    DeleteResponse,
    ExtendExpiry,
    PutConversation,
    PutRecord,
    PutResponse,
    StoreOperation,
)
from smg_core.middleware.base import StorageCall
from smg_core.middleware.storing import StoragePlugins
from smg_core.plugins.registry import Plugins

__all__ = ["PluginStorage"]

VisibleOperation = (
    PutResponse
    | DeleteResponse
    | PutConversation
    | DeleteConversation
    | AppendItems
    | DeleteItem
    | AppendEvents
    | DeleteEvents
    | PutRecord
    | DeleteRecord
)
_UNSHOWN = frozenset({"acquire", "renew", "release", "last_event"})
_RESPONSE, _CONVERSATION, _RECORD = ("input", "output", "body"), ("metadata",), ("body",)


class PluginStorage:
    """A `history.hooks.Hook` that asks the plugins of a gateway."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins

    async def before(self, call: StoreCall) -> Mapping[str, object] | None:
        found = self._asked(call)
        if found is None:
            return None
        if call.method != "write":
            await found.before(_named(call))
            return None
        operations: Any = call.arguments["operations"]
        left: list[StoreOperation] = []
        for each in operations:
            changed = None if isinstance(each, ExtendExpiry) else await found.before(_storage_call(each, call))
            left.append(_with(each, changed) if changed else each)
        return {"operations": tuple(left)}

    async def after(self, call: StoreCall, result: object) -> None:
        found = self._asked(call)
        if found is None:
            return
        operations: Any = call.arguments["operations"] if call.method == "write" else ()
        for each in operations:
            if not isinstance(each, ExtendExpiry):
                await found.after(_storage_call(each, call))
        if call.method != "write":
            await found.after(_named(call))

    def _asked(self, call: StoreCall) -> StoragePlugins | None:
        """The plugins that meet a call; None for none."""
        if not self._plugins.plan.links or call.tenant == KEYS_OWNER or call.method in _UNSHOWN:
            return None
        return StoragePlugins(self._plugins.plan, self._plugins.report) or None


def _named(call: StoreCall) -> StorageCall:
    """A call that writes nothing."""
    names = [call.arguments.get(name) for name in ("id", "response_id", "conversation_id")]
    name = next((each for each in names if isinstance(each, str)), "")
    return StorageCall(call.method, str(call.arguments.get("kind", "")), name, call.tenant, call.principal)


def _storage_call(operation: VisibleOperation, call: StoreCall) -> StorageCall:
    """One operation of a write. Raises Rejected for texts that are none."""
    name, kind, id = _names(operation)
    try:
        texts = tuple((text, data.decode()) for text, data in _texts(operation).items())
    except UnicodeDecodeError:
        raise Rejected("This gateway has plugins that could not be shown what is to be kept: it is no UTF-8.") from None
    return StorageCall(name, kind, id, call.tenant, call.principal, texts)


def _names(operation: VisibleOperation) -> tuple[str, str, str]:
    """The operation in words, the kind of a record, and the id of what it is about."""
    match operation:
        case PutResponse(response):
            return "put-response", "", response.id
        case DeleteResponse(id):
            return "delete-response", "", id
        case PutConversation(conversation):
            return "put-conversation", "", conversation.id
        case DeleteConversation(id):
            return "delete-conversation", "", id
        case AppendItems(conversation_id):
            return "append-items", "", conversation_id
        case DeleteItem(_, id):
            return "delete-item", "", id
        case AppendEvents(response_id):
            return "append-events", "", response_id
        case DeleteEvents(response_id):
            return "delete-events", "", response_id
        case PutRecord(record):
            return "put-record", record.kind, record.id
        case DeleteRecord(kind, id):
            return "delete-record", kind, id


def _texts(operation: StoreOperation) -> dict[str, bytes]:
    """The texts that an operation brings, by name."""
    match operation:
        case PutResponse(response):
            return {name: getattr(response, name) for name in _RESPONSE}
        case PutConversation(conversation):
            return {name: getattr(conversation, name) for name in _CONVERSATION}
        case PutRecord(record):
            return {name: getattr(record, name) for name in _RECORD}
        case AppendItems(items=items):
            return {f"items[{number}]": item.body for number, item in enumerate(items)}
        case AppendEvents(events=events):
            return {f"events[{number}]": event.data for number, event in enumerate(events)}
    return {}


def _with(operation: StoreOperation, changed: Mapping[str, str]) -> StoreOperation:
    """An operation with other texts."""
    data: dict[str, Any] = {name: text.encode() for name, text in changed.items()}
    match operation:
        case PutResponse(response):
            return attrs.evolve(operation, response=attrs.evolve(response, **data))
        case PutConversation(conversation):
            return attrs.evolve(operation, conversation=attrs.evolve(conversation, **data))
        case PutRecord(record):
            return attrs.evolve(operation, record=attrs.evolve(record, **data))
        case AppendItems(items=items):
            left = [attrs.evolve(each, body=data.get(f"items[{n}]", each.body)) for n, each in enumerate(items)]
            return attrs.evolve(operation, items=tuple(left))
        case AppendEvents(events=events):
            kept = [attrs.evolve(each, data=data.get(f"events[{n}]", each.data)) for n, each in enumerate(events)]
            return attrs.evolve(operation, events=tuple(kept))
    return operation

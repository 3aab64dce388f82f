"""The rules that hold for every store, whatever it is kept in.

Decides which names are allowed, for which tenants nothing is kept, how long things without a time of their own are kept, and
which texts are encrypted and for which place. Pure. Above: `guard`. Below: `store.base`.
"""

from collections.abc import Sequence
from typing import Protocol

import attrs

from smg_core.errors import InvalidRequest
from smg_core.history.settings import HistoryConfig
from smg_core.history.store.base import (
    KEYS_OWNER,
    AppendEvents,
    AppendItems,
    ChainLink,
    Exported,
    PutConversation,
    PutRecord,
    PutResponse,
    StoredConversation,
    StoredEvent,
    StoredItem,
    StoredRecord,
    StoredResponse,
    StoreOperation,
)

__all__ = [
    "Clear",
    "RestSeal",
    "Rules",
    "is_name",
    "open_conversation",
    "open_event",
    "open_exported",
    "open_item",
    "open_link",
    "open_record",
    "open_response",
    "record_names",
    "sealed",
]

LONGEST_NAME = 255  # characters


class RestSeal(Protocol):
    """Encrypts texts for a place, and decrypts them there."""

    def seal(self, place: str, text: bytes) -> bytes: ...

    def open(self, place: str, sealed: bytes) -> bytes: ...


class Clear:
    """The RestSeal of a store that is not encrypted."""

    def seal(self, place: str, text: bytes) -> bytes:
        return text

    def open(self, place: str, sealed: bytes) -> bytes:
        return sealed


# -------------------------------------------------------------------------------------------------------------------- names


def is_name(text: str) -> bool:
    """Whether this can be the name of a thing in every store: not empty, not too long, and text that every database takes."""
    return 0 < len(text) <= LONGEST_NAME and "\x00" not in text and _is_unicode(text)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def record_names(operation: StoreOperation) -> list[str]:
    """All names that an operation brings."""
    match operation:
        case PutResponse(response):
            given = (response.previous_id, response.conversation_id)
            return [response.id, *(each for each in given if each is not None), *response.item_ids]
        case PutConversation(conversation):
            return [conversation.id]
        case AppendItems(conversation_id, items):
            return [conversation_id, *(item.id for item in items)]
        case AppendEvents(response_id):
            return [response_id]
        case PutRecord(record):
            return [record.kind, record.id]
    return []


@attrs.frozen
class Rules:
    """The rules, from settings."""

    config: HistoryConfig

    def keeps(self, tenant: str, principal: str) -> bool:
        if tenant == KEYS_OWNER:
            return True
        none = self.config.zero_retention
        return "*" not in none and tenant not in none and f"{tenant}/{principal}" not in none

    def checked(self, tenant: str, operations: Sequence[StoreOperation], now: float) -> list[StoreOperation]:
        """The operations with the times until when things are kept. Raises InvalidRequest for a name that is none."""
        names = [name for operation in operations for name in record_names(operation)]
        if not all(map(is_name, [*names, *([tenant] if tenant else [])])):
            raise InvalidRequest(f"An id has 1 to {LONGEST_NAME} characters, and none that is no text.")
        return [self._timed(operation, now) for operation in operations]

    def _timed(self, operation: StoreOperation, now: float) -> StoreOperation:
        config = self.config
        match operation:
            case PutResponse(response) if response.expires_at is None and config.responses_s is not None:
                kept = attrs.evolve(response, expires_at=now + config.responses_s)
                return attrs.evolve(operation, response=kept)
            case PutConversation(conversation) if (
                conversation.expires_at is None and config.conversations_s is not None
            ):
                timed = attrs.evolve(conversation, expires_at=now + config.conversations_s)
                return attrs.evolve(operation, conversation=timed)
            case PutRecord(record) if record.expires_at is None and config.records_s is not None:
                return attrs.evolve(operation, record=attrs.evolve(record, expires_at=now + config.records_s))
            case AppendEvents(expires_at=None):
                return attrs.evolve(operation, expires_at=now + config.events_s)
        return operation


# ---------------------------------------------------------------------------------------------------------------- encryption


def sealed(seal: RestSeal, tenant: str, operation: StoreOperation) -> StoreOperation:
    """The operation with its texts encrypted, each for its place."""
    match operation:
        case PutResponse(response):
            place = _place(tenant, "response", response.id)
            return attrs.evolve(
                operation,
                response=attrs.evolve(
                    response,
                    body=seal.seal(f"{place}/body", response.body),
                    input=seal.seal(f"{place}/input", response.input),
                    output=seal.seal(f"{place}/output", response.output),
                ),
            )
        case PutConversation(conversation):
            metadata = seal.seal(_place(tenant, "conversation", conversation.id), conversation.metadata)
            return attrs.evolve(operation, conversation=attrs.evolve(conversation, metadata=metadata))
        case AppendItems(conversation_id, items):
            closed = (
                attrs.evolve(item, body=seal.seal(_place(tenant, "item", conversation_id, item.id), item.body))
                for item in items
            )
            return attrs.evolve(operation, items=tuple(closed))
        case AppendEvents(response_id, events):
            return attrs.evolve(
                operation,
                events=tuple(
                    StoredEvent(
                        event.number, seal.seal(_place(tenant, "event", response_id, str(event.number)), event.data)
                    )
                    for event in events
                ),
            )
        case PutRecord(record):
            body = seal.seal(_place(tenant, "record", record.kind, record.id), record.body)
            return attrs.evolve(operation, record=attrs.evolve(record, body=body))
    return operation


def _place(*names: str) -> str:
    """A place that no other names make: each name is preceded by its length."""
    return "/".join(f"{len(name)}:{name}" for name in names)


def open_response(seal: RestSeal, tenant: str, found: StoredResponse) -> StoredResponse:
    place = _place(tenant, "response", found.id)
    return attrs.evolve(
        found,
        body=seal.open(f"{place}/body", found.body),
        input=seal.open(f"{place}/input", found.input),
        output=seal.open(f"{place}/output", found.output),
    )


def open_link(seal: RestSeal, tenant: str, found: ChainLink) -> ChainLink:
    place = _place(tenant, "response", found.id)
    return attrs.evolve(
        found, input=seal.open(f"{place}/input", found.input), output=seal.open(f"{place}/output", found.output)
    )


def open_conversation(seal: RestSeal, tenant: str, found: StoredConversation) -> StoredConversation:
    return attrs.evolve(found, metadata=seal.open(_place(tenant, "conversation", found.id), found.metadata))


def open_item(seal: RestSeal, tenant: str, conversation_id: str, found: StoredItem) -> StoredItem:
    return attrs.evolve(found, body=seal.open(_place(tenant, "item", conversation_id, found.id), found.body))


def open_event(seal: RestSeal, tenant: str, response_id: str, found: StoredEvent) -> StoredEvent:
    place = _place(tenant, "event", response_id, str(found.number))
    return StoredEvent(found.number, seal.open(place, found.data))


def open_record(seal: RestSeal, tenant: str, found: StoredRecord) -> StoredRecord:
    return attrs.evolve(found, body=seal.open(_place(tenant, "record", found.kind, found.id), found.body))


def open_exported(seal: RestSeal, tenant: str, found: Exported) -> Exported:
    match found.table:
        case "response":
            place = _place(tenant, "response", found.id)
            parts = {name: seal.open(f"{place}/{name}", text) for name, text in found.parts.items()}
        case "conversation":
            parts = {"metadata": seal.open(_place(tenant, "conversation", found.id), found.parts["metadata"])}
        case "event":
            parts = {"data": seal.open(_place(tenant, "event", found.owner, found.id), found.parts["data"])}
        case "item" | "record":
            parts = {"body": seal.open(_place(tenant, found.table, found.owner, found.id), found.parts["body"])}
    return attrs.evolve(found, parts=parts)

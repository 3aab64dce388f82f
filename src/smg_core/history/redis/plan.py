"""A write of the history in Redis or Valkey: which fields decide it, and which commands do it.

A write is done in two steps. The fields that it depends on are read (`needed`), a `RedisPlan` is made of them, and a script runs
its commands if the versions of what was read are still the same; else it begins anew. What expires or is pending is put into the
lists of all tenants by the same commands, so that both are there or neither. Pure. Above: `store`. Below: `store.base`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

import attrs
import msgspec

from smg_core.history.store.base import (
    AppendEvents,
    AppendItems,
    DeleteConversation,
    DeleteEvents,
    DeleteItem,
    DeleteRecord,
    DeleteResponse,
    ExtendExpiry,
    ItemExists,
    ItemPosition,
    Lease,
    LeaseLost,
    NoConversation,
    PutConversation,
    PutRecord,
    PutResponse,
    StaleVersion,
    StoredConversation,
    StoredItem,
    StoredRecord,
    StoredResponse,
    StoreOperation,
)

__all__ = ["Fields", "Keys", "RedisPlan", "alive", "item_of_hash", "needed", "stored_number"]

Fields = dict[str, bytes | None]
"""Fields of a hash that were asked for; None for one that is not there."""

_HEAD = ("version", "expires_at")


@attrs.frozen
class Keys:
    """The keys of a tenant's things."""

    prefix: str
    tenant: str

    @property
    def base(self) -> str:
        return f"{self.prefix}{{{quote(self.tenant, safe='')}}}:"

    def response(self, id: str) -> str:
        return f"{self.base}response:{id}"

    def holders(self, item_id: str) -> str:
        return f"{self.base}holders:{item_id}"

    def conversation(self, id: str) -> str:
        return f"{self.base}conversation:{id}"

    def items(self, conversation_id: str) -> str:
        return f"{self.base}items:{conversation_id}"

    def order(self, conversation_id: str) -> str:
        return f"{self.base}order:{conversation_id}"

    def log(self, response_id: str) -> str:
        return f"{self.base}log:{response_id}"

    def events(self, response_id: str) -> str:
        return f"{self.base}events:{response_id}"

    def numbers(self, response_id: str) -> str:
        return f"{self.base}numbers:{response_id}"

    def record(self, kind: str, id: str) -> str:
        return f"{self.base}record:{quote(kind, safe='')}:{id}"

    def records(self, kind: str) -> str:
        return f"{self.base}records:{quote(kind, safe='')}"

    def extended(self, operation: ExtendExpiry) -> str:
        match operation.what:
            case "response":
                return self.response(operation.id)
            case "events":
                return self.log(operation.id)
            case "record":
                return self.record(operation.kind, operation.id)

    def lease(self, kind: str, id: str) -> str:
        return f"{self.base}lease:{quote(kind, safe='')}:{id}"


def stored_number(text: bytes | None) -> int:
    return int(text) if text else 0


def alive(fields: Fields, now: float) -> bool:
    """Whether the hash is there and its time is not up."""
    expires_at = fields["expires_at"]
    return fields["version"] is not None and (not expires_at or float(expires_at) > now)


def item_of_hash(id: str, packed: bytes, position: ItemPosition | None = None) -> StoredItem:
    body, created_at, response_id = msgspec.msgpack.decode(packed, type=tuple[bytes, float, str | None])
    return StoredItem(id=id, body=body, created_at=created_at, response_id=response_id, position=position)


class _Due(NamedTuple):
    """An entry of a list of all tenants: of what expires, by its time, or of what is pending of a kind, by its creation."""

    list: str
    name: str
    at: float


def _dues(tenant: str, operation: StoreOperation) -> list[_Due]:
    """The entries that the lists have for what an operation writes."""
    match operation:
        case PutResponse(thing):
            return _of_thing(tenant, "response", "response", thing)
        case PutRecord(thing):
            return _of_thing(tenant, "record", thing.kind, thing)
        case PutConversation(thing) if thing.expires_at is not None:
            return [_Due("due", _name(tenant, "conversation", "", thing.id), thing.expires_at)]
        case AppendEvents(id, _, float(expires_at)):
            return [_Due("due", _name(tenant, "log", "", id), expires_at)]
    return []


def _of_thing(tenant: str, what: str, kind: str, thing: StoredResponse | StoredRecord) -> list[_Due]:
    found = []
    if thing.expires_at is not None:
        found.append(_Due("due", _name(tenant, what, kind, thing.id), thing.expires_at))
    if thing.pending:
        found.append(_Due(f"pending:{quote(kind, safe='')}", _name(tenant, thing.id), thing.created_at))
    return found


def _extended_name(tenant: str, operation: ExtendExpiry) -> str:
    match operation.what:
        case "response":
            return _name(tenant, "response", "response", operation.id)
        case "events":
            return _name(tenant, "log", "", operation.id)
        case "record":
            return _name(tenant, "record", operation.kind, operation.id)


def _name(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)


def needed(keys: Keys, operations: Sequence[StoreOperation], lease: Lease | None) -> dict[str, list[str]]:
    """The fields of hashes that decide what the operations do."""
    wanted: dict[str, list[str]] = {}
    if lease is not None:
        wanted[keys.lease(lease.kind, lease.id)] = ["owner", "token", "expires_at"]
    for operation in operations:
        for key, fields in _fields(keys, operation):
            wanted.setdefault(key, []).extend(fields)
    return {key: list(dict.fromkeys(fields)) for key, fields in wanted.items() if fields}


def _fields(keys: Keys, operation: StoreOperation) -> Iterable[tuple[str, Iterable[str]]]:
    match operation:
        case PutResponse():
            yield keys.response(operation.response.id), (*_HEAD, "item_ids")
        case DeleteResponse(id):
            yield keys.response(id), (*_HEAD, "item_ids")
            yield keys.log(id), _HEAD
        case PutConversation():
            yield keys.conversation(operation.conversation.id), (*_HEAD, "next")
        case DeleteConversation(id):
            yield keys.conversation(id), (*_HEAD, "next")
        case AppendItems(id, items):
            yield keys.conversation(id), (*_HEAD, "next")
            yield keys.items(id), [item.id for item in items]
        case DeleteItem(conversation_id, id):
            yield keys.conversation(conversation_id), (*_HEAD, "next")
            yield keys.items(conversation_id), [id]
        case AppendEvents(id, events):
            yield keys.log(id), _HEAD
            yield keys.events(id), [str(event.number) for event in events]
        case DeleteEvents(id):
            yield keys.log(id), _HEAD
        case PutRecord():
            yield keys.record(operation.record.kind, operation.record.id), _HEAD
        case DeleteRecord(kind, id):
            yield keys.record(kind, id), _HEAD
        case ExtendExpiry():
            yield keys.extended(operation), _HEAD


def _fixed(fields: Fields) -> tuple[str, ...]:
    """The fields that must be as they were when they were read. The time of a thing is one: what takes the place of an expired
    thing begins with the same version. That of a lease is none: it is renewed while its holder writes."""
    return _HEAD if "version" in fields else ("owner", "token")


class RedisPlan:
    """The commands of one write, made of what was read. `checks` are the fields, with their values, that must be as they were."""

    def __init__(self, keys: Keys, read: Mapping[str, Fields], now: float) -> None:
        self._keys, self._now = keys, now
        self._read = {key: dict(fields) for key, fields in read.items()}
        self.checks = [
            (key, name, fields[name] or b"")
            for key, fields in read.items()
            for name in _fixed(fields)
            if name in fields
        ]
        self.commands: list[tuple[str | bytes | float, ...]] = []

    def run(self, operations: Sequence[StoreOperation], lease: Lease | None) -> None:
        """Plan the operations. Raises what `Store.write` raises."""
        if lease is not None:
            found = self._read[self._keys.lease(lease.kind, lease.id)]
            holder = found["owner"], found["token"]
            held = holder == (lease.owner.encode(), str(lease.token).encode())
            if not held or float(found["expires_at"] or 0) <= self._now:
                raise LeaseLost(lease.id)
        for operation in operations:
            self._plan(operation)
            for due in _dues(self._keys.tenant, operation):
                self._enter(due)

    def _enter(self, due: _Due) -> None:
        self.commands.append(("ZADD", f"{self._keys.prefix}{due.list}", repr(due.at), due.name))

    def _plan(self, operation: StoreOperation) -> None:
        match operation:
            case PutResponse(response, if_version):
                self._put_response(response, if_version)
            case PutConversation(conversation, if_version):
                self._put_conversation(conversation, if_version)
            case PutRecord(record, if_version):
                self._put_record(record, if_version)
            case AppendItems():
                self._append_items(operation)
            case AppendEvents():
                self._append_events(operation)
            case DeleteItem(conversation_id, id):
                self._delete_item(conversation_id, id)
            case DeleteResponse(id):
                self._drop_holders(id)
                self._delete(self._keys.response(id))
                self._drop_log(id)
            case DeleteEvents(id):
                self._drop_log(id)
            case DeleteConversation(id):
                self._delete(self._keys.conversation(id))
                self._drop_items(id)
            case DeleteRecord(kind, id, if_version):
                key = self._keys.record(kind, id)
                self._next(key, id, if_version)
                self._delete(key)
                self.commands.append(("ZREM", self._keys.records(kind), id))
            case ExtendExpiry():
                self._extend(operation)

    @property
    def adds(self) -> bool:
        """Whether anything is written, and not only deleted."""
        return any(command[0] in ("HSET", "ZADD", "SADD") for command in self.commands)

    @property
    def arguments(self) -> list[str | bytes | float]:
        """What the script is given: the number of checks, the checks, and each command after the number of its words."""
        checks = [part for check in self.checks for part in check]
        return [len(self.checks), *checks, *(part for command in self.commands for part in (len(command), *command))]

    # -------------------------------------------------------------------------------------------------------------- parts

    def _next(self, key: str, id: str, if_version: int | None) -> int:
        """The version that the hash has after this change."""
        head = self._read[key]
        version = stored_number(head["version"]) if alive(head, self._now) else 0
        if if_version is not None and if_version != version:
            raise StaleVersion(id)
        return version + 1

    def _set(self, key: str, version: int, expires_at: float | None, **fields: str | bytes | float) -> None:
        """Put a hash in place of what is there."""
        until = "" if expires_at is None else repr(expires_at)
        values = {"version": str(version), "expires_at": until, **fields}
        self.commands.append(("DEL", key))
        self.commands.append(("HSET", key, *(part for pair in values.items() for part in pair)))
        known = self._read[key]
        known.update(version=str(version).encode(), expires_at=until.encode())

    def _delete(self, key: str) -> None:
        self.commands.append(("DEL", key))
        self._read[key] = dict.fromkeys(self._read[key])

    def _put_response(self, response: StoredResponse, if_version: int | None) -> None:
        key = self._keys.response(response.id)
        version = self._next(key, response.id, if_version)
        self._drop_holders(response.id)
        item_ids = list(dict.fromkeys(response.item_ids))
        packed = msgspec.msgpack.encode(item_ids)
        self._set(
            key,
            version,
            response.expires_at,
            body=response.body,
            input=response.input,
            output=response.output,
            status=response.status,
            model=response.model,
            previous_id=response.previous_id or "",
            conversation_id=response.conversation_id or "",
            pending="1" if response.pending else "",
            created_at=repr(response.created_at),
            item_ids=packed,
        )
        self._read[key]["item_ids"] = packed
        self.commands += [("SADD", self._keys.holders(item), response.id) for item in item_ids]

    def _drop_holders(self, id: str) -> None:
        packed = self._read[self._keys.response(id)]["item_ids"]
        items = msgspec.msgpack.decode(packed, type=list[str]) if packed else []
        self.commands += [("SREM", self._keys.holders(item), id) for item in items]

    def _put_conversation(self, conversation: StoredConversation, if_version: int | None) -> None:
        key = self._keys.conversation(conversation.id)
        there = alive(self._read[key], self._now)
        version = self._next(key, conversation.id, if_version)
        if not there:
            self._drop_items(conversation.id)
        following = stored_number(self._read[key]["next"]) if there else 0
        self._set(
            key,
            version,
            conversation.expires_at,
            metadata=conversation.metadata,
            created_at=repr(conversation.created_at),
            next=str(following),
        )
        self._read[key]["next"] = str(following).encode()

    def _append_items(self, operation: AppendItems) -> None:
        id = operation.conversation_id
        key, items, order = self._keys.conversation(id), self._keys.items(id), self._keys.order(id)
        if not alive(self._read[key], self._now):
            raise NoConversation(id)
        version = self._next(key, id, operation.if_version)
        position = stored_number(self._read[key]["next"])
        for item in operation.items:
            if self._read[items][item.id] is not None:
                raise ItemExists(item.id)
            packed = msgspec.msgpack.encode((item.body, item.created_at, item.response_id))
            self._read[items][item.id] = packed
            self.commands += [("HSET", items, item.id, packed), ("ZADD", order, position, item.id)]
            position += 1
        self._bump(key, version, position)

    def _bump(self, key: str, version: int, following: int) -> None:
        self.commands.append(("HSET", key, "version", str(version), "next", str(following)))
        self._read[key].update(version=str(version).encode(), next=str(following).encode())

    def _delete_item(self, conversation_id: str, id: str) -> None:
        key, items = self._keys.conversation(conversation_id), self._keys.items(conversation_id)
        if not alive(self._read[key], self._now) or self._read[items][id] is None:
            return
        self.commands += [("HDEL", items, id), ("ZREM", self._keys.order(conversation_id), id)]
        self._read[items][id] = None
        self._bump(key, stored_number(self._read[key]["version"]) + 1, stored_number(self._read[key]["next"]))

    def _drop_items(self, id: str) -> None:
        self.commands.append(("DEL", self._keys.items(id), self._keys.order(id)))
        if self._keys.items(id) in self._read:
            self._read[self._keys.items(id)] = dict.fromkeys(self._read[self._keys.items(id)])

    def _append_events(self, operation: AppendEvents) -> None:
        id = operation.response_id
        log, events = self._keys.log(id), self._keys.events(id)
        if not alive(self._read[log], self._now):
            self._drop_log(id)
        version = stored_number(self._read[log]["version"]) + 1
        for event in operation.events:
            name = str(event.number)
            if self._read[events][name] is not None:
                raise StaleVersion(id)
            self._read[events][name] = event.data
            self.commands += [("HSET", events, name, event.data), ("ZADD", self._keys.numbers(id), event.number, name)]
        self._set(log, version, operation.expires_at)

    def _drop_log(self, id: str) -> None:
        self.commands.append(("DEL", self._keys.log(id), self._keys.events(id), self._keys.numbers(id)))
        for key in (self._keys.log(id), self._keys.events(id)):
            if key in self._read:
                self._read[key] = dict.fromkeys(self._read[key])

    def _extend(self, operation: ExtendExpiry) -> None:
        key, until = self._keys.extended(operation), operation.expires_at
        head = self._read[key]
        if not alive(head, self._now) or not head["expires_at"] or float(head["expires_at"]) >= until:
            return
        self.commands.append(("HSET", key, "expires_at", repr(until)))
        head["expires_at"] = repr(until).encode()
        self._enter(_Due("due", _extended_name(self._keys.tenant, operation), until))

    def _put_record(self, record: StoredRecord, if_version: int | None) -> None:
        key = self._keys.record(record.kind, record.id)
        self._set(
            key,
            self._next(key, record.id, if_version),
            record.expires_at,
            body=record.body,
            pending="1" if record.pending else "",
            created_at=repr(record.created_at),
        )
        self.commands.append(("ZADD", self._keys.records(record.kind), record.created_at, record.id))

"""The history of all tenants in dictionaries, bounded by bytes.

Decides what every operation does; `memory` is the store around it. All methods take `now`, in seconds since the Unix epoch.
When the bound is passed, `room` says what goes; pending objects stay. Above: `store`. Below: `store.base`, `room`,
`rows`.
"""

import bisect
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import attrs

from smg_core.history.memory.room import ENTRY_BYTES, MemoryRoom, Root
from smg_core.history.memory.rows import ConversationRows, EventRows, chain_link, next_version, not_expired, paged
from smg_core.history.store.base import (
    AppendEvents,
    AppendItems,
    Chain,
    ChainBroken,
    ChainLink,
    DeleteConversation,
    DeleteEvents,
    DeleteItem,
    DeleteRecord,
    DeleteResponse,
    Exported,
    ExtendExpiry,
    ItemExists,
    ItemPosition,
    Lease,
    LeaseLost,
    NoConversation,
    Owned,
    Page,
    PutConversation,
    PutRecord,
    PutResponse,
    RecordPosition,
    StaleVersion,
    StoredConversation,
    StoredEvent,
    StoredItem,
    StoredRecord,
    StoredResponse,
    StoreOperation,
)

__all__ = ["MemoryTables"]

V = TypeVar("V")
Undo = list[Callable[[], object]]


class MemoryTables:
    """`most_bytes` bounds all objects together, `most_links` and `most_link_bytes` a chain, `most_page_bytes` a page."""

    def __init__(self, most_bytes: int, most_links: int, most_link_bytes: int, most_page_bytes: int) -> None:
        self._most_links, self._most_link_bytes = most_links, most_link_bytes
        self._most_page_bytes = most_page_bytes
        self._responses: dict[tuple[str, str], StoredResponse] = {}
        self._holders: dict[tuple[str, str], dict[str, None]] = {}  # ids of responses by tenant and item
        self._conversations: dict[tuple[str, str], ConversationRows] = {}
        self._events: dict[tuple[str, str], EventRows] = {}
        self._records: dict[tuple[str, str, str], StoredRecord] = {}
        self._by_time: dict[tuple[str, str], list[tuple[float, str]]] = {}  # of records, by tenant and kind
        self._leases: dict[tuple[str, str, str], Lease] = {}
        self._room = MemoryRoom(most_bytes)
        self._due: list[tuple[float, Root]] = []  # a heap; entries may be out of date

    # ------------------------------------------------------------------------------------------------------------ writing

    def write(self, tenant: str, operations: Sequence[StoreOperation], lease: Lease | None, now: float) -> None:
        """Do all of the operations or none."""
        if lease is not None and not self._held(tenant, lease, now):
            raise LeaseLost(lease.id)
        undo: Undo = []
        written: dict[Root, None] = {}
        try:
            for operation in operations:
                self._write(tenant, operation, now, undo, written)
            self._make_room(tenant, written, now)
        except BaseException:
            for step in reversed(undo):
                step()
            raise
        for root in written:
            self._watch(root)

    def _write(self, tenant: str, operation: StoreOperation, now: float, undo: Undo, written: dict[Root, None]) -> None:
        match operation:
            case PutResponse(response, if_version):
                earlier = self.response(tenant, response.id, now)
                version = next_version(response.id, earlier.version if earlier else 0, if_version)
                self._put_response(tenant, attrs.evolve(response, version=version), undo)
                written[("response", tenant, "", response.id)] = None
            case PutConversation(head, if_version):
                found = self._conversation(tenant, head.id, now)
                version = next_version(head.id, found.head.version if found else 0, if_version)
                self._put_conversation(tenant, attrs.evolve(head, version=version), found, undo)
                written[("conversation", tenant, "", head.id)] = None
            case PutRecord(record, if_version):
                kept = self.record(tenant, record.kind, record.id, now)
                version = next_version(record.id, kept.version if kept else 0, if_version)
                self._put_record(tenant, attrs.evolve(record, version=version), undo)
                written[("record", tenant, record.kind, record.id)] = None
            case AppendItems(conversation_id, items, if_version):
                self._append_items(tenant, conversation_id, items, if_version, now, undo)
                written[("conversation", tenant, "", conversation_id)] = None
            case AppendEvents(response_id, events, expires_at):
                self._append_events(tenant, response_id, events, expires_at, now, undo)
                written[("events", tenant, "", response_id)] = None
            case ExtendExpiry(what, id, expires_at, kind):
                root: Root = (what, tenant, kind, id)
                if root in self._room and self._extend(root, expires_at, now, undo):
                    written[root] = None
            case _:
                self._delete(tenant, operation, now, undo)

    def _delete(self, tenant: str, operation: StoreOperation, now: float, undo: Undo) -> None:
        match operation:
            case DeleteItem(conversation_id, id):
                self._delete_item(tenant, conversation_id, id, now, undo)
            case DeleteRecord(kind, id, if_version):
                kept = self.record(tenant, kind, id, now)
                next_version(id, kept.version if kept else 0, if_version)
                self._drop(("record", tenant, kind, id), undo)
            case DeleteResponse(id):
                self._drop(("response", tenant, "", id), undo)
                self._drop(("events", tenant, "", id), undo)
            case DeleteEvents(id):
                self._drop(("events", tenant, "", id), undo)
            case DeleteConversation(id):
                self._drop(("conversation", tenant, "", id), undo)

    def _put_response(self, tenant: str, response: StoredResponse, undo: Undo) -> None:
        root: Root = ("response", tenant, "", response.id)
        self._drop(root, undo)
        key = tenant, response.id
        self._responses[key] = response
        for item in response.item_ids:
            self._holders.setdefault((tenant, item), {})[response.id] = None
        self._room.resize(root, len(response.body) + len(response.input) + len(response.output))
        undo.append(lambda: self._forget(root))

    def _put_conversation(
        self, tenant: str, head: StoredConversation, found: ConversationRows | None, undo: Undo
    ) -> None:
        root: Root = ("conversation", tenant, "", head.id)
        if found is None:
            self._drop(root, undo)  # one that has expired
            self._conversations[tenant, head.id] = ConversationRows(head)
            self._room.resize(root, len(head.metadata))
            undo.append(lambda: self._forget(root))
            return
        earlier, size = found.head, self._room.size(root)
        found.head = head
        self._room.resize(root, size + len(head.metadata) - len(earlier.metadata))

        def restore() -> None:
            found.head = earlier
            self._room.resize(root, size)

        undo.append(restore)

    def _append_items(
        self, tenant: str, id: str, items: tuple[StoredItem, ...], if_version: int | None, now: float, undo: Undo
    ) -> None:
        found = self._conversation(tenant, id, now)
        if found is None:
            raise NoConversation(id)
        root: Root = ("conversation", tenant, "", id)
        earlier, size, start = found.head, self._room.size(root), found.next
        version = next_version(id, earlier.version, if_version)

        def restore() -> None:
            found.head = earlier
            for position in range(start, found.next):
                found.positions.pop(found.items.pop(position).id)
            del found.order[bisect.bisect_left(found.order, start) :]
            found.next = start
            self._room.resize(root, size)

        undo.append(restore)
        for item in items:
            if item.id in found.positions:
                raise ItemExists(item.id)
            found.items[found.next] = attrs.evolve(item, position=ItemPosition(found.next))
            found.positions[item.id] = found.next
            found.order.append(found.next)
            found.next += 1
        found.head = attrs.evolve(earlier, version=version)
        self._room.resize(root, size + sum(len(item.body) + ENTRY_BYTES for item in items))

    def _delete_item(self, tenant: str, conversation_id: str, id: str, now: float, undo: Undo) -> None:
        found = self._conversation(tenant, conversation_id, now)
        if found is None or id not in found.positions:
            return
        root: Root = ("conversation", tenant, "", conversation_id)
        earlier, size, position = found.head, self._room.size(root), found.positions.pop(id)
        item = found.items.pop(position)
        found.order.remove(position)
        found.head = attrs.evolve(earlier, version=earlier.version + 1)
        self._room.resize(root, size - ENTRY_BYTES - len(item.body))

        def restore() -> None:
            found.head, found.items[position], found.positions[id] = earlier, item, position
            bisect.insort(found.order, position)
            self._room.resize(root, size)

        undo.append(restore)

    def _append_events(
        self, tenant: str, id: str, events: tuple[StoredEvent, ...], expires_at: float | None, now: float, undo: Undo
    ) -> None:
        root: Root = ("events", tenant, "", id)
        if self._log(tenant, id, now) is None:
            self._drop(root, undo)  # one that has expired
            self._events[tenant, id] = EventRows(expires_at)
            self._room.resize(root, 0)
            undo.append(lambda: self._forget(root))
        log, size = self._events[tenant, id], self._room.size(root)
        earlier = log.expires_at
        added: list[int] = []

        def restore() -> None:
            log.expires_at = earlier
            for number in added:
                del log.data[number]
            log.order = sorted(log.data)
            self._room.resize(root, size)

        undo.append(restore)
        for event in events:
            if event.number in log.data:
                raise StaleVersion(id)
            log.data[event.number] = event.data
            added.append(event.number)
            bisect.insort(log.order, event.number)
        log.expires_at = expires_at
        self._room.resize(root, size + sum(len(event.data) + ENTRY_BYTES for event in events))

    def _put_record(self, tenant: str, record: StoredRecord, undo: Undo) -> None:
        root: Root = ("record", tenant, record.kind, record.id)
        self._drop(root, undo)
        self._records[tenant, record.kind, record.id] = record
        bisect.insort(self._by_time.setdefault((tenant, record.kind), []), (record.created_at, record.id))
        self._room.resize(root, len(record.body))
        undo.append(lambda: self._forget(root))

    def _extend(self, root: Root, expires_at: float, now: float, undo: Undo) -> bool:
        """Keep an object until then; False where its time is up, or later than that."""
        earlier = self._expiry(root)
        if earlier is None or not now < earlier < expires_at:
            return False
        self._set_expiry(root, expires_at)
        undo.append(lambda: self._set_expiry(root, earlier))
        return True

    def _set_expiry(self, root: Root, expires_at: float) -> None:
        table, tenant, kind, id = root
        match table:
            case "response":
                self._responses[tenant, id] = attrs.evolve(self._responses[tenant, id], expires_at=expires_at)
            case "record":
                record = self._records[tenant, kind, id]
                self._records[tenant, kind, id] = attrs.evolve(record, expires_at=expires_at)
            case "events":
                self._events[tenant, id].expires_at = expires_at

    # ------------------------------------------------------------------------------------------------- forgetting, bounds

    def _drop(self, root: Root, undo: Undo) -> None:
        """Remove an object, and remember it, so that a write that fails later can be undone."""
        if root not in self._room:
            return
        table, tenant, kind, id = root
        size = self._room.size(root)
        back: Callable[[], object]
        match table:
            case "response":
                response = self._responses[tenant, id]
                back = lambda: self._put_response(tenant, response, [])  # noqa: E731
            case "record":
                record = self._records[tenant, kind, id]
                back = lambda: self._put_record(tenant, record, [])  # noqa: E731
            case "conversation":
                found = self._conversations[tenant, id]
                back = lambda: self._bring_back(root, size, self._conversations, found)  # noqa: E731
            case "events":
                log = self._events[tenant, id]
                back = lambda: self._bring_back(root, size, self._events, log)  # noqa: E731
        self._forget(root)
        undo.append(back)

    def _bring_back(self, root: Root, size: int, table: dict[tuple[str, str], V], value: V) -> None:
        table[root[1], root[3]] = value
        self._room.resize(root, size)

    def _forget(self, root: Root) -> None:
        table, tenant, kind, id = root
        self._room.forget(root)
        match table:
            case "response":
                for item in self._responses.pop((tenant, id)).item_ids:
                    holders = self._holders.get((tenant, item), {})
                    holders.pop(id, None)
                    if not holders:
                        self._holders.pop((tenant, item), None)
            case "record":
                record = self._records.pop((tenant, kind, id))
                times = self._by_time[tenant, kind]
                del times[bisect.bisect_left(times, (record.created_at, id))]
                if not times:
                    del self._by_time[tenant, kind]
            case "conversation":
                del self._conversations[tenant, id]
            case "events":
                del self._events[tenant, id]

    def _make_room(self, writer: str, written: dict[Root, None], now: float) -> None:
        for root in self._room.leaving(writer, lambda root: root in written or self._pending(root, now)):
            self._forget(root)

    def _pending(self, root: Root, now: float) -> bool:
        table, tenant, kind, id = root
        thing: StoredRecord | StoredResponse | None = None
        if table == "record":
            thing = self.record(tenant, kind, id, now)
        elif table in ("response", "events"):
            thing = self.response(tenant, id, now)
        return thing is not None and thing.pending

    def _expiry(self, root: Root) -> float | None:
        table, tenant, kind, id = root
        match table:
            case "response":
                return self._responses[tenant, id].expires_at
            case "record":
                return self._records[tenant, kind, id].expires_at
            case "conversation":
                return self._conversations[tenant, id].head.expires_at
            case "events":
                return self._events[tenant, id].expires_at

    def _watch(self, root: Root) -> None:
        expires_at = self._expiry(root) if root in self._room else None
        if expires_at is not None:
            heapq.heappush(self._due, (expires_at, root))
        if len(self._due) > 2 * len(self._room) + ENTRY_BYTES:
            times = ((self._expiry(root), root) for root in self._room)
            self._due = [(time, root) for time, root in times if time is not None]
            heapq.heapify(self._due)

    def sweep(self, limit: int, now: float) -> int:
        gone = 0
        while self._due and self._due[0][0] <= now and gone < limit:
            root = heapq.heappop(self._due)[1]
            expires_at = self._expiry(root) if root in self._room else None
            if expires_at is not None and expires_at <= now:
                self._forget(root)
                gone += 1
        stale = [key for key, lease in self._leases.items() if lease.expires_at <= now and not self._subject(key)]
        for key in stale[:limit]:
            del self._leases[key]
        return gone

    def _subject(self, key: tuple[str, str, str]) -> bool:
        """Whether the object of a lease still exists. While it does, the lease is kept, so that its token goes on growing."""
        tenant, _, id = key
        return (tenant, id) in self._responses or (tenant, id) in self._conversations or key in self._records

    # ------------------------------------------------------------------------------------------------------------ reading

    def response(self, tenant: str, id: str, now: float) -> StoredResponse | None:
        found = self._responses.get((tenant, id))
        return found if found is not None and not_expired(found.expires_at, now) else None

    def chain(self, tenant: str, id: str, now: float) -> Chain | None:
        found = self.response(tenant, id, now)
        if found is None:
            return None
        links: list[ChainLink] = []
        seen: set[str] = set()
        size = 0
        while True:
            if found.id in seen:
                raise ChainBroken(id, "cycle")
            seen.add(found.id)
            size += len(found.input) + len(found.output)
            if len(seen) > self._most_links:
                raise ChainBroken(id, "too_long", self._most_links)
            if size > self._most_link_bytes:
                raise ChainBroken(id, "too_large", self._most_link_bytes)
            links.append(chain_link(found))
            if found.previous_id is None:
                return Chain(tuple(reversed(links)))
            parent = self.response(tenant, found.previous_id, now)
            if parent is None:
                return Chain(tuple(reversed(links)), missing=found.previous_id)
            found = parent

    def holding(self, tenant: str, item_ids: Sequence[str], now: float) -> tuple[StoredResponse, ...]:
        ids = {id for item in item_ids for id in self._holders.get((tenant, item), ())}
        found = (self.response(tenant, id, now) for id in ids)
        newest = sorted((each for each in found if each), key=lambda each: (-each.created_at, each.id))
        return tuple(self._fitting(newest, lambda each: len(each.body) + len(each.input) + len(each.output)))

    def _fitting(self, listed: Iterable[V], size: Callable[[V], int]) -> list[V]:
        """The first of a list that one page has bytes for, and the first in any case."""
        fitting: list[V] = []
        total = 0
        for each in listed:
            total += size(each)
            if fitting and total > self._most_page_bytes:
                break
            fitting.append(each)
        return fitting

    def _conversation(self, tenant: str, id: str, now: float) -> ConversationRows | None:
        found = self._conversations.get((tenant, id))
        return found if found is not None and not_expired(found.head.expires_at, now) else None

    def conversation(self, tenant: str, id: str, now: float) -> StoredConversation | None:
        found = self._conversation(tenant, id, now)
        return None if found is None else found.head

    def items(
        self, tenant: str, id: str, after: str | ItemPosition | None, limit: int, newest_first: bool, now: float
    ) -> Page[StoredItem]:
        found = self._conversation(tenant, id, now)
        if found is None or (isinstance(after, str) and after not in found.positions):
            return Page((), False)
        mark = after.number if isinstance(after, ItemPosition) else None if after is None else found.positions[after]
        positions, more = paged(found.order, mark, limit, newest_first)
        listed = [found.items[position] for position in positions]
        data = self._fitting(listed, lambda item: len(item.body))
        return Page(tuple(data), more or len(data) < len(listed))

    def item(self, tenant: str, conversation_id: str, id: str, now: float) -> StoredItem | None:
        found = self._conversation(tenant, conversation_id, now)
        return found.items[found.positions[id]] if found is not None and id in found.positions else None

    def _log(self, tenant: str, id: str, now: float) -> EventRows | None:
        found = self._events.get((tenant, id))
        return found if found is not None and not_expired(found.expires_at, now) else None

    def events(self, tenant: str, id: str, after: int, limit: int, now: float) -> tuple[StoredEvent, ...]:
        log = self._log(tenant, id, now)
        if log is None:
            return ()
        start = bisect.bisect_right(log.order, after)
        listed = (StoredEvent(number, log.data[number]) for number in log.order[start : start + limit])
        return tuple(self._fitting(listed, lambda event: len(event.data)))

    def last_event(self, tenant: str, id: str, now: float) -> int:
        log = self._log(tenant, id, now)
        return log.order[-1] if log is not None and log.order else -1

    def record(self, tenant: str, kind: str, id: str, now: float) -> StoredRecord | None:
        found = self._records.get((tenant, kind, id))
        return found if found is not None and not_expired(found.expires_at, now) else None

    def records(
        self, tenant: str, kind: str, after: str | RecordPosition | None, limit: int, newest_first: bool, now: float
    ) -> Page[StoredRecord]:
        last = self.record(tenant, kind, after, now) if isinstance(after, str) else None
        if isinstance(after, str) and last is None:
            return Page((), False)
        place = after if isinstance(after, RecordPosition) else last
        times = self._by_time.get((tenant, kind), [])
        alive: list[StoredRecord] = []
        mark = None if place is None else (place.created_at, place.id)
        while True:
            keys, more = paged(times, mark, limit + 1 - len(alive), newest_first)
            alive += [found for _, id in keys if (found := self.record(tenant, kind, id, now))]
            if len(alive) > limit or not more:
                data = self._fitting(alive[:limit], lambda record: len(record.body))
                return Page(tuple(data), len(data) < len(alive))
            mark = keys[-1]

    # ------------------------------------------------------------------------------------------------------------- leases

    def _held(self, tenant: str, lease: Lease, now: float) -> bool:
        found = self._leases.get((tenant, lease.kind, lease.id))
        return found is not None and (found.owner, found.token) == (lease.owner, lease.token) and found.expires_at > now

    def acquire(self, tenant: str, kind: str, id: str, owner: str, seconds: float, now: float) -> Lease | None:
        found = self._leases.get((tenant, kind, id))
        if found is not None and found.expires_at > now:
            return None
        token = 1 if found is None else found.token + 1
        lease = Lease(kind=kind, id=id, owner=owner, token=token, expires_at=now + seconds)
        self._leases[tenant, kind, id] = lease
        return lease

    def renew(self, tenant: str, lease: Lease, seconds: float, now: float) -> Lease:
        if not self._held(tenant, lease, now):
            raise LeaseLost(lease.id)
        renewed = attrs.evolve(lease, expires_at=now + seconds)
        self._leases[tenant, lease.kind, lease.id] = renewed
        return renewed

    def release(self, tenant: str, lease: Lease, now: float) -> None:
        if self._held(tenant, lease, now):
            self._leases[tenant, lease.kind, lease.id] = attrs.evolve(lease, expires_at=now)

    def abandoned(self, kind: str, limit: int, now: float) -> tuple[Owned, ...]:
        things: Iterable[tuple[str, str, StoredResponse | StoredRecord]]
        if kind == "response":
            things = ((tenant, id, each) for (tenant, id), each in self._responses.items())
        else:
            things = ((tenant, id, each) for (tenant, of, id), each in self._records.items() if of == kind)
        free = (
            (each.created_at, tenant, id)
            for tenant, id, each in things
            if each.pending and not_expired(each.expires_at, now) and not self._taken(tenant, kind, id, now)
        )
        return tuple(Owned(tenant, id) for _, tenant, id in heapq.nsmallest(limit, free))

    def _taken(self, tenant: str, kind: str, id: str, now: float) -> bool:
        lease = self._leases.get((tenant, kind, id))
        return lease is not None and lease.expires_at > now

    # --------------------------------------------------------------------------------------------------- a tenant as a whole

    def export(self, tenant: str, now: float) -> Iterator[Exported]:
        """What there is of a tenant when it is called; what is deleted meanwhile is left out."""
        for root in self._room.roots(tenant):
            expires_at = self._expiry(root) if root in self._room else None
            if root in self._room and not_expired(expires_at, now):
                yield from self._exported(root)

    def _exported(self, root: Root) -> Iterator[Exported]:
        table, tenant, kind, id = root
        match table:
            case "response":
                found = self._responses[tenant, id]
                parts = {"body": found.body, "input": found.input, "output": found.output}
                yield Exported("response", "", id, found.created_at, parts)
            case "record":
                record = self._records[tenant, kind, id]
                yield Exported("record", kind, id, record.created_at, {"body": record.body})
            case "conversation":
                rows = self._conversations[tenant, id]
                items = [rows.items[position] for position in rows.order]  # before others can delete them
                yield Exported("conversation", "", id, rows.head.created_at, {"metadata": rows.head.metadata})
                for item in items:
                    yield Exported("item", id, item.id, item.created_at, {"body": item.body})
            case "events":
                for number, data in sorted(self._events[tenant, id].data.items()):
                    yield Exported("event", id, str(number), None, {"data": data})

    def erase(self, tenant: str, now: float) -> int:
        roots = self._room.roots(tenant)
        gone = 0
        for root in roots:
            if not_expired(self._expiry(root), now):
                gone += self._count(root)
            self._forget(root)
        for key in [key for key in self._leases if key[0] == tenant]:
            del self._leases[key]
        return gone

    def _count(self, root: Root) -> int:
        """How many things there are of `root`: a conversation and its items, or the events of a log, or one."""
        table, tenant, _, id = root
        if table == "events":
            return len(self._events[tenant, id].data)
        return 1 + len(self._conversations[tenant, id].items) if table == "conversation" else 1

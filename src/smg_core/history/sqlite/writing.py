"""Writes of the history in SQLite: what is done on a connection that is in a transaction.

Writes of many callers are made in one transaction. Those without a condition (`if_version`, a lease, a conversation's order) are
merged: all rows for one table go in one statement. Each of the others has a savepoint of its own, so that it fails alone.
Decides nothing about connections, threads and time. Above: `writer`. Below: `statements`, `store.base`.
"""

import sqlite3
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import attrs

from smg_core.history.sql.store_write import StoreWrite, can_be_merged
from smg_core.history.sqlite.statements import SqliteStatements
from smg_core.history.store.base import (
    LEASE_KEPT_S,
    AppendEvents,
    AppendItems,
    DeleteConversation,
    DeleteEvents,
    DeleteItem,
    DeleteRecord,
    DeleteResponse,
    ExtendExpiry,
    ItemExists,
    Lease,
    LeaseLost,
    NoConversation,
    PutConversation,
    PutRecord,
    PutResponse,
    StaleVersion,
    StoredConversation,
    StoredRecord,
    StoredResponse,
    StoreOperation,
)

__all__ = ["SqliteWriting"]

_Values = tuple[Any, ...]
_Step = tuple[str, Sequence[_Values]]


class SqliteWriting:
    """The writes, by the statements of a deployment's names."""

    def __init__(self, statements: SqliteStatements) -> None:
        self._of = statements

    # ----------------------------------------------------------------------------------------------------------- merged

    def merged(self, connection: sqlite3.Connection, writes: Sequence[StoreWrite], now: float) -> None:
        """Do plain writes together. When one fails, all do, and nobody knows which: try them one by one, by `alone`."""
        each_ones = [
            [step for each in write.operations for step in self._steps(write.tenant, each, now)] for write in writes
        ]
        for steps in zip_longest(*each_ones):
            together: dict[str, list[_Values]] = {}
            for step in steps:
                if step is not None:
                    together.setdefault(step[0], []).extend(step[1])
            for statement, rows in together.items():
                _execute(connection, statement, rows)

    def _steps(self, tenant: str, operation: StoreOperation, now: float) -> Sequence[_Step]:
        of = self._of
        match operation:
            case PutResponse(response):
                held = [(tenant, item, response.id) for item in dict.fromkeys(response.item_ids)]
                return (
                    (of.put_response, [_response_row(tenant, response, now)]),
                    (of.drop_response_items, [(tenant, response.id)]),
                    (of.add_response_item, held),
                )
            case PutRecord(record):
                return ((of.put_record, [_record_row(tenant, record, now)]),)
            case AppendEvents(id, events, expires_at):
                return (
                    (of.drop_expired["event_logs"], [(tenant, id, now)]),
                    (of.orphans["event_logs"], [(tenant, id)]),
                    (of.put_event_log, [(tenant, id, expires_at)]),
                    (of.add_event, [(tenant, id, event.number, event.data) for event in events]),
                )
            case DeleteResponse(id):
                dropped = (of.drop_response, of.drop_response_items, of.drop_event_log, of.drop_events)
                return [(statement, [(tenant, id)]) for statement in dropped]
            case DeleteEvents(id):
                return [(statement, [(tenant, id)]) for statement in (of.drop_event_log, of.drop_events)]
            case DeleteConversation(id):
                return [(statement, [(tenant, id)]) for statement in (of.drop_conversation, of.drop_items)]
            case DeleteRecord(kind, id):
                return ((of.drop_record, [(tenant, kind, id)]),)
            case ExtendExpiry(what, id, until, kind):
                key = (tenant, kind, id) if what == "record" else (tenant, id)
                return ((of.extend[what], [(until, *key, now, until)]),)
        return ()

    # ------------------------------------------------------------------------------------------------------------ alone

    def alone(self, connection: sqlite3.Connection, write: StoreWrite, now: float) -> None:
        """Do one write, its conditions checked, in the savepoint that the caller made for it."""
        if write.lease is not None and not self._holds(connection, write.tenant, write.lease, now):
            raise LeaseLost(write.lease.id)
        for operation in write.operations:
            self._check(connection, write.tenant, operation, now)
            if can_be_merged(operation) or isinstance(operation, PutResponse | PutRecord | DeleteRecord):
                self._do(connection, write.tenant, operation, now)
            else:
                self._ordered(connection, write.tenant, operation, now)

    def _do(self, connection: sqlite3.Connection, tenant: str, operation: StoreOperation, now: float) -> None:
        try:
            for statement, rows in self._steps(tenant, operation, now):
                _execute(connection, statement, rows)
        except sqlite3.IntegrityError:
            if not isinstance(operation, AppendEvents):
                raise
            raise StaleVersion(operation.response_id) from None

    def _check(self, connection: sqlite3.Connection, tenant: str, operation: StoreOperation, now: float) -> None:
        """Whether the object has the version that the operation is for."""
        match operation:
            case PutResponse(response, int(version)):
                id, found = response.id, _row(connection, self._of.lock_response, now, tenant, response.id)
            case PutRecord(record, int(version)):
                id, found = record.id, _row(connection, self._of.lock_record, now, tenant, record.kind, record.id)
            case DeleteRecord(kind, id, int(version)):
                found = _row(connection, self._of.lock_record, now, tenant, kind, id)
            case _:
                return
        if version != (found[0] if found is not None else 0):
            raise StaleVersion(id)

    def _ordered(self, connection: sqlite3.Connection, tenant: str, operation: StoreOperation, now: float) -> None:
        of = self._of
        match operation:
            case PutConversation(head, if_version):
                self._put_conversation(connection, tenant, head, if_version, now)
            case AppendItems(id, items, if_version):
                found = _row(connection, of.lock_conversation, now, tenant, id)
                if found is None:
                    raise NoConversation(id)
                version, position = found
                if if_version is not None and if_version != version:
                    raise StaleVersion(id)
                self._add_items(connection, tenant, operation, position)
                connection.execute(of.touch_conversation, (len(items), tenant, id))
            case DeleteItem(conversation_id, id):
                if connection.execute(of.drop_item, (tenant, conversation_id, id)).rowcount:
                    connection.execute(of.touch_conversation, (0, tenant, conversation_id))

    def _put_conversation(
        self, connection: sqlite3.Connection, tenant: str, head: StoredConversation, if_version: int | None, now: float
    ) -> None:
        found = _row(connection, self._of.lock_conversation, now, tenant, head.id)
        version, position = found if found is not None else (0, 0)
        if if_version is not None and if_version != version:
            raise StaleVersion(head.id)
        if found is None:  # one that has expired leaves its items
            connection.execute(self._of.drop_items, (tenant, head.id))
        row = (tenant, head.id, head.metadata, head.created_at, head.expires_at, 1, position, now)
        connection.execute(self._of.put_conversation, row)

    def _add_items(self, connection: sqlite3.Connection, tenant: str, operation: AppendItems, position: int) -> None:
        conversation_id, seen = operation.conversation_id, set[str]()
        for item in operation.items:
            if item.id in seen or connection.execute(self._of.has_item, (tenant, conversation_id, item.id)).fetchone():
                raise ItemExists(item.id)
            seen.add(item.id)
        rows = [
            (tenant, conversation_id, item.id, position + number, item.response_id, item.body, item.created_at)
            for number, item in enumerate(operation.items)
        ]
        _execute(connection, self._of.add_item, rows)

    # ----------------------------------------------------------------------------------------------------------- leases

    def _holds(self, connection: sqlite3.Connection, tenant: str, lease: Lease, now: float) -> bool:
        return _row(connection, self._of.lock_lease, now, tenant, lease.kind, lease.id) == (lease.owner, lease.token)

    def acquire(
        self, connection: sqlite3.Connection, tenant: str, kind: str, id: str, owner: str, seconds: float, now: float
    ) -> Lease | None:
        found = connection.execute(self._of.lock_lease, (tenant, kind, id)).fetchone()
        if found is not None and found[0] > now:
            return None
        token = 1 if found is None else found[2] + 1
        lease = Lease(kind=kind, id=id, owner=owner, token=token, expires_at=now + seconds)
        self._put_lease(connection, tenant, lease)
        return lease

    def renew(self, connection: sqlite3.Connection, tenant: str, lease: Lease, seconds: float, now: float) -> Lease:
        if not self._holds(connection, tenant, lease, now):
            raise LeaseLost(lease.id)
        renewed = attrs.evolve(lease, expires_at=now + seconds)
        self._put_lease(connection, tenant, renewed)
        return renewed

    def release(self, connection: sqlite3.Connection, tenant: str, lease: Lease, now: float) -> None:
        if self._holds(connection, tenant, lease, now):
            self._put_lease(connection, tenant, attrs.evolve(lease, expires_at=now))

    def _put_lease(self, connection: sqlite3.Connection, tenant: str, lease: Lease) -> None:
        row = (tenant, lease.kind, lease.id, lease.owner, lease.token, lease.expires_at)
        connection.execute(self._of.put_lease, row)

    # ------------------------------------------------------------------------------------------------------ whole tables

    def erase(self, connection: sqlite3.Connection, tenant: str, now: float) -> int:
        """Delete everything of a tenant. What has expired is not counted."""
        of = self._of
        for statement in of.drop_expired_of.values():
            connection.execute(statement, (tenant, now))
        for statement in of.orphans_of.values():
            connection.execute(statement, (tenant,))
        gone = {table: connection.execute(statement, (tenant,)).rowcount for table, statement in of.drop_of.items()}
        return sum([gone[name] for name in ("responses", "conversations", "items", "events", "records")])

    def sweep(self, connection: sqlite3.Connection, limit: int, now: float) -> int:
        """Delete what has expired, and leases that ended long ago."""
        gone = 0
        for table, statement in self._of.expired.items():
            at = now - LEASE_KEPT_S if table == "leases" else now
            keys = connection.execute(statement, (at, limit)).fetchall()
            _execute(connection, self._of.drop_expired[table], [(*key, at) for key in keys])
            if table in self._of.orphans:
                _execute(connection, self._of.orphans[table], keys)
            gone += len(keys) if table != "leases" else 0
        return gone


def _execute(connection: sqlite3.Connection, statement: str, rows: Sequence[_Values]) -> None:
    if len(rows) == 1:
        connection.execute(statement, rows[0])
    elif rows:
        connection.executemany(statement, rows)


def _row(connection: sqlite3.Connection, statement: str, now: float, *key: str) -> _Values | None:
    """What a statement asks of one row behind its time. None where there is no row, or its time is up."""
    found = connection.execute(statement, key).fetchone()
    if found is None or (found[0] is not None and found[0] <= now):
        return None
    return tuple(found[1:])


def _response_row(tenant: str, response: StoredResponse, now: float) -> _Values:
    given, output = response.input, response.output
    return (
        tenant,
        response.id,
        response.previous_id,
        response.conversation_id,
        response.status,
        response.model,
        response.pending,
        response.created_at,
        response.expires_at,
        1,
        len(given) + len(output),
        response.body,
        given,
        output,
        now,
    )


def _record_row(tenant: str, record: StoredRecord, now: float) -> _Values:
    return (
        tenant,
        record.kind,
        record.id,
        record.body,
        record.pending,
        record.created_at,
        record.expires_at,
        1,
        now,
    )

"""Writes of the history in SQL: what is done on a connection that is in a transaction.

Writes of many callers are made in one transaction. Those without a condition (`if_version`, a lease, a conversation's order) are
merged: all rows for one table go in one statement. Each of the others has a savepoint of its own, so that it fails alone.
Decides nothing about connections, transactions and time. Above: `store`. Below: `statements`, `store.base`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import sqlalchemy as sa

from smg_core.history.sql.statements import Parameters, Statements, Upsert
from smg_core.history.sql.store_write import StoreWrite, can_be_merged
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

__all__ = ["Writing"]

Statement = sa.Executable | Upsert
SqlStep = tuple[Statement, Sequence[Parameters]]


class Writing:
    """The writes, by the statements of one dialect."""

    def __init__(self, statements: Statements) -> None:
        self._of = statements

    # ----------------------------------------------------------------------------------------------------------- merged

    def merged(self, connection: sa.Connection, writes: Sequence[StoreWrite], now: float) -> None:
        """Do plain writes together. When one fails, all do, and nobody knows which: try them one by one, by `alone`."""
        waiting = [self._steps(write, now) for write in writes]
        while waiting:
            together: dict[Statement, list[Parameters]] = {}
            going: list[Iterator[SqlStep]] = []
            for steps in waiting:
                step = next(steps, None)
                if step is not None:
                    together.setdefault(step[0], []).extend(step[1])
                    going.append(steps)
            for statement, parameters in together.items():
                self._execute(connection, statement, parameters)
            waiting = going

    def _steps(self, write: StoreWrite, now: float) -> Iterator[SqlStep]:
        for operation in write.operations:
            yield from self._plain_steps(write.tenant, operation, now)

    def _plain_steps(self, tenant: str, operation: StoreOperation, now: float) -> Iterator[SqlStep]:
        of = self._of
        match operation:
            case PutResponse(response):
                yield of.put_response, [_response_row(tenant, response, 1, now)]
                yield of.drop_response_items, [{"tenant_": tenant, "response_id_": response.id}]
                yield (
                    of.add_response_item,
                    [
                        {"tenant": tenant, "item_id": item, "response_id": response.id}
                        for item in dict.fromkeys(response.item_ids)
                    ],
                )
            case PutRecord(record):
                yield of.put_record, [_record_row(tenant, record, 1, now)]
            case AppendEvents(id, events, expires_at):
                yield from self._swept("event_logs", [{"tenant_": tenant, "response_id_": id, "now_": now}])
                yield of.put_event_log, [{"tenant": tenant, "response_id": id, "expires_at": expires_at}]
                yield (
                    of.add_event,
                    [
                        {"tenant": tenant, "response_id": id, "number": event.number, "data": event.data}
                        for event in events
                    ],
                )
            case DeleteResponse(id):
                yield of.drop_response, [{"tenant_": tenant, "id_": id}]
                yield from self._dropped(tenant, id, of.drop_response_items, of.drop_event_log, of.drop_events)
            case DeleteEvents(id):
                yield from self._dropped(tenant, id, of.drop_event_log, of.drop_events)
            case DeleteConversation(id):
                yield of.drop_conversation, [{"tenant_": tenant, "id_": id}]
                yield of.drop_items, [{"tenant_": tenant, "conversation_id_": id}]
            case DeleteRecord(kind, id):
                yield of.drop_record, [{"tenant_": tenant, "kind_": kind, "id_": id}]
            case ExtendExpiry(what, id, until, kind):
                keys = {"tenant_": tenant, "response_id_" if what == "events" else "id_": id}
                keys |= {"kind_": kind} if what == "record" else {}
                yield of.extend[what], [{**keys, "until_": until, "now_": now}]

    def _swept(self, table: str, heads: Sequence[Parameters]) -> Iterator[SqlStep]:
        """Delete those of these rows whose time is up at `now_`, each before what belongs to it, as writers lock them."""
        yield self._of.drop_expired[table], heads
        if (orphans := self._of.orphans.get(table)) is not None:
            yield orphans.of_one, [orphans.keys(head) for head in heads]

    def _dropped(self, tenant: str, id: str, *statements: Statement) -> Iterator[SqlStep]:
        for statement in statements:
            yield statement, [{"tenant_": tenant, "response_id_": id}]

    def _execute(self, connection: sa.Connection, statement: Statement, parameters: Sequence[Parameters]) -> None:
        if not parameters:
            return
        if not isinstance(statement, Upsert):
            connection.execute(statement, parameters)
        elif statement.whole is not None:
            connection.execute(statement.whole, parameters)
        else:
            for each in parameters:
                if not connection.execute(statement.update, statement.for_update(each)).rowcount:
                    connection.execute(statement.insert, each)

    # ------------------------------------------------------------------------------------------------------------ alone

    def alone(self, connection: sa.Connection, write: StoreWrite, now: float) -> None:
        """Do one write, its conditions checked, in the savepoint that the caller made for it."""
        if write.lease is not None and not self._holds(connection, write.tenant, write.lease, now):
            raise LeaseLost(write.lease.id)
        for operation in write.operations:
            self._check(connection, write.tenant, operation, now)
            if can_be_merged(operation) or isinstance(operation, PutResponse | PutRecord | DeleteRecord):
                for statement, parameters in self._plain_steps(write.tenant, operation, now):
                    self._append_or_execute(connection, operation, statement, parameters)
            else:
                self._ordered(connection, write.tenant, operation, now)

    def _append_or_execute(
        self,
        connection: sa.Connection,
        operation: StoreOperation,
        statement: Statement,
        parameters: Sequence[Parameters],
    ) -> None:
        try:
            self._execute(connection, statement, parameters)
        except sa.exc.IntegrityError:
            if not isinstance(operation, AppendEvents):
                raise
            raise StaleVersion(operation.response_id) from None

    def _check(self, connection: sa.Connection, tenant: str, operation: StoreOperation, now: float) -> None:
        """Whether the object has the version that the operation is for. Its row stays locked until the transaction ends."""
        match operation:
            case PutResponse(response, int(version)):
                id, row = response.id, self._row(connection, self._of.lock_response, now, tenant=tenant, id=response.id)
            case PutRecord(record, int(version)):
                id, kind = record.id, record.kind
                row = self._row(connection, self._of.lock_record, now, tenant=tenant, kind=kind, id=id)
            case DeleteRecord(kind, id, int(version)):
                row = self._row(connection, self._of.lock_record, now, tenant=tenant, kind=kind, id=id)
            case _:
                return
        if version != (row.version if row is not None else 0):
            raise StaleVersion(id)

    def _row(self, connection: sa.Connection, statement: sa.Executable, now: float, **key: str) -> Any:
        """The row, None where there is none or its time is up."""
        row = connection.execute(statement, {f"{name}_": value for name, value in key.items()}).first()
        return row if row is not None and (row.expires_at is None or row.expires_at > now) else None

    def _ordered(self, connection: sa.Connection, tenant: str, operation: StoreOperation, now: float) -> None:
        of = self._of
        match operation:
            case PutConversation(head, if_version):
                self._put_conversation(connection, tenant, head, if_version, now)
            case AppendItems(id, items, if_version):
                row = self._row(connection, of.lock_conversation, now, tenant=tenant, id=id)
                if row is None:
                    raise NoConversation(id)
                if if_version is not None and if_version != row.version:
                    raise StaleVersion(id)
                self._add_items(connection, tenant, operation, row.next_position)
                connection.execute(of.touch_conversation, {"tenant_": tenant, "id_": id, "more": len(items)})
            case DeleteItem(conversation_id, id):
                key = {"tenant_": tenant, "conversation_id_": conversation_id, "id_": id}
                if connection.execute(of.drop_item, key).rowcount:
                    connection.execute(of.touch_conversation, {"tenant_": tenant, "id_": conversation_id, "more": 0})

    def _put_conversation(
        self, connection: sa.Connection, tenant: str, head: StoredConversation, if_version: int | None, now: float
    ) -> None:
        row = self._row(connection, self._of.lock_conversation, now, tenant=tenant, id=head.id)
        if if_version is not None and if_version != (row.version if row is not None else 0):
            raise StaleVersion(head.id)
        if row is None:  # one that has expired leaves its items
            connection.execute(self._of.drop_items, {"tenant_": tenant, "conversation_id_": head.id})
        values = {
            "tenant": tenant,
            "id": head.id,
            "metadata": head.metadata,
            "created_at": head.created_at,
            "expires_at": head.expires_at,
            "version": 1,
            "next_position": 0 if row is None else row.next_position,
            "now_": now,
        }
        self._execute(connection, self._of.put_conversation, [values])

    def _add_items(self, connection: sa.Connection, tenant: str, operation: AppendItems, position: int) -> None:
        rows = [
            {
                "tenant": tenant,
                "conversation_id": operation.conversation_id,
                "id": item.id,
                "position": position + number,
                "response_id": item.response_id,
                "body": item.body,
                "created_at": item.created_at,
            }
            for number, item in enumerate(operation.items)
        ]
        taken = self._taken(connection, tenant, operation)
        if taken is not None:
            raise ItemExists(taken)
        if rows:
            connection.execute(self._of.add_item, rows)

    def _taken(self, connection: sa.Connection, tenant: str, operation: AppendItems) -> str | None:
        """The first id that the conversation has already, or that is given twice."""
        t, ids = self._of.tables.items, [item.id for item in operation.items]
        there = sa.select(t.c.id).where(
            t.c.tenant == tenant, t.c.conversation_id == operation.conversation_id, t.c.id.in_(ids)
        )
        seen = set(connection.execute(there).scalars())
        for id in ids:
            if id in seen:
                return id
            seen.add(id)
        return None

    # ----------------------------------------------------------------------------------------------------------- leases

    def _holds(self, connection: sa.Connection, tenant: str, lease: Lease, now: float) -> bool:
        row = self._row(connection, self._of.lock_lease, now, tenant=tenant, kind=lease.kind, id=lease.id)
        return row is not None and (row.owner, row.token) == (lease.owner, lease.token)

    def acquire(
        self, connection: sa.Connection, tenant: str, kind: str, id: str, owner: str, seconds: float, now: float
    ) -> Lease | None:
        key = {"tenant_": tenant, "kind_": kind, "id_": id}
        row = connection.execute(self._of.lock_lease, key).first()
        if row is not None and row.expires_at > now:
            return None
        lease = Lease(kind=kind, id=id, owner=owner, token=row.token + 1 if row else 1, expires_at=now + seconds)
        if row is not None:
            self._put_lease(connection, tenant, lease)
            return lease
        try:
            with connection.begin_nested():
                connection.execute(self._of.put_lease.insert, _lease_row(tenant, lease))
        except sa.exc.IntegrityError:  # another process was first
            return None
        return lease

    def renew(self, connection: sa.Connection, tenant: str, lease: Lease, seconds: float, now: float) -> Lease:
        if not self._holds(connection, tenant, lease, now):
            raise LeaseLost(lease.id)
        renewed = attrs.evolve(lease, expires_at=now + seconds)
        self._put_lease(connection, tenant, renewed)
        return renewed

    def release(self, connection: sa.Connection, tenant: str, lease: Lease, now: float) -> None:
        if self._holds(connection, tenant, lease, now):
            self._put_lease(connection, tenant, attrs.evolve(lease, expires_at=now))

    def _put_lease(self, connection: sa.Connection, tenant: str, lease: Lease) -> None:
        self._execute(connection, self._of.put_lease, [_lease_row(tenant, lease)])

    # ------------------------------------------------------------------------------------------------------ whole tables

    def erase(self, connection: sa.Connection, tenant: str, now: float) -> int:
        """Delete everything of a tenant. What has expired is not counted."""
        of, t = self._of, self._of.tables
        heads = (t.responses, t.conversations, t.event_logs, t.records)
        for table in heads:
            connection.execute(sa.delete(table).where(table.c.tenant == tenant, table.c.expires_at <= now))
        for orphans in of.orphans.values():
            connection.execute(orphans.of_tenant, {"tenant_": tenant})
        gone = {
            table.info["name"]: connection.execute(sa.delete(table).where(table.c.tenant == tenant)).rowcount
            for table in (*heads, t.items, t.events, t.response_items, t.leases)
        }
        return sum(gone[name] for name in ("responses", "conversations", "items", "events", "records"))

    def sweep(self, connection: sa.Connection, limit: int, now: float) -> int:
        """Delete what has expired, and leases that ended long ago. A row that another process writes meanwhile stays."""
        t = self._of.tables
        gone = 0
        for table in (t.responses, t.conversations, t.event_logs, t.records, t.leases):
            at = now - LEASE_KEPT_S if table is t.leases else now
            keys = [column.key for column in table.primary_key]
            rows = connection.execute(self._of.expired(table, limit, at)).all()
            heads = [{f"{key}_": getattr(row, key) for key in keys} | {"now_": at} for row in rows]
            for statement, parameters in self._swept(table.info["name"], heads):
                self._execute(connection, statement, parameters)
            gone += len(heads) if table is not t.leases else 0
        return gone


def _response_row(tenant: str, response: StoredResponse, version: int, now: float) -> Parameters:
    return {
        "tenant": tenant,
        "id": response.id,
        "previous_id": response.previous_id,
        "conversation_id": response.conversation_id,
        "status": response.status,
        "model": response.model,
        "pending": response.pending,
        "created_at": response.created_at,
        "expires_at": response.expires_at,
        "version": version,
        "size": len(response.input) + len(response.output),
        "body": response.body,
        "input": response.input,
        "output": response.output,
        "now_": now,
    }


def _record_row(tenant: str, record: StoredRecord, version: int, now: float) -> Parameters:
    return {
        "tenant": tenant,
        "kind": record.kind,
        "id": record.id,
        "body": record.body,
        "pending": record.pending,
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "version": version,
        "now_": now,
    }


def _lease_row(tenant: str, lease: Lease) -> Parameters:
    return {
        "tenant": tenant,
        "kind": lease.kind,
        "id": lease.id,
        "owner": lease.owner,
        "token": lease.token,
        "expires_at": lease.expires_at,
    }

"""The statements by which the history is read and written in SQL.

Pure: builds SQLAlchemy statements for a dialect and reads rows into records; executes none. Every statement that a `Store` method
needs has the tenant in its condition. Above: `writing`, `store`. Below: `tables`, `store.base`.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from smg_core.history.sql.tables import ShortText, StoreTables
from smg_core.history.store.base import (
    ChainLink,
    ItemPosition,
    StoredConversation,
    StoredItem,
    StoredRecord,
    StoredResponse,
)

__all__ = ["Parameters", "Statements", "Upsert", "conversation_of", "item_of", "link_of", "record_of", "response_of"]

Parameters = Mapping[str, Any]
_NOW = sa.bindparam("now_", type_=sa.Double)
_TENANT, _ID, _CONVERSATION_ID, _RESPONSE_ID, _KIND = (
    sa.bindparam(f"{name}_", type_=ShortText) for name in ("tenant", "id", "conversation_id", "response_id", "kind")
)
_AFTER: sa.BindParameter[Any] = sa.bindparam("after_")  # a number or a name, as the column is
_ITEM_IDS = sa.bindparam("item_ids_", type_=ShortText, expanding=True)
_LIMIT, _MOST_LINKS, _MOST_BYTES = (
    sa.bindparam(f"{name}_", type_=sa.BigInteger) for name in ("limit", "most_links", "most_bytes")
)
_INSERTS: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


@attrs.frozen(eq=False)
class Upsert:
    """Put a row in place of one with the same key. `whole` does it in one statement where the dialect has one; elsewhere `update`
    is tried and then `insert`. `keys` are the key's columns, `changing` those that an update gives a new value to."""

    whole: sa.Executable | None
    update: sa.Executable
    insert: sa.Executable
    keys: tuple[str, ...]
    changing: tuple[str, ...]

    def for_update(self, row: Parameters) -> Parameters:
        """The parameters of `update`."""
        changed = {name: row[name] for name in (*self.changing, "now_") if name in row}
        return changed | {f"{name}_": row[name] for name in self.keys}


class Orphans:
    """Deletes rows of `table` that belong to a row of `head` that is not there any more: the `owner` of a row is the `key` of its
    head. Only such rows: where the head is written anew meanwhile, its rows stay."""

    def __init__(self, table: sa.Table, head: sa.Table, owner: str, key: str) -> None:
        same = sa.and_(head.c.tenant == table.c.tenant, head.c[key] == table.c[owner])
        gone = sa.not_(sa.select(sa.literal(1)).select_from(head).where(same).correlate(table).exists())
        self._owner, self._key = owner, key
        self.of_tenant = sa.delete(table).where(table.c.tenant == _TENANT, gone)
        self.of_one = _delete(table, "tenant", owner).where(gone)

    def keys(self, head: Parameters) -> Parameters:
        """The parameters of `of_one`, from those that name the head."""
        return {"tenant_": head["tenant_"], f"{self._owner}_": head[f"{self._key}_"]}


class Statements:
    """All statements, made once. Parameters of a condition are named after the column with `_` behind, since a plain name is a
    column's new value."""

    def __init__(self, tables: StoreTables, dialect: str) -> None:
        self._dialect = dialect
        self.tables = tables
        self.put_response = self._upsert(tables.responses)
        self.put_conversation = self._upsert(tables.conversations)
        self.put_record = self._upsert(tables.records)
        self.put_event_log = self._upsert(tables.event_logs)
        self.put_lease = self._upsert(tables.leases)
        self.add_response_item = sa.insert(tables.response_items)
        self.add_item = sa.insert(tables.items)
        self.add_event = sa.insert(tables.events)
        self.drop_response = _delete(tables.responses, "tenant", "id")
        self.drop_response_items = _delete(tables.response_items, "tenant", "response_id")
        self.drop_event_log = _delete(tables.event_logs, "tenant", "response_id")
        self.drop_events = _delete(tables.events, "tenant", "response_id")
        self.drop_conversation = _delete(tables.conversations, "tenant", "id")
        self.drop_items = _delete(tables.items, "tenant", "conversation_id")
        self.drop_item = _delete(tables.items, "tenant", "conversation_id", "id")
        self.drop_record = _delete(tables.records, "tenant", "kind", "id")
        expiring = (tables.responses, tables.conversations, tables.event_logs, tables.records, tables.leases)
        self.drop_expired = {each.info["name"]: _delete_expired(each) for each in expiring}
        """By table: delete one row, if its time is up at that moment."""
        self.extend = {
            "response": _extend(tables.responses, "tenant", "id"),
            "events": _extend(tables.event_logs, "tenant", "response_id"),
            "record": _extend(tables.records, "tenant", "kind", "id"),
        }
        """By what it is: keep one row until a later time, if it is there."""
        self.orphans = {
            "responses": Orphans(tables.response_items, tables.responses, "response_id", "id"),
            "conversations": Orphans(tables.items, tables.conversations, "conversation_id", "id"),
            "event_logs": Orphans(tables.events, tables.event_logs, "response_id", "response_id"),
        }
        """By table: how the rows are deleted whose row of that table is gone."""
        self.lock_response = _locked(tables.responses, ("tenant", "id"), "version")
        self.lock_record = _locked(tables.records, ("tenant", "kind", "id"), "version")
        self.lock_conversation = _locked(tables.conversations, ("tenant", "id"), "version", "next_position")
        self.lock_lease = _locked(tables.leases, ("tenant", "kind", "id"), "owner", "token")
        self.touch_conversation = (
            sa.update(tables.conversations)
            .where(*_same(tables.conversations, "tenant", "id"))
            .values(
                version=tables.conversations.c.version + 1,
                next_position=tables.conversations.c.next_position + sa.bindparam("more"),
            )
        )

        self.response, self.chain, self.holding = self._response(), self._chain(), self._holding()
        self.conversation, self.item, self.record = self._conversation(), self._item(), self._record()
        self.events, self.last_event = self._events(), self._last_event()
        shapes = [(after, newest_first) for after in (False, True) for newest_first in (False, True)]
        self.items = {
            (after, newest_first): self._items(after=after, newest_first=newest_first)
            for after in (None, "after", "at")
            for newest_first in (False, True)
        }
        """By what they begin behind, an item of an id or a position, and whether the newest comes first."""
        self.records = {shape: self._records(after=shape[0], newest_first=shape[1]) for shape in shapes}
        """By whether they begin behind a row, and whether the newest comes first."""

    def _upsert(self, table: sa.Table) -> Upsert:
        """A version, where the table has one, is one higher than that of the row; of one that has expired, it begins anew."""
        keys = [column.key for column in table.primary_key]
        new = [column.key for column in table.c if column.key not in keys]
        insert = _INSERTS.get(self._dialect)
        whole = None
        if insert is not None:
            making = insert(table)
            values: dict[str, Any] = {key: making.excluded[key] for key in new}
            if "version" in new:
                values["version"] = _version(table)
            whole = making.on_conflict_do_update(index_elements=[table.c[key] for key in keys], set_=values)
        update = sa.update(table).where(*(table.c[key] == sa.bindparam(f"{key}_") for key in keys))
        if "version" in new:
            update = update.values(version=_version(table))
        changing = tuple(key for key in new if key != "version")
        return Upsert(whole, update, sa.insert(table), tuple(keys), changing)

    # ------------------------------------------------------------------------------------------------------------ reading

    def _response(self) -> sa.Select[Any]:
        t = self.tables.responses
        return sa.select(t).where(t.c.tenant == _TENANT, t.c.id == _ID, _alive(t))

    def _chain(self) -> sa.Select[Any]:
        """The links, newest first, with how many and how large they are up to there: one more than the bounds allow."""
        t = self.tables.responses
        first = sa.select(
            t.c.id.label("link_id"),
            t.c.previous_id.label("parent_id"),
            sa.literal(1).label("depth"),
            t.c.size.label("total"),
        ).where(t.c.tenant == _TENANT, t.c.id == _ID, _alive(t))
        walk = first.cte("chain", recursive=True)
        earlier = (
            sa.select(t.c.id, t.c.previous_id, walk.c.depth + 1, walk.c.total + t.c.size)
            .select_from(walk.join(t, t.c.id == walk.c.parent_id))
            .where(
                t.c.tenant == _TENANT,
                _alive(t),
                walk.c.depth <= _MOST_LINKS,
                walk.c.total <= _MOST_BYTES,
            )
        )
        walk = walk.union_all(earlier)
        columns = (t.c.id, t.c.previous_id, t.c.status, t.c.model, t.c.created_at, t.c.input, t.c.output)
        return (
            sa.select(walk.c.depth, walk.c.total, *columns)
            .select_from(walk.join(t, t.c.id == walk.c.link_id))
            .where(t.c.tenant == _TENANT)
            .order_by(walk.c.depth)
        )

    def _measured(self, found: sa.Select[Any], t: sa.Table, *order: tuple[sa.Column[Any], bool]) -> sa.Select[Any]:
        """The rows of `t` that `found` finds, ordered by columns that each are descending or not: at most `limit_`, of which the
        last only shows that there is more. Texts are measured first. They are loaded, and `loaded_` is 1, for the first row and
        as far as `most_bytes_` goes."""
        names = list(dict.fromkeys((*(key.key for key in t.primary_key), *(column.key for column, _ in order))))
        texts = [column for column in t.c if isinstance(column.type, sa.LargeBinary)]
        size = sum((self._bytes(column) for column in texts), start=sa.literal(0)).label("bytes_")
        columns = [t.c[name] for name in names]
        listed = (
            found.with_only_columns(*columns, size, maintain_column_froms=True)
            .order_by(*(column.desc() if falls else column for column, falls in order))
            .limit(_LIMIT)
            .subquery("listed")
        )
        within = [listed.c[column.key].desc() if falls else listed.c[column.key] for column, falls in order]
        total = sa.func.sum(listed.c.bytes_).over(order_by=within).label("total_")
        rank = sa.func.row_number().over(order_by=within).label("rank_")
        summed = sa.select(listed, total, rank).subquery("summed")
        loads = sa.or_(summed.c.rank_ == 1, sa.and_(summed.c.rank_ < _LIMIT, summed.c.total_ <= _MOST_BYTES))
        rows = [
            sa.case((loads, column), else_=sa.null()).label(column.key) if column in texts else column for column in t.c
        ]
        same = sa.and_(*(t.c[key.key] == summed.c[key.key] for key in t.primary_key))
        loaded = sa.case((loads, 1), else_=0).label("loaded_")
        return sa.select(*rows, loaded).select_from(summed.join(t, same)).order_by(summed.c.rank_)

    def _bytes(self, column: sa.Column[Any]) -> sa.ColumnElement[int]:
        """How many bytes a text has; no database reads the text for that."""
        length = sa.func.dbms_lob.getlength if self._dialect == "oracle" else sa.func.length
        return length(column, type_=sa.BigInteger)

    def _holding(self) -> sa.Select[Any]:
        t, held = self.tables.responses, self.tables.response_items
        ids = sa.select(held.c.response_id).where(held.c.tenant == _TENANT, held.c.item_id.in_(_ITEM_IDS))
        found = sa.select(t).where(t.c.tenant == _TENANT, t.c.id.in_(ids), _alive(t))
        return self._measured(found, t, (t.c.created_at, True), (t.c.id, False))

    def _conversation(self) -> sa.Select[Any]:
        t = self.tables.conversations
        return sa.select(t).where(t.c.tenant == _TENANT, t.c.id == _ID, _alive(t))

    def _all_items(self) -> sa.Select[Any]:
        t, head = self.tables.items, self.tables.conversations
        return (
            sa.select(t)
            .join(head, sa.and_(head.c.tenant == t.c.tenant, head.c.id == t.c.conversation_id))
            .where(
                t.c.tenant == _TENANT,
                t.c.conversation_id == _CONVERSATION_ID,
                _alive(head),
            )
        )

    def _items(self, *, after: str | None, newest_first: bool) -> sa.Select[Any]:
        t, found = self.tables.items, self._all_items()
        if after is not None:
            mark = sa.bindparam("at_", type_=sa.BigInteger) if after == "at" else self._position_of_item()
            found = found.where(t.c.position < mark if newest_first else t.c.position > mark)
        return self._measured(found, t, (t.c.position, newest_first))

    def _position_of_item(self) -> sa.ScalarSelect[int]:
        """The position of the item `after_`."""
        t = self.tables.items
        of = sa.select(t.c.position).where(
            t.c.tenant == _TENANT, t.c.conversation_id == _CONVERSATION_ID, t.c.id == _AFTER
        )
        return of.correlate(None).scalar_subquery()

    def _item(self) -> sa.Select[Any]:
        return self._all_items().where(self.tables.items.c.id == _ID)

    def _events(self) -> sa.Select[Any]:
        t = self.tables.events
        return self._measured(self._logged(sa.select(t)).where(t.c.number > _AFTER), t, (t.c.number, False))

    def _last_event(self) -> sa.Select[Any]:
        return self._logged(sa.select(sa.func.max(self.tables.events.c.number)))

    def _logged(self, select: sa.Select[Any]) -> sa.Select[Any]:
        t, head = self.tables.events, self.tables.event_logs
        both = t.join(head, sa.and_(head.c.tenant == t.c.tenant, head.c.response_id == t.c.response_id))
        return select.select_from(both).where(t.c.tenant == _TENANT, t.c.response_id == _RESPONSE_ID, _alive(head))

    def _record(self) -> sa.Select[Any]:
        t = self.tables.records
        return sa.select(t).where(
            t.c.tenant == _TENANT,
            t.c.kind == _KIND,
            t.c.id == _ID,
            _alive(t),
        )

    def _records(self, *, after: bool, newest_first: bool) -> sa.Select[Any]:
        t = self.tables.records
        found = sa.select(t).where(t.c.tenant == _TENANT, t.c.kind == _KIND, _alive(t))
        if after:
            at = sa.bindparam("at_", type_=sa.Double)
            behind = t.c.created_at < at if newest_first else t.c.created_at > at
            at_the_same_time = sa.and_(t.c.created_at == at, t.c.id < _AFTER if newest_first else t.c.id > _AFTER)
            found = found.where(sa.or_(behind, at_the_same_time))
        return self._measured(found, t, (t.c.created_at, newest_first), (t.c.id, newest_first))

    # -------------------------------------------------------------------------------------------------- all tenants' upkeep

    def abandoned(self, kind: str, limit: int, now: float) -> sa.Select[Any]:
        t, lease = (self.tables.responses if kind == "response" else self.tables.records), self.tables.leases
        held = (
            sa.select(sa.literal(1))
            .where(lease.c.tenant == t.c.tenant, lease.c.kind == kind, lease.c.id == t.c.id, lease.c.expires_at > now)
            .exists()
        )
        found = sa.select(t.c.tenant, t.c.id).where(t.c.pending.is_(sa.true()), _alive(t, now), sa.not_(held))
        if kind != "response":
            found = found.where(t.c.kind == kind)
        return found.order_by(t.c.created_at, t.c.tenant, t.c.id).limit(limit)

    def expired(self, table: sa.Table, limit: int, now: float) -> sa.Select[Any]:
        """Keys of rows of `table` whose time is up. PostgreSQL locks them, and passes over those that others are writing; SQLite
        has one writer at a time, and Oracle no lock for a part of the rows."""
        found = sa.select(*table.primary_key).where(table.c.expires_at <= now).limit(limit)
        return found.with_for_update(skip_locked=True) if self._dialect == "postgresql" else found

    def of_tenant(self, table: sa.Table, tenant: str, after: tuple[Any, ...] | None) -> sa.Select[Any]:
        """Rows of a tenant in the order of their keys, behind the key `after` (without its tenant)."""
        keys = [column for column in table.primary_key if column.key != "tenant"]
        found = sa.select(table).where(table.c.tenant == tenant)
        if after is not None:
            found = found.where(_behind(keys, after))
        return self._measured(found, table, *((key, False) for key in keys))


def _behind(keys: list[sa.Column[Any]], after: tuple[Any, ...]) -> sa.ColumnElement[bool]:
    """Whether a key comes later than `after`, column by column: not every dialect compares tuples."""
    column, value = keys[0], after[0]
    later: sa.ColumnElement[bool] = column > value
    if len(keys) == 1:
        return later
    return sa.or_(later, sa.and_(column == value, _behind(keys[1:], after[1:])))


def _alive(table: sa.Table, now: float | sa.BindParameter[float] = _NOW) -> sa.ColumnElement[bool]:
    return sa.or_(table.c.expires_at.is_(None), table.c.expires_at > now)


def _version(table: sa.Table) -> sa.ColumnElement[int]:
    return sa.case((table.c.expires_at <= sa.bindparam("now_"), 1), else_=table.c.version + 1)


def _same(table: sa.Table, *columns: str) -> list[sa.ColumnElement[bool]]:
    return [table.c[column] == sa.bindparam(f"{column}_") for column in columns]


def _delete(table: sa.Table, *columns: str) -> sa.Delete:
    return sa.delete(table).where(*_same(table, *columns))


def _delete_expired(table: sa.Table) -> sa.Delete:
    return _delete(table, *(column.key for column in table.primary_key)).where(table.c.expires_at <= _NOW)


def _extend(table: sa.Table, *columns: str) -> sa.Update:
    until = sa.bindparam("until_", type_=sa.Double)
    there = (table.c.expires_at > _NOW, table.c.expires_at < until)
    return sa.update(table).where(*_same(table, *columns), *there).values(expires_at=until)


def _locked(table: sa.Table, keys: tuple[str, ...], *columns: str) -> sa.Select[Any]:
    """Columns of one row and its time, which no other writer changes until the transaction ends."""
    found = sa.select(*(table.c[column] for column in columns), table.c.expires_at)
    return found.where(*_same(table, *keys)).with_for_update()


# ------------------------------------------------------------------------------------------------------ rows into records


def response_of(row: Any) -> StoredResponse:
    return StoredResponse(
        id=row.id,
        body=row.body,
        created_at=row.created_at,
        input=row.input,
        output=row.output,
        status=row.status,
        model=row.model,
        previous_id=row.previous_id,
        conversation_id=row.conversation_id,
        pending=row.pending,
        expires_at=row.expires_at,
        version=row.version,
    )


def link_of(row: Any) -> ChainLink:
    return ChainLink(
        id=row.id,
        previous_id=row.previous_id,
        status=row.status,
        model=row.model,
        created_at=row.created_at,
        input=row.input,
        output=row.output,
    )


def conversation_of(row: Any) -> StoredConversation:
    return StoredConversation(
        id=row.id,
        created_at=row.created_at,
        metadata=row.metadata,
        expires_at=row.expires_at,
        version=row.version,
    )


def item_of(row: Any) -> StoredItem:
    return StoredItem(
        id=row.id,
        body=row.body,
        created_at=row.created_at,
        response_id=row.response_id,
        position=ItemPosition(row.position),
    )


def record_of(row: Any) -> StoredRecord:
    return StoredRecord(
        kind=row.kind,
        id=row.id,
        body=row.body,
        created_at=row.created_at,
        pending=row.pending,
        expires_at=row.expires_at,
        version=row.version,
    )

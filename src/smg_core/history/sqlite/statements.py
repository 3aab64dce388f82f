"""The statements by which a history in SQLite is read and written, as text.

Tables and columns have the names of the deployment. Pure: makes text, and rows into records; executes nothing. Every
statement that a `Store` method needs has the tenant in its condition. What is read has its parameters by name, what is
written by place: the new values in the order of the columns, then what the condition asks. Above: `writing`, `store`,
`schema`. Below: `sql.names`, `store.base`.
"""

# ruff: noqa: S608  # what is put into the texts are names, which `Names` has checked; every value is a parameter

from collections.abc import Mapping, Sequence
from typing import Any

from smg_core.history.sql.names import COLUMNS, Names
from smg_core.history.store.base import (
    ChainLink,
    ItemPosition,
    StoredConversation,
    StoredItem,
    StoredRecord,
    StoredResponse,
)

__all__ = [
    "KEYS",
    "SqliteStatements",
    "conversation_in_row",
    "item_in_row",
    "link_in_row",
    "quoted",
    "record_in_row",
    "response_in_row",
]

KEYS: Mapping[str, Sequence[str]] = {
    "responses": ("tenant", "id"),
    "response_items": ("tenant", "item_id", "response_id"),
    "conversations": ("tenant", "id"),
    "items": ("tenant", "conversation_id", "id"),
    "event_logs": ("tenant", "response_id"),
    "events": ("tenant", "response_id", "number"),
    "records": ("tenant", "kind", "id"),
    "leases": ("tenant", "kind", "id"),
}
"""By table: the columns that name one row."""
_TEXTS = frozenset({"body", "input", "output", "data", "metadata"})
_LINK = ("id", "previous_id", "status", "model", "created_at", "input", "output")
_OWNERS: Mapping[str, tuple[str, str, str]] = {
    "responses": ("response_items", "response_id", "id"),
    "conversations": ("items", "conversation_id", "id"),
    "event_logs": ("events", "response_id", "response_id"),
}
"""By table: the table of what belongs to its rows, the column there that names the row, and the row's own."""


def quoted(name: str) -> str:
    """A name in a statement; `Names` has checked that it is made of letters, digits and _."""
    return f'"{name}"'


class _Table:
    """A table in the text of a statement: itself its name, and `table.column` the name of a column."""

    def __init__(self, names: Names, table: str) -> None:
        self._name = quoted(names.table(table))
        self._columns = {column: quoted(names.column(table, column)) for column in COLUMNS[table]}

    def __getattr__(self, column: str) -> str:
        return self._columns[column]

    def __format__(self, _: str) -> str:
        return self._name


class SqliteStatements:
    """All statements under the names of a deployment, made once."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._tables = {table: _Table(names, table) for table in KEYS}
        self._write_statements()
        self._condition_statements()
        self._deletions()
        self.response = self._read(
            "SELECT {all} FROM {t} WHERE {t.tenant} = :tenant AND {t.id} = :id AND {alive}", "responses"
        )
        self.conversation = self._read(
            "SELECT {all} FROM {t} WHERE {t.tenant} = :tenant AND {t.id} = :id AND {alive}", "conversations"
        )
        self.record = self._read(
            "SELECT {all} FROM {t} WHERE {t.tenant} = :tenant AND {t.kind} = :kind AND {t.id} = :id AND {alive}",
            "records",
        )
        self.chain, self.item, self.last_event = self._chain(), self._item(), self._last_event()
        self.items = {
            (after, newest_first): self._items(after, newest_first=newest_first)
            for after in (None, "after", "at")
            for newest_first in (False, True)
        }
        """By what they begin behind, an item of an id or a position, and whether the newest comes first."""
        self.records = {
            (after, newest_first): self._records(after=after, newest_first=newest_first)
            for after in (False, True)
            for newest_first in (False, True)
        }
        """By whether they begin behind a row, and whether the newest comes first."""
        self.events = self._events()

    def _text(self, text: str, **more: object) -> str:
        return text.format(**self._tables, **more)

    def _read(self, text: str, table: str) -> str:
        found = self._tables[table]
        return text.format(all=self._columns(table), t=found, alive=_alive(found))

    def _columns(self, table: str, columns: Sequence[str] | None = None, prefix: str = "") -> str:
        """Columns of a table, all of them where none are named, as a list."""
        found = self._tables[table]
        return ", ".join([f"{prefix}{getattr(found, each)}" for each in columns or COLUMNS[table]])

    def _is(self, table: str, columns: Sequence[str], value: str = "?") -> str:
        """That these columns have the values that are given for them, each by place or by its name."""
        found = self._tables[table]
        return " AND ".join(
            [f"{found}.{getattr(found, each)} = {value if value == '?' else value + each}" for each in columns]
        )

    # ------------------------------------------------------------------------------------------------------------ writing

    def _write_statements(self) -> None:
        self.put_response = self._upsert("responses")
        self.put_conversation = self._upsert("conversations")
        self.put_record = self._upsert("records")
        self.put_event_log = self._upsert("event_logs")
        self.put_lease = self._upsert("leases")
        self.add_response_item = self._insert("response_items")
        self.add_item = self._insert("items")
        self.add_event = self._insert("events")
        self.touch_conversation = self._text(
            "UPDATE {conversations} SET {conversations.version} = {conversations.version} + 1, "
            "{conversations.next_position} = {conversations.next_position} + ? WHERE {same}",
            same=self._is("conversations", ("tenant", "id")),
        )
        """More positions, and the key."""
        self.extend = {
            "response": self._extend("responses"),
            "events": self._extend("event_logs"),
            "record": self._extend("records"),
        }
        """By what it is: keep one row until a later time, if it is there. The later time, the key, now, the later time."""

    def _insert(self, table: str) -> str:
        places = ", ".join("?" * len(COLUMNS[table]))
        return f"INSERT INTO {self._tables[table]} ({self._columns(table)}) VALUES ({places})"

    def _upsert(self, table: str) -> str:
        """A row in place of one with the same key. A version, where the table has one, is one higher than that of the row; of one
        that has expired, it begins anew: so such a statement takes the time behind its values."""
        found = self._tables[table]
        changed = []
        for column in COLUMNS[table]:
            name = getattr(found, column)
            if column == "version":
                changed.append(f"{name} = CASE WHEN {found}.{found.expires_at} <= ? THEN 1 ELSE {found}.{name} + 1 END")
            elif column not in KEYS[table]:
                changed.append(f"{name} = excluded.{name}")
        return f"{self._insert(table)} ON CONFLICT ({self._columns(table, KEYS[table])}) DO UPDATE SET {', '.join(changed)}"

    def _extend(self, table: str) -> str:
        return ("UPDATE {t} SET {t.expires_at} = ? WHERE {same} AND {t.expires_at} > ? AND {t.expires_at} < ?").format(
            t=self._tables[table], same=self._is(table, KEYS[table])
        )

    def _condition_statements(self) -> None:
        self.lock_response = self._one("responses", "expires_at", "version")
        self.lock_record = self._one("records", "expires_at", "version")
        self.lock_conversation = self._one("conversations", "expires_at", "version", "next_position")
        self.lock_lease = self._one("leases", "expires_at", "owner", "token")
        """Of one row its time and what conditions ask. Nobody else writes meanwhile: a transaction here begins as a writer's."""
        self.has_item = self._text("SELECT 1 FROM {items} WHERE {same}", same=self._is("items", KEYS["items"]))

    def _one(self, table: str, *columns: str) -> str:
        return f"SELECT {self._columns(table, columns)} FROM {self._tables[table]} WHERE {self._is(table, KEYS[table])}"

    def _deletions(self) -> None:
        def delete(table: str, *columns: str) -> str:
            return f"DELETE FROM {self._tables[table]} WHERE {self._is(table, columns)}"

        self.drop_response = delete("responses", "tenant", "id")
        self.drop_response_items = delete("response_items", "tenant", "response_id")
        self.drop_event_log = delete("event_logs", "tenant", "response_id")
        self.drop_events = delete("events", "tenant", "response_id")
        self.drop_conversation = delete("conversations", "tenant", "id")
        self.drop_items = delete("items", "tenant", "conversation_id")
        self.drop_item = delete("items", *KEYS["items"])
        self.drop_record = delete("records", *KEYS["records"])
        expiring = ("responses", "conversations", "event_logs", "records", "leases")
        time_is_up = " AND {t}.{t.expires_at} <= ?"
        self.drop_expired = {
            table: delete(table, *KEYS[table]) + time_is_up.format(t=self._tables[table]) for table in expiring
        }
        """By table: delete one row, if its time is up at that moment."""
        self.drop_expired_of = {
            table: delete(table, "tenant") + time_is_up.format(t=self._tables[table])
            for table in ("responses", "conversations", "event_logs", "records")
        }
        """By table: delete all rows of a tenant whose time is up."""
        self.drop_of = {table: delete(table, "tenant") for table in KEYS}
        self.orphans, self.orphans_of = {}, {}
        """By table: how the rows are deleted whose row of that table is gone, those of one row and those of a tenant. Only such
        rows: where the row is written anew meanwhile, they stay."""
        for head, (table, owner, key) in _OWNERS.items():
            gone = (
                " AND NOT EXISTS (SELECT 1 FROM {h} WHERE {h}.{h.tenant} = {t}.{t.tenant} AND {h}.{key} = {t}.{owner})"
            ).format(
                h=self._tables[head],
                t=self._tables[table],
                key=getattr(self._tables[head], key),
                owner=getattr(self._tables[table], owner),
            )
            self.orphans[head] = delete(table, "tenant", owner) + gone
            self.orphans_of[head] = delete(table, "tenant") + gone
        self.expired = {
            table: "SELECT {keys} FROM {t} WHERE {t.expires_at} <= ? LIMIT ?".format(
                keys=self._columns(table, KEYS[table]), t=self._tables[table]
            )
            for table in expiring
        }
        """By table: the keys of rows whose time is up."""

    # ------------------------------------------------------------------------------------------------------------ reading

    def _chain(self) -> str:
        """The links, newest first, with how many and how large they are up to there: one more than the bounds allow."""
        t = self._tables["responses"]
        return (
            "WITH RECURSIVE chain_ (link_, parent_, depth_, total_) AS ("
            "SELECT {t.id}, {t.previous_id}, 1, {t.size} FROM {t} WHERE {t.tenant} = :tenant AND {t.id} = :id AND {alive} "
            "UNION ALL SELECT {t}.{t.id}, {t}.{t.previous_id}, depth_ + 1, total_ + {t}.{t.size} "
            "FROM chain_ JOIN {t} ON {t}.{t.id} = parent_ WHERE {t}.{t.tenant} = :tenant AND {alive} "
            "AND depth_ <= :most_links AND total_ <= :most_bytes) "
            "SELECT {columns}, total_ FROM chain_ JOIN {t} ON {t}.{t.id} = link_ "
            "WHERE {t}.{t.tenant} = :tenant ORDER BY depth_"
        ).format(t=t, alive=_alive(t), columns=self._columns("responses", _LINK, prefix=f"{t}."))

    def _measured(self, table: str, found: str, *order: tuple[str, bool]) -> str:
        """The rows of `table` that `found` finds (what stands behind FROM), ordered by columns that each are descending or not:
        at most `limit`, of which the last only shows that there is more. Texts are measured first. They are loaded, and the last
        column is 1, for the first row and as far as `most_bytes` goes."""
        t = self._tables[table]
        keys = list(dict.fromkeys((*KEYS[table], *(column for column, _ in order))))
        size = " + ".join(["0", *[f"length({t}.{getattr(t, each)})" for each in COLUMNS[table] if each in _TEXTS]])
        by = ", ".join([f"{{0}}{getattr(t, column)}{' DESC' if falls else ''}" for column, falls in order])
        loads = "(rank_ = 1 OR (rank_ < :limit AND total_ <= :most_bytes))"
        columns = [
            f"CASE WHEN {loads} THEN {t}.{getattr(t, each)} END" if each in _TEXTS else f"{t}.{getattr(t, each)}"
            for each in COLUMNS[table]
        ]
        same = " AND ".join([f"{t}.{getattr(t, key)} = summed_.{getattr(t, key)}" for key in KEYS[table]])
        listed = self._columns(table, keys, prefix=f"{t}.")
        return (
            f"WITH listed_ AS (SELECT {listed}, {size} AS bytes_ FROM {found} ORDER BY {by.format(f'{t}.')} LIMIT :limit), "
            f"summed_ AS (SELECT {self._columns(table, keys)}, sum(bytes_) OVER (ORDER BY {by.format('')}) AS total_, "
            f"row_number() OVER (ORDER BY {by.format('')}) AS rank_ FROM listed_) "
            f"SELECT {', '.join(columns)}, {loads} FROM summed_ JOIN {t} ON {same} ORDER BY rank_"
        )

    def holding(self, count: int) -> str:
        """The responses that have any of so many items, `item0` and on."""
        items = ", ".join([f":item{number}" for number in range(count)])
        t, held = self._tables["responses"], self._tables["response_items"]
        found = (
            f"{t} WHERE {t}.{t.tenant} = :tenant AND {t}.{t.id} IN (SELECT {held.response_id} FROM {held} "
            f"WHERE {held.tenant} = :tenant AND {held.item_id} IN ({items})) AND {_alive(t)}"
        )
        return self._measured("responses", found, ("created_at", True), ("id", False))

    def _items_found(self) -> str:
        t, head = self._tables["items"], self._tables["conversations"]
        return (
            f"{t} JOIN {head} ON {head}.{head.tenant} = {t}.{t.tenant} AND {head}.{head.id} = {t}.{t.conversation_id} "
            f"WHERE {t}.{t.tenant} = :tenant AND {t}.{t.conversation_id} = :conversation_id AND {_alive(head)}"
        )

    def _item(self) -> str:
        t = self._tables["items"]
        columns = self._columns("items", prefix=f"{t}.")
        return f"SELECT {columns} FROM {self._items_found()} AND {t}.{t.id} = :id"

    def _items(self, after: str | None, *, newest_first: bool) -> str:
        t, found = self._tables["items"], self._items_found()
        if after is not None:
            place = ":at"
            if after == "after":
                place = (
                    f"(SELECT mark_.{t.position} FROM {t} AS mark_ WHERE mark_.{t.tenant} = :tenant "
                    f"AND mark_.{t.conversation_id} = :conversation_id AND mark_.{t.id} = :after)"
                )
            found += " AND {t}.{t.position} {behind} {place}".format(
                t=t, behind="<" if newest_first else ">", place=place
            )
        return self._measured("items", found, ("position", newest_first))

    def _logged(self) -> str:
        t, head = self._tables["events"], self._tables["event_logs"]
        return (
            f"{t} JOIN {head} ON {head}.{head.tenant} = {t}.{t.tenant} AND {head}.{head.response_id} = {t}.{t.response_id} "
            f"WHERE {t}.{t.tenant} = :tenant AND {t}.{t.response_id} = :response_id AND {_alive(head)}"
        )

    def _events(self) -> str:
        t = self._tables["events"]
        return self._measured("events", self._logged() + f" AND {t}.{t.number} > :after", ("number", False))

    def _last_event(self) -> str:
        t = self._tables["events"]
        return f"SELECT max({t}.{t.number}) FROM {self._logged()}"

    def _records(self, *, after: bool, newest_first: bool) -> str:
        t = self._tables["records"]
        found = f"{t} WHERE {t}.{t.tenant} = :tenant AND {t}.{t.kind} = :kind AND {_alive(t)}"
        if after:
            found += " AND ({t}.{t.created_at}, {t}.{t.id}) {behind} (:at, :after)".format(
                t=t, behind="<" if newest_first else ">"
            )
        return self._measured("records", found, ("created_at", newest_first), ("id", newest_first))

    def of_tenant(self, table: str, *, after: bool) -> str:
        """Rows of a tenant in the order of their keys, behind a key whose columns are given by name."""
        t, keys = self._tables[table], [each for each in KEYS[table] if each != "tenant"]
        found = f"{t} WHERE {t}.{t.tenant} = :tenant"
        if after:
            mine = self._columns(table, keys, prefix=f"{t}.")
            found += f" AND ({mine}) > ({', '.join([f':{key}' for key in keys])})"
        return self._measured(table, found, *((key, False) for key in keys))

    # -------------------------------------------------------------------------------------------------- all tenants' upkeep

    def abandoned(self, kind: str) -> str:
        """Tenant and id of what waits and is held by no lease, oldest first."""
        table = "responses" if kind == "response" else "records"
        t, held = self._tables[table], self._tables["leases"]
        of_kind = "" if kind == "response" else f"{t}.{t.kind} = :kind AND "
        return (
            f"SELECT {t}.{t.tenant}, {t}.{t.id} FROM {t} WHERE {t}.{t.pending} IS TRUE AND {of_kind}{_alive(t)} "
            f"AND NOT EXISTS (SELECT 1 FROM {held} WHERE {held}.{held.tenant} = {t}.{t.tenant} AND {held}.{held.kind} = :kind "
            f"AND {held}.{held.id} = {t}.{t.id} AND {held}.{held.expires_at} > :now) "
            f"ORDER BY {t}.{t.created_at}, {t}.{t.tenant}, {t}.{t.id} LIMIT :limit"
        )


def _alive(table: _Table) -> str:
    """That the time of a row is not up."""
    return f"({table}.{table.expires_at} IS NULL OR {table}.{table.expires_at} > :now)"


# --------------------------------------------------------------------------------------------------- rows into records


def response_in_row(row: Sequence[Any]) -> StoredResponse:
    _, id, previous, conversation, status, model, pending, created, expires, version, _, body, given, output, *_ = row
    return StoredResponse(
        id=id,
        body=body,
        created_at=created,
        input=given,
        output=output,
        status=status,
        model=model,
        previous_id=previous,
        conversation_id=conversation,
        pending=bool(pending),
        expires_at=expires,
        version=version,
    )


def link_in_row(row: Sequence[Any]) -> ChainLink:
    id, previous, status, model, created, given, output, *_ = row
    return ChainLink(
        id=id, previous_id=previous, status=status, model=model, created_at=created, input=given, output=output
    )


def conversation_in_row(row: Sequence[Any]) -> StoredConversation:
    _, id, metadata, created, expires, version, *_ = row
    return StoredConversation(id=id, created_at=created, metadata=metadata, expires_at=expires, version=version)


def item_in_row(row: Sequence[Any]) -> StoredItem:
    _, _, id, position, response, body, created, *_ = row
    return StoredItem(id=id, body=body, created_at=created, response_id=response, position=ItemPosition(position))


def record_in_row(row: Sequence[Any]) -> StoredRecord:
    _, kind, id, body, pending, created, expires, version, *_ = row
    return StoredRecord(
        kind=kind, id=id, body=body, created_at=created, pending=bool(pending), expires_at=expires, version=version
    )

"""The first tables: responses and the items they hold, conversations with items, events, records, leases."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from smg_core.history.sql.names import Names
from smg_core.history.sql.tables import ShortText

revision = "0001"
down_revision = None


def upgrade(names: Names) -> None:
    """Make them. `names` is how the deployment calls tables and columns."""
    for name, (columns, key) in _tables().items():
        for column in columns:
            column.name = column.key = names.column(name, column.name)
        primary = sa.PrimaryKeyConstraint(*(names.column(name, each) for each in key))
        op.create_table(names.table(name), *columns, primary, schema=names.schema)
    for name in ("responses", "conversations", "event_logs", "records", "leases"):
        _index(names, name, "expires_at", "expires_at")
    _index(names, "response_items", "response_id", "tenant", "response_id")
    _index(names, "items", "position", "tenant", "conversation_id", "position")
    _index(names, "records", "id", "tenant", "kind", "created_at", "id")
    for name in ("responses", "records"):
        _index(names, name, "pending", "created_at", pending=True)


def _index(names: Names, name: str, what: str, *columns: str, pending: bool = False) -> None:
    where = sa.text(f"{names.column(name, 'pending')} IS TRUE") if pending else None
    called = [names.column(name, each) for each in columns]
    options: dict[str, Any] = {"sqlite_where": where, "postgresql_where": where} if pending else {}
    op.create_index(names.index(name, what), names.table(name), called, schema=names.schema, **options)


def _tables() -> dict[str, tuple[list[sa.Column[Any]], tuple[str, ...]]]:
    """Columns and key of each table."""
    return {
        "responses": (
            [
                *_names("tenant", "id"),
                *_names("previous_id", "conversation_id", nullable=True),
                *_names("status", "model"),
                sa.Column("pending", sa.Boolean, nullable=False),
                *_times(),
                *_numbers("version", "size"),
                *_texts("body", "input", "output"),
            ],
            ("tenant", "id"),
        ),
        "response_items": (_names("tenant", "item_id", "response_id"), ("tenant", "item_id", "response_id")),
        "conversations": (
            [*_names("tenant", "id"), *_texts("metadata"), *_times(), *_numbers("version", "next_position")],
            ("tenant", "id"),
        ),
        "items": (
            [
                *_names("tenant", "conversation_id", "id"),
                *_numbers("position"),
                *_names("response_id", nullable=True),
                *_texts("body"),
                sa.Column("created_at", sa.Double, nullable=False),
            ],
            ("tenant", "conversation_id", "id"),
        ),
        "event_logs": (
            [*_names("tenant", "response_id"), sa.Column("expires_at", sa.Double)],
            ("tenant", "response_id"),
        ),
        "events": (
            [*_names("tenant", "response_id"), *_numbers("number"), *_texts("data")],
            ("tenant", "response_id", "number"),
        ),
        "records": (
            [
                *_names("tenant", "kind", "id"),
                *_texts("body"),
                sa.Column("pending", sa.Boolean, nullable=False),
                *_times(),
                *_numbers("version"),
            ],
            ("tenant", "kind", "id"),
        ),
        "leases": (
            [*_names("tenant", "kind", "id", "owner"), *_numbers("token"), sa.Column("expires_at", sa.Double)],
            ("tenant", "kind", "id"),
        ),
    }


def _names(*columns: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(column, ShortText, nullable=nullable) for column in columns]


def _texts(*columns: str) -> list[sa.Column[Any]]:
    return [sa.Column(column, sa.LargeBinary, nullable=False) for column in columns]


def _numbers(*columns: str) -> list[sa.Column[Any]]:
    return [sa.Column(column, sa.BigInteger, nullable=False, autoincrement=False) for column in columns]


def _times() -> list[sa.Column[Any]]:
    return [sa.Column("created_at", sa.Double, nullable=False), sa.Column("expires_at", sa.Double)]

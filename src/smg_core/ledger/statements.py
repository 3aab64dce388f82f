"""The ledger in SQL, as SQLite and PostgreSQL both read it: tables, what a batch adds, what is asked, what is erased.

Pure. Parameters are $1, $2 and so on. Above: the stores. Below: `accounts`, `queries`.
"""

from collections.abc import Iterable

from smg_core.ledger.accounts import AMOUNTS, Account, Amounts
from smg_core.ledger.queries import UsageQuery
from smg_core.usage_report import USAGE_AXES

__all__ = ["LedgerStatement", "LedgerStatements"]

_Parameters = tuple[object, ...]
LedgerStatement = tuple[str, _Parameters]

_KEY = Account._fields


class LedgerStatements:
    """The statements for tables whose names begin with `prefix`, in a `schema` where there is one. `tables` make those that are
    missing."""

    def __init__(self, prefix: str, schema: str | None = None) -> None:
        where = f"{_quoted(schema)}." if schema else ""
        self._accounts, self._writers, self._values = (
            where + _quoted(prefix + name) for name in ("ledger", "ledger_writers", "ledger_values")
        )
        accounts, writers, values = self._accounts, self._writers, self._values
        hour, tenant, user, key = (_quoted("hour"), _quoted("tenant"), _quoted("user"), _listed(_KEY))
        columns = [f"{hour} BIGINT NOT NULL", *(f"{_quoted(each)} TEXT NOT NULL" for each in USAGE_AXES)]
        columns += [*(f"{_quoted(each)} BIGINT NOT NULL" for each in AMOUNTS), f"PRIMARY KEY ({key})"]
        index = _quoted(f"{prefix}ledger_tenant")
        self.tables = (
            _sql("CREATE TABLE IF NOT EXISTS", accounts, f"({', '.join(columns)})"),
            _sql("CREATE INDEX IF NOT EXISTS", index, "ON", accounts, f"({tenant}, {hour})"),
            _sql("CREATE TABLE IF NOT EXISTS", writers, "(writer TEXT PRIMARY KEY, number BIGINT, written_at BIGINT)"),
            _sql("CREATE TABLE IF NOT EXISTS", values, "(name TEXT PRIMARY KEY, value TEXT NOT NULL)"),
        )
        marks = ", ".join(f"${number}" for number in range(1, len(_KEY) + len(AMOUNTS) + 1))
        added = ", ".join(f"{_quoted(each)} = kept.{_quoted(each)} + excluded.{_quoted(each)}" for each in AMOUNTS)
        into = _sql("INSERT INTO", accounts, "AS kept", f"({_listed((*_KEY, *AMOUNTS))})")
        merging = _sql("ON CONFLICT", f"({key})", "DO UPDATE SET", added)
        self.add = _sql(into, "VALUES", f"({marks})", merging)
        """Adds one account's amounts to what is there of it."""
        self.claim = _sql(
            *("INSERT INTO", writers, "AS kept (writer, number, written_at) VALUES ($1, $2, $3)"),
            "ON CONFLICT (writer) DO UPDATE SET number = excluded.number, written_at = excluded.written_at",
            "WHERE kept.number < excluded.number",
        )
        """Notes that a writer has written the batch of a number; changes no row where it has before."""
        self.remember = _sql("INSERT INTO", values, "(name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING")
        self.recall = _sql("SELECT value FROM", values, "WHERE name = $1")
        self.sweep = (
            _sql("DELETE FROM", accounts, "WHERE", hour, "< $1"),
            _sql("DELETE FROM", writers, "WHERE written_at < $1"),
        )
        """Deletes what is older than an hour, and writers that have not written since a time."""
        whose = _sql("WHERE", tenant, "= $1 AND", user, "= $2")
        nobodys = ", ".join("''" if each == "user" else _quoted(each) for each in _KEY)
        others = _listed(each for each in _KEY if each != "user")
        self.forget_user = (
            _sql(into, "SELECT", nobodys, _sums(), "FROM", accounts, whose, "GROUP BY", others, merging),
            _sql("DELETE FROM", accounts, whose),
        )
        """Moves the accounts of a tenant's user to those of no user."""
        self.forget_tenant = _sql("DELETE FROM", accounts, "WHERE", tenant, "= $1")

    @staticmethod
    def row(account: Account, amounts: Amounts) -> _Parameters:
        """The parameters of `add`."""
        return (*account, *amounts)

    def read(self, query: UsageQuery) -> LedgerStatement:
        """What answers a question: the step, the axes, the sums; one row more than is wanted, where there are so many."""
        parameters: list[object] = [*query.period]
        where = f"{_quoted('hour')} >= $1 AND {_quoted('hour')} < $2"
        for axis, value in query.only:
            parameters.append(value)
            where += f" AND {_quoted(axis)} = ${len(parameters)}"
        columns = [f"{_step(query)} AS step", *map(_quoted, query.by)]
        places = ", ".join(str(number) for number in range(1, 1 + len(columns)))
        text = _sql(
            *("SELECT", ", ".join(columns), _sums(), "FROM", self._accounts, "WHERE", where),
            *("GROUP BY", places, "ORDER BY", places, "LIMIT", str(query.limit + 1), "OFFSET", str(query.after)),
        )
        return text, tuple(parameters)


def _step(query: UsageQuery) -> str:
    """The number of the step that an hour is in; the hour itself where there are none."""
    if query.steps is None:
        return _quoted("hour")
    if len(query.steps) < 2:
        return "CAST(0 AS BIGINT)"
    cases = " ".join(f"WHEN {_quoted('hour')} < {end} THEN {number}" for number, (_, end) in enumerate(query.steps))
    return f"CASE {cases} END"


def _quoted(name: str) -> str:
    """A name in a statement; what settings give is made of letters, digits and _."""
    return f'"{name}"'


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_quoted, names))


def _sums() -> str:
    """The sums of the amounts, behind other columns."""
    return "".join(f", CAST(SUM({_quoted(each)}) AS BIGINT)" for each in AMOUNTS)


def _sql(*parts: str) -> str:
    """A statement of these parts, which are ours, and never values."""
    return " ".join(parts)

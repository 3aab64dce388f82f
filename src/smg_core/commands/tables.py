"""Answers of the admin door, as a person reads them on a terminal: tables of what there are many of, and lines of the rest.

Decides which columns a table has, and how it fits a line. Values that a terminal would act on are written with escapes. Pure.
Above: admin. Knows no route: what it does not know has the columns that it has.
"""

from collections.abc import Mapping, Sequence

from smg_core.json_types import Json

__all__ = ["as_tables"]

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "workers": (
        "name",
        "worker",
        "state",
        "role",
        "models",
        "in_flight",
        "queued",
        "breaker",
        "status",
        "message",
        "reason",
    ),
    "models": ("name", "context_length", "parser", "media", "ready", "workers"),
    "settings": ("path", "value", "source"),
    "keys": ("id", "name", "tenant", "principal", "roles", "models", "state", "expires_at"),
    "data": ("id", "name", "tenant", "principal", "roles", "models", "state", "expires_at"),
}
"""What a table of many columns shows; the whole is in the JSON."""
_MOST_COLUMNS = 8
_SETTING = frozenset({"path", "value", "default"})


def as_tables(answer: Json, width: int) -> str:
    """An answer in lines of at most `width` characters."""
    if not isinstance(answer, dict):
        return _cell(answer)
    plain = {name: value for name, value in answer.items() if not _is_rows(value)}
    parts = ["\n".join(_pairs(plain, width))] if plain else []
    for name, rows in answer.items():
        if _is_rows(rows) and isinstance(rows, list):
            parts.append("\n".join(_table(name, [each for each in rows if isinstance(each, dict)], width)))
    return "\n\n".join(part for part in parts if part)


def _is_rows(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _pairs(values: Mapping[str, Json], width: int) -> list[str]:
    names = [_safe(name) for name in values]
    longest = max(map(len, names))
    return [
        _cut(f"{name.ljust(longest)}  {_cell(value)}", width)
        for name, value in zip(names, values.values(), strict=True)
    ]


def _table(name: str, rows: Sequence[Mapping[str, Json]], width: int) -> list[str]:
    changed = [row for row in rows if not (row.keys() >= _SETTING and row["value"] == row["default"])]
    columns = [each for each in _COLUMNS.get(name, tuple(rows[0])) if any(each in row for row in rows)]
    columns = (columns or list(rows[0]))[: max(_MOST_COLUMNS, len(_COLUMNS.get(name, ())))]
    lines = [[_cell(row.get(each)) for each in columns] for row in changed]
    written = [[_safe(each.upper()) for each in columns], *lines] if lines else []
    widths = [max(len(line[at]) for line in written) if written else 0 for at in range(len(columns))]
    printed = [
        _cut("  ".join(cell.ljust(room) for cell, room in zip(line, widths, strict=True)), width) for line in written
    ]
    left = len(rows) - len(changed)
    return [*printed, f"{left} more are as by default (--json has all)"] if left else printed


def _cell(value: Json) -> str:
    """A value in a line; nothing as a dash."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        text = ", ".join(f"{name} {_cell(each)}" for name, each in value.items())
    elif isinstance(value, list):
        text = ", ".join(map(_cell, value))
    else:
        text = "" if value is None else str(value)
    return _safe(text) or "-"


def _safe(text: str) -> str:
    """A text that a terminal does not act on."""
    return text if text.isprintable() else ascii(text)


def _cut(line: str, width: int) -> str:
    line = line.rstrip()
    return line if len(line) <= width else f"{line[: width - 1]}…"

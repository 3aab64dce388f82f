"""The questions to the ledger: from when to when, apart by what and in which steps of time, for whom.

Pure. Above: the routes. Below: `accounts`, the windows of the calendar.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from msgspec import Struct

from smg_core.errors import InvalidRequest
from smg_core.ledger.accounts import HOUR_S, Amounts, in_store
from smg_core.limits.calendar import window_of
from smg_core.limits.rules import Window
from smg_core.usage_report import UsageReport, UsageRow

__all__ = ["EVERY", "Period", "UsageQuery", "read_query", "report_of"]

EVERY = ("hour", "day", "week", "month", "all")
_MOST_STEPS, _MOST_ROWS, _ROWS, _DIGITS = 1000, 1000, 100, 12
_DEFAULT_S = 30 * 86400
_MICRO = 1_000_000
_DATE_DIGITS = 8
"""Digits that are a date, as 20261101: as seconds they would be of 1970 to 1973, of which nobody asks."""
_LAST_S = 253370764800
"""The last time that can be asked for, in seconds: the beginning of the year 9999."""

Period = tuple[int, int]
"""From an hour since the epoch to one that is no more in it."""


class UsageQuery(Struct, frozen=True):
    """Which accounts, and how they are added up: those of `period`, in `steps` (none: all together; None: by the hour), apart by
    the axes of `by`. `only` says which values axes must have. `limit` rows are wanted, behind the first `after`."""

    period: Period
    steps: tuple[Period, ...] | None = ()
    by: tuple[str, ...] = ()
    only: tuple[tuple[str, str], ...] = ()
    limit: int = _ROWS
    after: int = 0


def read_query(
    query: Mapping[str, Sequence[str]], axes: Collection[str], now: float, zone: str, first: Mapping[str, str]
) -> UsageQuery:
    """The question that a URL's query asks, about the last 30 days where it says nothing else. Axes are those of `axes`; `first`
    are values that some must have, whatever the query says. Raises InvalidRequest."""
    known = {"from", "to", "every", "by", "limit", "after", *axes}
    for name in query:
        if name not in known:
            raise InvalidRequest(f"Unknown parameter {name!r}; there are {', '.join(sorted(known))}.", param=name)
    asked = {name: values[-1] for name, values in query.items()}
    end = _hour("to", asked["to"]) if "to" in asked else int(now) // HOUR_S + 1
    start = _hour("from", asked["from"]) if "from" in asked else end - _DEFAULT_S // HOUR_S
    if start >= end:
        raise InvalidRequest("The time 'from' is not before the time 'to'.", param="from")
    every = asked.get("every", "all")
    if every not in EVERY:
        raise InvalidRequest(f"{every!r} is none of {', '.join(EVERY)}.", param="every")
    by = tuple(dict.fromkeys(each for text in query.get("by", ()) for each in text.split(",") if each))
    for each in by:
        if each not in axes:
            raise InvalidRequest(f"{each!r} is none of {', '.join(axes)}.", param="by")
    only = {**{name: in_store(value) for name, value in asked.items() if name in axes}, **first}
    steps = None if every == "hour" else () if every == "all" else _steps(cast("Window", every), zone, (start, end))
    limit, after = _number(asked, "limit", _ROWS, 1, _MOST_ROWS), _number(asked, "after", 0, 0, 10**_DIGITS)
    return UsageQuery((start, end), steps, by, tuple(sorted(only.items())), limit, after)


def _hour(name: str, text: str) -> int:
    """The hour since the epoch that a moment is in: RFC 3339, a date, or seconds."""
    try:
        if text.isascii() and text.isdecimal() and len(text) <= _DIGITS and len(text) != _DATE_DIGITS:
            seconds = int(text)
        else:
            moment = datetime.fromisoformat(text)
            seconds = int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        seconds = -1
    if not 0 <= seconds < _LAST_S:
        raise InvalidRequest(
            f"{text!r} is no time since 1970, such as 2026-11-01, 2026-11-01T09:00:00Z or seconds.", param=name
        )
    return seconds // HOUR_S


def _number(asked: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = asked.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and least <= int(text) <= most):
        raise InvalidRequest(f"{text!r} is no whole number from {least} to {most}.", param=name)
    return int(text)


def _steps(window: Window, zone: str, period: Period) -> tuple[Period, ...]:
    """The windows of the calendar that a period is made of; the first and the last may be a part of one. An hour belongs to the
    window in which it begins."""
    found, start = list[Period](), period[0]
    while start < period[1]:
        ends = window_of(window, zone, start * HOUR_S)[1]
        end = period[1] if ends is None else min(period[1], max(start + 1, -(-ends // HOUR_S)))
        found.append((start, end))
        start = end
        if len(found) > _MOST_STEPS:
            raise InvalidRequest(
                f"These are more than {_MOST_STEPS} steps of time; ask for longer ones.", param="every"
            )
    return tuple(found)


def report_of(query: UsageQuery, rows: Sequence[Sequence[object]]) -> UsageReport:
    """The report of rows as a store gives them: the step, the values of the axes, the amounts; one more than are wanted where
    there are further ones."""
    page, more = rows[: query.limit], len(rows) > query.limit
    return UsageReport("list", [_row(query, each) for each in page], more, query.after + query.limit if more else None)


def _row(query: UsageQuery, row: Sequence[object]) -> UsageRow:
    step, values, numbers = cast("int", row[0]), row[1 : 1 + len(query.by)], row[1 + len(query.by) :]
    start, end = query.period
    if query.steps is None:
        start, end = step, step + 1
    elif query.steps:
        start, end = query.steps[step]
    amounts = Amounts(*map(int, cast("Sequence[int]", numbers)))
    found = UsageRow(
        _text(start),
        _text(end),
        amounts.requests,
        amounts.failed,
        amounts.prompt_tokens,
        amounts.completion_tokens,
        amounts.cached_tokens,
        amounts.cache_write_tokens,
        amounts.reasoning_tokens,
        amounts.audio_tokens,
        amounts.image_tokens,
        amounts.video_tokens,
        f"{amounts.money // _MICRO}.{amounts.money % _MICRO:06}",
        amounts.unpriced,
    )
    for axis, value in zip(query.by, values, strict=True):
        setattr(found, axis, str(value))
    return found


def _text(hour: int) -> str:
    return datetime.fromtimestamp(hour * HOUR_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""The windows of the calendar in a time zone: where the day, week and month of a moment begin and end.

Pure. Days are those of the zone's clocks, so one is 23 or 25 hours long where they are set. Above: the decision.
"""

from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from smg_core.limits.rules import Window

__all__ = ["QUARTER_S", "window_at", "window_of"]

QUARTER_S = 900


def window_of(window: Window, zone: str, wall_s: float) -> tuple[int, int | None]:
    """The beginning and the end of the window that a moment is in, in seconds since the epoch; no end where it has none."""
    return window_at(window, zone, int(wall_s) // QUARTER_S)


@lru_cache(maxsize=64)
def window_at(window: Window, zone: str, quarter: int) -> tuple[int, int | None]:
    """The same of a quarter of an hour: no zone sets its clocks within one."""
    if window == "ever":
        return 0, None
    there = ZoneInfo(zone)
    moment = datetime.fromtimestamp(quarter * QUARTER_S, there)
    begins = moment.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    if window == "week":
        begins -= timedelta(days=begins.weekday())
    elif window == "month":
        begins = begins.replace(day=1)
    ends = begins + timedelta(days=1 if window == "day" else 7)
    if window == "month":
        ends = (begins + timedelta(days=32)).replace(day=1)
    return int(begins.replace(tzinfo=there).timestamp()), int(ends.replace(tzinfo=there).timestamp())

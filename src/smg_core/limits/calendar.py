"""The windows of the calendar in a time zone: where the day, week and month of a moment begin and end.

Pure. Days are those of the zone's clocks, so one is 23 or 25 hours long where they are set. Above: the decision.
"""

from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from smg_core.limits.rules import Window

__all__ = ["window_of"]


def window_of(window: Window, zone: str, wall_s: float) -> tuple[int, int | None]:
    """The beginning and the end of the window that a moment is in, in seconds since the epoch; no end where it has none."""
    if window == "ever":
        return 0, None
    begins, ends = _window(window, zone, int(wall_s) // 900)  # no zone sets its clocks between the quarters of an hour
    return begins, ends


@lru_cache(maxsize=64)
def _window(window: Window, zone: str, quarter: int) -> tuple[int, int]:
    there = ZoneInfo(zone)
    moment = datetime.fromtimestamp(quarter * 900, there)
    begins = moment.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    if window == "week":
        begins -= timedelta(days=begins.weekday())
    elif window == "month":
        begins = begins.replace(day=1)
    ends = begins + timedelta(days=1 if window == "day" else 7)
    if window == "month":
        ends = (begins + timedelta(days=32)).replace(day=1)
    return int(begins.replace(tzinfo=there).timestamp()), int(ends.replace(tzinfo=there).timestamp())

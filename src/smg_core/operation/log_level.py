"""The level of the log, which an operator changes for a while (edge: it sets the loggers' levels).

Above: operation.control. Below: observability.logs.
"""

import logging

from smg_core.clock import CallLater, Clock, Handle
from smg_core.observability.logs import set_level

__all__ = ["LogLevel"]

log = logging.getLogger("smg.server")


class LogLevel:
    """The level of this process's log: `configured`, that of the settings, or another one until a time."""

    def __init__(self, configured: str, clock: Clock, call_later: CallLater) -> None:
        self.level = self.configured = configured
        self.until: float | None = None
        self._clock = clock
        self._call_later = call_later
        self._timer: Handle | None = None

    def set(self, level: str, until: float | None) -> None:
        """Log from `level` up; until a time in seconds since 1970, or for good with None. A time that is over sets it back."""
        if until is not None and until <= self._clock.time():
            level, until = self.configured, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.level, self.until = level, until
        set_level(level)
        if until is not None:
            self._timer = self._call_later(until - self._clock.time(), self._return)

    def adopt(self, configured: str) -> None:
        """Called when the settings name a level: it counts from now on, or after the time of another one."""
        changed, self.configured = configured != self.configured, configured
        if changed and self.until is None:
            self.set(configured, None)

    def close(self) -> None:
        """Log as configured."""
        if self.level != self.configured or self.until is not None:
            self.set(self.configured, None)

    def _return(self) -> None:
        log.info("the log's level is %s again", self.configured)
        self.set(self.configured, None)

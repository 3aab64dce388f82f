"""The times to ping a silent engine, and to give it up.

Decides from the time it is told and from what was heard since; sends nothing itself. Pure; below `connection`. gRPC servers end
connections that ping too much (`too_many_pings`): one with default settings forgives three pings without data of its own
between them, then one every five minutes. So a silence is met with three quick pings and patience after that.
"""

from enum import Enum

__all__ = ["KeepAlive", "KeepaliveAction"]

_FREE_PINGS = 3
_PATIENCE = 301.0  # seconds between pings after the free ones


class KeepaliveAction(Enum):
    """What to do at a tick."""

    WAIT = "wait"
    PING = "ping"
    GIVE_UP = "give up"


class KeepAlive:
    """Two attributes are the owner's to write: `heard` set for every read, `quiet_pings` zeroed by headers and messages.

    Times are in seconds of any steady clock.
    """

    __slots__ = ("_interval", "_last", "_pinging", "_timeout", "heard", "quiet_pings")

    def __init__(self, interval: float, timeout: float) -> None:
        self._interval, self._timeout = interval, timeout
        self.heard = False
        self._pinging = False
        self.quiet_pings = 0
        self._last = 0.0

    def tick(self, now: float, calls: int) -> tuple[KeepaliveAction, float]:
        """What to do now, with `calls` open, and in how many seconds to ask again. Idle connections are not pinged."""
        if self.heard:
            self.heard = self._pinging = False
            return KeepaliveAction.WAIT, self._interval
        if self._pinging:
            return KeepaliveAction.GIVE_UP, self._interval
        if calls and (self.quiet_pings < _FREE_PINGS or now - self._last >= _PATIENCE):
            self._pinging, self._last = True, now
            self.quiet_pings += 1
            return KeepaliveAction.PING, self._timeout
        return KeepaliveAction.WAIT, self._interval

"""From single outcomes to a verdict: how many failures make a worker unreachable, how many answers bring it back.

Pure and per worker. Two sources feed it: the monitor's probes, and requests that could not reach the worker. A refused
connection is certain news and counts as all the failures it takes; a slow or failed probe counts once.
"""

from typing import Literal

from smg_core.workers.settings import WorkersConfig

__all__ = ["HealthTracker", "Outcome"]

Outcome = Literal["ok", "failed", "refused"]


class HealthTracker:
    """Counts outcomes of one worker: `probe_failures` in a row make it unreachable, `probe_successes` in a row ready again."""

    __slots__ = ("_bad", "_good", "_settings")

    def __init__(self, settings: WorkersConfig) -> None:
        self._settings = settings
        self._bad = 0
        self._good = 0

    def note(self, outcome: Outcome) -> Literal["healthy", "failing"] | None:
        """The signal for the worker's state machine, or None while the verdict is open."""
        if outcome == "ok":
            self._bad, self._good = 0, self._good + 1
            return "healthy" if self._good >= self._settings.probe_successes else None
        self._good = 0
        self._bad = self._settings.probe_failures if outcome == "refused" else self._bad + 1
        return "failing" if self._bad >= self._settings.probe_failures else None

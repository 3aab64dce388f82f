"""From the outcomes of single probes to a verdict on a worker.

Decides how many failures make a worker unreachable and how many successes make it ready again. A refused connection counts as
all the failures that it takes; a slow or failed probe counts once. Pure. Above: the monitor. Below: nothing.
"""

from typing import Literal

from smg_core.workers.settings import WorkersConfig

__all__ = ["HealthTracker", "Outcome"]

Outcome = Literal["ok", "failed", "refused"]


class HealthTracker:
    """Counts the outcomes of one worker's probes: `probe_failures` in a row make it unreachable, `probe_successes` ready."""

    __slots__ = ("_failures", "_settings", "_successes")

    def __init__(self, settings: WorkersConfig) -> None:
        self._settings = settings
        self._failures = 0
        self._successes = 0

    def note(self, outcome: Outcome) -> Literal["healthy", "failing"] | None:
        """Count an outcome. The signal for the worker's state machine, or None while there is no verdict yet."""
        if outcome == "ok":
            self._failures, self._successes = 0, self._successes + 1
            return "healthy" if self._successes >= self._settings.probe_successes else None
        self._successes = 0
        self._failures = self._settings.probe_failures if outcome == "refused" else self._failures + 1
        return "failing" if self._failures >= self._settings.probe_failures else None

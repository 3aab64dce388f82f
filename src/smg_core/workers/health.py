"""From the outcomes of single probes to a verdict on a worker.

Decides how many failures make a worker unreachable and how many successes make it ready again. A refused connection counts as
all the failures that it takes; a slow or failed probe counts once. Decides too after which probes an engine is asked whether it
still serves what it did. Pure. Above: the monitor. Below: nothing.
"""

from typing import Literal

from smg_core.workers.settings import WorkersConfig

__all__ = ["HealthTracker", "IdentityTracker", "Outcome"]

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


class IdentityTracker:
    """After which good probes of a worker its engine is asked what it serves: when another engine may answer by now, and every
    `identity_probes` probes. Another one may answer after a probe that failed, and over a new connection; where connections are
    not counted, always."""

    __slots__ = ("_connections", "_probes")

    def __init__(self) -> None:
        self._probes = 0
        self._connections: int | None = None

    def due(self, outcome: Outcome, connections: int | None, every: int) -> bool:
        """Count a probe, after which so many connections have been made. Whether the engine is to be asked now."""
        if outcome != "ok":
            self.forget()
            return False
        self._probes += 1
        if connections is not None and connections == self._connections and self._probes < every:
            return False
        self._probes, self._connections = 0, connections
        return True

    def forget(self) -> None:
        """The engine did not say what it serves: it is asked again after the next probe."""
        self._connections = None

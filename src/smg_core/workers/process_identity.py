"""Whether the memory of a worker's engine is still the one that was known before, or gone.

An engine's caches live as long as its process. Decides by what the engine says of its process each time that it describes itself,
and by whether it could not be reached in between. Pure: the times are arguments. Above: the monitor. Below: engines.base.
"""

from collections.abc import Mapping
from typing import Literal

from smg_core.engines.base import ProcessFacts

__all__ = ["MEMORY", "ProcessIdentity", "ProcessTracker"]

ProcessIdentity = Literal["same", "another", "unknown"]

MEMORY: Mapping[tuple[ProcessIdentity, bool], Literal["kept", "gone"]] = {
    ("same", False): "kept",
    ("same", True): "kept",  # the way to the engine was interrupted, not the engine
    ("another", False): "gone",  # it came back between two probes
    ("another", True): "gone",
    ("unknown", False): "kept",  # it was slow, or said that it was not well
    ("unknown", True): "gone",
}
"""What has become of an engine's memory: by whether the process that answers is the one from before, and by whether the engine
could not be reached in between (a connection refused or lost, so that a probe failed)."""


class ProcessTracker:
    """What one worker's engine said of its process last, and when (monotonic seconds)."""

    __slots__ = ("_at", "_known", "_unreachable")

    def __init__(self) -> None:
        self._known: ProcessFacts | None = None
        self._at = 0.0
        self._unreachable = False

    def unreachable(self) -> None:
        """Called when a probe of the worker found nobody to answer."""
        self._unreachable = True

    def seen(self, process: ProcessFacts, asked: float, answered: float) -> bool:
        """The engine, asked at `asked`, has said this by `answered`. Whether the memory of the engine that was seen before is
        gone; False the first time."""
        before, unreachable = self._known, self._unreachable
        gone = before is not None and MEMORY[self._identity(before, process, asked), unreachable] == "gone"
        self._known, self._at, self._unreachable = process, answered, False
        return gone

    def _identity(self, before: ProcessFacts, now: ProcessFacts, asked: float) -> ProcessIdentity:
        """A process that has run for less time than has passed since the engine answered last is another one."""
        if before.id and now.id:
            return "same" if before.id == now.id else "another"
        if not now.uptime_s:
            return "unknown"
        return "another" if now.uptime_s < asked - self._at else "same"

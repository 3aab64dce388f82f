"""Watches the event loop of a process: how late it runs, how long it was blocked, and what the garbage collector takes (edge).

A timer of the loop says how late it was called. A thread looks whether the timer still comes: if it has not for
`observability.watchdog_s` seconds, the log gets the places in the code where the loop's thread is, once in a while for the same
place. Neither has values of variables, so nothing of a request is in it. Above: processes.telemetry. Below: the clock, `repeats`.
"""

import gc
import logging
import sys
import threading
from types import FrameType

import attrs

from smg_core.clock import CallLater, Clock, Handle
from smg_core.observability.repeats import Repeats
from smg_core.observability.settings import ObservabilityConfig

__all__ = ["LoopHealth", "LoopWatch"]

log = logging.getLogger("smg.loop")

MOST_FRAMES = 16  # places of a stack that a line of the log has


@attrs.frozen
class LoopHealth:
    """What happened since it was asked last: the longest time by which the loop's timer was late, how often the loop was blocked
    for longer than the bound, collections of each generation of the garbage collector, and the seconds that they took."""

    lag: float = 0.0
    blocked: int = 0
    collections: tuple[int, ...] = (0, 0, 0)
    collecting_s: float = 0.0


class LoopWatch:
    """The watch over one loop. Made and started in the loop's thread; `call_later` is the loop's."""

    def __init__(self, clock: Clock, call_later: CallLater, settings: ObservabilityConfig) -> None:
        self._clock, self._call_later = clock, call_later
        self._tick_s, self._bound = settings.loop_tick_s, settings.watchdog_s
        self._repeats = Repeats(settings.repeat_s, settings.repeats)
        self._thread_id = threading.get_ident()
        self._seen = self._due = clock.monotonic()
        self._noted: float | None = None  # which silence was noted last
        self._lag = self._collecting_s = self._began = 0.0
        self._blocked = 0
        self._collections = [0, 0, 0]
        self._timer: Handle | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch."""
        gc.callbacks.append(self._collected)
        self._schedule()
        if self._bound:
            self._thread = threading.Thread(target=self._keep_looking, name="smg-loop-watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the watch, and its thread."""
        gc.callbacks.remove(self._collected)
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join()

    def taken(self) -> LoopHealth:
        """What happened since this was called last."""
        found = LoopHealth(self._lag, self._blocked, tuple(self._collections), self._collecting_s)
        self._lag = self._collecting_s = 0.0
        self._blocked, self._collections = 0, [0, 0, 0]
        return found

    def _schedule(self) -> None:
        self._seen = self._clock.monotonic()
        self._due = self._seen + self._tick_s
        self._timer = self._call_later(self._tick_s, self._tick)

    def _tick(self) -> None:
        late = self._clock.monotonic() - self._due
        self._lag = max(self._lag, late)
        if self._bound and late >= self._bound:
            self._blocked += 1
        self._schedule()

    def _collected(self, phase: str, about: dict[str, int]) -> None:
        """The garbage collector begins, or has ended."""
        if phase == "start":
            self._began = self._clock.monotonic()
        else:
            self._collections[about["generation"]] += 1
            self._collecting_s += self._clock.monotonic() - self._began

    def _keep_looking(self) -> None:
        while not self._over.wait(self._bound / 2):
            self.look()

    def look(self) -> None:
        """Log where the loop's thread is, if its timer has not come for too long. Called by the watch's own thread."""
        now, seen = self._clock.monotonic(), self._seen
        if now - seen < self._bound + self._tick_s or self._noted == seen:
            return
        self._noted = seen
        places = list(_places(sys._current_frames().get(self._thread_id)))
        again = self._repeats.note(tuple(places), now)
        if again is not None:
            message = ("the event loop has been blocked for %.1f s (repeated %d times), at %s", now - seen, again)
            log.warning(*message, " < ".join(places))


def _places(frame: FrameType | None) -> "list[str]":
    """Where a thread is: the innermost place first."""
    found: list[str] = []
    while frame is not None and len(found) < MOST_FRAMES:
        code = frame.f_code
        found.append(f"{code.co_filename.rpartition('/site-packages/')[2]}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return found

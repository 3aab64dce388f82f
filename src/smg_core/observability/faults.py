"""The log of faults that nobody has foreseen: what the gateway did when an exception came that is none of its errors.

The same fault, the same class of exception from the same place in the same kind of work, is written with its traceback once in
`observability.repeat_s` seconds; in between it is counted, and the number is told with the next line. What fails once fails at
every request, and its tracebacks must not fill a disk. The exception's own text is left out, since it may repeat what a client
sent, unless `observability.fault_words` is on. Above: server. Below: `repeats`, `wordless`.
"""

import logging
import traceback

from smg_core.clock import Clock
from smg_core.observability.repeats import Repeats
from smg_core.observability.settings import ObservabilityConfig
from smg_core.observability.wordless import without_words

__all__ = ["FaultLog"]

_DEFAULTS = ObservabilityConfig()


class FaultLog:
    """Writes faults to the log of this name."""

    def __init__(self, name: str, clock: Clock, settings: ObservabilityConfig = _DEFAULTS) -> None:
        self._log = logging.getLogger(name)
        self._clock = clock
        self._repeats = Repeats(settings.repeat_s, settings.repeats)
        self._words = settings.fault_words

    def note(self, work: str, error: BaseException, which: str = "") -> None:
        """`work` has failed with `error`: a kind of work, of which there are few. `which` says what it was done for, such as a
        request's id."""
        frames = traceback.extract_tb(error.__traceback__)
        place = (frames[-1].filename, frames[-1].lineno) if frames else None
        again = self._repeats.note((work, type(error).__name__, place), self._clock.monotonic())
        if again is None:
            return
        repeats = f", {again} more like it since the last time" if again else ""
        reported = error if self._words else without_words(error)
        self._log.error("%s failed%s%s", work, f", {which}" if which else "", repeats, exc_info=reported)

"""The log of routing policies that fail: policies are written by users, too, and one that fails does so at every request.

The same fault is logged with its traceback, then counted, and told again with its number once in a while. The text of an
exception is left out, unless `observability.fault_words` is on: it may have a part of a request in it. Above:
gateway.assembly. Below: hooks.
"""

import logging
import traceback

from smg_core.clock import Clock
from smg_core.hooks import Observer, PolicyFailed
from smg_core.observability.repeats import Repeats
from smg_core.observability.settings import ObservabilityConfig
from smg_core.outside_words.exceptions import words_of_fault

__all__ = ["PolicyFailures"]

log = logging.getLogger("smg.routing")

_DEFAULTS = ObservabilityConfig()


class PolicyFailures:
    """Logs each fault of a policy, and reports it to `observer`."""

    def __init__(self, clock: Clock, observer: Observer, settings: ObservabilityConfig = _DEFAULTS) -> None:
        self._clock = clock
        self._observer = observer
        self._words = settings.fault_words or settings.author_words
        self._repeats = Repeats(settings.repeat_s, settings.repeats)

    def note(self, policy: str, call: str, error: BaseException) -> None:
        """The method `call` of a policy has raised `error`. Called by the policies' table."""
        kind = type(error).__name__
        self._observer.report(PolicyFailed(policy, call, kind))
        frames = traceback.extract_tb(error.__traceback__)
        place = frames[-1] if frames else None
        where = (place.filename, place.lineno) if place is not None else ("", 0)
        again = self._repeats.note((policy, call, kind, where), self._clock.monotonic())
        if again is None:
            return
        where_failed = f"{kind} at {where[0]}:{where[1]}"
        if self._words:
            where_failed = f"{where_failed}: {words_of_fault(error)}"
        if again:
            log.error(
                "the policy %s still fails in %s: %s, %d more since the last time", policy, call, where_failed, again
            )
        else:
            lines = "".join(traceback.format_list(frames)).rstrip()
            log.error("the policy %s has failed in %s: %s\n%s", policy, call, where_failed, lines)

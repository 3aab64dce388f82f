"""The log of engine failures: an observer that every gateway has.

An engine's own error text is for the operator: it is written here and sent to nobody. The same failure of the same worker is
logged once a minute, with the number of repetitions; the access log has every request. Above:
server.request_traces. Below: hooks.
"""

import logging

from smg_core.clock import Clock
from smg_core.errors import ToolServerFailed
from smg_core.hooks import AttemptEnded, Moment, RequestFinished
from smg_core.observability.repeats import Repeats
from smg_core.observability.settings import ObservabilityConfig

__all__ = ["FailureLog"]

log = logging.getLogger("smg.failures")

NOT_FAILED = frozenset({"ok", "abandoned", "outrun"})
_DEFAULTS = ObservabilityConfig()
LONGEST_DETAIL = 2000  # characters of an engine's text


class FailureLog:
    """Logs each engine call that failed, and each request that failed with a `detail` before any engine was called."""

    __slots__ = ("_clock", "_repeats")

    hears = frozenset({AttemptEnded, RequestFinished})

    def __init__(self, clock: Clock, settings: ObservabilityConfig = _DEFAULTS) -> None:
        self._clock = clock
        self._repeats = Repeats(settings.repeat_s, settings.repeats)

    def report(self, moment: Moment) -> None:
        if type(moment) not in self.hears:
            return
        if isinstance(moment, AttemptEnded):
            if moment.outcome not in NOT_FAILED:
                self._write(moment.worker, moment.outcome, moment.detail, moment.request_id, moment.client_id)
        elif isinstance(moment, RequestFinished) and moment.detail and not moment.attempts and _is_ours(moment.status):
            self._write("", moment.outcome, moment.detail, moment.request_id, moment.client_id)

    def _write(self, worker: str, outcome: str, detail: str, request_id: str, client_id: str) -> None:
        again = self._repeats.note((worker, outcome, detail), self._clock.monotonic())
        if again is None:
            return
        log.warning(
            "%s: worker=%s request=%s client_request=%s repeated=%d detail=%s",
            *(outcome, worker or "none", request_id, client_id or "none", again, detail[:LONGEST_DETAIL] or "none"),
            extra={
                "fields": {
                    "outcome": outcome,
                    "worker": worker,
                    "request_id": request_id,
                    "client_request_id": client_id,
                    "repeated": again,
                    "detail": detail[:LONGEST_DETAIL],
                }
            },
        )


def _is_ours(status: int) -> bool:
    """Whether a request that failed so failed for a reason on the gateway's side: its own, or that of what it needs."""
    return status >= 500 or status == ToolServerFailed.status

"""The log of engine failures: an observer that every gateway has.

An engine's own error text is for the operator: it is written here and sent to nobody. It may repeat a prompt, so of it there are
only the words that are used in faults (outside_words), unless `observability.fault_words` is on. The same failure of the same
worker is logged once a minute, with the number of repetitions; the access log has every request. Above: gateway.assembly. Below:
hooks, outside_words.
"""

import logging

from smg_core.clock import Clock
from smg_core.errors import AuthenticationFailed, PermissionDenied, ToolServerFailed
from smg_core.hooks import AttemptEnded, Moment, RequestFinished
from smg_core.observability.repeats import Repeats
from smg_core.observability.settings import ObservabilityConfig
from smg_core.outside_words import in_log

__all__ = ["FailureLog"]

log = logging.getLogger("smg.failures")

NOT_FAILED = frozenset({"ok", "abandoned", "outrun"})
_DEFAULTS = ObservabilityConfig()
_OF_TOOL_SERVERS = frozenset({ToolServerFailed.status, AuthenticationFailed.status, PermissionDenied.status})
LONGEST_DETAIL = 2000  # characters of an engine's text


class FailureLog:
    """Logs each engine call that failed, and each request that failed with a `detail` of which no engine's call has told: before
    one was called, or when its answer was written."""

    __slots__ = ("_clock", "_repeats", "_words")

    hears = frozenset({AttemptEnded, RequestFinished})

    def __init__(self, clock: Clock, settings: ObservabilityConfig = _DEFAULTS) -> None:
        self._clock = clock
        self._repeats = Repeats(settings.repeat_s, settings.repeats)
        self._words = settings.fault_words

    def report(self, moment: Moment) -> None:
        if isinstance(moment, AttemptEnded):
            if moment.outcome not in NOT_FAILED:
                self._write(moment, moment.worker)
        elif isinstance(moment, RequestFinished) and moment.detail and not moment.reported and _is_ours(moment.status):
            self._write(moment, "")

    def _write(self, failed: AttemptEnded | RequestFinished, worker: str) -> None:
        detail = (failed.detail if self._words else in_log(failed.detail, failed.outside_text))[:LONGEST_DETAIL]
        again = self._repeats.note((worker, failed.outcome, detail), self._clock.monotonic())
        if again is None:
            return
        fields: dict[str, object] = {
            "outcome": failed.outcome,
            "worker": worker,
            "request_id": failed.request_id,
            "client_request_id": failed.client_id,
            "trace_id": failed.trace_id,
            "repeated": again,
            "detail": detail,
        }
        words = " ".join(
            f"{name}={'none' if value == '' else value}" for name, value in fields.items() if name != "outcome"
        )
        log.warning("%s: %s", failed.outcome, words, extra={"fields": fields})


def _is_ours(status: int) -> bool:
    """Whether a request that failed so, and tells why, failed for a reason on the gateway's side: its own, or that of what it
    needs, such as a server of tools that does not take the operator's token."""
    return status >= 500 or status in _OF_TOOL_SERVERS

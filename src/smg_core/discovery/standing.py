"""The state of the sources of workers: whether each answers, how old its last answer is, and what it names.

Pure: the time is an argument. Above: running writes it, server.admin and the metrics read it. Below: base.
"""

from typing import Literal

import attrs

from smg_core.discovery.base import SourceAnswer, Wanted, WorkersSeen

__all__ = ["SourceStanding"]


@attrs.define
class SourceStanding:
    """One source, which began at `began` (monotonic seconds). `answered` is the time of its last usable answer, None before the
    first; `reason` says why the answers since then could not be used, "" where the last one was good. `wanted` is what it named
    last, `taken` the names in it that workers of others have."""

    name: str
    began: float
    answered: float | None = None
    reason: str = ""
    failures: int = 0
    wanted: tuple[Wanted, ...] | None = None
    taken: tuple[str, ...] = ()

    def note(self, answer: SourceAnswer, now: float) -> str:
        """Take an answer of the source. What the operator is to be told: "lost" when it is the first that cannot be used, or is
        so for another reason; "back" when it is the first good one after such; else ""."""
        if isinstance(answer, WorkersSeen):
            change = "back" if self.reason else ""
            self.answered, self.reason, self.failures, self.wanted = now, "", 0, answer.workers
            return change
        change = "" if self.reason == answer.reason else "lost"
        self.reason = answer.reason
        self.failures += 1
        return change

    def age(self, now: float) -> float:
        """Seconds since its last usable answer, or since it was first asked."""
        return max(0.0, now - (self.began if self.answered is None else self.answered))

    @property
    def state(self) -> Literal["current", "stale", "unknown"]:
        """ "current"; "stale": what it named before still holds; "unknown": it has never answered."""
        if self.answered is None:
            return "unknown"
        return "stale" if self.reason else "current"

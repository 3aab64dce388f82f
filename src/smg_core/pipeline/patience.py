"""How long an engine may say nothing: before the first token of a call, and between two of them.

A call is looked at from time to time instead of at every token: a look that finds nothing new adds the time since the last one,
and a call that is held back for its client is not waited for. So a bound is kept to within half of the shorter one. Pure: what
calls back later is an argument. Above: pipeline.streaming, which watches each call. Below: attempt.
"""

from typing import Any

import attrs

from smg_core.clock import CallLater
from smg_core.errors import EngineStalled
from smg_core.pipeline.attempt import Attempt

__all__ = ["Patience", "Watch"]


@attrs.frozen
class Patience:
    """In seconds; None waits for ever. `first` covers queue and prefill, `between` each pause after the first token."""

    first: float | None = None
    between: float | None = None

    @property
    def look(self) -> float | None:
        """Seconds between two looks."""
        bounds = [bound for bound in (self.first, self.between) if bound is not None]
        return min(bounds) / 2 if bounds else None


class Watch:
    """Watches one attempt from now on, until it is over or `stop` is called; ends it with EngineStalled when it says nothing for
    too long."""

    __slots__ = ("_attempt", "_call_later", "_handle", "_idle", "_look", "_patience", "_seen")

    def __init__(self, attempt: Attempt[Any], patience: Patience, call_later: CallLater) -> None:
        self._attempt = attempt
        self._patience = patience
        self._call_later = call_later
        self._seen = 0
        self._idle = 0.0
        self._look = patience.look
        self._handle = None if self._look is None else call_later(self._look, self._looks)

    def _looks(self) -> None:
        attempt, look = self._attempt, self._look
        if attempt.over or look is None:
            return
        if attempt.paused or attempt.pushes != self._seen:
            self._seen, self._idle = attempt.pushes, 0.0
        else:
            self._idle += look
        bound = self._patience.between if self._seen else self._patience.first
        if bound is not None and self._idle >= bound:
            what = "between two tokens" if self._seen else "before its first token"
            attempt.end(
                EngineStalled("The engine did not answer in time.", detail=f"said nothing {what} for {bound:g} s")
            )
            return
        self._handle = self._call_later(look, self._looks)

    def stop(self) -> None:
        """Look no more."""
        if self._handle is not None:
            self._handle.cancel()

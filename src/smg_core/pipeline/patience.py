"""How long an engine may say nothing: before the first token of a call, and between two of them.

A call is looked at from time to time instead of at every token: a look that finds nothing new adds the time since the last one,
and a call that is held back for its client is not waited for. The first token is missed to the moment; a pause between two tokens
is noticed at half its bound more at the latest. Pure: what calls back later is an argument. Above: pipeline.streaming, which
watches each call. Below: attempt.
"""

from smg_core.clock import CallLater
from smg_core.errors import EngineStalled
from smg_core.pipeline.attempt import AnyAttempt
from smg_core.pipeline.timeouts import Timeouts

__all__ = ["Watch"]


class Watch:
    """Watches one attempt from now on, until it is over or `stop` is called; ends it with EngineStalled when it says nothing for
    longer than `timeouts.first_token` or `timeouts.token`."""

    __slots__ = ("_attempt", "_between", "_call_later", "_first", "_handle", "_idle", "_look", "_seen")

    def __init__(self, attempt: AnyAttempt, timeouts: Timeouts, call_later: CallLater) -> None:
        self._attempt = attempt
        self._first, self._between = timeouts.first_token, timeouts.token
        self._call_later = call_later
        self._seen = 0
        self._idle = 0.0
        self._look = self._next()
        self._handle = None if self._look is None else call_later(self._look, self._check)

    def _next(self) -> float | None:
        """Seconds until the next look. A first token may come, and then stay alone, long before its own bound."""
        half = None if self._between is None else self._between / 2
        if self._first is None or self._seen:
            return half
        left = self._first - self._idle
        return left if half is None else min(left, half)

    def _check(self) -> None:
        attempt = self._attempt
        if attempt.over or self._look is None:
            return
        if attempt.paused or attempt.pushes != self._seen:
            self._seen, self._idle = attempt.pushes, 0.0
        else:
            self._idle += self._look
        bound = self._between if self._seen else self._first
        if bound is not None and self._idle >= bound:
            what = "between two tokens" if self._seen else "before its first token"
            attempt.end(
                EngineStalled("The engine did not answer in time.", detail=f"said nothing {what} for {bound:g} s")
            )
            return
        self._look = self._next()
        if self._look is not None:
            self._handle = self._call_later(self._look, self._check)

    def stop(self) -> None:
        """Look no more."""
        if self._handle is not None:
            self._handle.cancel()

"""Ends an engine call that is silent too long: before its first token, or between two tokens.

A timer checks the call from time to time instead of at every token: a check that finds nothing new adds the time since the last
check, and a call that is paused for a slow client is not checked. A late first token is noticed on time, a pause between two
tokens after 1.5 times its bound at the latest. An outside provider that says it is at work, and nothing else, is not silent: its
models reason for minutes without a word; nor is one that says all at once, for which the request's own bound holds. Pure: the
timer is an argument. Above: pipeline.calls.streaming, which watches each call. Below: attempt.
"""

from smg_core.clock import CallLater
from smg_core.errors import EngineStalled
from smg_core.pipeline.answer.attempt import AnyAttempt
from smg_core.pipeline.flow.timeouts import Timeouts

__all__ = ["Watch"]


class Watch:
    """Watches one attempt from now on, until it is over or `stop` is called; ends it with EngineStalled when it says nothing for
    longer than `timeouts.first_token` or `timeouts.token`."""

    __slots__ = ("_attempt", "_beats", "_between", "_call_later", "_first", "_handle", "_idle", "_look", "_seen")

    def __init__(self, attempt: AnyAttempt, timeouts: Timeouts, call_later: CallLater) -> None:
        self._attempt = attempt
        self._first, self._between = timeouts.first_token, timeouts.token
        self._call_later = call_later
        self._seen = self._beats = 0
        self._idle = 0.0
        self._look = self._next()
        self._handle = None if self._look is None else call_later(self._look, self._check)

    def _next(self) -> float | None:
        """Seconds until the next check; None for no check. Before the first token the bound between tokens counts too, since the
        first token may come soon and be followed by silence."""
        half = None if self._between is None else self._between / 2
        if self._first is None or self._seen:
            return half
        left = self._first - self._idle
        return left if half is None else min(left, half)

    def _check(self) -> None:
        attempt = self._attempt
        if attempt.over or self._look is None:
            return
        if attempt.paused or attempt.silent or attempt.pushes != self._seen or attempt.beats != self._beats:
            self._seen, self._beats, self._idle = attempt.pushes, attempt.beats, 0.0
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
        """Stop checking; called when the call is over."""
        if self._handle is not None:
            self._handle.cancel()

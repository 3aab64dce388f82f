"""Decides when a streamed answer sends a keep-alive, or its head before any output.

Proxies and clients close a stream that is silent for long, for example while an engine thinks or a tool runs. One timer per
response checks from time to time whether anything was written since its last check; a token only sets a flag. Silence is noticed
after 1.5 times its bound at the latest. Pure: the timer is an argument. Above: pipeline.answer.answer. Below: clock.
"""

from collections.abc import Callable

from msgspec import Struct

from smg_core.clock import CallLater, Handle

__all__ = ["Silence", "StreamKeepAlive"]


class StreamKeepAlive(Struct, frozen=True):
    """`after`: seconds of silence after which the API's keep-alive is sent, 0 for never. `commit`: seconds after which the
    head is sent even without output, None for never: for proxies that wait no longer. Errors come in the stream from then on, and
    no other model stands in. `call_later` is the event loop's."""

    call_later: CallLater
    after: float = 0.0
    commit: float | None = None


class Silence:
    """The timer of one response. It calls `broken` when a keep-alive is due; `broken` returns whether it sent one. The answer
    sets `spoke` whenever it writes."""

    __slots__ = ("_broken", "_committed", "_handle", "_idle", "_settings", "_stopped", "spoke")

    def __init__(self, settings: StreamKeepAlive, broken: Callable[[], bool]) -> None:
        self.spoke = False
        self._settings = settings
        self._broken = broken
        self._idle = 0.0
        self._committed = False
        self._stopped = False
        self._handle: Handle | None = None
        if settings.commit is not None:
            self._handle = settings.call_later(settings.commit, self._commit)

    def committed(self) -> None:
        """The head has gone out: from now on silence counts."""
        if self._committed or self._stopped:
            return
        self._committed = True
        if self._handle is not None:
            self._handle.cancel()
        if self._settings.after:
            self._look_later()

    def _look_later(self) -> None:
        self._handle = self._settings.call_later(self._settings.after / 2, self._look)

    def _commit(self) -> None:
        """Send the head, which is due; if that is not possible yet, because no engine was asked, try again later."""
        if not self._committed and not self._stopped and not self._broken() and self._settings.commit is not None:
            self._handle = self._settings.call_later(self._settings.commit, self._commit)

    def _look(self) -> None:
        if self._stopped:
            return
        if self.spoke:
            self.spoke, self._idle = False, 0.0
        else:
            self._idle += self._settings.after / 2
        if self._idle >= self._settings.after and self._broken():
            self.spoke, self._idle = False, 0.0
        self._look_later()

    def stop(self) -> None:
        """The response is over."""
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()

"""When a streamed answer is kept alive: after how much silence, and when its head goes out although nothing has been said.

Proxies and clients close a stream on which nothing comes for long, be it that an engine thinks or that a tool runs. One timer per
response looks from time to time whether anything was said since its last look; nothing is done for a token but the setting of
a flag. Silence is noticed at half its bound more at the latest. Pure: what calls back later is an argument. Above:
pipeline.answer. Below: clock.
"""

from collections.abc import Callable

from msgspec import Struct

from smg_core.clock import CallLater, Handle

__all__ = ["Silence", "StreamKeepAlive"]


class StreamKeepAlive(Struct, frozen=True):
    """`after`: seconds of silence after which the API's keep-alive is sent, 0 for never. `commit`: seconds after which the
    head goes out although nothing has been said, None for never: a client that waits behind an impatient proxy then sees that it
    is waited for, and no other worker can be tried any more. `call_later` is the event loop's."""

    call_later: CallLater
    after: float = 0.0
    commit: float | None = None


class Silence:
    """The timer of one response. `broken` is to be called when there is something to send; it says whether it sent it. `spoke` is
    set by who writes."""

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
        """The head is due. Where it cannot go out yet, since no engine was asked, it is tried again."""
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

"""One response that another server makes in a session of its own, as the call of an engine (edge).

What the session reads of the response is told to the call's sink as events: its text, its tokens, its end. Limits, accounts,
time-outs, breakers and traces then count it as they count every call. Above: the
session that is passed through. Below: the events.
"""

from collections.abc import Awaitable, Callable

from smg_core.engines.base import EngineSink
from smg_core.errors import InternalError, SmgError
from smg_core.events import Event, Finished, OpaqueBlock, TextDelta, Usage

__all__ = ["RELAYED", "RelayedTurn"]

RELAYED = "realtime"
"""The kind of the block that stands for the first thing that a response brings."""


class RelayedTurn:
    """One response. `ask` has the server begin it, where it has not begun by itself; `give_up` has it ended there. `waited` is
    called once it is known whether it may be made."""

    def __init__(
        self, ask: Callable[[], Awaitable[None]], give_up: Callable[[], None], waited: Callable[[], None]
    ) -> None:
        self._ask, self._give_up, self._waited = ask, give_up, waited
        self._sink: EngineSink[Event] | None = None
        self._began = False
        self.over = False

    async def begin(self, sink: EngineSink[Event]) -> None:
        """The response may be made: ask for it. Raises SmgError where it cannot be."""
        if self._sink is not None or self.over:
            raise InternalError("A response of another server is asked for once.")
        self._sink = sink
        try:
            await self._ask()
        finally:
            self._waited()

    # ------------------------------------------------------------------------------------------ told by the session

    def add_text(self, text: str) -> None:
        """More of the answer's text."""
        if text:
            self._push([TextDelta(0, text)])

    def at_work(self) -> None:
        """The server has sent something else of the response."""
        sink = self._sink
        if sink is None or self.over:
            return
        if not self._began:
            self._push([OpaqueBlock(0, RELAYED, b"")])
            return
        alive: Callable[[], None] | None = getattr(sink, "alive", None)
        if alive is not None:
            alive()

    def ended(self, usage: Usage | None, error: SmgError | None = None) -> None:
        """The response is over at the server; with `error` where it failed there."""
        sink = self._sink
        if sink is None or self.over:
            self.over = True
            return
        if usage is not None:
            self._push([usage])
        if error is None and not self.over:
            self._push([Finished(0, "stop")])
        if not self.over:
            self.over = True
            sink.closed(error)

    def _push(self, events: list[Event]) -> None:
        if self._sink is not None and not self.over:
            self._began = True
            self._sink.push(events)

    # ------------------------------------------------------------------------------------- asked by the sink's owner

    def cancel(self) -> None:
        """Have the server end the response. The sink hears nothing more."""
        if not self.over:
            self.over = True
            self._give_up()

    def leave(self) -> None:
        """Nothing more is wanted of the response."""
        self.over = True

    def pause(self) -> None:
        """Nothing: the session itself stops reading where its client does."""

    def resume(self) -> None:
        """Nothing, as for `pause`."""

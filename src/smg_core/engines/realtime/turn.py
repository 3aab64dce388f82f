"""One response that another server makes in a session of its own, as the call of an engine (edge).

What the session reads of the response is told to the call's sink as events: its text, its tokens, its end. Limits, accounts,
time-outs, breakers and traces then count it as they count every call. Above: the
session that is passed through. Below: the events.
"""

from collections.abc import Awaitable, Callable

from smg_core.engines.base import EngineSink
from smg_core.errors import InternalError, SmgError
from smg_core.events import (
    Event,
    Finished,
    FinishReason,
    OpaqueBlock,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.request import GenerationRequest

__all__ = ["RELAYED", "RelayedTurn", "RelayedTurns"]

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
        self._calls = 0
        self.over = False

    @property
    def begun(self) -> bool:
        """Whether the server was asked for it."""
        return self._sink is not None

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

    def add_call(self, id: str, name: str, arguments: str) -> None:
        """A call of a function, which is whole."""
        call = self._calls
        self._calls += 1
        self._push([ToolCallStart(0, call, id, name), ToolCallDelta(0, call, arguments), ToolCallEnd(0, call)])

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

    def ended(self, usage: Usage | None, error: SmgError | None = None, reason: FinishReason = "stop") -> None:
        """The response is over at the server, for this `reason`; with `error` where it failed there."""
        sink = self._sink
        if sink is None or self.over:
            self.over = True
            return
        if usage is not None:
            self._push([usage])
        if error is None and not self.over:
            self._push([Finished(0, "tool_calls" if self._calls and reason == "stop" else reason)])
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


class RelayedTurns:
    """The responses of the server that one response of a client is made of: `turn` is the newest. `following` makes the one
    behind it, where the tools run here that it has called; None where none do."""

    def __init__(self, first: RelayedTurn, following: Callable[[GenerationRequest], RelayedTurn] | None = None) -> None:
        self.turn = first
        self._following = following

    def next(self, request: GenerationRequest) -> RelayedTurn:
        """The response that an engine is asked for by `request`."""
        if self.turn.begun and self._following is not None:
            self.turn = self._following(request)
        return self.turn

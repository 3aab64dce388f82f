"""The calls that wait for a free stream of an HTTP/2 connection, and the streams left for questions.

Questions go before all other calls (`engines.connections.call_queue`), and the last few streams are theirs:
`EnginesConfig.question_calls`, and at most an eighth of what the engine takes. Pure. Above: `connection`.
"""

from smg_core.engines.connections.call_queue import CallQueue
from smg_core.engines.grpc.h2.stream import H2Stream
from smg_core.engines.settings import EnginesConfig

__all__ = ["WaitingCalls"]

_FEW = 8


class WaitingCalls(CallQueue[H2Stream]):
    """The queue of one connection, with what the streams are for."""

    __slots__ = ()

    def __init__(self, limits: EnginesConfig) -> None:
        super().__init__(limits, "for a free stream")

    def sends_now(self, call: H2Stream, used: int, most: int) -> bool:
        """Whether a new call need not wait, with `used` streams in use of `most`."""
        if self._questions or (self._others and not call.question):
            return False
        return used < most if call.question else used < most - min(self._limits.question_calls, most // _FEW)

    def next(self, used: int, most: int) -> H2Stream | None:
        """Remove the call that is to be sent now, with `used` streams in use of `most`; None where there is none."""
        call = self.first()
        if call is None:
            return None
        kept = 0 if call.question else min(self._limits.question_calls, most // _FEW)
        return self.take() if used < most - kept else None

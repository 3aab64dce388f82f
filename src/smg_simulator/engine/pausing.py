"""An engine with paused generation and the weights it was given, as vLLM's and SGLang's servers.

Decides which requests are held and which are refused; pure. Above: clockwork, which has one, server.grpc_server, which asks for
each request, and server.http_server, where a pause is asked for.
"""

from collections import deque
from collections.abc import Callable

from smg_simulator.engine.refusal import Refused

__all__ = ["Pausing"]

_KEPT = 256

Wake = Callable[[], None]


class Pausing:
    """`mode` is "" while the engine generates, else what becomes of requests: "abort" and "wait" refuse new ones, "keep" and
    "retract" hold all. `asleep`: its memory is given free, and it takes no requests. `weights` are the last calls that changed
    its weights: the path of each, and its body."""

    def __init__(self) -> None:
        self.mode = ""
        self.asleep = False
        self.weights: deque[tuple[str, bytes]] = deque(maxlen=_KEPT)
        self._held: list[Wake] = []
        self._pauses: list[Wake] = []

    def check(self) -> None:
        """Called for a new request. Raises Refused where the pause lets none in."""
        if self.asleep:
            raise Refused("the engine is asleep", "UNAVAILABLE")
        if self.mode in ("abort", "wait"):
            raise Refused("generation is paused", "UNAVAILABLE")

    def holds(self, wake: Wake) -> bool:
        """Whether a request may make no token now; `wake` is then called when it may be asked again."""
        held = self.mode in ("keep", "retract")
        if held:
            self._held.append(wake)
        return held

    def resume(self) -> None:
        """End the pause."""
        self.mode = ""
        held, self._held = self._held, []
        for wake in held:
            wake()

    def when_idle(self, tell: Wake) -> None:
        """Have `tell` called when no request is left."""
        self._pauses.append(tell)

    def left(self, others: int) -> None:
        """Called when a request has ended and `others` still run."""
        if not others:
            pauses, self._pauses = self._pauses, []
            for tell in pauses:
                tell()

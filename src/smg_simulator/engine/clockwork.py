"""The due times of the embedded engine's tokens: prefill, decode steps, and how many requests run at once.

Decides times and order; pure given a clock. Above: server.grpc_server, which waits. Knows counts of tokens, not tokens.
It models continuous batching: prompts are computed one after another; then every running request gets a token at each step, and
all requests share the same steps.
"""

from collections import deque

import attrs

from smg_core.clock import Clock
from smg_simulator.engine.pausing import Pausing
from smg_simulator.engine.refusal import Refused

__all__ = ["Clockwork", "Ticket", "Timing"]


@attrs.frozen
class Timing:
    """The speed of the engine. Rates are tokens per second; None means "at once".

    `prefill_rate` is shared by all prompts; `decode_rate` is that of one request that runs alone. Each further running request
    lengthens a step by the share `slowdown`. `batch` requests run at once, `queue` more may wait. `tokens_per_step` ids come in
    one message, as with speculative decoding. `overhead` seconds are added before the first token.
    """

    prefill_rate: float | None = None
    decode_rate: float | None = None
    batch: int = 256
    queue: int = 4096
    slowdown: float = 0.0
    tokens_per_step: int = 1
    overhead: float = 0.0

    def __attrs_post_init__(self) -> None:
        for name in ("prefill_rate", "decode_rate"):
            if (rate := getattr(self, name)) is not None and not rate > 0:
                raise ValueError(f"{name} must be above 0, got {rate}")
        if self.batch < 1 or self.tokens_per_step < 1 or self.queue < 0:
            raise ValueError("batch and tokens_per_step must be at least 1, queue at least 0")


@attrs.define(eq=False)
class Ticket:
    """One request, running or waiting. `uncached` prompt tokens are to be computed; `due` is when its next tokens are ready, in
    monotonic seconds."""

    uncached: int
    due: float = 0.0
    running: bool = False


class Clockwork:
    """The schedule of one engine: which requests run, and when each gets its next tokens. The server calls `arrive` and
    `leave` for every request, `advance` after every step."""

    def __init__(self, timing: Timing, clock: Clock) -> None:
        self.pausing = Pausing()
        self.timing = timing
        self._clock = clock
        self._epoch = clock.monotonic()
        self._prefill_free = self._epoch
        self._waiting: deque[Ticket] = deque()
        self._running = 0
        self._second = 0
        self._this_second = 0
        self._last_second = 0

    @property
    def running(self) -> int:
        return self._running

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def check_room(self) -> None:
        """Raise Refused when the batch and the queue are full."""
        if self._running >= self.timing.batch and len(self._waiting) >= self.timing.queue:
            raise Refused("the queue is full", "RESOURCE_EXHAUSTED")

    def arrive(self, uncached: int) -> Ticket:
        """Add a request with `uncached` prompt tokens to compute. It runs at once if the batch has room (`Ticket.running`),
        else it waits."""
        ticket = Ticket(uncached)
        if self._running < self.timing.batch:
            self._start(ticket)
        else:
            self._waiting.append(ticket)
        return ticket

    def leave(self, ticket: Ticket) -> Ticket | None:
        """Remove a request; returns the waiting one that runs in its place, if any."""
        if not ticket.running:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            return None
        ticket.running = False
        self._running -= 1
        if not self._waiting:
            return None
        following = self._waiting.popleft()
        self._start(following)
        return following

    def advance(self, ticket: Ticket) -> None:
        """Set when the next tokens are due; called when those that were due have been sent."""
        ticket.due += self._step()

    def count(self, tokens: int) -> None:
        """Count generated tokens, for `throughput`."""
        self._start_new_second()
        self._this_second += tokens

    @property
    def throughput(self) -> float:
        """Tokens generated in the last full second."""
        self._start_new_second()
        return float(self._last_second)

    def _start(self, ticket: Ticket) -> None:
        self._running += 1
        ticket.running = True
        now = self._clock.monotonic()
        if self.timing.prefill_rate is None:
            ready = now
        else:
            ready = max(now, self._prefill_free) + ticket.uncached / self.timing.prefill_rate
            self._prefill_free = ready
        ticket.due = self._next_step_boundary(ready + self.timing.overhead)

    def _step(self) -> float:
        if self.timing.decode_rate is None:
            return 0.0
        alone = self.timing.tokens_per_step / self.timing.decode_rate
        return alone * (1 + self.timing.slowdown * max(0, self._running - 1))

    def _next_step_boundary(self, moment: float) -> float:
        """The first step boundary at or after `moment`."""
        if self.timing.decode_rate is None:
            return moment
        beat = self.timing.tokens_per_step / self.timing.decode_rate
        passed = (moment - self._epoch) / beat
        whole = int(passed)
        return moment if passed - whole < 1e-9 else self._epoch + (whole + 1) * beat

    def _start_new_second(self) -> None:
        second = int(self._clock.monotonic() - self._epoch)
        if second != self._second:
            self._last_second = self._this_second if second == self._second + 1 else 0
            self._this_second = 0
            self._second = second

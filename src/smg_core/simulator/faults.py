"""What can be made to go wrong in the embedded engine, and which request it happens to.

Decides only the plan: faults in a row, one a request, or at random by given shares from a seeded source. Pure. Above:
simulator.server carries them out.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Literal, get_args

import attrs

from smg_core.engines.status import NAMES as STATUS_NAMES

__all__ = ["KINDS", "Fault", "FaultKind", "Faults"]

FaultKind = Literal["refuse", "stall", "drip", "cut", "error", "silence", "garbage", "restart"]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
LONGEST = 86_400.0
"""Seconds that a fault may take."""
STATUSES = frozenset(STATUS_NAMES) - {"OK"}
"""Names of the gRPC statuses that a call can fail with."""


@attrs.frozen
class Fault:
    """One misfortune, after `after` tokens have been sent (0: before the first).

    - "refuse": not taken at all; the call ends with `status` (UNAVAILABLE), as of an engine that is full or going down
    - "stall": nothing more comes for `seconds` (None: until the client gives up)
    - "drip": from then on each step takes `seconds`
    - "cut": the stream is reset with UNAVAILABLE
    - "error": the call ends with `status` (INTERNAL) and `message`
    - "silence": the stream ends as if all were well, without its closing message
    - "garbage": bytes that are no message of the protocol
    - "restart": every connection is dropped, and the engine is away for `seconds` (None: at once back)

    `status` is a gRPC status name.
    """

    kind: FaultKind
    after: int = 0
    seconds: float | None = None
    status: str = ""
    message: str = "a fault was asked for"

    def __attrs_post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is no fault; there are {', '.join(KINDS)}")
        if self.after < 0 or (self.seconds is not None and not 0 <= self.seconds <= LONGEST):
            raise ValueError(f"a fault comes after 0 tokens or more and takes 0 to {LONGEST} seconds")
        if self.status and self.status not in STATUSES:
            raise ValueError(f"{self.status!r} is no gRPC status that a call can fail with")

    @property
    def code(self) -> str:
        """The gRPC status the call ends with."""
        return self.status or ("INTERNAL" if self.kind == "error" else "UNAVAILABLE")


class Faults:
    """Which request meets which fault: first those in `script`, in turn (None: spared), then by `rates`, a share of all
    requests for each fault. At most `limit` faults wait in the script."""

    def __init__(
        self,
        script: Iterable[Fault | None] = (),
        rates: Mapping[Fault, float] | None = None,
        seed: int = 0,
        *,
        limit: int = 10_000,
    ) -> None:
        self._limit = limit
        self._script: deque[Fault | None] = deque()
        self._random = Random(seed)
        self.set_rates(rates or {})
        self.add(*script)

    def set_rates(self, rates: Mapping[Fault, float]) -> None:
        """Let these shares of requests meet these faults from now on. Raises ValueError for shares that are none."""
        if not all(share >= 0 for share in rates.values()) or sum(rates.values()) > 1 + 1e-9:
            raise ValueError("shares of faults must be at least 0 and at most 1 together")
        self._rates = dict(rates)

    def replace(self, script: Sequence[Fault | None], rates: Mapping[Fault, float], *, clear: bool) -> None:
        """Set the rates, and put `script` behind the faults that wait, or in their place. Raises ValueError for what is no plan;
        then nothing has changed."""
        before, rest = self._rates, deque[Fault | None]() if clear else deque(self._script)
        self.set_rates(rates)
        if len(rest) + len(script) > self._limit:
            self._rates = before
            raise ValueError(f"more than {self._limit} faults are waiting")
        self._script = rest
        self._script.extend(script)

    def add(self, *faults: Fault | None) -> None:
        """Put faults behind those that wait. Raises ValueError where they are too many."""
        if len(self._script) + len(faults) > self._limit:
            raise ValueError(f"more than {self._limit} faults are waiting")
        self._script.extend(faults)

    @property
    def waiting(self) -> int:
        """Requests that the script still holds."""
        return len(self._script)

    @property
    def rates(self) -> Mapping[Fault, float]:
        """The share of requests that meets each fault, beside those of the script."""
        return self._rates

    def draw(self) -> Fault | None:
        """The fault of the next request."""
        if self._script:
            return self._script.popleft()
        if not self._rates:
            return None
        point = self._random.random()
        for fault, share in self._rates.items():
            point -= share
            if point < 0:
                return fault
        return None

"""The faults that the embedded engine can be told to have, and which request each one hits.

Decides the plan only: a script with one fault for each request, or random faults by given rates from a seeded source. Pure.
Above: server.grpc_server, which carries the faults out.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Literal, get_args

import attrs

from smg_core.engines.status import NAMES as STATUS_NAMES

__all__ = ["KINDS", "Fault", "FaultKind", "Faults"]

FaultKind = Literal["refuse", "stall", "drip", "cut", "error", "silence", "garbage", "restart", "gap"]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
LONGEST = 86_400.0
"""The most seconds that a fault may take."""
STATUSES = frozenset(STATUS_NAMES) - {"OK"}
"""Names of the gRPC statuses that a call can fail with."""


@attrs.frozen
class Fault:
    """One fault of one request, after `after` tokens have been sent (0: before the first). `kind` is one of

    - "refuse": the call ends with `status` (UNAVAILABLE) before anything is read, like that of an engine that is full
    - "stall": nothing is sent for `seconds` (None: until the client gives up)
    - "drip": from then on each step takes `seconds`
    - "cut": the call ends with `status` (UNAVAILABLE)
    - "error": the call ends with `status` (INTERNAL) and `message`
    - "silence": the stream ends with the status OK, without its closing message
    - "garbage": bytes are sent that are no message of the protocol
    - "gap": subscribers of KV events do not hear what the request changes in the prefix cache, so their numbers have a gap
    - "restart": every connection is dropped, and the engine listens again after `seconds` (None: at once)

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
    """Gives each request its fault: first those of `script`, one for each request (None: no fault); after them by `rates`,
    the share of requests that each fault hits. At most `limit` faults wait in the script."""

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
        """Replace the rates. Raises ValueError for a share below 0, or for a sum above 1."""
        if not all(share >= 0 for share in rates.values()) or sum(rates.values()) > 1 + 1e-9:
            raise ValueError("shares of faults must be at least 0 and at most 1 together")
        self._rates = dict(rates)

    def replace(self, script: Sequence[Fault | None], rates: Mapping[Fault, float], *, clear: bool) -> None:
        """Set the rates, and append `script` to the waiting faults, or replace them (`clear`). Raises ValueError for wrong
        rates and for too many faults; then nothing has changed."""
        before, rest = self._rates, deque[Fault | None]() if clear else deque(self._script)
        self.set_rates(rates)
        if len(rest) + len(script) > self._limit:
            self._rates = before
            raise ValueError(f"more than {self._limit} faults are waiting")
        self._script = rest
        self._script.extend(script)

    def add(self, *faults: Fault | None) -> None:
        """Append faults to the script. Raises ValueError where they are too many."""
        if len(self._script) + len(faults) > self._limit:
            raise ValueError(f"more than {self._limit} faults are waiting")
        self._script.extend(faults)

    @property
    def waiting(self) -> int:
        """The number of entries left in the script."""
        return len(self._script)

    @property
    def rates(self) -> Mapping[Fault, float]:
        """The share of requests that each fault hits once the script is empty."""
        return self._rates

    def draw(self) -> Fault | None:
        """The fault of the next request (None: no fault); takes it off the script."""
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

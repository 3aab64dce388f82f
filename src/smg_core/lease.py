"""One admitted request's share of the gateway until its end: its place in the count, and what it was charged.

Pure counting. Above: `serving.admission` makes one for each request that is admitted, the exchange of the request carries it.
"""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

import attrs

from smg_core.errors import SmgError
from smg_core.events import NO_USAGE, Usage
from smg_core.request import Caller

__all__ = [
    "AdmittedKind",
    "Charge",
    "HasUsage",
    "LedgerEntry",
    "ModelPlace",
    "Population",
    "RequestLease",
    "SharesAnswer",
]

AdmittedKind = Literal["generation", "pooled", "tokens", "parse", "file", "background", "batch", "frame"]
"""What is admitted: a request that generates or pools, one that only counts or reads tokens, a text to parse, an upload, an
answer that is made in the background, a line of a batch, a frame of a WebSocket."""


@attrs.define(eq=False)
class Population:
    """How many requests are in flight."""

    requests: int = 0


class HasUsage(Protocol):
    """An answer under way."""

    @property
    def usage(self) -> Usage | None:
        """The tokens so far."""


class LedgerEntry(Protocol):
    """A request's entry in the ledger. It is settled once, whatever the request's end."""

    def settle(self, usage: Usage | None, failure: SmgError | None = None) -> None:
        """The request has used so much; None: it has ended without an answer that says so."""


class Charge(LedgerEntry, Protocol):
    """What a request was charged of its limits when it was admitted; settled as an entry in the ledger is."""

    def follow(self, answer: HasUsage) -> None:
        """Charge what comes of an answer beyond what is reserved, while it comes."""

    def read(self, tokens: int) -> None:
        """A prompt of the request has so many tokens. Raises what refuses it."""

    def go_on_with(self, model: str) -> None:
        """Another model answers instead. Raises what refuses it."""

    def pay(self) -> None:
        """An engine answers after all, and not a cache. Raises what refuses it."""


class ModelPlace(LedgerEntry, Protocol):
    """A request's place before its model, and at its workers, which it has until it is settled."""

    @property
    def refused(self) -> int:
        """How many models of its chain have refused it before it came to this one."""

    @property
    def stopped(self) -> SmgError | None:
        """Why it was cancelled, if for others that wait."""

    async def driven(self, begin: Callable[[], Awaitable[object]]) -> None:
        """Drive the request to its end, as `begin` does; anew where it was stopped for others."""


class SharesAnswer(Protocol):
    """The part that a request has in an answer for several."""

    @property
    def free(self) -> bool:
        """Whether another request pays for its tokens, or nobody."""

    def leave(self) -> None:
        """The request is over, or will not make the answer that others wait for."""


class RequestLease:
    """One admitted request: it counts as in flight until `release`. `weight` is the bytes of its body. `charge` is what it was
    charged, where there are limits; `entry` is that in the ledger, where there is one; `place` is the one before its model, where
    there are queues. `shared` is its part in an answer for several, where answers are kept for equal requests."""

    __slots__ = ("_among", "caller", "charge", "entry", "kind", "place", "shared", "weight")

    def __init__(self, among: Population, caller: Caller, kind: AdmittedKind, weight: int) -> None:
        among.requests += 1
        self._among: Population | None = among
        self.caller, self.kind, self.weight = caller, kind, weight
        self.charge: Charge | None = None
        self.entry: LedgerEntry | None = None
        self.place: ModelPlace | None = None
        self.shared: SharesAnswer | None = None

    @property
    def free(self) -> bool:
        """Whether none of the tokens of its answer are its own."""
        return self.shared is not None and self.shared.free

    def hand_over(self) -> "RequestLease":
        """What is charged to it, and its place, for a generation that may go on when the request is over."""
        other = RequestLease(Population(), self.caller, self.kind, self.weight)
        other.charge, other.entry, other.place = self.charge, self.entry, self.place
        self.charge = self.entry = self.place = None
        return other

    def settle(self, usage: Usage | None, failure: SmgError | None = None) -> None:
        """What the request has used, once that is known, and what it has failed with. Only the first call counts."""
        charge, self.charge, entry, self.entry = self.charge, None, self.entry, None
        if usage is not None and self.shared is not None and self.shared.free:
            usage = NO_USAGE
        if charge is not None:
            charge.settle(usage, failure)
        if entry is not None:
            entry.settle(usage, failure)
        if self.place is not None:
            self.place.settle(usage, failure)
            self.place = None

    def release(self) -> None:
        """The request has ended, or goes on as something that is admitted for itself. What is not settled is so without usage.
        May be called again."""
        among, self._among = self._among, None
        if among is not None:
            among.requests -= 1
            if self.shared is not None:
                self.shared.leave()
            if self.charge is not None or self.entry is not None or self.place is not None:
                self.settle(None)

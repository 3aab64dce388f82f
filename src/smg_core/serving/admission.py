"""Counts a gateway's requests and decides whether it takes more; makes the record of unknown fields that are ignored.

Pure. Above: whatever begins a request has it admitted, and holds the lease until the request has ended; the server drains.
Knows no request.
"""

from collections.abc import Callable

from smg_core.config.config import Config
from smg_core.errors import Draining, Overloaded
from smg_core.http.bodies import Bodies
from smg_core.lease import AdmittedKind, Population, RequestLease
from smg_core.request import Caller
from smg_core.routing.retry_budget import RetryBudgets
from smg_core.routing.settings import RoutingConfig
from smg_core.wire.compat import Compat

__all__ = ["Admission", "admission_of", "compat_of"]


class Admission:
    """At most `most` requests at once, and `pending_bytes` of all `bodies`; none once `draining`, and none while `held`.
    `after_large`: see `Bodies`.
    `retry_after`: the seconds after which a refused client is told to come again. `retry_budgets` bound how many calls the
    admitted requests make of engines."""

    def __init__(
        self,
        most: int,
        pending_bytes: int = 1 << 30,
        *,
        after_large: Callable[[], object] | None = None,
        retry_after: float = 1.0,
        retries: RoutingConfig | None = None,
    ) -> None:
        self.retry_budgets = RetryBudgets(retries or RoutingConfig())
        self.bodies = Bodies(pending_bytes, retry_after, after_large)
        self._among = Population()
        self.draining = False
        self.held = False
        self.retry_after = retry_after
        self._most = most

    def adopt(self, most: int, retry_after: float) -> None:
        """Go by these bounds from now on."""
        self._most, self.retry_after = most, retry_after

    @property
    def in_flight(self) -> int:
        """How many requests are admitted and have not ended."""
        return self._among.requests

    def check_room(self) -> None:
        """Raise Overloaded when no further request is taken. Called before a request's body is read."""
        if self._among.requests >= self._most:
            raise Overloaded("The gateway has as many requests as it takes.", retry_after=self.retry_after)

    def admit(self, caller: Caller, kind: AdmittedKind, weight: int = 0) -> RequestLease:
        """The lease of a request that begins now; it counts from now on. `weight` is the bytes of its body, which is read before:
        a connection that is closed over an unread body is reset, its answer lost. Raises Draining when the gateway shuts down, or
        was asked to take no requests for now. Nothing happens between that check and the count, so that whoever takes no more
        requests, and waits until none is left, misses none."""
        if self.draining or self.held:
            raise self._closed()
        return RequestLease(self._among, caller, kind, weight)

    def readmit(self, caller: Caller, kind: AdmittedKind, weight: int = 0) -> RequestLease:
        """The lease of what was admitted before, and goes on: it counts whether new requests are taken or not."""
        return RequestLease(self._among, caller, kind, weight)

    def _closed(self) -> Draining:
        if self.draining:
            return self.shut_down()
        return Draining("The gateway takes no new requests for now.", retry_after=self.retry_after)

    def shut_down(self) -> Draining:
        """The error for a request that the shutdown does not wait for."""
        return Draining("The gateway is shutting down.", retry_after=self.retry_after)

    def stopped(self) -> Draining:
        """The error for a request to a gateway that was stopped."""
        return Draining("The gateway was stopped.", retry_after=self.retry_after)


def admission_of(config: Config, after_large: Callable[[], object]) -> Admission:
    """The admission of a gateway with these settings. `after_large`: see `Bodies`."""
    limits = config.limits
    return Admission(
        limits.concurrent_requests,
        limits.pending_body_bytes,
        after_large=after_large,
        retry_after=limits.retry_after_s,
        retries=config.routing,
    )


def compat_of(config: Config) -> Compat:
    """The record that tells decoders which fields of other servers' APIs to ignore."""
    return Compat(config.server.compat, config.server.compat_warnings)

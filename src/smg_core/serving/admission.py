"""Counts a gateway's requests and decides whether it takes more; makes the record of unknown fields that are ignored.

Pure. Above: handlers have a place for each request; the server drains. Knows no request.
"""

from collections.abc import Callable

from smg_core.config.config import Config
from smg_core.errors import Draining, Overloaded
from smg_core.http.bodies import Bodies
from smg_core.routing.retry_budget import RetryBudgets
from smg_core.routing.settings import RoutingConfig
from smg_core.wire.compat import Compat

__all__ = ["Admission", "RequestPlace", "compat_of"]


class RequestPlace:
    """The place of one request among those that are counted, once it has one."""

    __slots__ = ("_admission", "_taken")

    def __init__(self, admission: "Admission") -> None:
        self._admission, self._taken = admission, False

    def take(self) -> None:
        """Called once the request's body is read: from now on it counts. Raises Draining as `check_open` does. Nothing happens
        between that check and the count, so that whoever takes no more requests, and waits until none is left, misses none."""
        self._admission.check_open()
        self._admission.enter()
        self._taken = True

    def give_back(self) -> None:
        """The request has ended, or goes on as something that counts for itself. May be called again, and where it has none."""
        if self._taken:
            self._taken = False
            self._admission.leave()


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
        self.in_flight = 0
        self.draining = False
        self.held = False
        self.retry_after = retry_after
        self._most = most

    def adopt(self, most: int, retry_after: float) -> None:
        """Go by these bounds from now on."""
        self._most, self.retry_after = most, retry_after

    def check_room(self) -> None:
        """Raise Overloaded when no further request is taken."""
        if self.in_flight >= self._most:
            raise Overloaded("The gateway has as many requests as it takes.", retry_after=self.retry_after)

    def check_open(self) -> None:
        """Raise Draining when the gateway shuts down, or was asked to take no requests for now."""
        if self.draining:
            raise self.shut_down()
        if self.held:
            raise Draining("The gateway takes no new requests for now.", retry_after=self.retry_after)

    def shut_down(self) -> Draining:
        """The error for a request that the shutdown does not wait for."""
        return Draining("The gateway is shutting down.", retry_after=self.retry_after)

    def stopped(self) -> Draining:
        """The error for a request to a gateway that was stopped."""
        return Draining("The gateway was stopped.", retry_after=self.retry_after)

    def place(self) -> RequestPlace:
        """The place that a request will have once it is admitted."""
        return RequestPlace(self)

    def enter(self) -> None:
        """Count a request that begins."""
        self.in_flight += 1

    def leave(self) -> None:
        """Count a request that has ended."""
        self.in_flight -= 1


def compat_of(config: Config) -> Compat:
    """The record that tells decoders which fields of other servers' APIs to ignore."""
    return Compat(config.server.compat, config.server.compat_warnings)

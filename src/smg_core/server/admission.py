"""Counts a gateway's requests and decides whether it takes more; makes the record of unknown fields that are ignored.

Pure. Above: handlers enter and leave; the server drains. Knows no request.
"""

from collections.abc import Callable

from smg_core.config import Config
from smg_core.errors import Draining, Overloaded
from smg_core.protocols.compat import Compat
from smg_core.routing.retry_budget import RetryBudgets
from smg_core.routing.settings import RoutingConfig
from smg_core.server.bodies import Bodies

__all__ = ["Admission", "compat_of"]


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

    def enter(self) -> None:
        """Count a request that begins."""
        self.in_flight += 1

    def leave(self) -> None:
        """Count a request that has ended."""
        self.in_flight -= 1


def compat_of(config: Config) -> Compat:
    """The record that tells decoders which fields of other servers' APIs to ignore."""
    return Compat(config.server.compat, config.server.compat_warnings)

"""How many requests a gateway has, whether it takes more and which unknown fields it may have.

Pure counting. Above: handlers enter and leave; the server drains. Knows no request.
"""

from collections.abc import Callable

from smg_core.config import Config
from smg_core.errors import Draining, Overloaded
from smg_core.protocols.compat import Compat
from smg_core.server.bodies import Bodies

__all__ = ["Admission", "compat_of"]


class Admission:
    """At most `most` requests at once, and `pending_bytes` of all `bodies`; none once `draining`. `after_large`: see `Bodies`.
    `retry_after` is what those who are turned away are told, in seconds."""

    def __init__(
        self,
        most: int,
        pending_bytes: int = 1 << 30,
        *,
        after_large: Callable[[], object] | None = None,
        retry_after: float = 1.0,
    ) -> None:
        self.bodies = Bodies(pending_bytes, retry_after, after_large)
        self.in_flight = 0
        self.draining = False
        self.retry_after = retry_after
        self._most = most

    def check_room(self) -> None:
        """Raise Overloaded when there are as many as are taken."""
        if self.in_flight >= self._most:
            raise Overloaded("The gateway has as many requests as it takes.", retry_after=self.retry_after)

    def check_open(self) -> None:
        """Raise Draining when nothing new is taken."""
        if self.draining:
            raise self.shut_down()

    def shut_down(self) -> Draining:
        """What a request that the shutdown does not wait for is told."""
        return Draining("The gateway is shutting down.", retry_after=self.retry_after)

    def enter(self) -> None:
        """One more."""
        self.in_flight += 1

    def leave(self) -> None:
        """One less."""
        self.in_flight -= 1


def compat_of(config: Config) -> Compat:
    """Which fields of other servers' APIs are passed over, as decoders are told."""
    return Compat(config.server.compat, config.server.compat_warnings)

"""How many requests a gateway has, and whether it takes more.

Pure counting. Above: handlers enter and leave; the server drains. Knows no request.
"""

from smg_core.errors import Draining, Overloaded

__all__ = ["Admission"]


class Admission:
    """At most `most` requests at once; none once `draining`. `retry_after` is what those who are turned away are told, in
    seconds."""

    def __init__(self, most: int, retry_after: float = 1.0) -> None:
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

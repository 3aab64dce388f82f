"""Bounds the bytes of all requests' bodies held at once, during reads and before decoding.

Pure counting. Over the bound, the incomplete body that began first is given up, so a client that never finishes a large body
keeps out nobody else's. A message on a WebSocket is a body too. Says also which bodies come too slowly. Above: handlers open one
`Held` for each body, and the WebSocket protocol one for each message; `exchange` reports how a body grows.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self

import attrs

from smg_core.errors import Overloaded

__all__ = ["Bodies", "Held", "Pace"]

_LARGE = 4 << 20  # bytes from which on freed memory is returned to the system


@attrs.frozen
class Pace:
    """How fast a body must come: all of it within `seconds`, and once it has taken `grace`, `rate` bytes a second on average."""

    grace: float
    seconds: float
    rate: float

    def too_slow(self, seconds: float, size: int) -> bool:
        """Whether a body of which `size` bytes have come in so many seconds, and which is not whole, is given up."""
        return seconds > self.seconds or (seconds > self.grace and size < self.rate * seconds)


class Held:
    """The bytes held of one body; a context manager that releases them at its end. `give_way` is called when the body is to be
    given up; its reader then finds `gave_way` set and raises `refusal()`."""

    __slots__ = ("_bodies", "gave_way", "give_way", "size")

    def __init__(self, bodies: "Bodies") -> None:
        self._bodies = bodies
        self.size = 0
        self.gave_way = False
        self.give_way: Callable[[], object] | None = None

    def grow(self, size: int) -> None:
        """Count `size` more bytes. Raises Overloaded if there is no room and no other body can be given up."""
        if size:
            self.size += size
            self._bodies.add(self, size)

    def arrived(self) -> None:
        """The body is complete; it is not given up for another any more."""
        self._bodies.settle(self)

    def refusal(self) -> Overloaded:
        """The error for the client whose body was given up."""
        return self._bodies.refusal()

    def release(self) -> None:
        """The body is in memory no more. May be called again."""
        if self.size:
            self._bodies.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class Bodies:
    """At most `most` bytes at once; a body that is alone is bounded only by its own limit. `retry_after`: the seconds after
    which a client whose body has no room is told to come again. `after_large` is called when all large bodies are released."""

    def __init__(self, most: int, retry_after: float = 1.0, after_large: Callable[[], object] | None = None) -> None:
        self.size = 0
        self._most = most
        self._after_large = after_large
        self._were_large = False
        self._retry_after = retry_after
        self._coming: dict[Held, None] = {}  # in the order in which they began

    def open(self) -> Held:
        """A `Held` for a new body, of which no byte has come yet."""
        return Held(self)

    def refusal(self) -> Overloaded:
        """The error for a client whose body has no room."""
        return Overloaded("The gateway holds as many request bodies as it can.", retry_after=self._retry_after)

    def add(self, held: Held, size: int) -> None:
        """Count `size` more bytes of `held`. Raises Overloaded."""
        self.size += size
        self._were_large = self._were_large or self.size > _LARGE
        self._coming[held] = None
        while self.size > max(self._most, held.size):
            oldest = next((each for each in self._coming if each is not held), None)
            if oldest is None:
                raise self.refusal()
            oldest.gave_way = True
            self.remove(oldest)
            if oldest.give_way is not None:
                oldest.give_way()

    def settle(self, held: Held) -> None:
        """The body of `held` is complete."""
        self._coming.pop(held, None)

    def remove(self, held: Held) -> None:
        """The body of `held` has been released."""
        self._coming.pop(held, None)
        self.size -= held.size
        held.size = 0
        if self._were_large and not self.size:
            self._were_large = False
            if self._after_large is not None:
                self._after_large()

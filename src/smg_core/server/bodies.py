"""How much of all requests' bodies is held at once: what is being read, and what waits to be decoded.

Pure counting. Over the bound the body gives way that has been under way longest and is not there yet: who sends a large one and
leaves out its end keeps nobody else's out. Above: handlers open one for each body; `exchange` says how it grows.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from smg_core.errors import Overloaded

__all__ = ["Bodies", "Held"]

_LARGE = 4 << 20  # bytes that are worth being given back to the system


class Held:
    """One body: how much of it is held. A context manager, after which nothing is. `give_way` is called when it is to be given
    up; the reader then finds `gave_way` and raises `refusal()`."""

    __slots__ = ("_bodies", "gave_way", "give_way", "size")

    def __init__(self, bodies: "Bodies") -> None:
        self._bodies = bodies
        self.size = 0
        self.gave_way = False
        self.give_way: Callable[[], object] | None = None

    def grow(self, size: int) -> None:
        """So many bytes more. Raises Overloaded where no other body can give way."""
        if size:
            self.size += size
            self._bodies.add(self, size)

    def arrived(self) -> None:
        """It is all there, and gives way to no other any more."""
        self._bodies.settle(self)

    def refusal(self) -> Overloaded:
        """What the client is told whose body gives way."""
        return self._bodies.refusal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.size:
            self._bodies.remove(self)


class Bodies:
    """At most `most` bytes at once; a body alone may have as many as its own bound lets it. `retry_after` is what a client is
    told whose body has no room, in seconds. `after_large` is called when nothing is held any more of what was large."""

    def __init__(self, most: int, retry_after: float = 1.0, after_large: Callable[[], object] | None = None) -> None:
        self.size = 0
        self._most = most
        self._after_large = after_large
        self._were_large = False
        self._retry_after = retry_after
        self._coming: dict[Held, None] = {}  # in the order in which they began

    def open(self) -> Held:
        """A body of which nothing is there yet."""
        return Held(self)

    def refusal(self) -> Overloaded:
        """What a client is told whose body has no room."""
        return Overloaded("The gateway holds as many request bodies as it can.", retry_after=self._retry_after)

    def add(self, held: Held, size: int) -> None:
        """`held` has grown. Raises Overloaded."""
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
        """`held` is no longer coming."""
        self._coming.pop(held, None)

    def remove(self, held: Held) -> None:
        """Nothing of `held` is there any more."""
        self._coming.pop(held, None)
        self.size -= held.size
        held.size = 0
        if self._were_large and not self.size:
            self._were_large = False
            if self._after_large is not None:
                self._after_large()

"""The place of work that would hold up the event loop: the role that `engines` are given by those who own threads."""

from collections.abc import Callable
from typing import Protocol, TypeVar

__all__ = ["Elsewhere"]

T = TypeVar("T")


class Elsewhere(Protocol):
    """Runs work that takes long off the event loop. `pipeline.calls.chat_calls` makes one of its threads for each long
    request."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """The result of `work`, or what it raises."""
        ...

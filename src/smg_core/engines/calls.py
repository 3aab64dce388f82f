"""The role of a call in flight, for its owner. Pure. Above: base, which has these names too, transports and clients."""

from typing import Protocol

__all__ = ["AnswerCall", "Call"]


class Call(Protocol):
    """A call in flight."""

    def cancel(self) -> None:
        """Reset the stream at the engine. `closed` is not called any more. Harmless when the call is already over."""
        ...

    def pause(self) -> None:
        """Stop reading: grant the engine no more window for this call. What is in flight may still arrive."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...


class AnswerCall(Call, Protocol):
    """A call that generates."""

    def leave(self) -> None:
        """The answer is whole, and nothing more is wanted: the engine's own end of the call is due, and `closed` need not be
        called any more. Where the end does not come soon, the stream is reset. Harmless when the call is already over."""
        ...

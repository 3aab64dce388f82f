"""The pair of streams between a transport and the mcp package, with the screen in between (edge).

Above: `connection`. Below: `screening`. A breach ends the connection, as the end of the stream does; `ended` says so, and
`breach` why.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from smg_mcp.transport.screening import ProtocolBreach, Screen

__all__ = ["ScreenedStreams"]


class ScreenedStreams:
    """A transport's streams as the package reads and writes them. `clock` gives seconds."""

    def __init__(self, read: Any, write: Any, screen: Screen, clock: Callable[[], float]) -> None:
        self.screen = screen
        self.ended = asyncio.Event()
        self.breach: str | None = None
        self.read = _Read(self, read, clock)
        self.write = _Write(self, write)

    def end(self, breach: str | None = None) -> None:
        """No message passes any more."""
        if breach is not None and self.breach is None:
            self.breach = breach
        self.ended.set()


class _Read:
    """The package's read side (its protocol ReadStream)."""

    def __init__(self, streams: ScreenedStreams, inner: Any, clock: Callable[[], float]) -> None:
        self._streams, self._inner, self._clock = streams, inner, clock

    @property
    def last_context(self) -> Any:
        """The context that the package runs the message's handler in."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        """The next message; raises as the transport's stream does at its end."""
        return await self._inner.receive()

    async def aclose(self) -> None:
        self._streams.end()
        await self._inner.aclose()

    def __aiter__(self) -> "_Read":
        return self

    async def __anext__(self) -> Any:
        if self._streams.breach is not None:
            raise StopAsyncIteration
        try:
            item = await self._inner.__anext__()
        except StopAsyncIteration:
            self._streams.end()
            raise
        try:
            self._screened(item)
        except ProtocolBreach as breach:
            self._streams.end(str(breach))
            raise StopAsyncIteration from breach
        return item

    def _screened(self, item: Any) -> None:
        if isinstance(item, ProtocolBreach):
            raise item
        if not isinstance(item, SessionMessage):
            return
        message, screen = item.message, self._streams.screen
        if isinstance(message, JSONRPCResponse):
            screen.answered(message.id, message.result)
        elif isinstance(message, JSONRPCError):
            if message.id is not None:
                screen.answered(message.id, None)
        elif isinstance(message, JSONRPCNotification | JSONRPCRequest):
            screen.notified(message.method, self._clock())

    async def __aenter__(self) -> "_Read":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None


class _Write:
    """The package's write side (its protocol WriteStream)."""

    def __init__(self, streams: ScreenedStreams, inner: Any) -> None:
        self._streams, self._inner = streams, inner

    async def send(self, item: SessionMessage, /) -> None:
        if isinstance(item.message, JSONRPCRequest):
            self._streams.screen.asked(item.message.id, item.message.method)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> "_Write":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None

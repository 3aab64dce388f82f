"""Running requests of MCP clients, so that a client can cancel one in any process (edge).

A request is known by its session and its id. Above: `answers`. Below: the channel between processes.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from smg_core.apis.mcp.wire import CANCELLED, RpcError
from smg_core.channel.base import Channel, Notice

__all__ = ["RunningCalls"]

T = TypeVar("T")

_KIND = "mcp.cancelled"
_ENDED = 4096  # sessions that a process remembers to have ended


class _Cancelled(msgspec.Struct, frozen=True):
    """What processes tell each other: a session that ended (`id` None), or a request of it that its client has cancelled."""

    session: str
    id: int | str | None = None


class RunningCalls:
    """The requests of sessions, and which sessions have ended."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._running: dict[tuple[str, int | str], asyncio.Task[Any]] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        channel.subscribe(_KIND, self._heard)

    def has_ended(self, session: str) -> bool:
        """Whether a client has ended this session."""
        return session in self._ended

    async def run(self, work: Coroutine[Any, Any, T], session: str, id: int | str) -> T:
        """What `work` returns. Raises RpcError where the client cancels it. Without a session nothing can be cancelled but by
        leaving."""
        if not session or (session, id) in self._running:
            return await work
        task: asyncio.Task[T] = asyncio.ensure_future(work)
        self._running[session, id] = task
        try:
            await asyncio.wait([task])
        finally:
            self._running.pop((session, id), None)
            task.cancel()
        if task.cancelled():
            raise RpcError(CANCELLED, "the client has cancelled this request")
        return task.result()

    async def cancel(self, session: str, id: int | str) -> None:
        """The client has cancelled a request. Raises Overloaded."""
        await self._channel.publish(_KIND, msgspec.json.encode(_Cancelled(session, id)))

    async def end(self, session: str) -> None:
        """The client has ended a session, and with it what runs of it. Raises Overloaded."""
        await self._channel.publish(_KIND, msgspec.json.encode(_Cancelled(session)))

    def _heard(self, notice: Notice) -> None:
        cancelled = msgspec.json.decode(notice.body, type=_Cancelled)
        if cancelled.id is not None:
            if (task := self._running.get((cancelled.session, cancelled.id))) is not None:
                task.cancel()
            return
        self._ended[cancelled.session] = None
        if len(self._ended) > _ENDED:
            self._ended.popitem(last=False)
        for (session, _), task in list(self._running.items()):
            if session == cancelled.session:
                task.cancel()

"""Says in each process of a gateway how the mesh is, which one of them is in: the others ask it over the channel (edge).

Above: the gateway's mesh, for the admin door. Below: the channel.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from smg_core.channel.base import Channel, Notice
from smg_core.clock import IdSource
from smg_core.config.config import Config
from smg_core.errors import SmgError
from smg_core.meshed.opening import GatewayMesh

__all__ = ["SiblingsAsked"]

_log = logging.getLogger("smg.mesh")

_ASKED, _ANSWERED = "mesh asked", "mesh told"
"""Kinds of messages between processes; both are events."""


class _SiblingAnswer(msgspec.Struct, frozen=True):
    question: str
    answer: dict[str, Any]


_read_answer = msgspec.msgpack.Decoder(_SiblingAnswer).decode


class SiblingsAsked:
    """What the process says that is in the mesh; `mesh` returns that of this process, if it is the one."""

    def __init__(self, channel: Channel, ids: IdSource, config: Config, mesh: Callable[[], GatewayMesh | None]) -> None:
        self._channel, self._ids, self._config, self._mesh = channel, ids, config, mesh
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    def listen(self) -> None:
        """Answer other processes. Called once, in every process."""
        self._channel.subscribe(_ASKED, self._asked)
        self._channel.subscribe(_ANSWERED, self._heard)

    def close(self) -> None:
        """Answer nobody any more."""
        for task in self._answering:
            task.cancel()

    async def member(self) -> dict[str, Any]:
        """The mesh as this gateway sees it; one without members where no process is in it now. Raises what the channel raises."""
        mesh = self._mesh()
        if mesh is not None:
            return mesh.seen
        question = self._ids("ask-")
        answer = self._waiting[question] = asyncio.get_running_loop().create_future()
        try:
            await self._channel.publish(_ASKED, question.encode())
            async with asyncio.timeout(min(self._config.mesh.join_s, self._config.channel.publish_s)):
                found: dict[str, Any] = await answer
                return found
        except TimeoutError:
            return {"kind": self._config.mesh.kind}
        finally:
            del self._waiting[question]

    def _asked(self, message: Notice) -> None:
        mesh = self._mesh()
        if mesh is not None:
            answer = msgspec.msgpack.encode(_SiblingAnswer(message.body.decode(), mesh.seen))
            task = asyncio.get_running_loop().create_task(self._answer(answer), name="tell of the mesh")
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, answer: bytes) -> None:
        try:
            await self._channel.publish(_ANSWERED, answer)
        except SmgError as error:
            _log.warning("another process was not told of the mesh: %s", error)

    def _heard(self, message: Notice) -> None:
        answer = _read_answer(message.body)
        waiting = self._waiting.get(answer.question)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer.answer)

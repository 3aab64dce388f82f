"""Passes on news of the mesh from the process that is in it to the gateway's others (edge).

They count limits and requests in memory that they share, and tell each other of workers anyway. What is left is what other
gateways have in flight at each worker, whether most of them do not reach it, and keys that are revoked. Above: the gateway's
mesh. Below: the channel, the registry.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from smg_core.channel.base import Channel, Notice
from smg_core.errors import SmgError
from smg_core.fleet.leader import Leading
from smg_core.identity.virtual_keys import VirtualKeys
from smg_core.mesh.state.entries import MeshChange, Space
from smg_core.mesh.state.node import Node, SideStanding
from smg_core.workers.registry import Registry

__all__ = ["Siblings"]

_log = logging.getLogger("smg.mesh")

_LOADS, _REVOKED = "mesh loads", "mesh revoked"
_PACE_S = 0.2
_loads = msgspec.msgpack.Decoder(dict[str, tuple[int, bool]]).decode


class Siblings:
    """The other processes. It is a part of the mesh in the one that leads; `note_revoked`, set there, is told of keys that any of
    them has revoked. `begun` is set once one of them is a member of the mesh."""

    spaces: frozenset[Space] = frozenset()

    def __init__(
        self, channel: Channel, registry: Registry, leading: Leading, virtual_keys: VirtualKeys | None
    ) -> None:
        self._channel, self._registry, self._leading, self._virtual_keys = channel, registry, leading, virtual_keys
        self.note_revoked: Callable[[str], None] = lambda id: None
        self.begun = asyncio.Event()
        self._announced: dict[str, tuple[int, bool]] | None = None
        self._spoke_at = float("-inf")
        self._wake = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self._closed = False

    def listen(self) -> None:
        """Take up what other processes tell, beginning with what is kept. Called once, in every process."""
        self._channel.subscribe(_LOADS, self._take_loads)
        self._channel.subscribe(_REVOKED, self._take_revoked)
        if self._virtual_keys is not None:
            self._virtual_keys.on_revoked = self.revoked_elsewhere

    def close(self) -> None:
        """Take up nothing more."""
        self._closed = True
        for task in self._sending:
            task.cancel()

    # ------------------------------------------------------------------------------------------------- in each process

    def _take_loads(self, message: Notice) -> None:
        self.begun.set()
        if self._closed or self._leading.now:
            return  # it has heard of it itself
        loads = _loads(message.body)
        for worker in self._registry:
            elsewhere, doubted = loads.get(worker.name, (0, False))
            worker.note_elsewhere(elsewhere, doubted=doubted and not worker.failing)

    def _take_revoked(self, message: Notice) -> None:
        if self._virtual_keys is not None and not self._closed:
            id = message.body.decode()
            self._virtual_keys.forget(id)
            self.note_revoked(id)

    def revoked_elsewhere(self, id: str) -> None:
        """A key was revoked in one process, or at another gateway: all processes are told."""
        if self._virtual_keys is not None:
            self._virtual_keys.forget(id)
        task = asyncio.create_task(self._publish(_REVOKED, id.encode()), name="tell of a revoked key")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _publish(self, kind: str, body: bytes, key: str = "") -> None:
        try:
            await self._channel.publish(kind, body, key=key)
        except SmgError as error:
            _log.warning("other processes were not told what the mesh says: %s", error)

    # -------------------------------------------------------------------------------------- in the process that leads

    def stands(self, standing: SideStanding, now: float) -> None:
        """It makes no difference here how many there are."""

    def tell(self, node: Node, now: float) -> None:
        """Look whether other gateways' requests and doubts have changed."""
        if now - self._spoke_at >= _PACE_S:
            self._spoke_at = now
            found = {worker.name: worker.elsewhere for worker in self._registry if worker.elsewhere != (0, False)}
            if found != self._announced:
                self._announced = found
                self._wake.set()

    def hear(self, changes: Sequence[MeshChange], now: float) -> None:
        """It is other parts that hear."""

    async def tell_others(self) -> None:
        """Tell the other processes whenever something has changed, until this is cancelled; then it is no more so."""
        try:
            while True:
                self._wake.clear()
                await self._publish(_LOADS, msgspec.msgpack.encode(self._announced or {}), "of others")
                await self._wake.wait()
        finally:
            self._announced = None
            self.note_revoked = lambda id: None

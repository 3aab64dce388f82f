"""This gateway's end of the mesh: runs its node over a link, and calls the parts of the gateway that take part (edge).

Each period the parts say what is new of this gateway, the node says what is to be sent, and it is sent. What others say is handed
to the parts whose space it is. A fault of the link leaves this gateway alone; it goes on. Above: the gateway's mesh. Below: the
node, the roles.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import Protocol

from smg_core.clock import Clock
from smg_core.mesh.base import MeshLink, SeenMember, Unreachable
from smg_core.mesh.state.entries import MeshChange, Space, Writer
from smg_core.mesh.state.format import formats_in
from smg_core.mesh.state.node import MeshSend, Node, NodeTerms, SideStanding

__all__ = ["MeshMember", "MeshPart"]

_log = logging.getLogger("smg.mesh")

_WAITING = 1024
"""Messages that may wait to be sent; beyond that the oldest is dropped, and asked for by who lacks it."""


class MeshPart(Protocol):
    """A part of the gateway that takes part in the mesh."""

    @property
    def spaces(self) -> frozenset[Space]:
        """What it wants to hear of."""

    def tell(self, node: Node, now: float) -> None:
        """Say what is new of this gateway. Called each period."""

    def hear(self, changes: Sequence[MeshChange], now: float) -> None:
        """Others have said something."""

    def stands(self, standing: SideStanding, now: float) -> None:
        """How many there are has changed, or was looked at."""


class MeshMember:
    """This gateway as a member. `parts` take part; `on_change` is called when somebody has come or gone."""

    def __init__(
        self,
        name: str,
        link: MeshLink,
        terms: NodeTerms,
        clock: Clock,
        rng: Random,
        parts: Sequence[MeshPart] = (),
        on_change: Callable[[str, str], None] = lambda what, name: None,
    ) -> None:
        self.name, self.link, self.clock = name, link, clock
        self.node = Node(Writer(name, int(clock.time() * 1000)), terms, rng, clock.monotonic())
        self.parts = list(parts)
        self.seen: dict[str, SeenMember] = {}
        self._on_change = on_change
        self._outgoing: deque[MeshSend] = deque(maxlen=_WAITING)
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()
        self._stir = asyncio.Event()
        self._idle = False
        self.unsent = 0

    # ---------------------------------------------------------------------------------------------------------------- life

    @contextlib.asynccontextmanager
    async def joined(self, join_s: float) -> AsyncIterator[None]:
        """A context in which this gateway is a member. It begins once what others know is known here, or after `join_s`. Raises
        OSError and ConfigError."""
        async with self.link.opened(self):
            tasks = [
                asyncio.create_task(self._ticks(), name="mesh"),
                asyncio.create_task(self._sends(), name="mesh out"),
            ]
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(join_s):
                        await self._synced.wait()
                self._synced.set()
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _ticks(self) -> None:
        """Look each period while there is something to say, and less often while there is not."""
        loop, terms = asyncio.get_running_loop(), self.node.terms
        pause = terms.period_s
        while True:
            pause = terms.period_s if self.step() else min(2 * pause, max(terms.idle_s, terms.period_s))
            self._idle = pause > terms.period_s
            timer = loop.call_later(pause, self._stir.set)
            await self._stir.wait()
            timer.cancel()
            self._stir.clear()

    def stir(self) -> None:
        """Something is to be said: look now, unless that will be soon anyway."""
        if self._idle:
            self._idle = False
            self._stir.set()

    def step(self) -> bool:
        """Say what is new, hear what has changed, and have sent what is to be sent. Whether there was anything to say, or
        somebody is waited for."""
        now = self.clock.monotonic()
        standing, before = self.node.standing(now), self.node.replica.version
        for part in self.parts:
            part.stands(standing, now)
            part.tell(self.node, now)
        spoke = self.node.replica.version > before or self.node.unheard
        self._post(self.node.tick(now))
        self._hand_on(now)
        if not self._synced.is_set():
            if self.seen and all(self._knows(name) for name in self.seen):
                self._synced.set()
            return True
        return spoke

    def _knows(self, name: str) -> bool:
        writer = self.node.replica.latest(name)
        return writer is not None and self.node.replica.version_of(writer) > 0

    async def _sends(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._outgoing:
                send = self._outgoing.popleft()
                try:
                    await (self.link.send_all(send.data) if send.to is None else self.link.send(send.to, send.data))
                except Unreachable:
                    self.unsent += 1

    def _post(self, sends: Sequence[MeshSend]) -> None:
        if sends:
            self._outgoing.extend(sends)
            self._wake.set()

    def _hand_on(self, now: float) -> None:
        changes = self.node.take_changes()
        if not changes:
            return
        for part in self.parts:
            concerned = [each for each in changes if each.space in part.spaces]
            if concerned:
                part.hear(concerned, now)
                self.stir()  # somebody may wait for what is said to it

    # ----------------------------------------------------------------------------------------------------------------- ears

    def came(self, member: SeenMember) -> None:
        now = self.clock.monotonic()
        again = member.name in self.seen
        self.seen[member.name] = member
        self._post(self.node.joined(member.name, formats_in(member.formats), now))
        if self.node.format is None:
            _log.error("gateway %s speaks formats %s, and this one others", member.name, member.formats)
        self._tell_change("restarted" if again else "came", member.name)

    def suspected(self, name: str) -> None:
        self._tell_change("suspected", name)

    def recovered(self, name: str) -> None:
        self._tell_change("recovered", name)

    def lost(self, name: str) -> None:
        self.seen.pop(name, None)
        self.node.lost(name, self.clock.monotonic())
        self._hand_on(self.clock.monotonic())
        self._tell_change("lost", name)

    def left(self, name: str) -> None:
        self.seen.pop(name, None)
        self.node.left(name)
        self._hand_on(self.clock.monotonic())
        self._tell_change("left", name)

    def heard(self, sender: str, data: bytes) -> None:
        now = self.clock.monotonic()
        self._post(self.node.received(sender, data, now))
        self._hand_on(now)

    def _tell_change(self, what: str, name: str) -> None:
        level = logging.WARNING if what in ("lost", "suspected") else logging.INFO
        _log.log(level, "mesh: gateway %s %s", name, what)
        self._on_change(what, name)

"""Members of a mesh for tests: what one has heard, and a member in a process of its own that can be killed or stopped."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
from tests.shared import PATIENCE

from smg_core.clock import SystemClock
from smg_core.mesh.base import MeshLink, SeenMember
from smg_core.mesh.carriers.rows import LinkTerms, mesh_link
from smg_core.mesh.mesh_keys import read_mesh_keys
from smg_core.mesh.settings import MeshConfig

__all__ = ["Ear", "a_link", "a_process", "linked"]


PROGRAM = Path(__file__).with_name("peer_program.py")


class Ear:
    """What one member has heard, in order, and a wait for more."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.messages: list[tuple[str, bytes]] = []
        self._news = asyncio.Event()

    def came(self, member: SeenMember) -> None:
        self._note("came", member.name)

    def suspected(self, name: str) -> None:
        self._note("suspected", name)

    def recovered(self, name: str) -> None:
        self._note("recovered", name)

    def lost(self, name: str) -> None:
        self._note("lost", name)

    def left(self, name: str) -> None:
        self._note("left", name)

    def heard(self, sender: str, data: bytes) -> None:
        self.messages.append((sender, data))
        self._news.set()

    def _note(self, what: str, name: str) -> None:
        self.events.append((what, name))
        self._news.set()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something is so, which is looked at whenever something was heard."""
        async with asyncio.timeout(PATIENCE):
            while not true():
                self._news.clear()
                await self._news.wait()

    async def event(self, what: str, name: str, times: int = 1) -> None:
        await self.until(lambda: self.events.count((what, name)) >= times)


def a_link(settings: MeshConfig, name: str, formats: str = "1-1") -> MeshLink:
    keys = read_mesh_keys(settings.keys)
    return mesh_link(LinkTerms(attrs.evolve(settings, name=name), name, keys, formats, "test", SystemClock()))


@asynccontextmanager
async def linked(settings: MeshConfig, name: str) -> AsyncIterator[tuple[MeshLink, Ear]]:
    """A member that is there."""
    link, ear = a_link(settings, name), Ear()
    async with link.opened(ear):
        yield link, ear


@asynccontextmanager
async def a_process(settings: MeshConfig, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A member in a process of its own, which sends back what is sent to it; it is killed in the end."""
    arguments = [sys.executable, str(PROGRAM), json.dumps(attrs.asdict(settings)), name]
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()

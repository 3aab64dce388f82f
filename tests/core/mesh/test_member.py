"""A gateway's end of the mesh: what one says the others hear, over every carrier, and a joiner knows it before it begins."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from tests.core.mesh.peers import a_link
from tests.shared import PATIENCE

from smg_core.clock import SystemClock
from smg_core.mesh.member import MeshMember
from smg_core.mesh.settings import MeshConfig
from smg_core.mesh.state.entries import MeshChange, Space
from smg_core.mesh.state.node import Node, NodeTerms, SideStanding

pytestmark = pytest.mark.anyio


class Board:
    """A part that says one thing, and keeps what others say."""

    spaces = frozenset({Space.HEALTH})

    def __init__(self, word: bytes) -> None:
        self.word, self._said = word, b""
        self.known: dict[str, bytes] = {}
        self.standing = SideStanding(0, 0)
        self.news = asyncio.Event()

    def tell(self, node: Node, now: float) -> None:
        if self.word != self._said:
            node.put(Space.HEALTH, b"k", self.word, 60.0, now)
            self._said = self.word

    def hear(self, changes: Sequence[MeshChange], now: float) -> None:
        for change in changes:
            self.known[change.writer.name] = change.value
        self.news.set()

    def stands(self, standing: SideStanding, now: float) -> None:
        self.standing = standing

    async def until(self, name: str, value: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.known.get(name) != value:
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def member(folder: Path, name: str) -> AsyncIterator[tuple[MeshMember, Board]]:
    settings = MeshConfig(kind="local", folder=str(folder), suspect_s=0.3, dead_s=0.9)
    board = Board(name.encode())
    terms = NodeTerms(period_s=0.02, beat_s=0.1, sync_s=0.2)
    found = MeshMember(name, a_link(settings, name), terms, SystemClock(), Random(1), [board])
    async with found.joined(0.0 if name == "a" else 5.0):
        yield found, board


async def test_what_one_says_all_hear_and_what_a_member_said_goes_with_it(tmp_path: Path) -> None:
    async with member(tmp_path / "m", "a") as (a, board_a):
        async with member(tmp_path / "m", "b") as (_, board_b):
            assert board_b.known == {"a": b"a"}  # before it begins
            await board_a.until("b", b"b")
            board_a.word = b"new"
            await board_b.until("a", b"new")
            a.step()
            assert board_a.standing == (2, 2)
        await board_a.until("b", b"")
        a.step()
        assert board_a.standing == (1, 1)
        assert a.seen == {}


async def test_many_members_know_each_other(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        boards = [
            (await stack.enter_async_context(member(tmp_path / "m", name)))[1] for name in ("a", "b", "c", "d", "e")
        ]
        for board in boards:
            for name in "abcde":
                if board.word != name.encode():
                    await board.until(name, name.encode())

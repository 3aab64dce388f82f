"""What the tests of clouds' credentials share: a clock that stands, and a peer that answers by path."""

import asyncio
from collections.abc import Callable

import attrs
from tests.shared import PATIENCE

from smg_core.credentials.renewal.asking import TokenAsker
from smg_egress.rules import UrlRules

NOW = 1_796_000_000.0  # in November 2026
LOOPBACK = UrlRules(
    schemes=frozenset({"http"}), hosts=frozenset({"127.0.0.1"}), private=frozenset({"127.0.0.1"}), ports=None
)


@attrs.define
class Stopped:
    """A clock that goes when it is told to."""

    now: float = NOW

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@attrs.define
class Asked:
    """One request that a cloud got."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@attrs.define
class Cloud:
    """Answers each request, one a connection, with the status and the text that `answer` gives for it."""

    answer: Callable[[Asked], tuple[int, str]]
    asked: list[Asked] = attrs.field(factory=list)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append(Asked(method, path, headers, body))
        status, text = self.answer(self.asked[-1])
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(text.encode())}\r\n\r\n{text}".encode())
        writer.close()


def asker() -> TokenAsker:
    """Asks the loopback, with a test's patience."""
    return TokenAsker(token=LOOPBACK, metadata=LOOPBACK, timeout_s=PATIENCE, near_s=PATIENCE, tries=1)

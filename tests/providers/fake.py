"""An outside provider on a loopback port, which answers by a script: real HTTP, exact bytes, and everything it heard."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import msgspec
from tests.peers import listening

__all__ = ["FakeProvider", "Heard", "Said", "providing", "sse"]


@attrs.frozen
class Heard:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@attrs.frozen
class Said:
    """An answer. `cut_at`: the connection is closed after so many bytes of the body; `held`: it stays open, and nothing comes.
    `then` follows the body once the test has set `FakeProvider.go`."""

    body: bytes
    status: int = 200
    kind: str = "text/event-stream"
    headers: Mapping[str, str] = attrs.field(factory=dict)
    cut_at: int | None = None
    held: bool = False
    then: bytes = b""


def sse(events: list[tuple[str | None, Any]]) -> bytes:
    """Events of a stream: each with its name, or None, and its data."""
    lines = []
    for name, data in events:
        text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
        lines.append((f"event: {name}\n" if name else "") + f"data: {text}\n\n")
    return "".join(lines).encode()


Script = Callable[[Heard], Said]


class FakeProvider:
    """Answers by `script`, and keeps what it `heard`. `left` counts connections that the other side closed under an answer."""

    def __init__(self, script: Script, *, secure: bool = False) -> None:
        self.script = script
        self.secure = secure
        self.heard: list[Heard] = []
        self.left = asyncio.Event()
        self.go = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}" if self.secure else f"http://127.0.0.1:{self.port}"

    @property
    def asked(self) -> list[Heard]:
        """The requests for answers, without the questions about models."""
        return [each for each in self.heard if each.method == "POST"]

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await self._exchange(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:  # also after a fault of a test's own script: its client waits for no answer
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        heard = Heard(method, path, headers, body)
        self.heard.append(heard)
        said = self.script(heard)
        fields = "".join(f"{name}: {value}\r\n" for name, value in said.headers.items())
        writer.write(
            f"HTTP/1.1 {said.status} X\r\ncontent-type: {said.kind}\r\ntransfer-encoding: chunked\r\n{fields}\r\n".encode()
        )
        sent = said.body if said.cut_at is None else said.body[: said.cut_at]
        if sent:
            writer.write(b"%x\r\n%b\r\n" % (len(sent), sent))
        await writer.drain()
        if said.then:
            await self.go.wait()
            writer.write(b"%x\r\n%b\r\n" % (len(said.then), said.then))
        if said.held:
            await reader.read(1)
            self.left.set()
            raise ConnectionResetError
        if said.cut_at is not None:
            writer.close()
            raise ConnectionResetError
        writer.write(b"0\r\n\r\n")
        await writer.drain()


@asynccontextmanager
async def providing(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeProvider]:
    """A provider that runs, behind TLS where there is a context for it."""
    provider = FakeProvider(script, secure=tls is not None)
    async with listening(provider.take, tls) as port:
        provider.port = port
        yield provider

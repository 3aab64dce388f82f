"""Restarts three gateways one after the other behind a plain TCP balancer, under many streams; counts what is lost.

    python bench/rolling.py [--streams 1000] [--seconds 10] [--tokens 40] [--story 300] [--decode-rate 8] [--restarts 3]

Three gateways in a gossip mesh, with one history in SQLite, each of one process. The balancer knows nothing of HTTP: it goes to
the next gateway where it cannot connect. So many clients ask for one stream after the other, without trying anything again, while
each gateway gets SIGTERM and is started anew at its places. One answer that is made in the background is followed all the while,
by `starting_after`, at whichever gateway the balancer comes to. Prints how many streams ended as they should, what was lost, and
how often the follower had to go on elsewhere.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import httpx

from smg_core.sse import SseReader

__all__ = ["Balancer", "Fleet", "Followed", "Lost", "Pace", "restarted_under_streams"]

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
NOTICE_S = 30
"""Longer than two answers take at the usual pace: one that runs when a gateway is asked to leave, and the next on its
connection."""
READY_S = 120


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in sockets]


class Balancer:
    """Passes connections on to the next of these ports that takes one."""

    def __init__(self, ports: list[int]) -> None:
        self._ports, self._turn = ports, itertools.count()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> "Balancer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(self._turn)
        for number in range(len(self._ports)):
            with contextlib.suppress(OSError):
                port = self._ports[(first + number) % len(self._ports)]
                there, back = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(_copied(reader, back), _copied(there, writer))
                return
        writer.transport.abort()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
    except OSError:
        writer.transport.abort()


@attrs.frozen
class Pace:
    """How long an answer is in tokens, the seconds for which a gateway that is asked to leave answers on open connections, and
    how many of the three gateways are restarted."""

    tokens: int = 40
    notice_s: float = NOTICE_S
    restarts: int = 3


@attrs.define(eq=False)
class Fleet:
    """Three gateways, which are started with these words for each."""

    commands: list[list[str]]
    ports: list[int]
    folder: Path
    running: dict[int, asyncio.subprocess.Process] = attrs.field(factory=dict)

    async def start(self, number: int) -> None:
        """Start one, and wait until it takes requests."""
        log = self.folder / f"g{number}.log"
        with log.open("ab") as written:
            process = await asyncio.create_subprocess_exec(*self.commands[number], stderr=written)
        self.running[number] = process
        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(READY_S):
            while True:
                if process.returncode is not None:
                    raise OSError(f"a gateway has not started: {log.read_text()[-2000:]}")
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get(f"http://127.0.0.1:{self.ports[number]}/readiness")).status_code == 200:
                        return
                await asyncio.sleep(0.05)

    async def restart(self, number: int) -> None:
        """Have one leave, and start it again once it has."""
        process = self.running[number]
        process.send_signal(signal.SIGTERM)
        await process.wait()
        await self.start(number)

    async def end(self) -> None:
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):  # it has ended, which is not known here yet
                process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def fleet(folder: Path, worker: str, notice_s: float) -> AsyncIterator[Fleet]:
    """Three gateways before one engine, with one history."""
    ports, meshed = free_ports(3), free_ports(3)
    commands = []
    for number, port in enumerate(ports):
        seeds = [f"127.0.0.1:{each}" for each in meshed if each != meshed[number]]
        words = ["serve", "--worker", worker, "--port", str(port), "--history", f"sqlite:///{folder}/h.db"]
        words += ["--server-notice-s", str(notice_s), "--responses-lease-s", "5", "--responses-poll-s", "0.1"]
        words += ["--mesh-kind", "gossip", "--mesh-name", f"g{number}", "--mesh-bind", f"127.0.0.1:{meshed[number]}"]
        words += ["--mesh-keys", KEY, "--server-connections", "4000", "--wait-for-workers", "60"]
        words += [word for seed in seeds for word in ("--mesh-seeds", seed)]
        commands.append([sys.executable, "-m", "tests.bounded", *words])
    async with AsyncExitStack() as stack:
        found = Fleet(commands, ports, folder)
        stack.push_async_callback(found.end)
        await asyncio.gather(*(found.start(number) for number in range(3)))
        yield found


@attrs.define
class Lost:
    """How many streams ended as they should, and what became of the others."""

    right: int = 0
    wrong: list[str] = attrs.field(factory=list)


class Asker:
    """A client of one connection, which it keeps until its gateway says that it closes it. A thousand of them cost little."""

    def __init__(self, port: int, tokens: int) -> None:
        body = {
            "model": "sim",
            "messages": [{"role": "user", "content": "Hello"}],
            "stream": True,
            "max_tokens": tokens,
        }
        data = json.dumps(body).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n"
        self._request = head.encode() + b"content-type: application/json\r\n\r\n" + data
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask_on(self, over: asyncio.Event, lost: Lost) -> None:
        """Ask for one stream after the other."""
        while not over.is_set():
            try:
                head, data = await self._ask()
            except (OSError, EOFError) as error:
                self._close()
                lost.wrong.append(repr(error))
                continue
            if b" 200 " in head and b'"finish_reason":"length"' in data and b"[DONE]" in data:
                lost.right += 1
            else:
                lost.wrong.append(f"{head[:20]!r} {data[-200:]!r}")
        self._close()

    async def _ask(self) -> tuple[bytes, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(self._request)
        head = await reader.readuntil(b"\r\n\r\n")
        ends = b"\r\n0\r\n\r\n" if b"chunked" in head.lower() else b"}"
        data = await reader.readuntil(ends)
        if b"connection: close" in head.lower():
            self._close()
        return head, data

    def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


@attrs.define
class Followed:
    """An answer that is made in the background: its events in order, and how often another connection had to go on."""

    events: list[dict[str, Any]] = attrs.field(factory=list)
    resumed: int = 0

    @property
    def ended(self) -> bool:
        return bool(self.events) and self.events[-1]["type"] in ("response.completed", "response.failed", "error")

    async def follow(self, client: httpx.AsyncClient) -> None:
        """Follow it to its end, wherever the next connection leads."""
        body = {"model": "sim", "input": "Tell me a long story.", "background": True, "stream": True}
        await self._read(client.stream("POST", "/v1/responses", json=body))
        if not self.events:
            raise OSError("the answer in the background has not begun")
        while not self.ended:
            self.resumed += 1
            at = f"/v1/responses/{self.events[0]['response']['id']}"
            after = {"stream": "true", "starting_after": str(self.events[-1]["sequence_number"])}
            await self._read(client.stream("GET", at, params=after))

    async def _read(self, stream: Any) -> None:
        reader = SseReader()
        with contextlib.suppress(httpx.TransportError):
            async with stream as answer:
                async for piece in answer.aiter_bytes():
                    self.events += [json.loads(each.data) for each in reader.feed(piece) if each.data != "[DONE]"]


async def restarted_under_streams(
    folder: Path, worker: str, streams: int, seconds: float, pace: Pace | None = None
) -> tuple[Lost, Followed]:
    """What was lost while three gateways were restarted, one after the other, with so many streams."""
    over, lost, followed, pace = asyncio.Event(), Lost(), Followed(), pace or Pace()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=1.0)
    async with fleet(folder, worker, pace.notice_s) as gateways, Balancer(gateways.ports) as balancer:
        url = f"http://127.0.0.1:{balancer.port}"
        async with httpx.AsyncClient(base_url=url, timeout=300, trust_env=False, limits=limits) as client:
            following = asyncio.create_task(followed.follow(client))
            asking = []
            for _ in range(streams):  # they begin one after the other, as clients do
                asking.append(asyncio.create_task(Asker(balancer.port, pace.tokens).ask_on(over, lost)))
                await asyncio.sleep(seconds / streams)
            for number in range(pace.restarts):
                await gateways.restart(number)
            await asyncio.sleep(seconds)
            over.set()
            await asyncio.gather(*asking)
            await following
    return lost, followed


async def measure(args: argparse.Namespace) -> None:
    notice_s = max(NOTICE_S, round(3 * args.tokens / args.decode_rate))
    streams, pace = args.streams, Pace(args.tokens, notice_s, args.restarts)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        words = ["simulate", "--listen", f"127.0.0.1:{port}", "--reply-tokens", str(args.story)]
        words += ["--decode-rate", str(args.decode_rate), "--slowdown", "0", "--batch", str(2 * streams)]
        engine = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "smg_core", *words, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            worker = f"grpc://127.0.0.1:{port}"
            lost, followed = await restarted_under_streams(Path(folder), worker, streams, args.seconds, pace)
        finally:
            with contextlib.suppress(ProcessLookupError):
                engine.kill()
            await engine.wait()
    print(
        f"{streams} streams at once, {pace.restarts} restarted: {lost.right} ended as they should, {len(lost.wrong)} did not"
    )
    print(*lost.wrong[:5], sep="\n")
    numbers = [event["sequence_number"] for event in followed.events]
    whole = numbers == list(range(len(numbers))) and followed.events[-1]["type"] == "response.completed"
    print(f"an answer made in the background: {'whole' if whole else 'NOT whole'}, resumed {followed.resumed} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--tokens", type=int, default=40, help="of each stream")
    parser.add_argument("--restarts", type=int, choices=(1, 2, 3), default=3, help="gateways that are restarted")
    parser.add_argument("--story", type=int, default=300, help="tokens of the answer in the background")
    parser.add_argument("--decode-rate", type=float, default=8.0, help="tokens a second of each")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()

"""CPU that reading a streamed answer of an HTTP engine costs, a chunk.

    python bench/sse_reading.py                     in memory, and 64 answers of 100 chunks at once over sockets
    python bench/sse_reading.py --with httpx        httpx too, whose lines are read as its users do

`in memory`: the bytes of an answer, one chunk a read, through the reader of HTTP and the reader of events, without a socket.
`over sockets`: answers from another process that writes chunk by chunk, so that the system's own work of a read is in it, too;
CPU is the user and system time of this process alone. The best round of `--rounds` counts, since other processes only add. The
goal is 6 us a chunk.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from typing import Any

from smg_core.engines.http.address import HttpAddress
from smg_core.engines.http.answer import AnswerReader
from smg_core.engines.http.client import HttpClient
from smg_core.sse import DataReader

CHUNK = (
    b'data: {"id":"chatcmpl-1234567890","object":"chat.completion.chunk","created":1764150000,"model":"mock","choices":'
    b'[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}\n\n'
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
FRAME = b"%x\r\n%b\r\n" % (len(CHUNK), CHUNK)
SERVER = """import asyncio, sys
async def serve(reader, writer):
    while await reader.readuntil(b"\\r\\n\\r\\n"):
        writer.write({head!r})
        for number in range({chunks}):
            writer.write({frame!r})
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\\r\\n\\r\\n")
        await writer.drain()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


class Counting:
    """Receives an answer and counts its events."""

    def __init__(self) -> None:
        self.events = 0
        self.reads = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader = DataReader()

    def head(self, status: int, headers: dict[str, str]) -> None: ...

    def body(self, piece: bytes) -> None:
        self.reads += 1
        self.events += len(self._reader.feed(piece))

    def closed(self, error: Exception | None) -> None:
        if error is not None:
            self.over.set_exception(error)
        else:
            self.over.set_result(None)


def in_memory(chunks: int) -> float:
    """Microseconds a chunk, without a socket."""
    answer, events = AnswerReader(65_536), DataReader()
    answer.begin()
    answer.feed(HEAD)
    buffer = bytearray(65_536)
    view, size = memoryview(buffer), len(FRAME)
    buffer[:size] = FRAME
    found, began = 0, time.process_time()
    for _ in range(chunks):
        body = answer.feed(bytes(view[:size]))
        if body:
            found += len(events.feed(body))
    spent = time.process_time() - began
    assert found == chunks
    return spent / chunks * 1e6


async def over_sockets(port: int, answers: int, chunks: int) -> tuple[float, float]:
    """Microseconds a chunk by our client, and how many chunks came in one read."""
    client = HttpClient(HttpAddress.parse(f"http://127.0.0.1:{port}"))
    receivers = [Counting() for _ in range(answers)]
    began = time.process_time()
    for each in receivers:
        await client.start("GET", "/", b"", each)
    await asyncio.gather(*[each.over for each in receivers])
    spent = time.process_time() - began
    await client.close()
    total = answers * chunks
    assert sum(each.events for each in receivers) == total
    return spent / total * 1e6, total / sum(each.reads for each in receivers)


async def by_httpx(port: int, answers: int, chunks: int) -> tuple[float, float]:
    """The same by httpx, which tells nothing of its reads."""
    import httpx

    async def read(client: httpx.AsyncClient) -> int:
        async with client.stream("GET", f"http://127.0.0.1:{port}/") as answer:
            return sum([line.startswith("data: ") async for line in answer.aiter_lines()])

    async with httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=answers)) as client:
        began = time.process_time()
        events = await asyncio.gather(*[read(client) for _ in range(answers)])
        spent = time.process_time() - began
    assert sum(events) == answers * chunks
    return spent / sum(events) * 1e6, 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=64, help="at once")
    parser.add_argument("--chunks", type=int, default=100, help="of an answer")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--with", dest="others", action="append", choices=["httpx"], default=[])
    args = parser.parse_args()
    total = args.answers * args.chunks
    print(f"in memory     {min(in_memory(total) for _ in range(args.rounds)):6.2f} us a chunk")
    code = SERVER.format(head=HEAD, frame=FRAME, chunks=args.chunks)
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    ways: dict[str, Any] = {"over sockets": over_sockets} | ({"httpx": by_httpx} if args.others else {})
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(args.rounds):
            for name, way in ways.items():
                rounds[name].append(asyncio.run(way(port, args.answers, args.chunks)))
    finally:
        server.terminate()
        server.wait(10)
    for name, found in rounds.items():
        spent, together = min(found)
        print(f"{name:12}  {spent:6.2f} us a chunk" + (f", {together:.1f} chunks a read" if together else ""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

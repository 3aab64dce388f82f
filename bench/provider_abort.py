"""How soon an outside provider is left when a client leaves: from the close of the client to the end of file at the provider.

    python bench/provider_abort.py [--rounds 100] [--kinds bedrock]

The gateway's own HTTP server before a provider that says the beginning of an answer and then nothing, all over TCP. Everything
shares one event loop, so the figures hold the provider's time too. The goal is a median of 5 ms.
"""

import argparse
import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

import providers
from smg_core import Config, Gateway
from smg_core.server.http_server import HttpServer
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec

KINDS = list(providers.KINDS)
MODEL = {"id": providers.MODEL, "max_input_tokens": 200_000, "max_tokens": 64_000}
ABOUT = json.dumps({"object": "list", "data": [MODEL], **MODEL}).encode()


@attrs.define
class Provider:
    """Says the beginning of each answer and then nothing, and notes when it is left."""

    answers: dict[str, bytes]
    left: "asyncio.Future[float]"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                lines = head.split("\r\n")
                length = next((line.partition(":")[2] for line in lines if line.startswith("content-length")), "0")
                await reader.readexactly(int(length))
                name = next((each for each in self.answers if each in head.split(" ")[1]), None)
                if name is None:
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(ABOUT), ABOUT))
                    continue
                kind, _, body = self.answers[name].partition(b"\n")
                said = b"".join(body.split(b"<cut>")[:4])
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % kind)
                writer.write(b"%x\r\n%b\r\n" % (len(said), said))
                await reader.read(1)
                self.left.set_result(time.perf_counter())
                break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def before(kind: str, provider: Provider) -> AsyncIterator[int]:
    """The port of a gateway before the provider."""
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    spec = WorkerSpec(
        url,
        dialect=kind,
        model=providers.MODEL,
        vendor_model=providers.MODEL,
        credential=None if kind == providers.FIRST else providers.KINDS[kind],
        region="eu-west-1",
    )
    config = Config(workers=WorkersConfig(health_interval_s=3600.0))
    async with server, Gateway([spec], config=config) as gateway:
        await gateway.ready()
        listener = socket.create_server(("127.0.0.1", 0))
        door = HttpServer(gateway, config)
        running = asyncio.create_task(door.serve(sockets=[listener]))
        while not door.started:
            await asyncio.sleep(0)
        yield listener.getsockname()[1]
        door.should_exit = True
        await running


async def left_after(port: int, provider: Provider) -> float:
    """Seconds from a client's close, behind the first piece of an answer, to the provider's end of file."""
    provider.left = asyncio.get_running_loop().create_future()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(
        {"model": providers.MODEL, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    ).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    writer.write(head + b"content-length: %d\r\n\r\n%b" % (len(body), body))
    await reader.readuntil(b"word")
    begun = time.perf_counter()
    writer.transport.abort()
    async with asyncio.timeout(30):
        return await provider.left - begun


async def main(kinds: list[str], rounds: int) -> None:
    os.environ |= {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "an-example"}
    print(f"{'provider':20} {'n':>4} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}")
    for kind in kinds:
        provider = Provider(providers.answers(9), asyncio.get_running_loop().create_future())
        async with before(kind, provider) as port:
            times = sorted([await left_after(port, provider) * 1e3 for _ in range(rounds)])
        middle, late = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
        print(f"{kind:20} {len(times):4} {middle:8.2f} {late:8.2f} {times[-1]:8.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="clients of each provider (default: %(default)s)")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    asked = parser.parse_args()
    asyncio.run(main(asked.kinds, asked.rounds))

"""What Realtime sessions cost: memory of an idle one, and how soon a cancelled response has freed its engine.

    python bench/realtime.py [--sessions 1000] [--rounds 200]

A gateway with an embedded engine runs in a process of its own, behind its own HTTP server. Responses are cancelled one after the
other; `response.done` is sent when the engine is free, so the time to it is the longest that the engine can have been busy. Then
so many sessions are opened, with settings of a kilobyte each, and the growth of that process is divided among them.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import attrs
from websockets.asyncio.client import ClientConnection, connect

from smg_core import Config, Gateway
from smg_core.config import ServerConfig
from smg_core.server.http_server import HttpServer
from smg_simulator import SimulatorConfig, Timing

ENGINE = SimulatorConfig(reply_tokens=100_000, timing=Timing(decode_rate=200))
AT_ONCE = 50
SETTINGS = {"type": "realtime", "instructions": "Be brief, and say what you know. " * 20}


async def serve() -> None:
    """Run the gateway, and write its port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    config = Config(server=ServerConfig(connections=20_000))
    gateway = Gateway.simulated(ENGINE, config=config)
    server = HttpServer(gateway, config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    await gateway.ready()
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    await running


def resident(process: int) -> int:
    """Bytes of memory that the process has now."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@attrs.define
class Client:
    """Opens sessions at one gateway."""

    url: str

    async def open(self) -> ClientConnection:
        socket = await connect(self.url, proxy=None, ping_interval=None, compression=None)
        await until(socket, "conversation.created")
        await send(socket, "session.update", session=SETTINGS)
        await until(socket, "session.updated")
        return socket


async def send(socket: ClientConnection, kind: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, **fields}))


async def until(socket: ClientConnection, kind: str) -> None:
    while json.loads(await socket.recv())["type"] != kind:
        pass


async def idle(client: Client, process: int, sessions: int) -> float:
    """KiB of memory of an idle session."""
    warm = [await client.open() for _ in range(AT_ONCE)]
    await asyncio.sleep(1)
    before = resident(process)
    opened: list[ClientConnection] = []
    while len(opened) < sessions:
        opened += await asyncio.gather(*(client.open() for _ in range(min(AT_ONCE, sessions - len(opened)))))
    await asyncio.sleep(1)
    grown = resident(process) - before
    for each in [*warm, *opened]:
        await each.close()
    return grown / sessions / 1024


async def cancelled(client: Client, rounds: int) -> list[float]:
    """Seconds from a cancellation to the end of its response."""
    socket = await client.open()
    hello = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
    await send(socket, "conversation.item.create", item=hello)
    await until(socket, "conversation.item.done")
    times = []
    for _ in range(rounds):
        await send(socket, "response.create", response={"conversation": "none"})
        text = json.loads(await socket.recv())
        id = text["response"]["id"]
        await until(socket, "response.output_text.delta")
        began = time.perf_counter()
        await send(socket, "response.cancel", response_id=id)
        await until(socket, "response.done")
        times.append(time.perf_counter() - began)
    await socket.close()
    return times


async def measure(sessions: int, rounds: int) -> None:
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        client = Client(f"ws://127.0.0.1:{port}/v1/realtime?model=sim")
        try:
            times = sorted(await cancelled(client, rounds))
            kib = await idle(client, server.pid, sessions)
        finally:
            server.terminate()
    median, last = statistics.median(times) * 1000, times[int(len(times) * 0.99)] * 1000
    sys.stdout.write(f"{sessions} idle sessions: {kib:.1f} KiB each\n")
    sys.stdout.write(f"cancelled {rounds} times: median {median:.1f} ms, 99 of 100 within {last:.1f} ms\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    asyncio.run(serve() if arguments.serve else measure(arguments.sessions, arguments.rounds))


if __name__ == "__main__":
    main()

"""Whether sound flows evenly through sessions that are passed through: the longest gap between two pieces at a client.

    python bench/realtime_relayed.py [--sessions 100] [--seconds 10]
    chrt -r 1 python bench/realtime_relayed.py        # as root: ahead of what else a busy machine has to do

Three processes: a server of sessions, which sends each client the sound it gets, at once; a gateway that passes its sessions on;
and this one, with all clients. Each client sends 100 ms of pcm16 at 24 kHz every 100 ms. How late a piece is back, from when it
was due to be sent, is told beside the gaps: where this process itself is late, both grow, and say nothing of the gateway. What
the gateway used of a CPU does not depend on what else the machine has to do.
"""

import argparse
import asyncio
import base64
import json
import logging
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as listen

from smg_core import Config, Gateway
from smg_core.config import ServerConfig
from smg_core.server.http_server import HttpServer
from smg_core.workers.worker import WorkerSpec

PIECE_S = 0.1
SOUND = base64.b64encode(bytes(4800)).decode()
APPEND = json.dumps({"type": "input_audio_buffer.append", "audio": SOUND})
DELTA = json.dumps({"type": "response.output_audio.delta", "event_id": "e", "response_id": "r", "delta": SOUND})


async def speak() -> None:
    """Be the server of sessions, and write its port."""

    async def take(connection: ServerConnection) -> None:
        await connection.send(json.dumps({"type": "session.created", "event_id": "e", "session": {"model": "m"}}))
        async for _ in connection:
            await connection.send(DELTA)

    logging.disable()  # the gateway asks for a list of models, which this server answers with a refusal
    async with listen(take, "127.0.0.1", 0, ping_interval=None, compression=None) as server:
        sys.stdout.write(f"{next(iter(server.sockets)).getsockname()[1]}\n")
        sys.stdout.flush()
        await server.serve_forever()


async def serve(url: str) -> None:
    """Run the gateway, and write its port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    config = Config(server=ServerConfig(connections=20_000))
    gateway = Gateway([WorkerSpec(url, dialect="openai-realtime", model="m")], config=config)
    server = HttpServer(gateway, config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    await gateway.ready()
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    await running


async def client(url: str, start: float, seconds: float, gaps: list[float], delays: list[float]) -> None:
    """One session: `gaps` between the pieces that come, `delays` from when each was due."""
    count = int(seconds / PIECE_S)
    async with connect(url, proxy=None, ping_interval=None, compression=None) as session:
        await session.recv()

        async def send() -> None:
            for number in range(count):
                await asyncio.sleep(max(0.0, start + number * PIECE_S - time.perf_counter()))
                await session.send(APPEND)

        sending = asyncio.create_task(send())
        before = None
        for number in range(count):
            await session.recv()
            now = time.perf_counter()
            delays.append(now - start - number * PIECE_S)
            if before is not None:
                gaps.append(now - before)
            before = now
        await sending


def cpu_s(process: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def told_port(process: "subprocess.Popen[str]") -> int:
    if process.stdout is None:
        raise SystemExit("the process says nothing")
    return int(process.stdout.readline())


async def measure(sessions: int, seconds: float) -> None:
    """Run all three, and write the figures."""
    own = [sys.executable, __file__]
    with subprocess.Popen([*own, "--speak"], stdout=subprocess.PIPE, text=True) as server:
        there = f"http://127.0.0.1:{told_port(server)}"
        with subprocess.Popen([*own, "--serve", there], stdout=subprocess.PIPE, text=True) as gateway:
            url = f"ws://127.0.0.1:{told_port(gateway)}/v1/realtime?model=m"
            gaps: list[float] = []
            delays: list[float] = []
            start = time.perf_counter() + 3

            async def used_when_begun() -> float:
                await asyncio.sleep(max(0.0, start - time.perf_counter()))
                return cpu_s(gateway.pid)

            try:
                beginning = asyncio.create_task(used_when_begun())
                await asyncio.gather(
                    *(
                        client(url, start + number * PIECE_S / sessions, seconds, gaps, delays)
                        for number in range(sessions)
                    ),
                )
                used = cpu_s(gateway.pid) - await beginning
            finally:
                gateway.terminate()
                server.terminate()
    gaps.sort()
    delays.sort()
    sys.stdout.write(f"{sessions} sessions, {len(delays)} pieces of 100 ms\n")
    sys.stdout.write(f"gaps: median {1000 * statistics.median(gaps):.1f} ms, longest {1000 * gaps[-1]:.1f} ms\n")
    late = sum(each > 2 * PIECE_S for each in gaps)
    sys.stdout.write(f"gaps of more than 100 ms beyond the 100 ms of a piece: {late}\n")
    share = delays[int(len(delays) * 0.99)]
    sys.stdout.write(
        f"back after: median {1000 * statistics.median(delays):.1f} ms, 99 of 100 within {1000 * share:.1f} ms\n"
    )

    per_piece = 1000 * used / len(delays)
    sys.stdout.write(
        f"CPU of the gateway: {100 * used / seconds:.0f} % of one, {per_piece:.2f} ms for a piece there and back\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    parser.add_argument("--speak", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.speak:
        asyncio.run(speak())
    elif args.serve:
        asyncio.run(serve(args.serve))
    else:
        asyncio.run(measure(args.sessions, args.seconds))


if __name__ == "__main__":
    main()

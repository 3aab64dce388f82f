"""How long a request outlives its client: from the client's leaving to the moment nothing of it is left.

    python bench/abort.py [--rounds 100]

A gateway with an embedded engine, over real gRPC, called in process and over HTTP. In each phase of a request its client
leaves; the time runs until neither the gateway nor the engine holds anything of it. Everything shares one event loop, so the
figures hold the engine's own time too, and are rounded up to the half millisecond between two looks.
"""

import argparse
import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import httpx

from smg_core import Config, Gateway
from smg_core.config import LimitsConfig
from smg_core.gateway.simulated import SimulatedGateway
from smg_core.server.http_server import HttpServer
from smg_simulator import Fault, SimulatorConfig, Timing

CHAT = "/v1/chat/completions"
LOOK = 0.0005
TIGHT = Config(limits=LimitsConfig(response_buffer_bytes=4096))
PACED = SimulatorConfig(reply_tokens=2000, timing=Timing(decode_rate=100))
ENDLESS = SimulatorConfig(reply_tokens=20_000)


@attrs.define
class Stand:
    """What is measured: a gateway and the client that calls it; `port` 0 when in process."""

    gateway: SimulatedGateway
    http: httpx.AsyncClient
    port: int = 0

    @property
    def quiet(self) -> bool:
        return not self.gateway.in_flight and not self.gateway.engines[0].active

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            await asyncio.sleep(LOOK)

    def ask(self, text: str = "Hello", *, stream: bool = True) -> "asyncio.Task[httpx.Response]":
        body = {"model": "sim", "messages": [{"role": "user", "content": text}], "stream": stream}
        return asyncio.create_task(self.http.post(CHAT, json=body))

    async def gone(self, leave: Callable[[], object]) -> float:
        """Seconds from `leave` to quiet."""
        left = time.perf_counter()
        leave()
        await self.until(lambda: self.quiet)
        return time.perf_counter() - left


Phase = Callable[[Stand], Awaitable[float]]


async def while_encoding(stand: Stand) -> float:
    """Both threads of the pool are busy, so the prompt waits to be rendered and encoded."""
    free = threading.Event()
    threads = max(2, stand.gateway.config.tokenizer.encode_threads)
    held = [
        asyncio.ensure_future(stand.gateway.services.running.executor.run(lambda _: free.wait(), size=1))
        for _ in range(threads)
    ]
    asked = stand.ask("new words, " * 20_000)
    await stand.until(lambda: stand.gateway.in_flight)
    seconds = await stand.gone(asked.cancel)
    free.set()
    await asyncio.gather(*held)
    return seconds


async def before_first_token(stand: Stand) -> float:
    stand.gateway.engines[0].inject(Fault("stall"))
    asked = stand.ask()
    await stand.until(lambda: stand.gateway.engines[0].active)
    return await stand.gone(asked.cancel)


async def mid_stream(stand: Stand) -> float:
    return await _after_tokens(stand, stream=True)


async def stalled_in_mid_stream(stand: Stand) -> float:
    stand.gateway.engines[0].inject(Fault("stall", after=3))
    return await _after_tokens(stand, stream=True)


async def during_a_whole_answer(stand: Stand) -> float:
    return await _after_tokens(stand, stream=False)


async def _after_tokens(stand: Stand, *, stream: bool) -> float:
    engine = stand.gateway.engines[0]
    wanted = engine.counters["tokens"] + 3
    asked = stand.ask(stream=stream)
    await stand.until(lambda: engine.counters["tokens"] >= wanted)
    return await stand.gone(asked.cancel)


async def while_the_client_does_not_read(stand: Stand) -> float:
    """The engine is held back: its tokens have stopped."""
    engine = stand.gateway.engines[0]
    before = engine.counters["tokens"]
    body = {"model": "sim", "messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 20_000}
    if stand.port:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", stand.port))
        sent = json.dumps(body).encode()
        sock.sendall(
            b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (CHAT.encode(), len(sent), sent)
        )
        leave: Callable[[], object] = sock.close
    else:
        answer = await stand.http.send(stand.http.build_request("POST", CHAT, json=body), stream=True)

        def leave() -> object:
            return asyncio.ensure_future(answer.aclose())

    await stand.until(lambda: engine.counters["tokens"] > before)
    seen, same = 0, 0
    while same < 40:
        now = engine.counters["tokens"]
        seen, same = now, same + 1 if now == seen else 0
        await asyncio.sleep(LOOK)
    return await stand.gone(leave)


PHASES: dict[Phase, tuple[SimulatorConfig, int]] = {
    while_encoding: (PACED, 1),
    before_first_token: (PACED, 1),
    mid_stream: (PACED, 1),
    stalled_in_mid_stream: (PACED, 1),
    during_a_whole_answer: (PACED, 1),
    while_the_client_does_not_read: (ENDLESS, 10),
}
"""A phase, the engine it needs, and by how much fewer its rounds are than the others'."""


@asynccontextmanager
async def in_process(engine: SimulatorConfig) -> AsyncIterator[Stand]:
    async with (
        Gateway.simulated(engine, config=TIGHT) as gateway,
        gateway.http_client(httpx, base_url="http://gateway") as http,
    ):
        yield Stand(gateway, http)


@asynccontextmanager
async def over_http(engine: SimulatorConfig) -> AsyncIterator[Stand]:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    port = listener.getsockname()[1]
    async with Gateway.simulated(engine, config=TIGHT) as gateway:
        server = HttpServer(gateway, TIGHT)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as http:
            await Stand(gateway, http).until(lambda: server.started)
            yield Stand(gateway, http, port)
        server.should_exit = True
        await running


async def main(rounds: int) -> None:
    print(f"{'phase':32} {'way':11} {'n':>4} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}")
    for phase, (engine, fewer) in PHASES.items():
        for way in (in_process, over_http):
            async with way(engine) as stand:
                times = sorted([await phase(stand) * 1000 for _ in range(max(1, rounds // fewer))])
            middle, late = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
            name = phase.__name__.replace("_", " ")
            print(
                f"{name:32} {way.__name__.replace('_', ' '):11} {len(times):4} {middle:8.1f} {late:8.1f} {times[-1]:8.1f}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How long a request outlives its client.")
    parser.add_argument("--rounds", type=int, default=100, help="clients a phase (default: %(default)s)")
    asyncio.run(main(parser.parse_args().rounds))

"""What receiving one gRPC message costs: both transports, against a grpcio server in a process of its own.

    python bench/transport/bench.py [--seconds 2] [--rounds 3] [--loop uvloop|asyncio] [--only h2|grpcio]

Two loads. *flood*: each stream's messages come as fast as the server writes them. *paced*: every stream gets a message of
36 bytes each 10 ms, which is what serving looks like. The figure is user and system CPU of this whole process per message:
socket read, event loop, transport and an empty receiver. The least of several interleaved rounds is shown, since anything
else running on the machine only adds.
"""

import argparse
import asyncio
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from smg_core.engines.base import Transport
from smg_core.engines.grpc.grpcio import GrpcioTransport
from smg_core.engines.grpc.h2.transport import H2Transport
from smg_core.errors import SmgError

MESSAGE = b"x" * 36
TICK = 0.010
TRANSPORTS: dict[str, Callable[[str], Transport]] = {"h2": H2Transport, "grpcio": GrpcioTransport}


class Engine:
    """A grpcio server: `Flood` as fast as it can, `Paced` with one clock for all streams, as engines batch."""

    def __init__(self) -> None:
        self.tick: asyncio.Event = asyncio.Event()

    async def flood(self, request: bytes, context: Any) -> None:
        while True:
            await context.write(MESSAGE)

    async def paced(self, request: bytes, context: Any) -> None:
        while True:
            await self.tick.wait()
            await context.write(MESSAGE)

    async def unary(self, request: bytes, context: Any) -> bytes:
        return request

    async def clock(self) -> None:
        due = time.monotonic()
        while True:
            due += TICK
            await asyncio.sleep(max(due - time.monotonic(), 0))
            tick, self.tick = self.tick, asyncio.Event()
            tick.set()

    async def serve(self, ports: Any) -> None:
        server = grpc.aio.server()
        methods = {
            "Flood": grpc.unary_stream_rpc_method_handler(self.flood),
            "Paced": grpc.unary_stream_rpc_method_handler(self.paced),
            "Unary": grpc.unary_unary_rpc_method_handler(self.unary),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Engine", methods),))
        ports.put(server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        clock = asyncio.get_running_loop().create_task(self.clock())
        await server.wait_for_termination()
        clock.cancel()


def serve(ports: Any) -> None:
    asyncio.run(Engine().serve(ports))


class Count:
    """A receiver that only counts."""

    def __init__(self) -> None:
        self.got = self.reads = 0

    def messages(self, batch: list[bytes]) -> None:
        self.got += len(batch)
        self.reads += 1

    def closed(self, error: SmgError | None) -> None:
        raise SystemExit(f"the stream ended: {error}")


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def streams(transport: Transport, path: str, count: int, seconds: float) -> tuple[float, float, float]:
    """`(messages a second, CPU us a message, messages a push)` once all streams run."""
    receivers = [Count() for _ in range(count)]
    calls = [await transport.start(path, b"", receiver) for receiver in receivers]
    await asyncio.sleep(0.3)
    got, reads = sum(r.got for r in receivers), sum(r.reads for r in receivers)
    began, spent = time.perf_counter(), cpu()
    await asyncio.sleep(seconds)
    took, spent = time.perf_counter() - began, cpu() - spent
    got, reads = sum(r.got for r in receivers) - got, sum(r.reads for r in receivers) - reads
    for call in calls:
        call.cancel()
    await asyncio.sleep(0.1)
    return got / took, spent * 1e6 / max(got, 1), got / max(reads, 1)


async def calls(transport: Transport, count: int, seconds: float) -> tuple[float, float, float]:
    """`(calls a second, CPU us a call, 1)` of unary calls, `count` at a time."""
    done = 0
    until = time.perf_counter() + seconds

    async def one() -> None:
        nonlocal done
        while time.perf_counter() < until:
            await transport.unary("/bench.Engine/Unary", MESSAGE, timeout=60)
            done += 1

    await transport.unary("/bench.Engine/Unary", MESSAGE)
    began, spent = time.perf_counter(), cpu()
    await asyncio.gather(*(one() for _ in range(count)))
    return done / (time.perf_counter() - began), (cpu() - spent) * 1e6 / done, 1.0


async def measure(name: str, port: int, load: str, count: int, seconds: float) -> tuple[float, float, float]:
    transport = TRANSPORTS[name](f"grpc://127.0.0.1:{port}")
    try:
        if load == "unary":
            return await calls(transport, count, seconds)
        return await streams(transport, f"/bench.Engine/{load.capitalize()}", count, seconds)
    finally:
        await transport.close()


async def run(arguments: argparse.Namespace, port: int) -> None:
    names = [arguments.only] if arguments.only else list(TRANSPORTS)
    print(f"{'load':<12}{'transport':<10}{'messages/s':>12}{'us/message':>12}{'per push':>10}")
    for load, count in (("flood", 1), ("flood", 64), ("paced", 1), ("paced", 64), ("unary", 1), ("unary", 64)):
        best: dict[str, tuple[float, float, float]] = {}
        for _ in range(arguments.rounds):
            for name in names:
                figures = await measure(name, port, load, count, arguments.seconds)
                best[name] = min(best.get(name, figures), figures, key=lambda row: row[1])
        for name, (rate, each, batch) in best.items():
            print(f"{load + ' ' + str(count):<12}{name:<10}{rate:>12,.0f}{each:>12.2f}{batch:>10.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    parser.add_argument("--only", choices=tuple(TRANSPORTS))
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ports = context.Queue()
    engine = context.Process(target=serve, args=(ports,), daemon=True)
    engine.start()
    try:
        if arguments.loop == "uvloop":
            import uvloop

            uvloop.run(run(arguments, ports.get()))
        else:
            asyncio.run(run(arguments, ports.get()))
    finally:
        engine.terminate()
        engine.join()


if __name__ == "__main__":
    main()

"""What a fleet's size costs: a change of the registry, a choice of a worker, and health checks, for 1 and many workers.

    python bench/fleet_size.py [--workers 256] [--watch 20] [--request 20]

CPU time of this process, so that other work on the machine counts little. `--watch` seconds are spent on watching that many
workers of one embedded engine, which runs in another process (60 have everything in them that is done now and then), and
`--request` on whole requests before each number of workers.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import httpx

from smg_core import Config, Gateway
from smg_core.config import WorkersConfig
from smg_core.engines.base import EngineFacts
from smg_core.routing import policy
from smg_core.routing.base import RoutingContext
from smg_core.tokens import TokenIds
from smg_core.workers.registry import Registry
from smg_core.workers.worker import WorkerSpec

FACTS = EngineFacts("vllm")
TIMES = 200


def registry_of(workers: int) -> Registry:
    registry = Registry()
    for number in range(workers):
        worker = registry.add(WorkerSpec(f"grpc://gpu-{number}:50051", f"gpu-{number}"))
        worker.facts = FACTS
        registry.serve(worker, ("m",))
        registry.signal(worker, "joined")
    return registry


def cpu_ms(what: Callable[[], object], times: int = TIMES) -> float:
    """The median CPU time of one call."""
    found = []
    for _ in range(times):
        began = time.process_time_ns()
        what()
        found.append((time.process_time_ns() - began) / 1e6)
    return statistics.median(found)


def change_ms(workers: int) -> float:
    """One change of a worker's state: it is lost, and comes back."""
    registry = registry_of(workers)
    worker = next(iter(registry))

    def change() -> None:
        registry.signal(worker, "failing")
        registry.signal(worker, "healthy")

    return cpu_ms(change) / 2


def choice_ms(workers: int, name: str) -> float:
    """One choice of a worker as the Select step makes it."""
    registry, chooser = registry_of(workers), policy(name)
    context = RoutingContext("r", "m", TokenIds(range(512)))

    def choose() -> None:
        candidates = registry.admitted(registry.candidates("m"), 1.0)
        chooser.pick(tuple([each.record for each in candidates]), context)

    return cpu_ms(choose)


async def watch_share(workers: int, seconds: float, loads_interval_s: float) -> float:
    """The share of a core that watching so many idle workers takes: health checks, and loads asked at an interval."""
    command = [sys.executable, "-m", "smg_simulator", "--port", "0"]
    engine = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert engine.stdout is not None
        target = engine.stdout.readline().split()[1]
        gateway = Gateway(config=Config(workers=WorkersConfig(loads_interval_s=loads_interval_s)))
        await gateway.start()
        try:
            for number in range(workers):
                gateway.add_worker(WorkerSpec(target, f"w{number}", dialect="vllm"))
            while sum(each.state == "ready" for each in gateway.registry) < workers:
                await asyncio.sleep(0.5)
            await asyncio.sleep(
                2 * gateway.config.workers.health_interval_s
            )  # the first probes ask what the engines serve
            began, cpu = time.monotonic(), time.process_time()
            await asyncio.sleep(seconds)
            return (time.process_time() - cpu) / (time.monotonic() - began)
        finally:
            await gateway.stop()
    finally:
        engine.terminate()
        engine.wait()


async def request_ms(workers: int, seconds: float) -> float:
    """CPU time of one whole request of Chat Completions through the gateway's app, with so many workers of one engine in another
    process: the median of runs of 20 requests. Nothing is asked of engines meanwhile."""
    command = [sys.executable, "-m", "smg_simulator", "--port", "0"]
    engine = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert engine.stdout is not None
        target = engine.stdout.readline().split()[1]
        gateway = Gateway(config=Config(workers=WorkersConfig(health_interval_s=3600.0, loads_interval_s=3600.0)))
        await gateway.start()
        try:
            for number in range(workers):
                gateway.add_worker(WorkerSpec(target, f"w{number}", dialect="vllm"))
            while sum(each.state == "ready" for each in gateway.registry) < workers:
                await asyncio.sleep(0.5)
            body = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64}
            found: list[float] = []
            async with gateway.http_client(httpx, base_url="http://gateway") as http:
                for _ in range(2 * workers):  # each client of an engine has made its connection
                    await http.post("/v1/chat/completions", json={**body, "max_tokens": 1})
                end = time.monotonic() + seconds
                while time.monotonic() < end or len(found) < 5:
                    began = time.process_time_ns()
                    for _ in range(20):
                        answer = await http.post("/v1/chat/completions", json=body)
                        assert answer.status_code == 200, answer.text
                    found.append((time.process_time_ns() - began) / 20e6)
            return statistics.median(found)
        finally:
            await gateway.stop()
    finally:
        engine.terminate()
        engine.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=256)
    parser.add_argument("--watch", type=float, default=0.0)
    parser.add_argument("--request", type=float, default=0.0)
    args = parser.parse_args()
    print(f"| | 1 worker | {args.workers} workers |\n|---|---|---|")
    print(f"| a change of the registry, ms | {change_ms(1):.3f} | {change_ms(args.workers):.3f} |")
    for name in ("round_robin", "least_requests", "least_load", "cache_aware"):
        print(f"| a choice by {name}, ms | {choice_ms(1, name):.4f} | {choice_ms(args.workers, name):.4f} |")
    if args.request:
        one, many = [asyncio.run(request_ms(count, args.request)) for count in (1, args.workers)]
        print(f"| a whole request, ms | {one:.3f} | {many:.3f} ({many / one:.2f}x) |")
    if args.watch:
        for what, interval in (("health checks alone", 3600.0), ("health checks, and loads once a second", 1.0)):
            shares = [asyncio.run(watch_share(many, args.watch, interval)) for many in (1, args.workers)]
            print(f"| {what}, share of a core | {shares[0]:.2%} | {shares[1]:.2%} |")


if __name__ == "__main__":
    main()

"""What a fleet's size costs: a choice of a worker, a change of the registry, memory, a whole request, and health checks.

    python bench/fleet_size.py                         the curve over 1 to 1,000 workers, some minutes on one core
    python bench/fleet_size.py --sizes 1 256 --seconds 20
    python bench/fleet_size.py --watch 60              the share of a core that watching the workers takes, too

A row of the table is a size; the last one has the most workers, of `--models` models. CPU time of this process, so that other
work on the machine counts little. Workers are all of one embedded engine, which runs in another process. Whole requests go by
turns through a gateway before one worker and one before many, both in this process, so that what else the machine does falls
on both alike; their ratio is that of the medians.
"""

import argparse
import asyncio
import gc
import resource
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import httpx

from smg_core import Config, Gateway
from smg_core.config import WorkersConfig
from smg_core.engines.base import EngineFacts
from smg_core.routing import Decisions, Policies, policy
from smg_core.routing.base import RoutingContext
from smg_core.tokens import TokenIds
from smg_core.workers.registry import Registry
from smg_core.workers.worker import WorkerPlace, WorkerSpec

FACTS = EngineFacts("vllm")
SIZES = (1, 16, 64, 256, 1000)
MODELS = 200
POLICIES = ("round_robin", "least_requests", "power_of_two", "least_load", "cache_aware")
TIMES = 400
JOINING = 50
"""Workers that join at once: all of them are one engine, which has one process."""
AT_ONCE = 5
"""Requests that one gateway is sent before it is the other's turn."""


def registry_of(workers: int, models: int = 1) -> Registry:
    registry = Registry()
    for number in range(workers):
        worker = registry.add(WorkerSpec(f"grpc://gpu-{number}:50051", f"gpu-{number}"))
        worker.models, worker.facts, worker.state = (f"m{number % models}",), FACTS, "ready"
    if workers:
        registry.hold(worker, {}, ())  # the index is made once, not for each of them
    return registry


def cpu_us(what: Callable[[], object], times: int = TIMES) -> float:
    """The median CPU time of one call."""
    found = []
    for _ in range(times):
        began = time.thread_time_ns()
        what()
        found.append((time.thread_time_ns() - began) / 1e3)
    return statistics.median(found)


def change_us(workers: int, models: int) -> float:
    """One change of a worker's state: it is lost, and comes back."""
    registry = registry_of(workers, models)
    worker = next(iter(registry))

    def change() -> None:
        registry.signal(worker, "failing")
        registry.signal(worker, "healthy")

    return cpu_us(change, TIMES // 8) / 2


def choice_us(workers: int, models: int, name: str) -> float:
    """One choice of a worker as the Select step makes it and keeps the decision, with the place at the worker."""
    registry, policies, decisions = (
        registry_of(workers, models),
        Policies(lambda: policy(name)),
        Decisions(1000, 1 << 24),
    )
    context = RoutingContext("r", "m0", TokenIds(range(512)))

    def choose() -> None:
        candidates = registry.admitted(registry.candidates("m0"), 1.0)
        seen = registry.records(candidates, "m0", "regular")
        choice = policies.choose("m0", "regular", seen, context)
        decisions.note(seen, context, choice.pick, choice.policy, 1, 0.0)
        WorkerPlace(candidates[choice.at], 512).leave()

    for _ in range(2 * workers // models):
        choose()
    return cpu_us(choose)


def memory_kib(workers: int, models: int) -> float:
    """What the registry holds for each worker."""
    gc.collect()
    tracemalloc.start()
    kept = registry_of(workers, models)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / 1024 / len(kept)


@asynccontextmanager
async def engine() -> AsyncIterator[str]:
    """The address of an embedded engine in a process of its own."""
    command = [sys.executable, "-m", "smg_simulator", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1]
    finally:
        process.terminate()
        process.wait()


def waiting(gateway: Gateway) -> bool:
    return any(each.state != "ready" for each in gateway.registry)


@asynccontextmanager
async def gateway_of(
    target: str, workers: int, models: int, *, health_s: float = 3600.0, loads_s: float = 3600.0
) -> AsyncIterator[Gateway]:
    """A gateway that has joined so many workers, and asks them as seldom as that."""
    settings = WorkersConfig(health_interval_s=health_s, loads_interval_s=loads_s)
    gateway = Gateway(config=Config(workers=settings))
    await gateway.start()
    try:
        for number in range(workers):
            gateway.add_worker(WorkerSpec(target, f"w{number}", dialect="vllm", model=f"m{number % models}"))
            while number % JOINING == JOINING - 1 and waiting(gateway):
                await asyncio.sleep(0.05)
        while waiting(gateway):
            await asyncio.sleep(0.05)
        yield gateway
    finally:
        await gateway.stop()


async def watch_share(workers: int, models: int, seconds: float, loads_s: float) -> float:
    """The share of a core that watching so many idle workers takes: health checks, and loads asked at an interval."""
    health_s = WorkersConfig().health_interval_s
    async with engine() as target, gateway_of(target, workers, models, health_s=health_s, loads_s=loads_s):
        await asyncio.sleep(2 * health_s)  # the first probes ask what the engines serve
        began, cpu = time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        return (time.process_time() - cpu) / (time.monotonic() - began)


class Asking:
    """Sends whole requests of Chat Completions through a gateway's app, to its models in turn."""

    def __init__(self, http: httpx.AsyncClient, models: int) -> None:
        self._http, self._models = http, models
        self._turn = 0
        self.took: list[float] = []

    async def ask(self, times: int, *, counted: bool = True, tokens: int = 64) -> None:
        began = time.thread_time_ns()
        for _ in range(times):
            self._turn += 1
            body = {"model": f"m{self._turn % self._models}", "messages": [{"role": "user", "content": "Hello"}]}
            answer = await self._http.post("/v1/chat/completions", json={**body, "max_tokens": tokens})
            assert answer.status_code == 200, answer.text
        if counted:
            self.took.append((time.thread_time_ns() - began) / 1e6 / times)


async def requests_ms(workers: int, models: int, seconds: float) -> tuple[float, float]:
    """CPU time of one whole request before one worker, and before so many: medians of runs by turns."""
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(engine())
        asking = []
        for count, named in ((1, 1), (workers, models)):
            gateway = await stack.enter_async_context(gateway_of(target, count, named))
            http = await stack.enter_async_context(gateway.http_client(httpx, base_url="http://gateway"))
            asking.append(Asking(http, named))
            await asking[-1].ask(count + 20, counted=False, tokens=1)  # each client has made its connection
        gc.collect()
        gc.freeze()  # as the server does with what it has when it starts
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(asking[0].took) < 10:
            for each in asking:
                await each.ask(AT_ONCE)
        return statistics.median(asking[0].took), statistics.median(asking[1].took)


def row(workers: int, models: int, seconds: float, watch: float) -> list[str]:
    """The figures of one size."""
    found = [f"{workers:,}" + (f" of {models} models" if models > 1 else "")]
    found += [f"{choice_us(workers, models, name):.0f}" for name in POLICIES]
    found += [f"{change_us(workers, models) / 1000:.2f}", f"{memory_kib(workers, models):.1f}"]
    if seconds:
        one, many = asyncio.run(requests_ms(workers, models, seconds))
        found.append(f"{many:.2f} ({many / one:.2f})")
    if watch:
        found += [f"{asyncio.run(watch_share(workers, models, watch, each)):.2%}" for each in (3600.0, 1.0)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument(
        "--models", type=int, default=MODELS, help="of a further row of the largest size (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="of whole requests for each size; 0: none (default: %(default)s)"
    )
    parser.add_argument("--watch", type=float, default=0.0, help="seconds of watching for each size (default: none)")
    args = parser.parse_args()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))  # a connection for each worker
    heads = [*(f"choice, {name}, us" for name in POLICIES), "change, ms", "KiB a worker"]
    heads += ["whole request, ms (of one worker's)"] * bool(args.seconds)
    heads += ["health checks", "and loads each second"] * bool(args.watch)
    print("\n".join(_line(each) for each in (["workers", *heads], ["---"] * (len(heads) + 1))))
    sizes = [(size, 1) for size in args.sizes]
    for size, models in [*sizes, (max(args.sizes), args.models)] if args.models > 1 else sizes:
        print(_line(row(size, models, args.seconds, args.watch)), flush=True)


def _line(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


if __name__ == "__main__":
    main()

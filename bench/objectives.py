"""How well the times of workers are predicted, and how many requests meet their objectives by it, over a simulated fleet.

    python bench/objectives.py --report        # writes bench/objectives.md and the plot in bench/objectives.svg

Requests come by chance to eight simulated engines, half of them at half the speed, and ask for a first token and a pace. They are
sent to the engine with the fewest requests for its speed, to the one that `objectives` would leave to it, or where each that
cannot be met is shed. The clock is virtual, so a run is the same every time.
"""

import argparse
import random
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path

import attrs

from smg_core.errors import Overloaded
from smg_core.hooks import AttemptEnded, FirstToken
from smg_core.limit_moments import TimePredicted
from smg_core.objectives.objectives import Objectives, TimedCall
from smg_core.testing import MemoryObserver
from smg_simulator.fleet.engine import EngineSpeed, FleetEngine, Task
from smg_simulator.fleet.trace import FleetRequest

REPORT = Path(__file__).parent / "objectives.md"
PLOT = REPORT.with_suffix(".svg")
SIDE, GAP, DOTS = 220, 60, 250  # of a panel of the plot in pixels, and how many requests it shows
ENGINES, SECONDS, WARM, SEEDS = 8, 120.0, 20.0, (0, 1, 2)
PROMPT, OUTPUT = (64, 4096), (32, 256)
FIRST_MS, EACH_MS = 700.0, 60.0
BLOCK = 16
LOADS = (4.0, 8.0, 12.0, 16.0)
WAYS = ("fewest requests", "late", "shed")
HEADERS = {"x-slo-ttft-ms": str(FIRST_MS), "x-slo-tpot-ms": str(EACH_MS)}


def speed(number: int) -> EngineSpeed:
    """Half of the engines are half as fast."""
    usual, slower = EngineSpeed(running=32), number % 2
    if not slower:
        return usual
    times = {
        field.name: getattr(usual, field.name) * 2
        for field in attrs.fields(EngineSpeed)
        if field.name.endswith("_s") or field.name.endswith("_seconds")
    }
    return attrs.evolve(usual, **times)


@attrs.frozen
class Rank:
    max_running: int


@attrs.define(eq=False)
class Seen:
    """An engine as the gateway sees it."""

    name: str
    ranks: tuple[Rank, ...]
    in_flight: int = 0
    others: int = 0
    prefill_tokens: int = 0
    role: str = "regular"


@attrs.define(eq=False)
class Asked:
    """A request under way, or over."""

    request: FleetRequest
    engine: int = -1
    sent: TimedCall | None = None
    began: bool = False
    first: float | None = None
    each: float = 0.0
    shed: bool = False

    @property
    def met(self) -> bool:
        """Whether its objectives were met."""
        return self.first is not None and self.first * 1000 <= FIRST_MS and self.each * 1000 <= EACH_MS


class Fleet:
    """One run."""

    def __init__(self, rate: float, way: str, seed: int) -> None:
        self.rng, self.rate, self.way = random.Random(seed), rate, way
        self.observer = MemoryObserver()
        self.objectives = Objectives(self.observer, lambda: 1.0)
        self.objectives.on_missed = "shed" if way == "shed" else "late"
        self.engines = [FleetEngine(f"engine-{at}", speed(at), BLOCK) for at in range(ENGINES)]
        self.seen = [Seen(f"engine-{at}", (Rank(speed(at).running),)) for at in range(ENGINES)]
        self.tasks: list[dict[Task, Asked]] = [{} for _ in range(ENGINES)]
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.number, self.now = 0, 0.0
        self.asked: list[Asked] = []

    def plan(self, at: float, what: Callable[[], None]) -> None:
        self.number += 1
        heappush(self.heap, (at, self.number, what))

    def run(self) -> "Fleet":
        self.plan(0.0, self.comes)
        while self.heap:
            self.now, _, what = heappop(self.heap)
            what()
        return self

    def comes(self) -> None:
        if self.now > SECONDS:
            return
        self.plan(self.now + self.rng.expovariate(self.rate), self.comes)
        asked = Asked(FleetRequest(self.now, self.rng.randint(*PROMPT), self.rng.randint(*OUTPUT)))
        self.asked.append(asked)
        prompt, workers = asked.request.prompt_tokens, tuple(self.seen)
        if self.way != "fewest requests":
            try:
                workers = self.objectives.meeting(HEADERS, "m", workers, prompt, lambda: [0] * ENGINES, 0.0)
            except Overloaded:
                asked.shed = True
                return
        worker = min(workers, key=lambda each: (each.in_flight, each.prefill_tokens))
        at = asked.engine = self.seen.index(worker)
        asked.sent = self.objectives.sent(HEADERS, "m", worker, prompt, self.now)
        worker.in_flight += 1
        worker.prefill_tokens += prompt
        self.number += 1
        task = Task(self.number, asked.request, asked.request.output_tokens)
        self.tasks[at][task] = asked
        before = self.engines[at].ends
        self.engines[at].arrive(task, self.now)
        self.follow(at, before)

    def follow(self, at: int, before: float | None) -> None:
        ends = self.engines[at].ends
        if ends is not None and ends != before:
            self.plan(ends, lambda: self.steps(at, ends))

    def steps(self, at: int, ends: float) -> None:
        if self.engines[at].ends != ends:
            return
        done = self.engines[at].finish(self.now)
        for task, asked in self.tasks[at].items():
            if task.first is not None and not asked.began:
                self.began(asked, task.first)
        for task in done:
            self.over(self.tasks[at].pop(task))
        self.follow(at, None)

    def began(self, asked: Asked, first: float) -> None:
        asked.began, asked.first = True, first - asked.request.at
        self.seen[asked.engine].prefill_tokens -= asked.request.prompt_tokens
        if asked.sent is not None:
            asked.sent.note(FirstToken("r", f"engine-{asked.engine}", asked.first, first))

    def over(self, asked: Asked) -> None:
        self.seen[asked.engine].in_flight -= 1
        first, seconds, tokens = asked.first or 0.0, self.now - asked.request.at, asked.request.output_tokens
        asked.each = (seconds - first) / max(1, tokens - 1)
        if asked.sent is not None:
            worker = f"engine-{asked.engine}"
            asked.sent.note(AttemptEnded("r", worker, 1, "ok", tokens, ("stop",), first, seconds, self.now))


def share(values: list[float], part: float) -> float:
    """The value that this part of them is below."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0.0


def line(rate: float, way: str, fleets: list[Fleet]) -> str:
    asked = [each for fleet in fleets for each in fleet.asked if each.request.at >= WARM]
    served = [each for each in asked if not each.shed]
    told = [each for fleet in fleets for each in fleet.observer.of(TimePredicted)]
    first = [abs(each.seconds - each.expected) for each in told if each.kind == "first"]
    pace = [abs(each.seconds - each.expected) for each in told if each.kind == "each"]
    usual = share([each.seconds for each in told if each.kind == "first"], 0.5)
    met = sum(each.met for each in asked)
    return (
        f"| {rate:g} | {way} | {met / len(asked):.0%} | {met / max(1, len(served)):.0%} | "
        f"{1 - len(served) / len(asked):.0%} | {share([each.first or 0.0 for each in served], 0.99):.2f} | {usual * 1000:.0f} | "
        f"{share(first, 0.5) * 1000:.0f} / {share(first, 0.9) * 1000:.0f} | "
        f"{share(pace, 0.5) * 1000:.1f} / {share(pace, 0.9) * 1000:.1f} |"
    )


def panel(at: int, rate: float, told: list[TimePredicted]) -> str:
    """The measured time over the predicted one of first tokens, with the line on which a prediction is right."""
    shown = told[:: max(1, len(told) // DOTS)]
    top = max([share([each.seconds for each in told], 0.99), share([each.expected for each in told], 0.99), 0.1])
    x, y = GAP + at * (SIDE + GAP), 40
    off = sorted(abs(each.seconds - each.expected) * 1000 for each in told)
    dots = "".join(
        f"M{x + SIDE * each.expected / top:.1f} {y + SIDE * (1 - each.seconds / top):.1f}h0"
        for each in shown
        if max(each.seconds, each.expected) <= top
    )
    words = f"{rate:g} a second; off by {share(off, 0.5):.0f} ms (p50), {share(off, 0.9):.0f} ms (p90)"
    return (
        f'<rect x="{x}" y="{y}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#bbb"/>'
        f'<path d="M{x} {y + SIDE}L{x + SIDE} {y}" stroke="#d1495b" stroke-width="1"/>'
        f'<path d="{dots}" stroke="#2e86ab" stroke-width="3" stroke-linecap="round" fill="none"/>'
        f'<text x="{x}" y="{y - 8}">{words}</text>'
        f'<text x="{x}" y="{y + SIDE + 16}">0</text>'
        f'<text x="{x + SIDE}" y="{y + SIDE + 16}" text-anchor="end">predicted, {top:.2f} s</text>'
        f'<text x="{x - 6}" y="{y + 10}" text-anchor="end">{top:.2f} s</text>'
    )


def plot(told: dict[float, list[TimePredicted]]) -> str:
    """The plot: a panel for each load."""
    wide, high = GAP + len(told) * (SIDE + GAP), SIDE + 80
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
    style = 'font-family="sans-serif" font-size="10" fill="#222"><rect width="100%" height="100%" fill="#fff"/>'
    panels = [panel(at, rate, each) for at, (rate, each) in enumerate(told.items())]
    return "\n".join([head + style, *panels, "</svg>", ""])


def report() -> tuple[str, str]:
    """The page and the plot."""
    head = [
        "# Objectives of requests",
        "",
        "`python bench/objectives.py --report` writes this page. Eight simulated engines of 32 requests each, every other one at",
        f"half the speed; {SECONDS:g} s of requests by chance, of which the first {WARM:g} s are left out, {len(SEEDS)} seeds, a",
        f"virtual clock. Prompts have {PROMPT[0]} to {PROMPT[1]:,} tokens, answers {OUTPUT[0]} to {OUTPUT[1]}; each request",
        f"asks for its first token within {FIRST_MS:g} ms and the others {EACH_MS:g} ms apart. Errors of the prediction are in",
        "milliseconds, of all requests that were sent.",
        "",
        "![First tokens as predicted and as measured](objectives.svg)",
        "",
        "| a second | way | met | of those served | shed | first token p99, s | p50, ms | error p50 / p90 | each p50 / p90 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines, told = [], dict[float, list[TimePredicted]]()
    for rate in LOADS:
        for way in WAYS:
            fleets = [Fleet(rate, way, seed).run() for seed in SEEDS]
            lines.append(line(rate, way, fleets))
            if way == "late":
                every = [each for fleet in fleets for each in fleet.observer.of(TimePredicted)]
                told[rate] = [each for each in every if each.kind == "first"]
    return "\n".join([*head, *lines, ""]), plot(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="write bench/objectives.md")
    text, drawn = report()
    if parser.parse_args().report:
        REPORT.write_text(text)
        PLOT.write_text(drawn)
    print(text)


if __name__ == "__main__":
    main()

"""Is a routing policy as good as we say? Simulated fleets under many conditions, against round robin and a router that sees all.

    python bench/fleet.py --policy cache_aware                 # all cells, some hours on one core; go on where it was stopped
    python bench/fleet.py --policy cache_aware --cells 10      # the first ten
    python bench/fleet.py --report                             # the table of what has been run, into bench/fleet.md

A cell is one combination of load, size of the fleet, number of gateways, speeds, KV events and deaths; the cells together have
every pair of conditions. Each is run with five seeds, and the worst one counts. Results are lines of JSON in
bench/results/fleet.jsonl.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

import attrs

from smg_core.routing import policy
from smg_core.simulator.fleet.engine import EngineSpeed, FleetEngine
from smg_core.simulator.fleet.figures import Figures, figures
from smg_core.simulator.fleet.generated import Load, generated
from smg_core.simulator.fleet.oracles import Greedy, hits_of_one_cache
from smg_core.simulator.fleet.pools import EVENTS, FleetSettings, Outage
from smg_core.simulator.fleet.replay import MakeChooser, replay
from smg_core.simulator.fleet.trace import FleetTrace
from smg_core.simulator.fleet.view import Chooser, PolicyChooser

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "fleet.jsonl"
SEEDS = range(5)
REQUESTS = 300  # for each engine
RATES = {
    "chat": 9.0,
    "agents": 4.5,
    "retrieval": 2.6,
    "day_and_night": 11.0,
    "long": 0.45,
    "hot": 9.0,
    "bursts": 6.0,
    "unshared": 3.0,
}
"""Requests a second for each engine: with these, engines work 40 to 75 % of their time for requests."""
SHARED = frozenset({"chat", "agents", "retrieval", "day_and_night"})
FACTORS: dict[str, Sequence[Any]] = {
    "kind": list(RATES),
    "engines": [8, 64],
    "replicas": [1, 4],
    "speeds": ["equal", "unlike"],
    "events": list(EVENTS),
    "deaths": [0, 2],
}
FASTER = {"equal": (1.0,), "unlike": (1.0, 1.0, 1.5, 0.75)}

Cell = Mapping[str, Any]


def cells() -> list[Cell]:
    """Combinations of the factors in which every pair of values occurs; the same ones each time."""
    every = [dict(zip(FACTORS, values, strict=True)) for values in product(*FACTORS.values())]
    Random(7).shuffle(every)
    wanted = {pair for cell in every for pair in _pairs(cell)}
    chosen: list[Cell] = []
    while wanted:
        best = max(every, key=lambda cell: len(wanted.intersection(_pairs(cell))))
        wanted.difference_update(_pairs(best))
        chosen.append(best)
    return chosen


def _pairs(cell: Cell) -> Iterator[tuple[Any, ...]]:
    for one, two in combinations(cell.items(), 2):
        yield (*one, *two)


def run(cell: Cell, seed: int, name: str, requests: int = REQUESTS) -> dict[str, Any]:
    """One cell with one seed: the figures of round robin, of the policy and of the router that sees all."""
    engines = cell["engines"]
    trace = generated(cell["kind"], Load(requests * engines, RATES[cell["kind"]] * engines, seed=seed))
    settings = FleetSettings(
        engines=engines,
        replicas=cell["replicas"],
        factors=FASTER[cell["speeds"]],
        events=cell["events"],
        outages=_outages(cell["deaths"], trace),
        seed=seed,
    )
    runs = {each: figures(replay(trace, settings, _chooser(each))) for each in ("round_robin", name, "greedy")}
    tokens = sum(each.prompt_tokens for each in trace.requests)
    bound = hits_of_one_cache(trace, engines * settings.speed.cache_tokens) / tokens
    return {
        **cell,
        "seed": seed,
        "policy": name,
        "bound": bound,
        "runs": {key: attrs.asdict(each) for key, each in runs.items()},
    }


def _outages(deaths: int, trace: FleetTrace) -> tuple[Outage, ...]:
    """Engines that die after a third of the trace and are back a tenth of it later, one after another."""
    long = trace.seconds
    return tuple(Outage(at, long * (0.33 + 0.1 * at), long * (0.43 + 0.1 * at)) for at in range(deaths))


def _chooser(name: str) -> MakeChooser:
    if name == "greedy":
        return lambda engines, _: Greedy(engines)

    def made(engines: Sequence[FleetEngine], rng: Random) -> Chooser:
        return PolicyChooser(engines, policy(name, rng=rng))

    return made


def verdict(row: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """What the goals say of a run: each figure with the most (or, where negative, the least) that it may be."""
    runs = {name: Figures(**each) for name, each in row["runs"].items()}
    ours, plain, best = runs[row["policy"]], runs["round_robin"], runs["greedy"]
    lost = {"retries of round robin's": (_ratio(ours.retries, max(1, plain.retries)), 2.0)} if row["deaths"] else {}
    if row["kind"] in SHARED:
        return {
            **lost,
            "hits of the bound": (-_ratio(ours.hit, row["bound"]), -0.95),
            "work max/mean": (ours.balance, 1.3),
            "first token p99": (_ratio(ours.first_p99, plain.first_p99), 0.72),
            "first token mean": (_ratio(ours.first_mean, plain.first_mean), 0.77),
        }
    if row["kind"] == "long":
        return {
            **lost,
            "hits of greedy's": (-_ratio(ours.hit, best.hit), -0.95),
            "first token mean of greedy's": (_ratio(ours.first_mean, best.first_mean), 1.15),
        }
    half = EngineSpeed().step_s / 2
    return {
        **lost,
        "first token mean": (_ratio(ours.first_mean - half, plain.first_mean), 1.02),
        "first token p99": (_ratio(ours.first_p99 - half, plain.first_p99), 1.02),
        "whole p99": (_ratio(ours.done_p99, plain.done_p99), 1.05),
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of the worst seed of each cell, with what misses its goal in bold."""
    by_cell: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_cell.setdefault(", ".join(str(row[name]) for name in (*FACTORS, "policy")), []).append(row)
    lines = [
        f"| {', '.join(FACTORS)}, policy | seeds | engines at work | goals, of the worst seed |",
        "|---|---|---|---|",
    ]
    for name, found in sorted(by_cell.items()):
        use = [row["runs"][row["policy"]]["use"] for row in found]
        lines.append(f"| {name} | {len(found)} | {min(use):.0%} to {max(use):.0%} | {_goals(found)} |")
    missed = sum("**" in line for line in lines)
    lost = sum(row["runs"][row["policy"]]["refused"] for row in rows)
    return "\n".join([f"{len(by_cell)} cells, {missed} of which miss a goal; {lost} requests lost.", "", *lines, ""])


def _goals(found: Sequence[Mapping[str, Any]]) -> str:
    told = []
    for goal in verdict(found[0]):
        worst, most = max(verdict(row)[goal] for row in found)
        text = f"{goal} {abs(worst):.2f} ({abs(most):.2f})"
        told.append(f"**{text}**" if worst > most else text)
    return ", ".join(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="cache_aware")
    parser.add_argument("--cells", type=int, help="only the first so many")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="for each engine (default: %(default)s)")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    if args.report:
        (HERE / "fleet.md").write_text(f"# Simulated fleets\n\nMade by `bench/fleet.py`.\n\n{report(rows)}")
        return
    done = {tuple(row[name] for name in (*FACTORS, "seed", "policy")) for row in rows}
    RESULTS.parent.mkdir(exist_ok=True)
    for cell in cells()[: args.cells]:
        for seed in SEEDS:
            if (*cell.values(), seed, args.policy) in done:
                continue
            row = run(cell, seed, args.policy, args.requests)
            with RESULTS.open("a") as out:
                out.write(json.dumps(row) + "\n")
            goals = {name: f"{abs(value):.2f}" for name, (value, _) in verdict(row).items()}
            print(", ".join(str(each) for each in cell.values()), f"seed {seed}:", goals, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

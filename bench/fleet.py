"""Is a routing policy as good as we say? Simulated fleets under many conditions, against round robin and a router that sees all.

    python bench/fleet.py --policy cache_aware                 # all cells, some hours on one core; go on where it was stopped
    python bench/fleet.py --policy cache_aware --cells 10      # the first ten
    python bench/fleet.py --beside least_load                  # another policy alone, in the cells that have been run
    python bench/fleet.py --policies                           # every policy in three fleets, a minute on one core
    python bench/fleet.py --local                              # prompts that decode engines read themselves, by length
    python bench/fleet.py --pools                              # prefill and decode pools against engines that do both
    python bench/fleet.py --meshed                             # four gateways with and without a mesh
    python bench/fleet.py --million                            # how long a million requests take
    python bench/fleet.py --report                             # the tables of what has been run, into bench/fleet.md

A cell is one combination of load, size of the fleet, number of gateways, speeds, KV events and deaths; the cells together have
every pair of conditions. Each is run with five seeds, and the worst one counts. Results are lines of JSON in
bench/fleet.jsonl, which is committed so that anybody goes on where it ended; throw it away when a policy has changed.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import geometric_mean
from typing import Any

import attrs

from smg_core.routing import POLICIES, policy
from smg_simulator.fleet.engine import FleetEngine
from smg_simulator.fleet.figures import Figures, figures
from smg_simulator.fleet.generated import Load, generated
from smg_simulator.fleet.goals import LOAD_KINDS, Cell, Trial, cells, played, tried, verdict
from smg_simulator.fleet.pools import FleetSettings
from smg_simulator.fleet.replay import MakeChooser, replay
from smg_simulator.fleet.view import Chooser, PolicyChooser

HERE = Path(__file__).parent
RESULTS = HERE / "fleet.jsonl"
SEEDS = range(5)
POOL_REQUESTS = 300  # for each engine, where pools are compared
ENGINES = 8  # of the fleets that pools and policies are compared in
COMPARED = ("chat", "hot", "unshared")  # the loads that policies are compared in
MESHED = ("least_load", "power_of_two", "cache_aware")  # the policies that are compared with and without a mesh
WORDS_S = 0.2
MESH_SEEDS = range(3)
SPLITS = (0, 2, 3, 4)  # how many of them compute prompts; 0: each does both
RATES = (1.0, 2.0, 3.0, 4.0)  # requests a second for each engine, of prompts of the mean length
SCALES = (0.5, 1.0, 2.0)  # of the lengths of prompts; the rate is divided by it
LOCAL_KINDS = ("chat", "agents", "unshared")  # the loads in which a decode engine reads some prompts itself
LOCAL_TOKENS = (0, 64, 256, 1024, 4096)  # how much of a prompt it may lack to do so; 0: it reads none
LOCAL_RATES = (0.5, 1.0, 1.5)  # times the rate of the load
LOCAL_PREFILL = 2  # of the engines compute prompts


def chooser(name: str) -> MakeChooser:
    def made(engines: Sequence[FleetEngine], rng: Random) -> Chooser:
        return PolicyChooser(engines, policy(name, rng=rng))

    return made


# --------------------------------------------------------------------------------------------------------------- cells


def run_cells(name: str, which: Sequence[Cell], seeds: Iterable[int], requests: int) -> None:
    """Run what has not been run with so many requests for each engine (0: as each load has), and add it to the results."""
    done = {(row.get("policy"), row["requests"], tuple(row["cell"].values()), row["seed"]) for row in rows("cell")}
    for seed in seeds:  # so that what has been run when it is stopped is of all cells
        for cell in which:
            count = requests or LOAD_KINDS[cell.kind].requests
            if (name, count, attrs.astuple(cell), seed) in done:
                continue
            trial = tried(cell, seed, chooser(name), chooser("round_robin"), count)
            keep({"what": "cell", "policy": name, "requests": count, **attrs.asdict(trial)})
            goals = {goal: f"{abs(value):.2f}" for goal, (value, _) in verdict(trial).items()}
            print(", ".join(map(str, attrs.astuple(cell))), f"seed {seed}:", goals, file=sys.stderr, flush=True)


def rows(what: str) -> list[dict[str, Any]]:
    """The results of one kind."""
    if not RESULTS.exists():
        return []
    return [row for row in map(json.loads, RESULTS.read_text().splitlines()) if row["what"] == what]


def keep(row: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as out:
        out.write(json.dumps(row) + "\n")


def _trial(row: Mapping[str, Any]) -> Trial:
    got = dict(row)
    runs = {name: Figures(**got[name]) for name in ("ours", "plain", "best")}
    return Trial(Cell(**got["cell"]), got["seed"], got["bound"], **runs)


def cell_table(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """A row for the worst seed of each cell, with what misses its goal in bold."""
    by_cell: dict[tuple[object, ...], list[Trial]] = {}
    for row in found:
        trial = _trial(row)
        by_cell.setdefault((*attrs.astuple(trial.cell), row["policy"], row["requests"]), []).append(trial)
    lines = [
        "| load, engines, gateways, speeds, KV events, deaths | policy | requests an engine | seeds | at work | goals |",
        "|---|---|---|---|---|---|",
    ]
    for name, trials in sorted(by_cell.items(), key=str):
        use = [trial.ours.use for trial in trials]
        *cell, which, requests = name
        said = ", ".join(map(str, cell))
        lines.append(
            f"| {said} | {which} | {requests} | {len(trials)} | {min(use):.0%} to {max(use):.0%} | {_goals(trials)} |"
        )
    missed = sum("**" in line for line in lines)
    return [f"{len(by_cell)} cells with {len(found)} runs, {missed} of which miss a goal.", "", *lines]


def _goals(trials: Sequence[Trial]) -> str:
    told = []
    for goal in verdict(trials[0]):
        worst, most = max(verdict(trial)[goal] for trial in trials)
        text = f"{goal} {abs(worst):.2f} ({abs(most):.2f})"
        told.append(f"**{text}**" if worst > most else text)
    return ", ".join(told)


# -------------------------------------------------------------------------------------------------------------- beside

OLD_RULE = "before"
"""What rows of the rule before d521a1ae are called, in which a copy of a prefix had its whole price however many there were.
Those of cells that there were then are from this file's history (25de7d35^:bench/fleet.jsonl)."""
BESIDE = (OLD_RULE, "round_robin", "least_load")
MEASURED = ("hit", "balance", "first_mean", "first_p99")


def run_beside(name: str) -> None:
    """Run another policy in the cells and with the seeds of which there are results."""
    done = {(row["policy"], *row["cell"].values(), row["requests"], row["seed"]) for row in rows("beside")}
    for row in rows("cell"):
        cell, seed, count = Cell(**row["cell"]), row["seed"], row["requests"]
        if (name, *attrs.astuple(cell), count, seed) not in done:
            found = played(cell, seed, chooser(name), count)
            told = {"cell": attrs.asdict(cell), "requests": count, "seed": seed, "ours": attrs.asdict(found)}
            keep({"what": "beside", "policy": name, **told})


def beside_table(ours: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> list[str]:
    """A row for each cell: the figures of cache_aware by those of another policy with the same seeds, as geometric means."""
    lines = [
        "| load, engines, gateways, speeds, KV events, deaths | seeds | the rule before | round robin | least load |",
        "|---|---|---|---|---|",
    ]
    by_cell: dict[tuple[object, ...], dict[str, dict[int, Figures]]] = {}
    for row in [*ours, *others]:
        of_cell = by_cell.setdefault(tuple(row["cell"].values()), {})
        of_cell.setdefault(row["policy"], {})[row["seed"]] = Figures(**row["ours"])
        if "plain" in row:
            of_cell.setdefault("round_robin", {})[row["seed"]] = Figures(**row["plain"])
    for cell, runs in sorted(by_cell.items(), key=str):
        found = [_beside(runs["cache_aware"], runs.get(name, {})) for name in BESIDE]
        lines.append(f"| {', '.join(map(str, cell))} | {len(runs['cache_aware'])} | {' | '.join(found)} |")
    return lines


def _beside(ours: Mapping[int, Figures], other: Mapping[int, Figures]) -> str:
    """Hits, work max/mean, and the first token's mean and p99, each by the other's; what is worse by more than 3 % is bold."""
    seeds, told = sorted(ours.keys() & other.keys()), []
    for name in MEASURED if seeds else ():
        pairs = [(getattr(ours[seed], name), getattr(other[seed], name)) for seed in seeds]
        ratio = geometric_mean([one / two for one, two in pairs]) if all(one and two for one, two in pairs) else 1.0
        worse = ratio < 0.97 if name == "hit" else ratio > 1.03
        told.append(f"**{ratio:.2f}**" if worse else f"{ratio:.2f}")
    return ", ".join(told)


# ------------------------------------------------------------------------------------------------------------ policies


def run_policies() -> None:
    """Every policy in one fleet of each of three loads. Parts of it that have been run are run again."""
    for kind in COMPARED:
        load = LOAD_KINDS[kind]
        trace = generated(load.made, Load(300 * ENGINES, load.rate * ENGINES, block=load.block))
        for name in POLICIES:
            found = figures(replay(trace, FleetSettings(engines=ENGINES), chooser(name)))
            keep({"what": "policy", "policy": name, "kind": kind, "ours": attrs.asdict(found)})


def policy_table(found: Sequence[dict[str, Any]]) -> list[str]:
    """A row for each policy: of each load hits, work max/mean, and seconds to the first token (mean, p99)."""
    runs = {(row["policy"], row["kind"]): Figures(**row["ours"]) for row in found}
    lines = [f"| policy | {' | '.join(COMPARED)} |", "|---|" + "---|" * len(COMPARED)]
    for name in POLICIES:
        cells = [_policy_cell(runs[name, kind]) for kind in COMPARED if (name, kind) in runs]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def _policy_cell(each: Figures) -> str:
    return f"{each.hit:.0%}, {each.balance:.2f}, {each.first_mean:.3f}, {each.first_p99:.2f}"


# --------------------------------------------------------------------------------------------------------------- pools


def run_pools(requests: int) -> None:
    """Fleets of the same size, with and without a pool that computes prompts, over load and length of prompts."""
    for scale in SCALES:
        for rate in RATES:
            trace = generated("unshared", Load(requests * ENGINES, rate / scale * ENGINES, block=64, scale=scale))
            for prefill in SPLITS:
                settings = FleetSettings(engines=ENGINES - prefill, prefill=prefill)
                decoding = "least_load" if prefill else "cache_aware"
                found = figures(replay(trace, settings, chooser(decoding), chooser("cache_aware")))
                keep({"what": "pools", "scale": scale, "rate": rate, "prefill": prefill, "ours": attrs.asdict(found)})


def pool_table(found: Sequence[dict[str, Any]]) -> list[str]:
    """A row for each load: seconds to the first token and for the whole of the slowest hundredth, and the goodput."""
    names = {prefill: f"{prefill} + {ENGINES - prefill}" if prefill else f"{ENGINES} mixed" for prefill in SPLITS}
    lines = [
        f"| tokens of a prompt | requests a second | {' | '.join(names.values())} |",
        "|---|---|" + "---|" * len(names),
    ]
    by_load: dict[tuple[float, float], dict[int, Figures]] = {}
    for row in found:
        by_load.setdefault((row["scale"], row["rate"]), {})[row["prefill"]] = Figures(**row["ours"])
    for (scale, rate), runs in by_load.items():
        if len(runs) < len(SPLITS):
            continue  # not all have been run yet
        best = max(runs.values(), key=lambda each: (round(each.goodput, 3), -each.first_mean))
        cells = [_pool_cell(runs[prefill], bold=runs[prefill] is best) for prefill in SPLITS]
        lines.append(f"| {1200 * scale:.0f} | {rate / scale * ENGINES:.0f} | {' | '.join(cells)} |")
    return lines


def _pool_cell(each: Figures, *, bold: bool) -> str:
    goodput = f"**{each.goodput:.0%}**" if bold else f"{each.goodput:.0%}"
    return f"{each.first_mean:.2f}, {each.first_p99:.2f}, {each.done_p99:.1f}, {goodput}"


def run_local() -> None:
    """A fleet in which decode engines read some prompts themselves, against one that reads none so, and one without pools."""
    for kind in LOCAL_KINDS:
        load = LOAD_KINDS[kind]
        for rate in LOCAL_RATES:
            trace = generated(load.made, Load(150 * ENGINES, load.rate * ENGINES * rate, block=load.block))
            for tokens in (*LOCAL_TOKENS, None):
                prefill = 0 if tokens is None else LOCAL_PREFILL
                settings = FleetSettings(engines=ENGINES - prefill, prefill=prefill, local_tokens=tokens or 0)
                decoding = "least_load" if tokens == 0 else "cache_aware"
                found = figures(replay(trace, settings, chooser(decoding), chooser("cache_aware")))
                keep({"what": "local", "kind": kind, "rate": rate, "tokens": tokens, "ours": attrs.asdict(found)})


def local_table(found: Sequence[dict[str, Any]]) -> list[str]:
    """A row for each load: of each threshold hits, seconds to the first token (mean, p99) and for the whole (mean, p99)."""
    names = ["all" if not each else f"above {each:,}" for each in LOCAL_TOKENS]
    lines = [
        f"| load | {' | '.join(names)} | none ({ENGINES} mixed) |",
        "|---|" + "---|" * (len(names) + 1),
    ]
    by_load: dict[tuple[str, float], dict[int | None, Figures]] = {}
    for row in found:
        by_load.setdefault((row["kind"], row["rate"]), {})[row["tokens"]] = Figures(**row["ours"])
    for (kind, rate), runs in by_load.items():
        cells = [_local_cell(runs[tokens]) for tokens in (*LOCAL_TOKENS, None) if tokens in runs]
        lines.append(f"| {kind}, {rate:g} of its rate | {' | '.join(cells)} |")
    return lines


def _local_cell(each: Figures) -> str:
    return f"{each.hit:.0%}, {each.first_mean:.3f}, {each.first_p99:.2f}, {each.done_mean:.2f}, {each.done_p99:.1f}"


# -------------------------------------------------------------------------------------------------------------- meshed


def run_meshed() -> None:
    """Four gateways with and without a mesh, by policies that look at loads, in each of three loads."""
    for kind in COMPARED:
        load = LOAD_KINDS[kind]
        for seed in MESH_SEEDS:
            trace = generated(load.made, Load(300 * ENGINES, load.rate * ENGINES, block=load.block, seed=seed))
            for name in MESHED:
                for words_s in (0.0, WORDS_S):
                    settings = FleetSettings(engines=ENGINES, replicas=4, words_s=words_s, seed=seed)
                    found = figures(replay(trace, settings, chooser(name)))
                    row = {"what": "meshed", "policy": name, "kind": kind, "words_s": words_s, "seed": seed}
                    keep({**row, "ours": attrs.asdict(found)})


def meshed_table(found: Sequence[dict[str, Any]]) -> list[str]:
    """A row for each load and policy: without and with a mesh, the worst seed of each figure."""
    runs: dict[tuple[str, str, float], dict[int, Figures]] = {}
    for row in found:
        runs.setdefault((row["kind"], row["policy"], row["words_s"]), {})[row["seed"]] = Figures(**row["ours"])
    lines = ["| load | policy | each alone | in a mesh |", "|---|---|---|---|"]
    for kind in COMPARED:
        for name in MESHED:
            cells = [_worst(list(runs[kind, name, words_s].values())) for words_s in (0.0, WORDS_S)]
            lines.append(f"| {kind} | `{name}` | {' | '.join(cells)} |")
    return lines


def _worst(found: Sequence[Figures]) -> str:
    hit, balance = min(each.hit for each in found), max(each.balance for each in found)
    mean, p99 = max(each.first_mean for each in found), max(each.first_p99 for each in found)
    return f"{hit:.0%}, {balance:.2f}, {mean:.3f}, {p99:.2f}"


# ------------------------------------------------------------------------------------------------------------- million


def run_million(requests: int) -> None:
    """How much CPU time a replay of so many requests takes."""
    trace = generated("chat", Load(requests, 8 * 9.0, block=512))
    begun = time.process_time()
    found = figures(replay(trace, FleetSettings(engines=8), chooser("cache_aware")))
    keep({"what": "million", "requests": requests, "cpu_s": time.process_time() - begun, "ours": attrs.asdict(found)})


INTRODUCTION = """# Simulated fleets

Made by `bench/fleet.py --report`. A section says when it was made; one whose runs are not at hand stays as it was.
"""
MADE = "Made on {date}; Python {python}, one core of a {machine} machine."
MILLION = """
## Speed

A replay of {requests:,} requests took {cpu_s:.0f} s of CPU time: chat, 8 engines, blocks of 512 tokens, cache_aware.
"""
GOALS = """
## Goals

{made}

Behind each figure is its goal; a figure that misses it is bold. The worst seed counts. The whole grid has {cells}
cells with five seeds each; those in the table have been run so far.
"""
COMPARED_CELLS = """
## Beside others

{made}

cache_aware in the same cells and with the same seeds as three others: its own rule before copies of a prefix had a price that
falls with the copies there are, round robin, and least load. In each field share of hits, work max/mean, and seconds to
the first token (mean, p99), each by that of the other, as geometric means over the seeds; what is worse by more than 3 % is
bold. The p99 of a cell moves by a tenth from seed to seed. In hits, evenness and the mean no cell is worse than by the rule
before. The slowest hundredth waits longer in some cells in which engines die, most with agents and with one prefix for all, and
four gateways: an engine that is back with an empty cache is sent requests at once, and the first of them wait until it has read.
Until 2026-11-30 it was left cold for the seconds that means go over. With one prefix, four gateways and unlike engines the work
of the busiest engine was then 1.24 times as much, and the mean 1.24 times as long; agents before 64 engines, the one cell that
has lost, had 0.89 of the mean (one seed).
"""
COMPARISON = """
## Policies

{made}

Every policy in a fleet of {engines} equal engines with KV events on time and one gateway, 300 requests for each engine. In each
field the share of the prompts' tokens that caches had, work max/mean, and seconds to the first token (mean, p99).
"""
MESH = """
## Four gateways

{made}

Four gateways before {engines} equal engines, 300 requests for each engine: each alone, with what engines report of themselves
once a second, and in a mesh, where they also tell each other every {words_s} s what they have in flight. In each field the share
of the prompts' tokens that caches had, work max/mean, and seconds to the first token (mean, p99); the worst of {seeds} seeds.
"""
POOLS = """
## Prefill and decode pools

{made}

Fleets of {engines} engines; nothing is shared, and answers have a fifth of a prompt's length. In each field seconds to
the first token (mean, p99), for the whole (p99), and the share of requests with a first token within 1 s and then a token every
50 ms, of which the best is bold.
"""
LOCAL = """
## Prompts that decode engines read

{made}

A fleet of {prefill} engines that compute prompts and {decode} that decode. The columns say which prompts go to a prefill
engine: those of which the decode engine's cache lacks more tokens than that (`disaggregation.local_tokens`). In each field the
share of the prompts' tokens that caches had, and seconds to the first token (mean, p99) and for the whole (mean, p99).
"""


def report(before: str) -> str:
    """All tables: of what has been run here, and what the report `before` has of the rest."""
    made = MADE.format(date=datetime.now(UTC).date(), python=platform.python_version(), machine=platform.machine())
    parts = [INTRODUCTION]
    if million := rows("million"):
        parts.append("".join(MILLION.format(**row) for row in million[-1:]) + f"\n{made}\n")
    else:
        parts.append(section(before, "Speed"))
    if found := rows("cell"):
        parts.append(GOALS.format(made=made, cells=len(cells())) + "\n" + "\n".join(cell_table(found)) + "\n")
    else:
        parts.append(section(before, "Goals"))
    if found := rows("beside"):
        ours = [row for row in rows("cell") if row["policy"] == "cache_aware"]
        parts.append(COMPARED_CELLS.format(made=made) + "\n" + "\n".join(beside_table(ours, found)) + "\n")
    else:
        parts.append(section(before, "Beside others"))
    if found := rows("policy"):
        parts.append(COMPARISON.format(made=made, engines=ENGINES) + "\n" + "\n".join(policy_table(found)) + "\n")
    else:
        parts.append(section(before, "Policies"))
    if found := rows("meshed"):
        head = MESH.format(made=made, engines=ENGINES, words_s=WORDS_S, seeds=len(MESH_SEEDS))
        parts.append(head + "\n" + "\n".join(meshed_table(found)) + "\n")
    else:
        parts.append(section(before, "Four gateways"))
    if found := rows("pools"):
        parts.append(POOLS.format(made=made, engines=ENGINES) + "\n" + "\n".join(pool_table(found)) + "\n")
    else:
        parts.append(section(before, "Prefill and decode pools"))
    if found := rows("local"):
        pools = {"prefill": LOCAL_PREFILL, "decode": ENGINES - LOCAL_PREFILL}
        parts.append(LOCAL.format(made=made, **pools) + "\n" + "\n".join(local_table(found)) + "\n")
    else:
        parts.append(section(before, "Prompts that decode engines read"))
    return "".join(parts)


def section(before: str, title: str) -> str:
    """The section of that title in an earlier report, "" where it has none."""
    _, found, rest = before.partition(f"\n## {title}\n")
    return found + rest.partition("\n## ")[0].rstrip() + "\n" if found else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="cache_aware")
    parser.add_argument("--cells", type=int, help="only the first so many")
    parser.add_argument("--engines", type=int, help="only cells of so many engines")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="(default: %(default)s)")
    parser.add_argument("--first-seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument("--requests", type=int, default=0, help="for each engine (default: by the load)")
    parser.add_argument("--policies", action="store_true")
    parser.add_argument("--pools", action="store_true")
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--beside", metavar="POLICY")
    parser.add_argument("--meshed", action="store_true")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if args.report:
        page = HERE / "fleet.md"
        page.write_text(report(page.read_text() if page.exists() else ""))
    elif args.beside:
        run_beside(args.beside)
    elif args.policies:
        run_policies()
    elif args.local:
        run_local()
    elif args.pools:
        run_pools(args.requests or POOL_REQUESTS)
    elif args.meshed:
        run_meshed()
    elif args.million:
        run_million(1_000_000)
    else:
        which = [cell for cell in cells()[: args.cells] if args.engines in (None, cell.engines)]
        run_cells(args.policy, which, range(args.first_seed, args.seeds), args.requests)


if __name__ == "__main__":
    main()

"""The goals of a routing policy in simulated fleets, and the conditions of its trial.

A cell is one combination of load, size of the fleet, number of gateways, speeds, KV events and deaths. A trial is a cell with one
seed: the figures of the policy, of round robin, and of the router that sees the engines themselves. Pure. Above: bench, tests.
Below: figures, generated, oracles, pools, replay.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random

import attrs

from smg_simulator.fleet.engine import EngineSpeed
from smg_simulator.fleet.figures import Figures, figures
from smg_simulator.fleet.generated import Load, generated
from smg_simulator.fleet.oracles import Greedy, hits_of_one_cache
from smg_simulator.fleet.pools import EVENTS, FleetSettings, Outage
from smg_simulator.fleet.replay import MakeChooser, replay
from smg_simulator.fleet.trace import FleetTrace

__all__ = ["LOAD_KINDS", "NAMED", "Cell", "LoadKind", "Trial", "cells", "played", "tried", "verdict"]


@attrs.frozen
class LoadKind:
    """A kind of load: which generator makes it, with how many requests a second for each engine, in blocks of how many tokens,
    what is asked of it (`shared` prefixes, caches too `small`, staying warm when `idle`, no engine that stays `cold`, or nothing
    but to do no harm), and how many `requests` come for each engine in a trial. Where prefixes are shared these are more:
    conversations last minutes, and what an engine reads once in its life must not weigh as if it read it often."""

    made: str
    rate: float
    block: int = 16
    asked: str = "no harm"
    requests: int = 300


LOAD_KINDS: Mapping[str, LoadKind] = {
    "chat": LoadKind("chat", 12.0, block=32, asked="shared", requests=600),
    "agents": LoadKind("agents", 6.0, block=64, asked="shared", requests=600),
    "retrieval": LoadKind("retrieval", 2.6, block=64, asked="shared", requests=600),
    "day_and_night": LoadKind("day_and_night", 16.0, block=32, asked="shared", requests=600),
    "long": LoadKind("long", 0.45, block=512, asked="small"),
    "hot": LoadKind("hot", 9.0, block=64),
    "warm": LoadKind("hot", 3.0, block=64, asked="cold"),
    "large_tenant": LoadKind("large_tenant", 2.0, block=64, asked="shared", requests=150),
    "bursts": LoadKind("bursts", 8.0, block=64),
    "unshared": LoadKind("unshared", 3.0, block=64),
    "idle": LoadKind("chat", 0.3, block=32, asked="idle"),
}
"""With these rates engines work 40 to 75 % of their time for requests, those that are idle a few."""

FASTER: Mapping[str, tuple[float, ...]] = {"equal": (1.0,), "unlike": (1.0, 1.0, 1.5, 0.75)}


@attrs.frozen
class Cell:
    """The conditions of a trial. `speeds` are of `FASTER`, `events` of `EVENTS`; `deaths` engines die and return empty."""

    kind: str
    engines: int = 8
    replicas: int = 1
    speeds: str = "equal"
    events: str = "on_time"
    deaths: int = 0


NAMED = (Cell("warm", 8), Cell("large_tenant", 64))
"""Cells of their own beside the combinations: engines that may stay cold since a prefix that all requests have, or those of one
large tenant, is in enough caches for all requests to find it, but not in enough for the work to be even."""

_FACTORS: Mapping[str, Sequence[str | int]] = {
    "kind": [kind for kind in LOAD_KINDS if kind not in {each.kind for each in NAMED}],
    "engines": [8, 64],
    "replicas": [1, 4],
    "speeds": list(FASTER),
    "events": list(EVENTS),
    "deaths": [0, 2],
}


def cells() -> list[Cell]:
    """Combinations of the conditions in which every pair of values occurs, and the `NAMED` cells; the same ones each time."""
    every = [Cell(*values) for values in product(*_FACTORS.values())]  # type: ignore[arg-type]  # in the fields' order
    Random(7).shuffle(every)
    pairs = {cell: frozenset(_pairs(cell)) for cell in every}
    wanted = set[tuple[object, ...]]().union(*pairs.values())
    chosen: list[Cell] = []
    while wanted:
        best = max(every, key=lambda cell: len(wanted & pairs[cell]))
        wanted -= pairs[best]
        chosen.append(best)
    return [*chosen, *NAMED]


def _pairs(cell: Cell) -> Iterator[tuple[object, ...]]:
    """Every two conditions of a cell, with their names."""
    for one, two in combinations(attrs.asdict(cell).items(), 2):
        yield (*one, *two)


@attrs.frozen
class Trial:
    """What became of a cell with one seed. `bound` is the share of prompt tokens that one cache of the fleet's memory would have
    had; `plain` are round robin's figures, `best` those of the router that sees all."""

    cell: Cell
    seed: int
    bound: float
    ours: Figures
    plain: Figures
    best: Figures


def tried(cell: Cell, seed: int, ours: MakeChooser, plain: MakeChooser, requests: int = 0) -> Trial:
    """Run a cell: `ours` is the policy, `plain` round robin, and `requests` how many come for each engine (0: as many as the
    kind of load has)."""
    trace, settings = _conditions(cell, seed, requests)
    tokens = sum(each.prompt_tokens for each in trace.requests)
    found, asked = figures(replay(trace, settings, plain)), LOAD_KINDS[cell.kind].asked
    return Trial(
        cell,
        seed,
        hits_of_one_cache(trace, cell.engines * settings.speed.cache_tokens) / tokens,
        figures(replay(trace, settings, ours)),
        found,
        figures(replay(trace, settings, lambda fleet, _: Greedy(fleet))) if asked == "small" else found,
    )


def played(cell: Cell, seed: int, policy: MakeChooser, requests: int = 0) -> Figures:
    """Run a cell with one policy alone; `requests` as of `tried`."""
    return figures(replay(*_conditions(cell, seed, requests), policy))


def _conditions(cell: Cell, seed: int, requests: int) -> tuple[FleetTrace, FleetSettings]:
    kind, engines = LOAD_KINDS[cell.kind], cell.engines
    requests = requests or kind.requests
    trace = generated(kind.made, Load(requests * engines, kind.rate * engines, block=kind.block, seed=seed))
    settings = FleetSettings(
        engines=engines,
        replicas=cell.replicas,
        factors=FASTER[cell.speeds],
        events=cell.events,
        outages=_outages(cell.deaths, trace),
        seed=seed,
    )
    return trace, settings


def _outages(deaths: int, trace: FleetTrace) -> tuple[Outage, ...]:
    """Engines that die after a third of the trace and are back a tenth of it later, one after another."""
    long = trace.seconds
    return tuple(Outage(at, long * (0.33 + 0.1 * at), long * (0.43 + 0.1 * at)) for at in range(deaths))


def verdict(trial: Trial) -> dict[str, tuple[float, float]]:
    """What the goals say of a trial: each figure with the most (or, where negative, the least) that it may be."""
    ours, plain, best, asked = trial.ours, trial.plain, trial.best, LOAD_KINDS[trial.cell.kind].asked
    found: dict[str, tuple[float, float]] = {"lost": (float(ours.refused), float(plain.refused))}
    if trial.cell.deaths:
        found["retries of round robin's"] = (_ratio(ours.retries, max(1, plain.retries)), 2.0)
    if asked in ("shared", "idle"):
        found["hits of the bound"] = (-_ratio(ours.hit, trial.bound), -0.95)
    if asked in ("shared", "cold"):
        found["work max/mean"] = (ours.balance, 1.3)
    if asked == "shared":
        found["first token p99"] = (_ratio(ours.first_p99, plain.first_p99), 0.72)
        found["first token mean"] = (_ratio(ours.first_mean, plain.first_mean), 0.77)
    elif asked == "small":
        found["hits of greedy's"] = (-_ratio(ours.hit, best.hit), -0.95)
        found["first token mean of greedy's"] = (_ratio(ours.first_mean, best.first_mean), 1.15)
    elif asked in ("no harm", "cold"):
        half = EngineSpeed().step_s / 2
        found["first token mean"] = (_ratio(ours.first_mean - half, plain.first_mean), 1.02)
        found["first token p99"] = (_ratio(ours.first_p99 - half, plain.first_p99), 1.02)
        found["whole p99"] = (_ratio(ours.done_p99, plain.done_p99), 1.05)
    return found


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0

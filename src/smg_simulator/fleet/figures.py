"""The figures of a run: how much was found in caches, how even the work was, how long people waited.

Pure. Above: report, the command line, bench. Below: replay.
"""

from collections.abc import Sequence
from math import ceil, isnan

import attrs

from smg_simulator.fleet.replay import FleetRun

__all__ = ["Figures", "Goal", "figures", "percentile"]


@attrs.frozen
class Goal:
    """What a request is to keep for its tokens to count as goodput: seconds to the first token, and from one to the next."""

    first_s: float = 1.0
    token_s: float = 0.05


@attrs.frozen
class Figures:
    """One run in numbers. Times in seconds. `hit` is the share of prompt tokens that caches had; `balance` the most work of an
    engine over the mean, by the time that each was there; `use` the mean share of an engine's time in which it worked for
    requests; `goodput` the share of requests that kept the goal."""

    requests: int
    refused: int
    retries: int
    hit: float
    hit_tokens: int
    balance: float
    use: float
    first_mean: float
    first_p50: float
    first_p90: float
    first_p99: float
    done_mean: float
    done_p99: float
    goodput: float


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that the given share of values do not exceed (nearest rank); 0 for none. `ordered` is sorted."""
    if not ordered:
        return 0.0
    return ordered[max(0, min(len(ordered), ceil(len(ordered) * share)) - 1)]


def figures(outcome: FleetRun, goal: Goal | None = None) -> Figures:
    """The figures of a run."""
    wanted = goal or Goal()
    served = [at for at, done in enumerate(outcome.done) if not isnan(done)]
    first = sorted(outcome.first[at] for at in served)
    done = sorted(outcome.done[at] for at in served)
    prompts = sum(outcome.trace.requests[at].prompt_tokens for at in served)
    hits = sum(outcome.hit)
    rates = _rates(outcome)
    mean = sum(rates) / len(rates) if rates else 0.0
    return Figures(
        requests=len(served),
        refused=outcome.refused,
        retries=outcome.retries,
        hit=hits / prompts if prompts else 0.0,
        hit_tokens=hits,
        balance=max(rates) / mean if mean else 1.0,
        use=mean,
        first_mean=_mean(first),
        first_p50=percentile(first, 0.5),
        first_p90=percentile(first, 0.9),
        first_p99=percentile(first, 0.99),
        done_mean=_mean(done),
        done_p99=percentile(done, 0.99),
        goodput=sum(_keeps(outcome, at, wanted) for at in served) / max(1, len(outcome.done)),
    )


def _rates(outcome: FleetRun) -> list[float]:
    """The work of each engine of the answering pool for each second that it was there."""
    engines = outcome.settings.engines
    there = [outcome.seconds - down for down in outcome.down[:engines]]
    return [work / up for work, up in zip(outcome.work, there, strict=False) if up > 0]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _keeps(outcome: FleetRun, at: int, goal: Goal) -> bool:
    first, tokens = outcome.first[at], outcome.trace.requests[at].output_tokens
    return first <= goal.first_s and outcome.done[at] - first <= goal.token_s * max(0, tokens - 1)

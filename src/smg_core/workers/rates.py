"""The requests and tokens a minute allowed by workers' entries, and the rest of them.

Counted as limits are counted, by the same counters: so much may come at once, and it comes back evenly. A call reserves what it
may take when it begins, whether there is room or not, since that was looked for when its worker was chosen; at its end that is
put right to what it took. Pure: counters and time are arguments. Loaded where an entry has such a limit, and only there. Above:
registry, streaming, pooling. Below: limits.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from smg_core.events import Usage
from smg_core.limits.counters import Counter, Instant, taken
from smg_core.limits.decision import LimitClaim
from smg_core.limits.demand import Estimates
from smg_core.limits.rules import LimitRule, Unit
from smg_core.workers.worker import Worker

__all__ = ["RateCounters", "WorkerRate", "WorkerRates"]

_SECOND_US = 1_000_000
_ASKED_AS = ""  # the tenant of what is learned of answers: all of them, since the account is one


class RateCounters(Protocol):
    """What holds the counters: those of limits."""

    def look(self, claims: Sequence[LimitClaim]) -> list[Counter]: ...

    def put_right(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None: ...


class WorkerRates:
    """The rates of all workers that have some. `now` is the time by which is counted."""

    def __init__(self, counters: RateCounters, now: Callable[[], Instant]) -> None:
        self._counters, self._now = counters, now
        self._estimates = Estimates()

    def demand(self, model: str, tokens: int, bound: int | None, choices: int = 1) -> int:
        """The tokens that a request for an answer may take, whose prompt has about `tokens`: as many as answers of the model had
        of late, and no more than its `bound`."""
        return max(1, tokens) + self._estimates.output(_ASKED_AS, model, bound, choices)

    def wait_s(self, worker: Worker, tokens: int) -> float:
        """Seconds until a request that may take so many tokens may go to `worker`; 0 where it may now. One that takes more than a
        minute's goes where the whole of that is there."""
        if not worker.spec.rated:
            return 0.0
        claims, at = _claims(worker, tokens), self._now()
        waits = (
            taken(claim.rule, state, min(claim.cost, claim.rule.amount), at)[1]
            for claim, state in zip(claims, self._counters.look(claims), strict=True)
        )
        return max(waits, default=0) / _SECOND_US

    def open_to(self, workers: Iterable[Worker], tokens: int) -> tuple[tuple[Worker, ...], float]:
        """Those of `workers` that a request of so many tokens may go to, and the seconds until one of the others is."""
        found: list[Worker] = []
        least = 0.0
        for each in workers:
            wait = self.wait_s(each, tokens)
            if not wait:
                found.append(each)
            elif not least or wait < least:
                least = wait
        return tuple(found), least

    def begin(self, worker: Worker, model: str, tokens: int, choices: int = 1) -> "WorkerRate":
        """Charge a call of `worker` that begins, and may take so many tokens."""
        claims, at = _claims(worker, tokens), self._now()
        unpaid = [LimitClaim(each.rule, each.scope, 0) for each in claims]
        self._counters.put_right(unpaid, [each.cost for each in claims], at, at)
        return WorkerRate(self, claims, at, model, choices)

    def end(self, rate: "WorkerRate", usage: Usage | None, *, begun: bool) -> None:
        """Put right what a call was charged, to what it took. A provider that has said nothing of that has taken what was
        reserved, where it had `begun` to answer, and no tokens where it had not."""
        claims, at = rate.claims, self._now()
        if usage is not None and usage.prompt_tokens:
            spent = usage.prompt_tokens + usage.completion_tokens
            if usage.completion_tokens:
                self._estimates.answered(_ASKED_AS, rate.model, usage.completion_tokens, rate.choices)
        elif begun:
            return
        else:
            spent = 0
        costs = [each.cost if each.rule.unit == "requests" else spent for each in claims]
        self._counters.put_right(claims, costs, rate.began, at)


class WorkerRate:
    """What one call is charged of its worker's rates, until it ends."""

    __slots__ = ("_rates", "began", "choices", "claims", "model")

    def __init__(self, rates: WorkerRates, claims: list[LimitClaim], began: Instant, model: str, choices: int) -> None:
        self._rates, self.claims, self.began, self.model, self.choices = rates, claims, began, model, choices

    def end(self, usage: Usage | None, *, begun: bool) -> None:
        """The call is over; arguments as of `WorkerRates.end`."""
        self._rates.end(self, usage, begun=begun)


def _claims(worker: Worker, tokens: int) -> list[LimitClaim]:
    """What a call of so many tokens takes of each rate of its worker."""
    spec, found = worker.spec, []
    if spec.requests_a_minute:
        found.append(LimitClaim(_rule(spec.requests_a_minute, "requests"), _scope(worker.name, "requests"), 1))
    if spec.tokens_a_minute:
        found.append(LimitClaim(_rule(spec.tokens_a_minute, "tokens"), _scope(worker.name, "tokens"), tokens))
    return found


@lru_cache(maxsize=256)
def _rule(amount: int, unit: Unit) -> LimitRule:
    return LimitRule(amount, unit, "minute", amount)


def _scope(name: str, unit: Unit) -> str:
    """Whom it counts: no rule of the settings has a scope like it."""
    return repr(("worker", name, unit))

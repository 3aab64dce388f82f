"""The standing of each worker of a fleet: what waits there now, how crowded it is, how much it has had to do, what a copy costs.

All are numbers of prompt tokens, to be added to those that a request would have to read there. Pure: the time comes with the
request. Above: cache_aware. Below: base.

- What waits: the prompt tokens that the worker reads before those of the request, and the fullness of its KV cache. Of what
  others have sent there only the number of requests is known, by the engine's report. Each of them counts as many tokens as one
  of ours has waiting now on the average of all workers, and those in the engine's queue a whole prompt.
- The crowd: requests beyond the mean of all workers. A few more are chance; the square of the excess over the mean, in which
  chance is about 1, weighs little then and much when requests flock to one worker.
- The lead: how far the worker's requests, as a mean over `balance_s` seconds, are above those of all. So small a preference that
  it loses to a cached prefix moves requests without one, which is enough to keep workers even. A worker that comes, or is back
  with an empty cache, begins with the mean of all, or it would be flooded. So much as the others would be ahead of it otherwise,
  it may read of what they have for nothing, or it would stay cold until the mean is its own.

Reading a prompt in a busy fleet makes others wait, too: `read_weight` says how much more a token to read counts than one that
waits. It follows from how often prompts were waiting lately.

A worker that reads what others have in their caches has it from then on, and later requests that begin alike find it there, too.
So the price of such a copy is not for one request alone to pay. How many requests will begin alike nobody knows, but the tokens
are in as many caches as they have needed up to now.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import exp, sqrt

from smg_core.routing.base import Candidate
from smg_core.routing.settings import RoutingConfig

__all__ = ["Standing", "least_to_pay", "price_of_a_copy"]

_PART_OF_ONE_REQUEST = 0.02
"""What one prompt counts in the mean of their lengths: the mean is over about the latest 50."""

_FULL = 0.99
"""A KV cache of which more is in use counts as if so much were: k / (1 - k) has no end."""

_LOOKS = 100
"""How often in `balance_s` the means are brought up to date; more often costs time and says nothing new."""

_FEWEST_REQUESTS = 0.25
"""Requests in flight, as a mean: with fewer, a share or a crowd of them is chance, and is reckoned as of so many."""

_LEFT = 0.01
"""The share of the mean of all below which what a worker began with is forgotten."""

_HALF_CALM = 0.04
"""The mean share of workers where a prompt's worth of tokens waits at which a copy for later requests counts half: who reads one
makes those wait that are there now. 0.03 and 0.05 were tried in simulated fleets beside it; with less one large tenant is
spread less evenly, with more long documents wait longer."""


class Standing:
    """Keeps the means of a fleet's workers, of at most `settings.remembered_workers`."""

    def __init__(self, settings: RoutingConfig) -> None:
        self._crowd = settings.crowd_tokens
        self._balance = settings.balance_factor
        self._read = settings.read_factor
        self._pressure = settings.kv_pressure_tokens
        self._seconds = settings.balance_s
        self._most = settings.remembered_workers
        self._prompt = 0.0  # the mean length of prompts
        self._busy = 0.0  # the mean share of workers where a prompt's worth of tokens waits
        self._means: dict[str, float] = {}  # of a worker's requests by its weight
        self._lent: dict[str, float] = {}  # what is left in its mean of that which a worker that came began with
        self._owed: dict[str, float] = {}
        self._fair = 0.0  # the mean of `_means`; a worker that comes begins with it
        self._leads: dict[str, float] = {}
        self._calm = 1.0  # the part of what a copy is worth that counts
        self._idle: dict[str, float] = {}  # of workers below the mean the share that they lack, where that is more
        self._level = 0.0  # requests of the workers by their weights, as a mean of the candidates of the last `of`
        self._pending_then = 0.0  # what `_pending` was then
        self._looked: float | None = None
        self._ours = 0.0  # the mean of requests in flight by our count, of all workers
        self._all = 0.0  # that of requests of others, too, by the workers' reports
        self._tokens = 0.0  # the mean of the prompt tokens that wait, by our count, of all workers
        self._pending = 0.0  # the prompt tokens that wait for each request in flight

    @property
    def others(self) -> float:
        """The share of the requests at the workers that this gateway does not know of; 0 where engines report none."""
        return max(0.0, 1.0 - self._ours / self._all) if self._all > _FEWEST_REQUESTS else 0.0

    @property
    def read_weight(self) -> float:
        """What a token to read counts, where one that waits counts 1."""
        return 1.0 + self._read * self._busy * self._busy

    def note(self, tokens: int) -> None:
        """Called for each request: its prompt counts for the mean."""
        self._prompt += (tokens - self._prompt) * (_PART_OF_ONE_REQUEST if self._prompt else 1.0)

    def of(self, candidates: Sequence[Candidate], now: float) -> list[float]:
        """What each candidate stands at, in prompt tokens of a worker of weight 1, at the time `now`."""
        self._pending_then = self._pending
        loads = [  # of hundreds of workers most have nothing of others, so that is looked at first
            each.in_flight / each.weight if not each.others else (each.in_flight + each.others) / each.weight
            for each in candidates
        ]
        self._look(candidates, loads, now)
        self._level = fair = sum(loads) / len(loads)
        lead_of, crowd = self._leads.get, self._crowd / max(_FEWEST_REQUESTS, fair)
        return [
            (each.prefill_tokens / each.weight if not (each.others or each.kv_usage) else self._waiting(each))
            + lead_of(each.name, 0.0)
            + (crowd * (load - fair) ** 2 if load > fair else 0.0)
            for each, load in zip(candidates, loads, strict=True)
        ]

    def _waiting(self, worker: Candidate) -> float:
        """What waits at a worker, and its cache that is in use, by its weight."""
        waits = _waits(worker, self._prompt, self._pending_then) if worker.others else worker.prefill_tokens
        return (waits + self._full(worker.kv_usage) if worker.kv_usage > 0 else waits) / worker.weight

    def parts_of(self, worker: Candidate) -> dict[str, float]:
        """What the number of a worker that was among the candidates of the last `of` is the sum of."""
        load, level = (worker.in_flight + worker.others) / worker.weight, self._level
        waits = _waits(worker, self._prompt, self._pending_then) + (
            self._full(worker.kv_usage) if worker.kv_usage > 0 else 0.0
        )
        crowd = self._crowd / max(_FEWEST_REQUESTS, level) * (load - level) ** 2 if load > level else 0.0
        return {"waiting": waits / worker.weight, "crowd": crowd, "lead": self._leads.get(worker.name, 0.0)}

    def spare(self) -> tuple[float, Mapping[str, float]]:
        """How much of what a copy is worth counts, from 0 to 1: nearly all where no prompts wait in the fleet, little in a busy
        one. By name the workers for which more of it counts, also in a busy fleet, having had little to do."""
        return self._calm, self._idle

    @property
    def owed(self) -> Mapping[str, float]:
        """By name the workers that came a while ago, and the tokens by which others would be ahead of them had they begun with
        nothing. They read so much of what others have for nothing, so that none of them is cold for long."""
        return self._owed

    def _full(self, usage: float) -> float:
        """What the fullness of a worker's cache weighs, of which `usage` is in use."""
        return self._pressure * (usage / (1.0 - usage) if usage < _FULL else 100)

    def _look(self, candidates: Sequence[Candidate], loads: Sequence[float], now: float) -> None:
        """Bring the means up to date, some times in the seconds that they go over."""
        if self._looked is None:
            self._looked = now
        elif now - self._looked < self._seconds / _LOOKS:
            return
        part = 1.0 - exp((self._looked - now) / self._seconds) if self._seconds else 1.0
        self._looked = now
        mean, pending, prompt = self._prompt, self._pending, max(1.0, self._prompt)
        waits = [_waits(each, mean, pending) if each.others else each.prefill_tokens for each in candidates]
        busy = sum(min(1.0, wait / prompt / each.weight) for each, wait in zip(candidates, waits, strict=True))
        self._busy += part * (busy / len(candidates) - self._busy)
        ours = sum(each.in_flight for each in candidates)
        self._ours += part * (ours - self._ours)
        self._all += part * (ours + sum(each.others for each in candidates) - self._all)
        self._tokens += part * (sum(each.prefill_tokens for each in candidates) - self._tokens)
        self._pending = self._tokens / self._ours if self._ours > _FEWEST_REQUESTS else 0.0
        there = self._note_loads(candidates, loads, part)
        self._fair = fair = sum(there) / len(there)
        scale = self._balance * prompt / max(1.0, fair)
        self._leads = {
            each.name: scale * (mean - fair) for each, mean in zip(candidates, there, strict=True) if mean > fair
        }
        self._calm = calm = 1.0 / (1.0 + (self._busy / _HALF_CALM) ** 2)
        lent, most = self._lent, fair * (1.0 - calm)
        had = {name: mean - lent[name] if name in lent else mean for name, mean in self._means.items()}
        self._idle = {name: 1.0 - mean / fair for name, mean in had.items() if mean < most} if fair else {}
        owed = scale * sum(lent.values()) / len(there)
        self._owed = dict.fromkeys(lent, owed) if owed else {}

    def _note_loads(self, candidates: Sequence[Candidate], loads: Sequence[float], part: float) -> list[float]:
        """Let the loads count with this part in the means; those of the candidates. A worker that comes begins with the mean of
        all, so that it has no lead over others nor they one over it, though it has had nothing to do."""
        means, lent = self._means, self._lent
        if len(means) > self._most:
            means.clear()
            lent.clear()
        began = bool(means)
        fair = self._fair if began else sum(loads) / len(loads)
        for name, rest in [*lent.items()]:
            if rest > _LEFT * fair:
                lent[name] = rest * (1.0 - part)
            else:
                del lent[name]
        for each, load in zip(candidates, loads, strict=True):
            before = means.get(each.name)
            if before is None:
                before = fair
                if began:
                    lent[each.name] = fair * (1.0 - part)
            means[each.name] = before + part * (load - before)
        return [means[each.name] for each in candidates]

    def forget(self, worker: str) -> None:
        """The worker has left, or is back with an empty cache: it counts as one that comes."""
        self._means.pop(worker, None)
        self._lent.pop(worker, None)
        self._owed.pop(worker, None)
        self._leads.pop(worker, None)
        self._idle.pop(worker, None)


def _waits(worker: Candidate, prompt: float, pending: float) -> float:
    """The tokens that wait at a worker, where prompts have `prompt` tokens, of which `pending` wait, as means."""
    others, queued = worker.others, worker.queued
    theirs = queued * prompt * others / (queued + worker.running) if queued and others else 0.0
    return worker.prefill_tokens + max(theirs, others * pending)


def price_of_a_copy(holders: int, places: int) -> float:
    """The part of its price that a token at least counts with, where `holders` of `places` have it: all of it where one has it,
    about 1 / sqrt(holders) where a few have, nothing where all have.

    Let all requests begin alike. Then each holder has places / holders times its fair share, so it is above that by
    (places - holders) / holders; the part is never more than this. So it is enough that a worker with twice its share is worse by
    one prompt: then one without the beginning is the better choice, until all have it."""
    return sqrt((places - holders) / (holders * (places - 1))) if places > 1 else 1.0


@lru_cache(maxsize=16)
def _prices(places: int) -> tuple[float, ...]:
    """`price_of_a_copy` by the number of holders, from 1 on behind one that is not used; a fleet has few numbers of places."""
    return (1.0, *[price_of_a_copy(holders, places) for holders in range(1, places + 1)])


def least_to_pay(gains: Sequence[int], tokens: int) -> dict[int, float]:
    """What a prompt of `tokens` costs at least, in tokens, by what a place has of it: those that no place has, and the price of a
    copy of those that others have. `gains` are the tokens that each place has."""
    prices, counts = _prices(len(gains)), Counter(gains)
    pays: dict[int, float] = {}
    above, holders = max(counts), 0
    price = float(tokens - above)
    for gain in sorted(counts, reverse=True):
        price += (above - gain) * prices[holders]
        pays[gain], above = price, gain
        holders += counts[gain]
    return pays

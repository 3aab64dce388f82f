"""What each worker of a fleet stands at: what waits there now, how crowded it is, and how much it has had to do for a while.

All are numbers of prompt tokens, to be added to those that a request would have to read there. Pure: the time comes with the
request. Above: cache_aware. Below: base.

- What waits: the prompt tokens that the worker reads before those of the request, and the fullness of its KV cache. Of what
  others have sent there only the number of requests is known, by the engine's report. Each of them counts as many tokens as one
  of ours has waiting now on the average of all workers, and those in the engine's queue a whole prompt.
- The crowd: requests beyond the mean of all workers. A few more are chance; the square of the excess over the mean, in which
  chance is about 1, weighs little then and much when requests flock to one worker.
- The lead: how far the worker's requests, as a mean over `balance_s` seconds, are above those of all. So small a preference that
  it loses to a cached prefix moves requests without one, which is enough to keep workers even.

Reading a prompt in a busy fleet makes others wait, too: `read_weight` says how much more a token to read counts than one that
waits. It follows from how often prompts were waiting lately.
"""

from collections.abc import Sequence
from math import exp

from smg_core.routing.base import Candidate
from smg_core.routing.settings import RoutingConfig

__all__ = ["Standing"]

_SMOOTH = 0.02
_FULL = 0.99
_LOOKS = 100
_FEW = 0.25


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
        self._fair = 0.0  # the mean of `_means`; a worker that comes begins with it
        self._leads: dict[str, float] = {}
        self._looked: float | None = None
        self._ours = 0.0  # the mean of requests in flight by our count, of all workers
        self._all = 0.0  # that of requests of others, too, by the workers' reports
        self._tokens = 0.0  # the mean of the prompt tokens that wait, by our count, of all workers
        self._pending = 0.0  # the prompt tokens that wait for each request in flight

    @property
    def others(self) -> float:
        """The share of the requests at the workers that this gateway does not know of; 0 where engines report none."""
        return max(0.0, 1.0 - self._ours / self._all) if self._all > _FEW else 0.0

    @property
    def read_weight(self) -> float:
        """What a token to read counts, where one that waits counts 1."""
        return 1.0 + self._read * self._busy * self._busy

    def note(self, tokens: int) -> None:
        """Called for each request: its prompt counts for the mean."""
        self._prompt += (tokens - self._prompt) * (_SMOOTH if self._prompt else 1.0)

    def of(self, candidates: Sequence[Candidate], now: float) -> list[float]:
        """What each candidate stands at, in prompt tokens of a worker of weight 1, at the time `now`."""
        waits: list[float] = []
        loads: list[float] = []
        prompt, pending = self._prompt, self._pending
        for each in candidates:  # of hundreds of workers most are as they were and idle, so that is looked at first
            others = each.others
            if others:
                queued = each.queued
                theirs = queued * prompt * others / (queued + each.running) if queued else 0.0
                waits.append(each.prefill_tokens + max(theirs, others * pending))
                loads.append((each.in_flight + others) / each.weight)
            else:
                waits.append(each.prefill_tokens)
                loads.append(each.in_flight / each.weight)
        self._look(candidates, waits, loads, now)
        fair = sum(loads) / len(loads)
        crowd, leads = self._crowd / max(_FEW, fair), self._leads
        stands = []
        for each, wait, load in zip(candidates, waits, loads, strict=True):
            if each.kv_usage > 0:
                wait += self._full(each.kv_usage)
            stand = wait / each.weight if wait else 0.0
            if leads:
                stand += leads.get(each.name, 0.0)
            stands.append(stand + crowd * (load - fair) ** 2 if load > fair else stand)
        return stands

    def _full(self, usage: float) -> float:
        """What the fullness of a worker's cache weighs, of which `usage` is in use."""
        return self._pressure * (usage / (1.0 - usage) if usage < _FULL else 100)

    def _look(
        self, candidates: Sequence[Candidate], waits: Sequence[float], loads: Sequence[float], now: float
    ) -> None:
        """Bring the means up to date, some times in the seconds that they go over."""
        if self._looked is None:
            self._looked = now
        elif now - self._looked < self._seconds / _LOOKS:
            return
        part = 1.0 - exp((self._looked - now) / self._seconds) if self._seconds else 1.0
        self._looked = now
        prompt = max(1.0, self._prompt)
        busy = sum(min(1.0, wait / prompt / each.weight) for each, wait in zip(candidates, waits, strict=True))
        self._busy += part * (busy / len(candidates) - self._busy)
        ours = sum(each.in_flight for each in candidates)
        self._ours += part * (ours - self._ours)
        self._all += part * (ours + sum(each.others for each in candidates) - self._all)
        self._tokens += part * (sum(each.prefill_tokens for each in candidates) - self._tokens)
        self._pending = self._tokens / self._ours if self._ours > _FEW else 0.0
        means = self._means
        if len(means) > self._most:
            means.clear()
        fair = self._fair if means else sum(loads) / len(loads)
        for each, load in zip(candidates, loads, strict=True):
            before = means.get(each.name, fair)
            means[each.name] = before + part * (load - before)
        there = [means[each.name] for each in candidates]
        self._fair = fair = sum(there) / len(there)
        scale = self._balance * prompt / max(1.0, fair)
        self._leads = {
            each.name: scale * (mean - fair) for each, mean in zip(candidates, there, strict=True) if mean > fair
        }

    def forget(self, worker: str) -> None:
        """The worker has left."""
        self._means.pop(worker, None)
        self._leads.pop(worker, None)

"""The work of a worker as a number of prompt tokens, and the choice among about equal ones.

Pure. Above: the policies that weigh load. Below: base. What is compared is work that is counted when a request is sent, so that
requests that come together see each other.
"""

from collections.abc import Sequence
from random import Random

from smg_core.routing.base import Candidate, RoutingContext
from smg_core.routing.settings import RoutingConfig

__all__ = ["TieBreak", "Work"]

_SMOOTH = 0.02
_FULL = 0.99


class Work:
    """Reckons the work of workers by the knobs in `settings`, and keeps the mean length of prompts."""

    def __init__(self, settings: RoutingConfig) -> None:
        self._per_answer = settings.answer_tokens
        self._pressure = settings.kv_pressure_tokens
        self._mean = 0.0

    def note(self, context: RoutingContext) -> None:
        """Called for each request: its prompt counts for the mean."""
        self._mean += (context.tokens - self._mean) * (_SMOOTH if self._mean else 1.0)

    def by_weight(self, candidates: Sequence[Candidate]) -> list[float]:
        """What `of` says of each candidate, divided by its weight. Of a thousand most have nothing but what is counted here."""
        per_answer, of = self._per_answer, self.of
        return [
            (each.prefill_tokens + each.in_flight * per_answer) / each.weight
            if not (each.queued or each.running or each.others or each.kv_usage)
            else of(each) / each.weight
            for each in candidates
        ]

    def of(self, candidate: Candidate) -> float:
        """The prompt tokens that wait at the worker, and what its answers under way and its full cache are worth in such
        tokens; for a worker of weight 1. What others than this gateway have sent there is known by the engine's report, and
        by the mesh where there is one."""
        waiting: float = candidate.prefill_tokens
        answers = candidate.in_flight + candidate.others
        reported = candidate.queued
        if reported or candidate.running:
            waiting = max(waiting, reported * self._mean)
            answers = max(answers, reported + candidate.running)
        usage = candidate.kv_usage
        if usage > 0:
            waiting += self._pressure * (usage / (1.0 - usage) if usage < _FULL else 100)
        return waiting + answers * self._per_answer


class TieBreak:
    """Chooses among workers with about the same score: of those that are at most `near` above the lowest, the one with the most
    to gain, and of these the one whose turn is the longest ago. Workers that were never chosen come in an order that `rng`
    draws, so that several gateways do not all begin with the same one. At most `most` workers are kept."""

    def __init__(self, near: float, rng: Random, most: int) -> None:
        self._near = near
        self._seed = rng.getrandbits(62)
        self._last: dict[str, int] = {}
        self._turn = 0
        self._most = most

    def choose(
        self, names: Sequence[str], scores: Sequence[float], gains: Sequence[int] = (), part: float = 1.0
    ) -> int:
        """The index of the worker whose turn it is. `names`, `scores` and `gains` have a row for each. Where what is gained
        counts in the scores with this `part` alone, so does the difference that is still near."""
        enough = min(scores) + self._near * part
        near = [at for at, score in enumerate(scores) if score <= enough]
        if gains and len(near) > 1:
            best = max([gains[at] for at in near])
            near = [at for at in near if gains[at] == best]
        last, seed, chosen = self._last, self._seed, near[0]
        if len(near) > 1:
            turns = [last.get(names[at], -1) for at in near]
            longest = min(turns)
            near = [at for at, turn in zip(near, turns, strict=True) if turn == longest]
            chosen = min(near, key=lambda at: hash((seed, at)))
        self._turn += 1
        last.pop(names[chosen], None)
        last[names[chosen]] = self._turn
        if len(last) > self._most:
            del last[next(iter(last))]
        return chosen

    def forget(self, worker: str) -> None:
        """The worker has left."""
        self._last.pop(worker, None)

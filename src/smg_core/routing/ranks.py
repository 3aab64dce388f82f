"""The policy for engines with data-parallel ranks: worker and rank with the fewest tokens.

Pure. Above: named. Below: base.
"""

from collections.abc import Sequence
from math import inf

from smg_core.routing.base import Candidate, Observing, Pick, RankState, RoutingContext

__all__ = ["DpMinToken"]


class _Known:
    """What is known of a worker's ranks: the engine's last report, and the tokens that were sent to each since."""

    __slots__ = ("_least", "_used", "report", "sent")

    def __init__(self, report: Sequence[RankState], ranks: int) -> None:
        self.report = report
        self.sent = [0] * ranks
        self._used = {each.rank: each.used_tokens for each in report}
        self._least = min(self._used.values(), default=0)  # of a rank that has not answered

    def tokens(self, rank: int) -> int:
        return self.sent[rank] + self._reported(rank)

    def lift(self, rank: int, tokens: int) -> None:
        """Let a rank have so many tokens at least."""
        self.sent[rank] = max(self.sent[rank], tokens - self._reported(rank))

    def _reported(self, rank: int) -> int:
        return self._used.get(rank, self._least)


class DpMinToken(Observing):
    """The rank with the fewest tokens in its KV cache, by reports and by calls since, over all workers; the engine is told the
    rank. Of equal ones the next after the one that was chosen last.

    An engine whose reports stay out is taken at its last one and all that was sent since. One that has given none and that could
    not be chosen the last time, since it is new or was away, begins at the least of the others: what is sent to those is only
    added up, so that it would get every request until it had as many."""

    name = "dp_min_token"

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._available: frozenset[tuple[str, int]] = frozenset()  # the ranks that could be chosen the last time
        self._turn = 0

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        places = [(each, rank) for each in candidates for rank in range(each.rank_count)]
        self._look(candidates)
        self._lift([(each, rank) for each, rank in places if rank not in each.ranks_out])
        scores = [self._score(each, rank) if rank not in each.ranks_out else inf for each, rank in places]
        count = len(places)
        best = min(range(count), key=lambda at: (scores[at], (at - self._turn) % count))
        self._turn = best + 1
        worker, rank = places[best]
        self._known[worker.name].sent[rank] += context.tokens
        why = f"fewest tokens of {count} ranks"
        return Pick(worker, rank if worker.rank_count > 1 else None, why=why, scores=_least(candidates, scores))

    def _look(self, candidates: Sequence[Candidate]) -> None:
        """Take up what the engines have reported since the last time."""
        for each in candidates:
            known = self._known.get(each.name)
            fits = known is not None and len(known.sent) == each.rank_count
            if known is None or not fits or (each.ranks and known.report is not each.ranks):
                self._known[each.name] = _Known(each.ranks, each.rank_count)

    def _lift(self, places: Sequence[tuple[Candidate, int]]) -> None:
        """Have ranks that nothing is reported of and that could not be chosen the last time begin at the least of the others."""
        before, self._available = self._available, frozenset([(each.name, rank) for each, rank in places])
        late = [(each, rank) for each, rank in places if not each.ranks and (each.name, rank) not in before]
        if not late:
            return
        away = frozenset([(each.name, rank) for each, rank in late])
        others = [self._score(each, rank) for each, rank in places if (each.name, rank) not in away]
        least = min(others, default=0.0)
        for each, rank in late:
            self._known[each.name].lift(rank, int(least * each.weight))

    def _score(self, worker: Candidate, rank: int) -> float:
        return self._known[worker.name].tokens(rank) / worker.weight

    def worker_left(self, worker: str) -> None:
        self._known.pop(worker, None)


def _least(candidates: Sequence[Candidate], scores: Sequence[float]) -> list[float]:
    """The lowest score of each candidate's ranks."""
    found, at = [], 0
    for each in candidates:
        found.append(min(scores[at : at + each.rank_count]))
        at += each.rank_count
    return found

"""The policy for engines with data-parallel ranks: worker and rank with the fewest tokens.

Pure. Above: named. Below: base.
"""

from collections.abc import Sequence
from math import inf

from smg_core.routing.base import Candidate, Observing, Pick, RankState, RoutingContext

__all__ = ["DpMinToken"]


class _Known:
    """What is known of a worker's ranks: the engine's last report, and the tokens that were sent to each since."""

    __slots__ = ("report", "sent")

    def __init__(self, report: Sequence[RankState], ranks: int) -> None:
        self.report = report
        self.sent = [0] * ranks


class DpMinToken(Observing):
    """The rank whose KV cache has the fewest tokens, by the engine's last report and what was sent there since, over all
    workers; the engine is told the rank. Of equal ones the next after the one that was chosen last."""

    name = "dp_min_token"

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._turn = 0

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        places = [(each, rank) for each in candidates for rank in range(each.rank_count)]
        scores = [
            self._tokens(each, rank) / each.weight if rank not in each.ranks_out else inf for each, rank in places
        ]
        count = len(places)
        best = min(range(count), key=lambda at: (scores[at], (at - self._turn) % count))
        self._turn = best + 1
        worker, rank = places[best]
        self._known[worker.name].sent[rank] += context.tokens
        why = f"fewest tokens of {count} ranks"
        return Pick(worker, rank if worker.rank_count > 1 else None, why=why, scores=_least(candidates, scores))

    def _tokens(self, worker: Candidate, rank: int) -> int:
        known = self._known.get(worker.name)
        if known is None or known.report is not worker.ranks or len(known.sent) != worker.rank_count:
            known = self._known[worker.name] = _Known(worker.ranks, worker.rank_count)
        reported = known.report[rank].used_tokens if rank < len(known.report) else 0
        return reported + known.sent[rank]

    def worker_left(self, worker: str) -> None:
        self._known.pop(worker, None)


def _least(candidates: Sequence[Candidate], scores: Sequence[float]) -> list[float]:
    """The lowest score of each candidate's ranks."""
    found, at = [], 0
    for each in candidates:
        found.append(min(scores[at : at + each.rank_count]))
        at += each.rank_count
    return found

"""Puts lists of results together by their ranks: words and vectors, several queries, several stores.

Scores of different kinds cannot be compared, ranks can: a result gets the weight of a list divided by 60 and its rank there, as
reciprocal rank fusion has it (Cormack, Clarke and Buettcher, 2009). Pure. Above: searches. Below: nothing.
"""

from collections.abc import Hashable, Sequence
from typing import TypeVar

__all__ = ["DEPTH", "fused"]

K = TypeVar("K", bound=Hashable)

DEPTH = 100
"""How many results a list has that is put together with others."""

_OFFSET = 60  # of ranks, as the authors have it


def fused(lists: Sequence[tuple[float, Sequence[K]]]) -> list[tuple[K, float]]:
    """The results of all lists with their scores, the best first. Each list has a weight and its results, the best first. A score
    is from 0 to 1, which is what is first in every list gets."""
    whole = sum(weight for weight, _ in lists) / (_OFFSET + 1)
    if whole <= 0:
        return []
    scores: dict[K, float] = {}
    for weight, results in lists:
        for rank, each in enumerate(results, 1):
            scores[each] = scores.get(each, 0.0) + weight / (_OFFSET + rank) / whole
    return sorted(scores.items(), key=lambda each: -each[1])

"""A worker as it was when a routing policy looked at it.

A record; pure. Above: `worker` makes it, the pipeline's Select step shows it to the policy, routing.decisions keeps it. Below:
engines.loads. It knows no policy.
"""

from msgspec import Struct

from smg_core.engines.loads import RankLoad

__all__ = ["LEAST_WEIGHT", "MOST_RANK", "MOST_WEIGHT", "CandidateRecord"]


LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6
"""The weights that a worker may have: numbers with which loads can be divided and squared."""
MOST_RANK = (1 << 31) - 1
"""The highest data-parallel rank that the engines' protocols can name."""


class CandidateRecord(Struct, frozen=True):
    """A candidate at one moment; the fields are those of `routing.Candidate`."""

    name: str
    in_flight: int
    queued: int
    weight: float
    running: int
    prefill_tokens: int
    kv_usage: float
    kv_tokens: int
    rank_count: int
    ranks: tuple[RankLoad, ...] = ()
    ranks_out: tuple[int, ...] = ()
    others: int = 0

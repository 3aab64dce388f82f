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
    """A candidate at one moment; the fields are those of `routing.Candidate`, by default of an idle worker."""

    name: str
    in_flight: int = 0
    queued: int = 0
    weight: float = 1.0
    running: int = 0
    prefill_tokens: int = 0
    kv_usage: float = 0.0
    kv_tokens: int = 0
    rank_count: int = 1
    ranks: tuple[RankLoad, ...] = ()
    ranks_out: tuple[int, ...] = ()
    others: int = 0

"""The policy of prompt lengths, by which short prompts do not wait behind long ones.

Pure. Above: named. Below: work.
"""

from collections.abc import Sequence

from smg_core.routing.base import Candidate, Pick, RoutingContext
from smg_core.routing.settings import RoutingConfig
from smg_core.routing.simple import FleetParts
from smg_core.routing.work import Work

__all__ = ["Bucket"]

_DEFAULTS = RoutingConfig()

_BINS = 64
_BINS_PER_DOUBLING = 3
_FORGET = 0.998


class Bucket:
    """The first worker has the shortest prompts, the last the longest. The bounds follow the lengths of the last some hundred
    prompts, so that each worker gets as many tokens by its weight. A worker whose work is more than `load_factor` times the
    mean, and more than this prompt above it, hands on: the request goes to the one with the least work."""

    name = "bucket"

    def __init__(self, settings: RoutingConfig = _DEFAULTS) -> None:
        self._work = Work(settings)
        self._factor = settings.load_factor
        self._lengths = FleetParts(_Lengths)

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        tokens = max(1, context.tokens)
        self._work.note(context)
        place = self._lengths.of(context).place(tokens)
        own = self._own(candidates, place)
        loads = self._work.by_weight(candidates)
        mean = sum(loads) / len(loads)
        if loads[own] > mean * self._factor and loads[own] - mean > tokens / candidates[own].weight:
            least = min(range(len(loads)), key=loads.__getitem__)
            return Pick(candidates[least], why="the worker of this length has too much work", scores=loads)
        return Pick(candidates[own], why="the worker of this length", scores=loads)

    def _own(self, candidates: Sequence[Candidate], place: float) -> int:
        left = place * sum(each.weight for each in candidates)
        for at, each in enumerate(candidates):
            left -= each.weight
            if left < 0:
                return at
        return len(candidates) - 1


_GOLDEN = 0.6180339887498949


class _Lengths:
    """The tokens of late prompts, by their lengths."""

    def __init__(self) -> None:
        self._tokens = [0.0] * _BINS
        self._turn = 0

    def place(self, tokens: int) -> float:
        """Which share of all tokens is in shorter prompts, 0 to 1; prompts of one length are spread over the share that they
        have."""
        at = min(_BINS - 1, (tokens.bit_length() - 1) * _BINS_PER_DOUBLING + _third(tokens))
        self._tokens = bins = [each * _FORGET for each in self._tokens]
        bins[at] += tokens
        shorter, whole = sum(bins[:at]), sum(bins)
        self._turn += 1
        return (shorter + self._turn * _GOLDEN % 1.0 * bins[at]) / whole


def _third(tokens: int) -> int:
    """Which third of the lengths between two powers of two."""
    low = 1 << (tokens.bit_length() - 1)
    return (tokens - low) * _BINS_PER_DOUBLING // low

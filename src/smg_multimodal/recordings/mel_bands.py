"""Mel filters applied a few at a time, each few to the bins that they have: most of a filter's weights are nothing.

Above: `audio`, `families.usm`. Below: numpy. The sums are those of one product of whole matrices, without the terms that are
nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smg_multimodal.records.types import Float64

__all__ = ["MelBands"]

_AT_ONCE = 8
"""Filters that are applied together: more have too many bins, fewer are too small a product."""


@dataclass(frozen=True, slots=True, eq=False)
class MelBands:
    """Filters, by their (bins, mels) weights."""

    mels: int
    parts: tuple[tuple[slice, slice, Float64], ...]

    @classmethod
    def of(cls, filters: Float64) -> "MelBands":
        """The filters of a matrix of (bins, mels) weights."""
        parts = []
        for first in range(0, filters.shape[1], _AT_ONCE):
            mels = slice(first, min(first + _AT_ONCE, filters.shape[1]))
            found = np.flatnonzero(filters[:, mels].any(axis=1))
            bins = slice(int(found[0]), int(found[-1]) + 1) if len(found) else slice(0, 0)
            parts.append((mels, bins, np.ascontiguousarray(filters[bins, mels])))
        return cls(filters.shape[1], tuple(parts))

    def __call__(self, amounts: NDArray[Any]) -> Float64:
        """(frames, mels) sums of (frames, bins) amounts."""
        made = np.empty((len(amounts), self.mels), np.float64)
        for mels, bins, weights in self.parts:
            made[:, mels] = amounts[:, bins] @ weights
        return made

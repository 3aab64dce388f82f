"""The source pixels and weights of each pixel of a resized picture, as Pillow or torch has them.

Above: `kernel`. Below: numpy. Weights are computed in double precision in Pillow's order of operations, then rounded to
integers of 22 fractional bits, so that sums of weighted bytes come out as Pillow's do, bit for bit. Knows no pixels.
Filters and rounding follow Pillow's Resample.c. torch's kernel for bytes computes the same weights and keeps fewer bits of
them: as many as let the largest fit into 16 bits with its sign. Filled up with zeros to Pillow's 22 they give torch's sums.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from smg_multimodal.records.types import Float64

__all__ = ["PRECISION_BITS", "TORCH_FILTERS", "Filter", "Taps", "TorchFilter", "kind_of", "taps"]

PRECISION_BITS = 22


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """`first[i]` and `last[i]` (exclusive) bound what makes pixel i; `weights` is (wanted, most taps), zeros at the end. Beyond
    `bits` after the point they have nothing but zeros: torch's, which fit 16 bits without those."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    weights: NDArray[np.int32]
    bits: int = PRECISION_BITS


def _box(x: Float64) -> Float64:
    return np.where((x > -0.5) & (x <= 0.5), 1.0, 0.0)


def _bilinear(x: Float64) -> Float64:
    return np.maximum(1.0 - np.abs(x), 0.0)


def _bicubic(x: Float64) -> Float64:
    x = np.abs(x)
    near = (1.5 * x - 2.5) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * -0.5
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _each(of: Callable[[float], float], x: Float64) -> Float64:
    # The C library's sine, as Pillow uses it: numpy's may differ from it in the last bit.
    return np.array([of(value) for value in x.ravel().tolist()]).reshape(x.shape)


def _sinc(x: float) -> float:
    x *= math.pi
    return math.sin(x) / x if x else 1.0


def _lanczos(x: Float64) -> Float64:
    return _each(lambda value: _sinc(value) * _sinc(value / 3) if -3 <= value < 3 else 0.0, x)


FILTERS: dict[Image.Resampling, tuple[Callable[[Float64], Float64], float]] = {
    Image.Resampling.BOX: (_box, 0.5),
    Image.Resampling.BILINEAR: (_bilinear, 1.0),
    Image.Resampling.BICUBIC: (_bicubic, 2.0),
    Image.Resampling.LANCZOS: (_lanczos, 3.0),
}
"""Each filter and how far from its centre it reaches, in pixels of the smaller picture."""


def taps_at_most(length: int, wanted: int, resample: "Filter") -> int:
    """A bound on how many pixels make one, from the sizes alone."""
    return math.ceil(FILTERS[kind_of(resample)][1] * max(length / wanted, 1.0)) * 2 + 1


@dataclass(frozen=True, slots=True)
class TorchFilter:
    """A filter as torch's kernel for bytes applies it; one of `TORCH_FILTERS`."""

    filter: Image.Resampling


Filter = Image.Resampling | TorchFilter
"""How a picture is resized: Pillow's way, or torch's."""

TORCH_FILTERS = frozenset({Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS})
"""Those that torch has for bytes."""


def kind_of(resample: Filter) -> Image.Resampling:
    """The filter, whoever applies it."""
    return resample.filter if isinstance(resample, TorchFilter) else resample


def _bits(weights: Float64, resample: Filter) -> int:
    """How many bits after the point weights keep."""
    if not isinstance(resample, TorchFilter):
        return PRECISION_BITS
    most, bits = float(weights.max()), 0
    while bits < PRECISION_BITS and int(0.5 + most * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    return bits


def taps(length: int, wanted: int, resample: Filter) -> Taps:
    """How a side of `length` pixels becomes one of `wanted`. Raises `KeyError` for a filter that is not in `FILTERS`."""
    curve, reach = FILTERS[kind_of(resample)]
    scale = length / wanted
    stretch = max(scale, 1.0)
    centre = (np.arange(wanted) + 0.5) * scale
    first = np.maximum(np.trunc(centre - reach * stretch + 0.5), 0)
    last = np.minimum(np.trunc(centre + reach * stretch + 0.5), length)
    offset = np.arange(int((last - first).max()), dtype=np.float64)[:, None]
    weights = curve((offset + first - centre + 0.5) * (1.0 / stretch))
    weights[offset >= last - first] = 0.0
    total: Any = np.zeros(wanted)
    for row in weights:  # one after the other: a pairwise sum would round differently
        total += row
    weights /= np.where(total != 0, total, 1.0)
    bits = _bits(weights, resample)
    scaled = np.trunc(weights * (1 << bits) + np.copysign(0.5, weights)).T.astype(np.int32)
    fixed = np.ascontiguousarray(scaled << (PRECISION_BITS - bits))
    return Taps(first.astype(np.int64), last.astype(np.int64), fixed, bits)

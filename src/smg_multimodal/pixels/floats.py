"""Pictures resized as torch resizes floats: antialiased, in single precision, nothing rounded to bytes or cut off.

Above: `tiles.step3`, `patches.nemotron`. Below: `filters` for the names of filters. A picture is resized and normalised some rows
at a time, so that what is in between takes little memory beside the tensors. Sums are added in another order than torch's, so
values are its to about a millionth, not to the bit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.pixels.transforms import means_of
from smg_multimodal.records.types import Array, Bytes8, Float32, Size

__all__ = ["FLOAT_FILTERS", "FloatNormalizer", "float_bands", "float_filter", "float_normalizer"]

_BLOCK = 16
"""Pixels along a side that are made by one product of matrices."""
_PRODUCTS = 256 * 1024
"""Products of numbers in one product of matrices. A library of linear algebra divides larger ones among all cores, which takes
longer than the arithmetic and disturbs whatever else runs on them."""


def _triangle(x: Float32) -> Float32:
    return np.asarray(np.maximum(np.float32(1) - x, np.float32(0)), np.float32)


def _cubic(x: Float32) -> Float32:
    a = np.float32(-0.5)
    near = ((a + np.float32(2)) * x - (a + np.float32(3))) * x * x + np.float32(1)
    far = ((a * x - np.float32(5) * a) * x + np.float32(8) * a) * x - np.float32(4) * a
    return np.asarray(np.where(x < 1, near, np.where(x < 2, far, np.float32(0))), np.float32)


_CURVES = {Image.Resampling.BILINEAR: (_triangle, 1), Image.Resampling.BICUBIC: (_cubic, 2)}
FLOAT_FILTERS = frozenset(_CURVES)
"""Those that torch has for floats with antialiasing."""


def float_filter(config: Mapping[str, Any], default: Image.Resampling) -> Image.Resampling:
    """The filter that a configuration names. Raises `UnsupportedModel` for one that torch has not for floats."""
    code = config.get("resample")
    found = next((each for each in FLOAT_FILTERS if each == (default if code is None else code)), None)
    if found is None:
        raise refused("resample", code, "only 2 or 3 is done here")
    return found


_Block = tuple[int, int, Float32]
"""Some of the pixels that are made: the first and the one after the last that they are made of, and (made, pixels) weights."""


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """For each of the pixels that are made: the first that it is made of, the one after the last, and (pixels, most) weights. In
    single precision from the beginning, as torch's are: where values differ much that shows in the fifth place."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    values: Float32

    @classmethod
    def of(cls, length: int, wanted: int, resample: Image.Resampling) -> "_Weights":
        """Those of `wanted` pixels that are made of `length`."""
        curve, taps = _CURVES[resample]
        scale, half = np.float32(length) / np.float32(wanted), np.float32(0.5)
        stretch = max(scale, np.float32(1))
        reach = np.float32(taps) * stretch
        centre = scale * (np.arange(wanted, dtype=np.float32) + half)
        first = np.maximum(np.trunc(centre - reach + half), 0).astype(np.int64)
        last = np.minimum(np.trunc(centre + reach + half), length).astype(np.int64)
        places = first[:, None] + np.arange(int((last - first).max()))
        distances = np.abs((places.astype(np.float32) - centre[:, None] + half) * (np.float32(1) / stretch))
        values = np.where(places < last[:, None], curve(distances), np.float32(0))
        return cls(first, last, np.asarray(values / values.sum(axis=1, keepdims=True), np.float32))

    def blocks(self) -> list[_Block]:
        """All pixels that are made, some at a time."""
        count = len(self.first)
        return [self.block(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK)]

    def block(self, start: int, stop: int) -> _Block:
        """Of the pixels from `start` to before `stop`."""
        low, high = int(self.first[start]), int(self.last[start:stop].max())
        most = self.values.shape[1]
        dense = np.zeros((stop - start, high - low + most), np.float32)
        places = (self.first[start:stop] - low)[:, None] + np.arange(most)
        np.put_along_axis(dense, places, self.values[start:stop], axis=1)
        return low, high, dense[:, : high - low]


def _product(weights: Float32, source: Float32) -> Float32:
    """`weights` times `source`, some columns at a time."""
    out = np.empty((len(weights), source.shape[1]), np.float32)
    step = max(1, _PRODUCTS // weights.size)
    for start in range(0, source.shape[1], step):
        np.matmul(weights, source[:, start : start + step], out=out[:, start : start + step])
    return out


def float_bands(pixels: Bytes8, size: Size, resample: Image.Resampling, rows: int) -> Iterator[tuple[int, Float32]]:
    """The picture at `size`, `rows` rows at a time: the number of the first, and (rows, width, 3) floats from 0 to 255 or, where
    a filter overshoots, a little beyond."""
    height, width, _ = pixels.shape
    down = _Weights.of(height, size.height, resample)
    across = None if width == size.width else _Weights.of(width, size.width, resample).blocks()
    for top in range(0, size.height, rows):
        stop = min(top + rows, size.height)
        low, high, weights = down.block(top, stop)
        source = pixels[low:high].reshape(high - low, -1).astype(np.float32)
        band = _product(weights, source).reshape(stop - top, width, 3)
        yield top, band if across is None else _across(band, across)


def _across(band: Float32, blocks: Sequence[_Block]) -> Float32:
    rows, width, _ = band.shape
    columns = np.ascontiguousarray(band.transpose(1, 0, 2)).reshape(width, -1)
    made = [_product(weights, columns[low:high]) for low, high, weights in blocks]
    return np.concatenate(made).reshape(-1, rows, 3).transpose(1, 0, 2)


@dataclass(frozen=True, slots=True, eq=False)
class FloatNormalizer:
    """`(v * factor - mean) / std` of floats, in single precision; `factor` is 1 where the other two have it in them."""

    means: Float32
    stds: Float32
    factor: float = 1.0

    def __call__(self, floats: Array) -> Float32:
        """Of (..., 3) floats."""
        scaled = floats if self.factor == 1 else floats * np.float32(self.factor)
        return np.asarray((scaled - self.means) / self.stds, np.float32)


def float_normalizer(config: Mapping[str, Any], mean: tuple[float, ...], std: tuple[float, ...]) -> FloatNormalizer:
    """What a configuration says, as transformers' torchvision backend computes it; `mean` and `std` where it names none."""
    factor = float(config.get("rescale_factor") or 1 / 255)
    rescales, normalizes = config.get("do_rescale") is not False, config.get("do_normalize") is not False
    if not normalizes:
        return FloatNormalizer(np.zeros(3, np.float32), np.ones(3, np.float32), factor if rescales else 1.0)
    means, stds = (
        np.array(means_of(config, each, key), np.float32) for each, key in ((mean, "image_mean"), (std, "image_std"))
    )
    inverse = np.float32(1.0 / factor if rescales else 1.0)
    return FloatNormalizer(means * inverse, stds * inverse)

"""Pillow's and torch's resizing of bytes written out in integers, to show where the two differ.

Both go over rows and columns separately, round to bytes in between, and weigh neighbours with a filter whose weights are
rounded to fixed point first. They differ in two things: how many bits the weights keep, and which pass comes first. Pillow
keeps 22 bits after the point; up to 12 it goes along rows first, since 13 down the columns first where the height loses more
than twice the pixels that the width loses. torch keeps what fits into 16 bits in all, and goes along rows first always.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

Bytes8 = np.ndarray[Any, np.dtype[np.uint8]]
Weights = tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int32]], int]

PILLOW_BITS = 22
SUPPORT = {"bilinear": 1.0, "bicubic": 2.0, "lanczos": 3.0}


def _filter(kind: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = np.abs(x)
    if kind == "bilinear":
        return np.maximum(0.0, 1.0 - x)
    if kind == "lanczos":
        return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0.0)
    near, far = (1.5 * x - 2.5) * x * x + 1.0, ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _bits(weights: np.ndarray[Any, Any], torch: bool) -> int:
    """The bits after the point: Pillow's, or as many as let the largest weight fit into 16 bits with its sign."""
    if not torch:
        return PILLOW_BITS
    bits = 0
    while bits < PILLOW_BITS and 0.5 + float(weights.max()) * (1 << (bits + 1)) < 1 << 15:
        bits += 1
    return bits


@lru_cache(maxsize=64)
def _weights(before: int, after: int, kind: str, torch: bool) -> Weights:
    """For every place of the result: where its neighbours are, their weights in fixed point, and the bits after the point."""
    scale = before / after
    stretch = max(scale, 1.0)
    reach = SUPPORT[kind] * stretch
    centres = (np.arange(after) + 0.5) * scale
    first = np.maximum(0, (centres - reach + 0.5).astype(np.int64))
    last = np.minimum(before, (centres + reach + 0.5).astype(np.int64))
    places = first[:, None] + np.arange(math.ceil(reach) * 2 + 1)
    inside = places < last[:, None]
    weights = np.where(inside, _filter(kind, (places - centres[:, None] + 0.5) / stretch), 0.0)
    weights /= weights.sum(1, keepdims=True)
    bits = _bits(weights, torch)
    fixed = np.trunc(weights * (1 << bits) + np.where(weights < 0, -0.5, 0.5)).astype(np.int32)
    return np.minimum(places, before - 1), fixed, bits


def _one_pass(pixels: Bytes8, after: int, axis: int, kind: str, torch: bool) -> Bytes8:
    if pixels.shape[axis] == after:
        return pixels
    places, weights, bits = _weights(pixels.shape[axis], after, kind, torch)
    shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
    total = np.int32(1 << (bits - 1))
    for tap in range(places.shape[1]):
        total = total + pixels.take(places[:, tap], axis).astype(np.int32) * weights[:, tap].reshape(shape)
    return np.clip(total >> bits, 0, 255).astype(np.uint8)


def resized(
    pixels: Bytes8, size: tuple[int, int], kind: str, *, torch: bool = False, columns_first: bool = False
) -> Bytes8:
    """`pixels` (height, width, channels) at `size` (height, width) by "bilinear" or "bicubic"."""
    for axis in (0, 1) if columns_first else (1, 0):
        pixels = _one_pass(pixels, size[axis], axis, kind, torch)
    return pixels

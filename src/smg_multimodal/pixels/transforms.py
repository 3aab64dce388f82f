"""Eight-bit pixels to normalised floats, written once, straight into the layout the encoder reads.

Above: the family modules. Below: numpy, and `layouts`, which writes faster where wasmtime is installed. Three things are
decided here: how a byte becomes a float (bit for bit as Hugging Face's arithmetic does), in what order patches lie, and that
work goes strip by strip so that no float copy of a whole picture ever exists. Unknown here: how big a picture should be, and
which family it is for.

A byte has 256 values, so a channel's whole arithmetic is a table of 256 floats. At construction the table is compared
with short runs of vector instructions (divide, subtract, divide); where one reproduces all 256 entries exactly it is
used, because it is several times faster than looking up; else the table is. The kernel has a run of its own, proved likewise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from smg_multimodal.configs.keys import RESIZE
from smg_multimodal.pixels.kernel import attempted, compiled_module
from smg_multimodal.pixels.layouts import columns_written, patches_written, tiles_written
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import Bytes8, Float32

__all__ = [
    "CLIP_MEAN",
    "CLIP_STD",
    "HALF",
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Normalizer",
    "bfloat16_normalizer",
    "divided_normalizer",
    "fused_normalizer",
    "means_of",
    "normalizer_of",
    "rescale_normalizer",
    "write_columns",
    "write_interleaved_patches",
    "write_patches",
    "write_tiles",
]

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
HALF = (0.5, 0.5, 0.5)
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

_BLOCK = 96 * 1024
"""Floats worked on at a time: with its source it stays in a core's second-level cache."""

TransformStep = tuple[Callable[..., Float32], np.float32]
NormalizerMaker = Callable[[Sequence[float], Sequence[float], float], "Normalizer"]


@dataclass(frozen=True, slots=True, eq=False)
class Normalizer:
    """`table[c, v]` is the float of byte `v` in channel `c`; `steps[c]` an exactly equal run of operations, or None.

    `constants` has four floats for each channel with which the kernel's arithmetic is exactly equal too, or is None.
    """

    table: Float32
    steps: tuple[tuple[TransformStep, ...] | None, ...]
    constants: Float32 | None = None

    def apply(self, source: Bytes8, channel: int, out: Float32) -> None:
        """Write the floats of `source` (any strides) into `out` (same shape)."""
        steps = self.steps[channel]
        if steps is None:
            out[...] = self.table[channel].take(source)
            return
        (first, value), *rest = steps
        np.copyto(out, source)
        first(out, value, out=out)
        for operation, operand in rest:
            operation(out, operand, out=out)


def _proved(table: Float32, factor: float, means: Float32 | float, stds: Float32 | float) -> Float32 | None:
    """The kernel's constants for `(v * factor - mean) / std`, if it makes every float of `table` from them.

    A byte times the upper 16 bits of a single-precision factor is exact, so two products and a sum round as one would in
    double precision. This also has the kernel compiled before the first picture comes.
    """
    if compiled_module() is None:
        return None
    coarse = (np.array([factor], np.float32).view(np.uint32) & np.uint32(0xFFFFFF00)).view(np.float32)[0]
    constants = np.empty((3, 4), np.float32)
    constants[:, 0], constants[:, 1] = coarse, factor - float(coarse)
    constants[:, 2], constants[:, 3] = means, stds
    levels = np.broadcast_to(np.arange(256, dtype=np.uint8)[None, :, None], (1, 256, 3))
    got = np.empty((1, 3, 1, 256), np.float32)
    written = attempted(lambda kernel: tiles_written(kernel, got, levels, table, constants))
    return constants if written and np.array_equal(got[0, :, 0].view(np.uint32), table.view(np.uint32)) else None


def _with_steps(
    table: Float32, candidates: Sequence[Sequence[Sequence[TransformStep]]], constants: Float32 | None
) -> Normalizer:
    levels = np.arange(256, dtype=np.uint8)
    chosen: list[tuple[TransformStep, ...] | None] = []
    for channel in range(3):
        found: tuple[TransformStep, ...] | None = None
        for candidate in candidates:
            trial = Normalizer(table, (tuple(candidate[channel]),) * 3)
            got = np.empty(256, np.float32)
            trial.apply(levels, 0, got)
            if np.array_equal(got.view(np.uint32), table[channel].view(np.uint32)):
                found = tuple(candidate[channel])
                break
        chosen.append(found)
    return Normalizer(table, tuple(chosen), constants)


def _per_channel(values: Sequence[float] | float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    listed = [values] * 3 if isinstance(values, int | float) else list(values)
    if len(listed) != 3:
        raise ValueError(f"expected one value or three, got {len(listed)}")
    return np.array(listed, np.float32)


def rescale_normalizer(
    mean: Sequence[float] | float | None, std: Sequence[float] | float | None, rescale: float | None = 1 / 255
) -> Normalizer:
    """The PIL backend's arithmetic: `float32(v * rescale)` in double, then `(x - mean) / std` in single precision.

    `rescale=None` leaves the bytes as they are; `mean=None` leaves out the second half.
    """
    values = np.arange(256, dtype=np.uint8).astype(np.float64)
    scaled = values.astype(np.float32) if rescale is None else (values * rescale).astype(np.float32)
    if mean is None or std is None:
        step: TransformStep = (np.multiply, np.float32(1)) if rescale is None else (np.divide, np.float32(1 / rescale))
        table = np.stack([scaled] * 3)
        return _with_steps(table, [[[step]] * 3], _proved(table, 1.0 if rescale is None else rescale, 0.0, 1.0))
    means, stds = _per_channel(mean), _per_channel(std)
    table = np.stack([(scaled - m) / s for m, s in zip(means, stds, strict=True)])
    first: list[TransformStep] = [] if rescale is None else [(np.divide, np.float32(1 / rescale))]
    runs: list[list[TransformStep]] = [
        [*first, (np.subtract, m), (np.divide, s)] for m, s in zip(means, stds, strict=True)
    ]
    constants = _proved(table, 1.0 if rescale is None else rescale, means, stds)
    return _with_steps(table, [runs], constants)


def normalizer_of(
    config: Mapping[str, Any], mean: Sequence[float], std: Sequence[float], make: "NormalizerMaker | None" = None
) -> Normalizer:
    """The arithmetic a preprocessor configuration describes; `mean` and `std` where it names none.

    Reads do_rescale, rescale_factor, do_normalize, image_mean and image_std, and `RESIZE`. `make` replaces the PIL backend's
    arithmetic for families that are not processed by it; it is that of both steps together.
    """
    factor = float(config.get("rescale_factor") or 1 / 255)
    mean, std = means_of(config, mean), means_of(config, std, "image_std")
    if config.get(RESIZE) == "torch":
        make = make or fused_normalizer
    rescales, normalizes = config.get("do_rescale") is not False, config.get("do_normalize") is not False
    if make is not None and rescales and normalizes:
        return make(mean, std, factor)
    if make is not None and normalizes:
        return fused_normalizer(mean, std, 1.0)
    if make is not None and rescales:
        return _single_rescaler(factor)
    rescale = factor if rescales else None
    return rescale_normalizer(mean, std, rescale) if normalizes else rescale_normalizer(None, None, rescale)


def means_of(config: Mapping[str, Any], default: Sequence[float], key: str = "image_mean") -> tuple[float, ...]:
    """The three numbers under `key`, which may be written as one for all channels, or `default`.

    Raises `UnsupportedModel` where there are neither one nor three."""
    found = config.get(key)
    values = default if found is None else [found] * 3 if isinstance(found, int | float) else list(found)
    if len(values) != 3:
        raise UnsupportedModel(f"{key} {found!r} in the processor's configuration: one number or three are needed")
    return tuple(float(value) for value in values)


def _single_rescaler(factor: float) -> Normalizer:
    """The torchvision backend's `v * factor` alone, in single precision."""
    value = np.float32(factor)
    table = np.stack([np.arange(256, dtype=np.float32) * value] * 3)
    return _with_steps(table, [[[(np.multiply, value)]] * 3], _proved(table, float(value), 0.0, 1.0))


def fused_normalizer(
    mean: Sequence[float] | float, std: Sequence[float] | float, rescale: float = 1 / 255
) -> Normalizer:
    """The torchvision backend's arithmetic: `(v - mean / rescale) / (std / rescale)` in single precision."""
    factor = np.float32(1.0 / rescale)
    means, stds = _per_channel(mean) * factor, _per_channel(std) * factor
    values = np.arange(256, dtype=np.float32)
    table = np.stack([(values - m) / s for m, s in zip(means, stds, strict=True)])
    runs: list[list[TransformStep]] = [[(np.subtract, m), (np.divide, s)] for m, s in zip(means, stds, strict=True)]
    return _with_steps(table, [runs], _proved(table, 1.0, means, stds))


def divided_normalizer(
    mean: Sequence[float] | float | None = None, std: Sequence[float] | float | None = None
) -> Normalizer:
    """The arithmetic of torchvision's ToTensor and Normalize: `v / 255`, then `(x - mean) / std`, in single precision."""
    divisor = np.float32(255)
    scaled = np.arange(256, dtype=np.float32) / divisor
    if mean is None or std is None:
        table = np.stack([scaled] * 3)
        return _with_steps(table, [[[(np.divide, divisor)]] * 3], _proved(table, 1 / 255, 0.0, 1.0))
    means, stds = _per_channel(mean), _per_channel(std)
    table = np.stack([(scaled - m) / s for m, s in zip(means, stds, strict=True)])
    runs: list[list[TransformStep]] = [
        [(np.divide, divisor), (np.subtract, m), (np.divide, s)] for m, s in zip(means, stds, strict=True)
    ]
    return _with_steps(table, [runs], _proved(table, 1 / 255, means, stds))


def _round_bfloat16(values: Float32) -> Float32:
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def bfloat16_normalizer(
    mean: Sequence[float] | float, std: Sequence[float] | float, rescale: float = 1 / 255
) -> Normalizer:
    """Arithmetic that rounds to bfloat16 after every operation; the floats written are exactly those bfloat16 values."""
    scaled = _round_bfloat16(np.arange(256, dtype=np.float32) * np.float32(rescale))
    means, stds = _round_bfloat16(_per_channel(mean)), _round_bfloat16(_per_channel(std))
    rows = [_round_bfloat16(_round_bfloat16(scaled - m) / s) for m, s in zip(means, stds, strict=True)]
    return Normalizer(np.stack(rows), (None, None, None))


def write_patches(
    out: Float32, frames: Sequence[Bytes8], normalizer: Normalizer, *, patch: int, merge: int = 1, temporal: int = 1
) -> None:
    """Cut `frames` into patches and write them normalised into `out`.

    `frames` are one (height, width, 3) array, which is repeated over the temporal axis, or `temporal` of them; height and
    width are multiples of `patch * merge`. `out` is C-contiguous with height/patch * width/patch rows of
    3 * temporal * patch * patch floats. Rows go block by block of merge x merge patches, blocks in raster order; within a
    row the order is channel, frame, y, x.
    """
    arithmetic = (normalizer.table, normalizer.constants)
    if attempted(lambda kernel: patches_written(kernel, out, frames, *arithmetic, (patch, merge, temporal))):
        return
    height, width, _ = frames[0].shape
    rows, columns = height // (patch * merge), width // (patch * merge)
    area = patch * patch
    target = out.reshape(rows, columns * merge * merge, 3, temporal, area)
    bytes_in_order = np.empty((columns, merge, merge, 3, patch, patch), np.uint8)
    by_patch = bytes_in_order.reshape(columns * merge * merge, 3, area)
    floats = np.empty((columns * merge * merge, area), np.float32)
    band = patch * merge
    for row, (moment, frame) in product(range(rows), enumerate(frames)):
        strip = frame[row * band : (row + 1) * band].reshape(merge, patch, columns, merge, patch, 3)
        np.copyto(bytes_in_order, strip.transpose(2, 0, 3, 5, 1, 4))
        for channel in range(3):
            normalizer.apply(by_patch[:, channel], channel, floats)
            for copy in range(temporal) if len(frames) == 1 else (moment,):
                target[row, :, channel, copy] = floats


def write_tiles(out: Float32, pixels: Bytes8, normalizer: Normalizer) -> None:
    """Cut `pixels` (height, width, 3) row-major into tiles and write them normalised into `out` (n, 3, th, tw)."""
    if attempted(lambda kernel: tiles_written(kernel, out, pixels, normalizer.table, normalizer.constants)):
        return
    height, width, _ = pixels.shape
    _, _, tile_height, tile_width = out.shape
    columns = width // tile_width
    step = max(1, _BLOCK // tile_width)
    for index in range(columns * (height // tile_height)):
        top, left = divmod(index, columns)
        tile = pixels[top * tile_height : (top + 1) * tile_height, left * tile_width : (left + 1) * tile_width]
        for start in range(0, tile_height, step):
            for channel in range(3):
                block = tile[start : start + step, :, channel]
                normalizer.apply(block, channel, out[index, channel, start : start + step])


def write_interleaved_patches(out: Float32, pixels: Bytes8, normalizer: Normalizer, *, patch: int) -> None:
    """Cut `pixels` (height, width, 3) into patches and write them normalised into `out` (patches, patch * patch * 3).

    Patches lie in raster order; within one the order is y, x, channel.
    """
    height, width, _ = pixels.shape
    rows, columns = height // patch, width // patch
    target = out.reshape(rows, columns, patch, patch, 3)
    floats = np.empty((columns, patch, patch), np.float32)
    for row in range(rows):
        strip = pixels[row * patch : (row + 1) * patch].reshape(patch, columns, patch, 3)
        for channel in range(3):
            normalizer.apply(strip[..., channel].transpose(1, 0, 2), channel, floats)
            target[row, ..., channel] = floats


def write_columns(out: Float32, pixels: Bytes8, normalizer: Normalizer, *, patch: int) -> None:
    """Write `pixels` (height, width, 3) into `out` (3, patch, patches * patch): patches side by side, raster order."""
    if attempted(lambda kernel: columns_written(kernel, out, pixels, normalizer.table, normalizer.constants, patch)):
        return
    height, width, _ = pixels.shape
    bands = pixels.reshape(height // patch, patch, width, 3)
    floats = np.empty((height // patch, width), np.float32)
    for y in range(patch):
        for channel in range(3):
            normalizer.apply(bands[:, y, :, channel], channel, floats)
            out[channel, y].reshape(height // patch, width)[...] = floats

"""Inkling and Inkling 2: pictures in their own size, cut into small squares, each of which is a token.

Above: `families.patch_pipelines`. Below: `pixels.transforms`. The first has one square more in a row than fit, which may be
empty; what is outside of the picture is minus one where pixels are bytes. Follows transformers' image_processing_inkling and
_inkling2, which are there for torchvision alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import RESIZE, ProcessorClass, fixed_size, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import LANCZOS, resample_of, resize
from smg_multimodal.pixels.transforms import (
    CLIP_MEAN,
    CLIP_STD,
    HALF,
    Normalizer,
    fused_normalizer,
    means_of,
    normalizer_of,
)
from smg_multimodal.records.types import Array, Bytes8, Float32, ItemFeatures, Size

__all__ = ["Inkling2Processor", "InklingProcessor", "inkling2_image", "inkling_image"]

_CLASS = ProcessorClass(
    frozenset({"InklingImageProcessor"}),
    {
        "do_resize": True,
        "size": {"height": 40, "width": 40},
        "do_rescale": True,
        "do_normalize": True,
        "rescale_image_max_upscaled_long_edge": 2048,
    },
    {"do_resize": (True,)},
    squares=False,
)
_SECOND = ProcessorClass(
    frozenset({"Inkling2ImageProcessor"}),
    {"size": {"height": 40, "width": 40}, "do_rescale": True, "do_normalize": True},
    {"do_resize": (None, False), "do_center_crop": (None, False), "do_pad": (None, False, True)},
    squares=False,
)
_MOMENTS = 2
"""How often a picture is shown, one after the other, as the tower for clips has it."""


@dataclass(frozen=True, slots=True)
class _Squares:
    """Pictures cut into squares of `side`; `outside` are the floats of what is beside the picture."""

    normalizer: Normalizer
    outside: Float32
    side: Size

    def lines(self, pixels: Bytes8, columns: int) -> Iterator[Float32]:
        """The (columns, height, width, 3) floats of one row of squares after the other."""
        height, width = self.side
        line = np.empty((height, columns * width, 3), np.float32)
        for top in range(0, len(pixels), height):
            strip = pixels[top : top + height]
            line[:] = self.outside
            for channel in range(3):
                done = np.empty(strip.shape[:2], np.float32)
                self.normalizer.apply(strip[..., channel], channel, done)
                line[: strip.shape[0], : strip.shape[1], channel] = done
            yield line.reshape(height, columns, width, 3).transpose(1, 0, 2, 3)


@dataclass(frozen=True, slots=True)
class Inkling2Processor:
    """Pictures to (squares, height, width, 3) floats, row after row, as large as they are, and a (1, 3) grid of (1, rows,
    columns)."""

    squares: _Squares

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and (1, rows, columns) of squares."""
        rows, columns = (-(-length // part) for length, part in zip(size, self.squares.side, strict=True))
        return rows * columns, (1, rows, columns)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, grid = self.measure(size)
        _, rows, columns = grid
        out = np.empty((rows, columns, *self.squares.side, 3), np.float32)
        for row, line in enumerate(self.squares.lines(np.asarray(image), columns)):
            out[row] = line
        tensors: dict[str, Array] = {
            "pixel_values": out.reshape(tokens, *self.squares.side, 3),
            "image_grid_thw": np.array([grid], np.int64),
        }
        return ItemFeatures(tensors, size, tokens, grid)

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All squares one after the other; one grid row per picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in items[0].tensors}


@dataclass(frozen=True, slots=True)
class InklingProcessor:
    """Pictures to (squares, 2, side, side, 3) floats, row after row.

    `outside` are the floats of what is beside the picture. With `enlarged` a picture is brought to so many times its size,
    but not beyond `longest` pixels on its longer side.
    """

    normalizer: Normalizer
    outside: Float32
    side: int = 40
    enlarged: float | None = None
    longest: float | None = 2048
    resample: Filter = LANCZOS

    def target(self, size: Size) -> Size:
        """The size a picture of `size` is brought to."""
        if self.enlarged is None:
            return size
        long = max(size)
        wanted = long * self.enlarged
        if self.longest is not None:
            wanted = min(wanted, max(self.longest, long))
        ratio = wanted / long
        return Size(*(max(1, math.floor(side * ratio + 0.5)) for side in size)) if ratio != 1.0 else size

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and (rows, columns) of squares."""
        height, width = self.target(size)
        rows, columns = -(-height // self.side), width // self.side + 1
        return rows * columns, (rows, columns)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        target = self.target(size)
        tokens, (rows, columns) = self.measure(size)
        pixels = np.asarray(image) if target == size else resize(image, target, self.resample)
        out = np.empty((rows, columns, _MOMENTS, self.side, self.side, 3), np.float32)
        squares = _Squares(self.normalizer, self.outside, Size(self.side, self.side))
        for row, line in enumerate(squares.lines(pixels, columns)):
            out[row] = line[:, None]
        made = out.reshape(rows * columns, _MOMENTS, self.side, self.side, 3)
        tensors: dict[str, Array] = {"pixel_values": made, "num_patches": np.array([tokens], np.int64)}
        return ItemFeatures(tensors, size, tokens, (rows, columns))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All squares one after the other."""
        return {name: joined([item.tensors[name] for item in items]) for name in items[0].tensors}


def _outside(config: Mapping[str, Any], usual: tuple[Sequence[float], Sequence[float]]) -> Float32:
    """The floats of minus one, by the torchvision backend's arithmetic; `usual` are the class's mean and deviation."""
    value, factor = np.float32(-1), float(config.get("rescale_factor") or 1 / 255)
    mean, std = (
        np.array(means_of(config, each, key), np.float32)
        for each, key in zip(usual, ("image_mean", "image_std"), strict=True)
    )
    if not config["do_normalize"]:
        return np.full(3, value * np.float32(factor) if config["do_rescale"] else value, np.float32)
    scale = np.float32(1.0 / factor if config["do_rescale"] else 1.0)
    return np.asarray((value - mean * scale) / (std * scale), np.float32)


def _number(config: Mapping[str, Any], key: str) -> float | None:
    found = config.get(key)
    if found is not None and (not isinstance(found, int | float) or found <= 0):
        raise refused(key, found, "a number above nothing is needed")
    return None if found is None else float(found)


def inkling_image(config: Mapping[str, Any]) -> InklingProcessor:
    """From preprocessor_config.json."""
    unbounded = "rescale_image_max_upscaled_long_edge" in config
    longest = config.get("rescale_image_max_upscaled_long_edge")
    config = settled(config, _CLASS)
    if unbounded and longest is None:
        config["rescale_image_max_upscaled_long_edge"] = None
    sides = fixed_size(config)
    if sides.height != sides.width:
        raise refused("size", dict(config["size"]), "height and width must be the same")
    return InklingProcessor(
        normalizer=normalizer_of({**config, RESIZE: None}, CLIP_MEAN, CLIP_STD, fused_normalizer),
        outside=_outside(config, (CLIP_MEAN, CLIP_STD)),
        side=sides.height,
        enlarged=_number(config, "rescale_image_frac"),
        longest=_number(config, "rescale_image_max_upscaled_long_edge"),
        resample=resample_of(config, LANCZOS),
    )


def inkling2_image(config: Mapping[str, Any]) -> Inkling2Processor:
    """From an Inkling 2 preprocessor_config.json."""
    config = settled(config, _SECOND)
    normalizer = normalizer_of({**config, RESIZE: None}, HALF, HALF, fused_normalizer)
    return Inkling2Processor(_Squares(normalizer, _outside(config, (HALF, HALF)), fixed_size(config)))

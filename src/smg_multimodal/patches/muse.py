"""Muse Glimmer and Muse Spark: pictures as patches, row after row, of the shape that is nearest theirs.

Above: `families.patch_pipelines`. Below: `qwen`, `pixels.transforms`. The size is a whole number of blocks, at most so many; of
the grids next to the picture's own the one whose proportions are nearest is taken. Follows transformers'
image_processing_muse_glimmer, which is there for torchvision alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from smg_multimodal.configs.keys import ProcessorClass, positive_number, settled
from smg_multimodal.patches.qwen import PatchImageProcessor
from smg_multimodal.pixels.resample import LANCZOS, resample_of
from smg_multimodal.pixels.transforms import HALF, fused_normalizer, normalizer_of, write_patches
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Array, Bytes8, Size

__all__ = ["MuseProcessor", "muse_image", "nearest_blocks"]

_CLASS = ProcessorClass(
    frozenset({"MuseGlimmerImageProcessor"}),
    {
        "do_resize": True,
        "patch_size": 14,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "max_image_tokens": 4096,
    },
    {"do_resize": (True,)},
    squares=False,
)
_OVER = 4
"""How many times the tokens that a picture may have are made of one that is too thin for whole blocks; more are refused."""


def nearest_blocks(size: Size, block: int, most: int) -> tuple[int, int]:
    """(rows, columns) of blocks of `block` pixels, at most `most` of them, whose proportions are nearest the picture's."""
    rows, columns = size.height / block, size.width / block
    ratio = columns / rows
    if rows * columns > most:
        rows = (most / ratio) ** 0.5
        columns = rows * ratio
    # a set, since of equally near grids the first in its order is taken there too
    around = set(product((math.floor(rows), math.ceil(rows)), (math.floor(columns), math.ceil(columns))))
    grids = [grid for grid in around if min(grid) >= 1 and grid[0] * grid[1] <= most]
    grids = grids or [(max(1, round(rows)), max(1, round(columns)))]
    return min(grids, key=lambda grid: abs(grid[0] / grid[1] - size.height / size.width))


@dataclass(frozen=True, slots=True)
class MuseProcessor(PatchImageProcessor):
    """Pictures to (patches, temporal * 3 * patch * patch) floats, row after row, and a (1, 3) grid; `most` are tokens."""

    def target(self, size: Size) -> Size:
        """The size a picture of `size` is brought to."""
        block = self.patch * self.merge
        rows, columns = nearest_blocks(size, block, self.most)
        if rows * columns > _OVER * self.most:
            raise BadMedia(f"the image is {size.width}x{size.height}: too thin")
        return Size(rows * block, columns * block)

    def patches(self, frames: Sequence[Bytes8]) -> Array:
        """The patches of a picture, which is the same at all its moments, or of as many frames as there are moments."""
        height, width, _ = frames[0].shape
        area = 3 * self.patch**2
        out = np.empty((height // self.patch * (width // self.patch), self.temporal, area), np.float32)
        for moment, frame in enumerate(frames):
            part = np.empty((len(out), area), np.float32)
            write_patches(part, [frame], self.normalizer, patch=self.patch)
            out[:, moment] = part
        out[:, len(frames) :] = out[:, len(frames) - 1 : len(frames)]
        return out.reshape(len(out), -1)


def muse_image(config: Mapping[str, Any]) -> MuseProcessor:
    """From preprocessor_config.json."""
    config = settled({**config, "size": None}, _CLASS)
    return MuseProcessor(
        most=positive_number(config, "max_image_tokens"),
        patch=positive_number(config, "patch_size"),
        merge=positive_number(config, "merge_size"),
        temporal=positive_number(config, "temporal_patch_size"),
        resample=resample_of(config, LANCZOS),
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
    )

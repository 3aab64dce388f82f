"""Command A Vision: pictures as tiles of one size, in the grid that needs the least enlarging.

Above: `families.tile_pipelines`. Below: `internvl`, whose tiles these are. Of the grids that the picture would not have to
shrink for, the one nearest its size is taken; where it has to shrink for all of them, the one for which it shrinks least.
Follows transformers' image_processing_cohere2_vision, which is there for torchvision alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smg_multimodal.configs.key_kinds import MOST_TILES, refused
from smg_multimodal.configs.keys import ProcessorClass, fixed_size, positive_number, settled
from smg_multimodal.pixels.resample import BICUBIC, resample_of
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, fused_normalizer, normalizer_of
from smg_multimodal.records.types import Size
from smg_multimodal.tiles.internvl import InternVlProcessor

__all__ = ["Cohere2Processor", "cohere2_image", "least_enlarged"]

_CLASS = ProcessorClass(
    frozenset({"Cohere2VisionImageProcessor"}),
    {
        "do_resize": True,
        "size": {"height": 512, "width": 512},
        "crop_to_patches": True,
        "max_patches": 12,
        "patch_size": 16,
    },
)
_FAR = 1e10
"""What a grid counts as that the picture would have to shrink for, where it has not to for another."""


def least_enlarged(size: Size, side: int, most: int) -> tuple[int, int]:
    """(columns, rows) of at most `most` tiles, of `side` pixels each way."""
    pairs = [(w, h) for w in range(1, most + 1) for h in range(1, most + 1) if w * h <= most]
    grids = sorted(pairs, key=lambda grid: grid[0] * grid[1])
    scales = np.min(np.array(grids) * side / np.array([size.width, size.height]), axis=-1)
    if np.all(scales < 1):
        return grids[int(np.argmax(scales))]
    return grids[int(np.argmin(np.where(scales < 1, _FAR, scales)))]


@dataclass(frozen=True, slots=True)
class Cohere2Processor(InternVlProcessor):
    """Pictures to (tiles, 3, height, width) floats, the whole picture last where there are several."""

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (rows, columns) of the grid."""
        columns, rows = (1, 1) if self.most <= 1 else least_enlarged(size, self.tile.height, self.most)
        return self._views(rows * columns) * self.per_tile, (rows, columns)


def cohere2_image(config: Mapping[str, Any]) -> Cohere2Processor:
    """From preprocessor_config.json, whose `patch_size` is how many tokens a tile has each way."""
    config = settled(config, _CLASS)
    tile = fixed_size(config)
    if not config["do_resize"] and not config["crop_to_patches"]:
        raise refused("do_resize", False, "a tile has the model's size")
    return Cohere2Processor(
        tile=tile,
        per_tile=positive_number(config, "patch_size") ** 2,
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD, fused_normalizer),
        most=positive_number(config, "max_patches", MOST_TILES) if config["crop_to_patches"] else 1,
        resample=resample_of(config, BICUBIC),
    )

"""Nemotron Nano Omni: pictures of their own shape, resized as floats to a whole number of patches within bounds.

Above: `families.patch_pipelines`, `families.nemotron`. Below: `pixels.floats`. Follows transformers'
image_processing_nemotron_h_omni, which is there for torchvision alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import ProcessorClass, positive_number, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.floats import FloatNormalizer, float_bands, float_filter, float_normalizer
from smg_multimodal.pixels.resample import BICUBIC
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Array, ItemFeatures, Size

__all__ = ["NemotronProcessor", "merge_of", "nemotron_image", "whole_blocks"]

_CLASS = ProcessorClass(
    frozenset({"NemotronH_Omni_Reasoning_V3ImageProcessor"}),
    {
        "patch_size": 16,
        "downsample_ratio": 0.5,
        "min_num_patches": 1024,
        "max_num_patches": 13312,
        "max_model_len": 16384,
    },
    own=True,
)
_PICTURE_OVERHEAD = 4
"""Tokens of the model's context that are left for what is no picture."""
_MOST_PATCHES = 64 * 1024 * 1024 // 256
"""Patches beyond which a picture is refused: no picture is made as large."""


def merge_of(config: Mapping[str, Any]) -> int:
    """How many patches along a side are one token. Raises `UnsupportedModel` for a ratio that is no number above nothing."""
    ratio = config["downsample_ratio"]
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= 1:
        raise refused("downsample_ratio", ratio, "a number above nothing, up to 1, is needed")
    return round(1 / ratio)


def whole_blocks(rows: int, columns: int, merge: int, most: float) -> tuple[int, int]:
    """(rows, columns) of patches as whole blocks of `merge`: one more block where that stays within `most` patches."""
    if rest := rows % merge:
        rows = rows + merge - rest if (rows + merge - rest) * columns <= most else max(merge, rows - rest)
    if rest := columns % merge:
        wider = columns + merge - rest
        columns = wider if rows * wider <= most else max(merge, columns - rest)
    return rows, columns


@dataclass(frozen=True, slots=True)
class NemotronProcessor:
    """Pictures to (patches, 3 * patch * patch) floats and a (1, 2) grid (rows, columns) of patches.

    A picture has from `least` to `most` patches; `merge` x `merge` of them are one token.
    """

    normalizer: FloatNormalizer
    least: int = 1024
    most: int = 13312
    patch: int = 16
    merge: int = 2
    resample: Image.Resampling = BICUBIC

    def grid(self, size: Size) -> tuple[int, int]:
        """(rows, columns) of patches. Raises `BadMedia` for a picture of which nothing is left, or that would be too large."""
        rows, columns = (round(side / self.patch + 0.5) for side in size)
        factor = min(math.sqrt(self.most / (rows * columns)), 1.0)
        rows, columns = math.floor(factor * rows), math.floor(factor * columns)
        if self.most > self.least and rows * columns < self.least:
            if not rows * columns:
                raise BadMedia(f"the image is {size.width}x{size.height}: too thin")
            factor = math.sqrt(self.least / (rows * columns))
            rows, columns = math.ceil(factor * rows), math.ceil(factor * columns)
        rows, columns = whole_blocks(rows, columns, self.merge, self.most)
        if not rows * columns or rows * columns > max(_MOST_PATCHES, self.most):
            raise BadMedia(f"the image is {size.width}x{size.height}: too thin")
        return rows, columns

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (rows, columns) of patches."""
        rows, columns = self.grid(size)
        return rows * columns // self.merge**2, (rows, columns)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size, side = Size(image.height, image.width), self.patch
        tokens, (rows, columns) = self.measure(size)
        out = np.empty((rows, columns, 3, side, side), np.float32)
        for top, band in float_bands(np.asarray(image), Size(rows * side, columns * side), self.resample, side):
            out[top // side] = self.normalizer(band).reshape(side, columns, side, 3).transpose(1, 3, 0, 2)
        grid = np.array([(rows, columns)], np.int64)
        tensors: dict[str, Array] = {"pixel_values": out.reshape(rows * columns, -1), "image_grid_hw": grid}
        return ItemFeatures(tensors, size, tokens, (rows, columns))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All patches one after the other; one grid row per picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in ("pixel_values", "image_grid_hw")}


def nemotron_image(config: Mapping[str, Any]) -> NemotronProcessor:
    """From preprocessor_config.json. The first published files say `norm_mean` and `norm_std`; no most is as many as the context
    has room for."""
    older = {key: config[f"norm_{key[6:]}"] for key in ("image_mean", "image_std") if config.get(f"norm_{key[6:]}")}
    config = settled({**older, **config}, _CLASS)
    merge, least = merge_of(config), config["min_num_patches"]
    if isinstance(least, bool) or not isinstance(least, int) or not 0 <= least <= _MOST_PATCHES:
        raise refused("min_num_patches", least, f"a whole number up to {_MOST_PATCHES} is needed")
    most = max((positive_number(config, "max_model_len") - _PICTURE_OVERHEAD) * merge**2, least)
    if config["max_num_patches"]:
        most = max(min(most, positive_number(config, "max_num_patches")), least)
    return NemotronProcessor(
        normalizer=float_normalizer(config, CLIP_MEAN, CLIP_STD),
        least=least,
        most=most,
        patch=positive_number(config, "patch_size"),
        merge=merge,
        resample=float_filter(config, BICUBIC),
    )

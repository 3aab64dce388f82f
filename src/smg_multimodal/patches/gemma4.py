"""Gemma 4: a picture at its own shape, as large as its patches are allowed to be many, in rows of patches.

Above: `families.pipelines`. Below: `pixels.transforms`, `pixels.resample`. Follows transformers' image_processing_pil_gemma4:
every picture has rows for as many patches as any may have; those it has not are zeros, at the position (-1, -1).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.keys import ProcessorClass, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, resample_of, resize
from smg_multimodal.pixels.transforms import Normalizer, fused_normalizer, normalizer_of, write_interleaved_patches
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Array, ItemFeatures, Size

__all__ = ["Gemma4Processor", "gemma4_image", "gemma4_unified_image"]

_CLASS = ProcessorClass(
    frozenset({"Gemma4ImageProcessor"}),
    {"do_resize": True, "do_normalize": False, "patch_size": 16, "max_soft_tokens": 280, "pooling_kernel_size": 3},
    {"do_resize": (True,), "max_soft_tokens": (70, 140, 280, 560, 1120)},
)
_UNIFIED = replace(_CLASS, names=frozenset({"Gemma4UnifiedImageProcessor"}))


@dataclass(frozen=True, slots=True)
class Gemma4Processor:
    """Pictures to (1, patches, patch * patch * 3) floats and (1, patches, 2) columns and rows; `most` tokens at most.

    `pool` x `pool` patches are one token.
    """

    normalizer: Normalizer
    most: int = 280
    patch: int = 16
    pool: int = 3
    resample: Filter = BICUBIC

    def target(self, size: Size) -> Size:
        """The size a picture of `size` is brought to. Raises `BadMedia` for one that would be too large or nothing."""
        cell = self.patch * self.pool
        area = self.most * cell**2
        scale = math.sqrt(area / (size.height * size.width))
        tall, wide = (math.floor(scale * side / cell) * cell for side in size)
        if not tall:
            tall, wide = cell, min(size.width // size.height, self.most) * cell
        elif not wide:
            tall, wide = min(size.height // size.width, self.most) * cell, cell
        if not 0 < tall * wide <= area:
            raise BadMedia(f"the image is {size.width}x{size.height}: too thin")
        return Size(tall, wide)

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (rows, columns) of patches."""
        rows, columns = (side // self.patch for side in self.target(size))
        return rows * columns // self.pool**2, (rows, columns)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, (rows, columns) = self.measure(size)
        count, most = rows * columns, self.most * self.pool**2
        out = np.empty((1, most, self.patch**2 * 3), np.float32)
        pixels = resize(image, self.target(size), self.resample)
        write_interleaved_patches(out[0, :count], pixels, self.normalizer, patch=self.patch)
        out[0, count:] = 0
        places = np.full((1, most, 2), -1, np.int64)
        places[0, :count, 0] = np.tile(np.arange(columns), rows)
        places[0, :count, 1] = np.repeat(np.arange(rows), columns)
        return ItemFeatures({"pixel_values": out, "image_position_ids": places}, size, tokens, (rows, columns))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """One row per picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in ("pixel_values", "image_position_ids")}


def gemma4_unified_image(config: Mapping[str, Any]) -> Gemma4Processor:
    """From preprocessor_config.json of the model without an encoder, whose patches are whole tokens. transformers has its
    class for torchvision alone."""
    config = settled(config, _UNIFIED)
    return Gemma4Processor(
        normalizer=normalizer_of(config, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), fused_normalizer),
        most=int(config["max_soft_tokens"]),
        patch=int(config["patch_size"]) * int(config["pooling_kernel_size"]),
        pool=1,
        resample=resample_of(config, BICUBIC),
    )


def gemma4_image(config: Mapping[str, Any]) -> Gemma4Processor:
    """From preprocessor_config.json."""
    config = settled(config, _CLASS)
    return Gemma4Processor(
        normalizer=normalizer_of(config, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
        most=int(config["max_soft_tokens"]),
        patch=int(config["patch_size"]),
        pool=int(config["pooling_kernel_size"]),
        resample=resample_of(config, BICUBIC),
    )

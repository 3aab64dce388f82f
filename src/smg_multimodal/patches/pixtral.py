"""Pixtral and Mistral-3 (Mistral Small 3.1 and later): pictures at their own shape, sides rounded up to whole patches.

Above: `families.registry`. Below: `pixels.transforms`, `pixels.resample`. Decides size and token count; each row of patches
ends with a break token, the last with an end token, which is `prompts.expand`'s business. Follows transformers'
image_processing_pil_pixtral.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import is_whole, refused
from smg_multimodal.configs.keys import ProcessorClass, settled
from smg_multimodal.pixels.collate import joined, padded
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, resample_of, resize
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, Normalizer, normalizer_of, write_tiles
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Array, ItemFeatures, Size

__all__ = ["PixtralProcessor", "pixtral_image"]

_CLASS = ProcessorClass(
    frozenset({"PixtralImageProcessor"}),
    {"do_resize": True, "do_center_crop": False, "size": {"longest_edge": 1024}},
    {"do_resize": (True,), "do_center_crop": (False,)},
)


@dataclass(frozen=True, slots=True)
class PixtralProcessor:
    """Pictures to (1, 3, height, width) floats, both sides multiples of `cell` pixels and at most `longest`.

    `cell` is the patch times the spatial merge: one token each.
    """

    longest: Size
    cell: int
    normalizer: Normalizer
    resample: Filter = BICUBIC

    def target(self, size: Size) -> Size:
        """The size a picture of `size` is brought to. Raises `BadMedia` for a line that would have no width left."""
        height, width = size
        ratio = max(height / self.longest.height, width / self.longest.width)
        if ratio > 1:
            height, width = math.floor(height / ratio), math.floor(width / ratio)
        if not (height and width):
            raise BadMedia(f"the image is {size.width}x{size.height}: too thin")
        return Size(*(((side - 1) // self.cell + 1) * self.cell for side in (height, width)))

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens that receive embeddings, and their (rows, columns)."""
        height, width = self.target(size)
        grid = (height // self.cell, width // self.cell)
        return grid[0] * grid[1], grid

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, grid = self.measure(size)
        pixels = resize(image, self.target(size), self.resample)
        out = np.empty((1, 3, *pixels.shape[:2]), np.float32)
        write_tiles(out, pixels, self.normalizer)
        sizes = np.array([pixels.shape[:2]], np.int64)
        return ItemFeatures({"pixel_values": out, "image_sizes": sizes}, size, tokens, grid)

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """One row per picture, padded with zeros at the right and bottom to the largest."""
        return {
            "pixel_values": padded([item.tensors["pixel_values"] for item in items]),
            "image_sizes": joined([item.tensors["image_sizes"] for item in items]),
        }


def _side(value: Any) -> int:
    sides = tuple(value.values()) if isinstance(value, Mapping) else (value,)
    if len(set(sides)) != 1 or not is_whole(sides[0]):
        raise refused("patch_size", value, "patches are squares, and a side is a whole number above nothing")
    return int(sides[0])


def pixtral_image(
    config: Mapping[str, Any], model: Mapping[str, Any], processor: Mapping[str, Any]
) -> PixtralProcessor:
    """From preprocessor_config.json, config.json and processor_config.json."""
    vision = model.get("vision_config") or {}
    patch = _side(processor.get("patch_size") or config.get("patch_size") or vision.get("patch_size") or 16)
    config = settled({**config, "patch_size": patch}, _CLASS)
    size = config["size"]
    if set(size) not in ({"longest_edge"}, {"height", "width"}):
        raise refused("size", dict(size), "longest_edge, or height and width, are needed")
    longest = size.get("longest_edge")
    merge = int(processor.get("spatial_merge_size") or model.get("spatial_merge_size") or 1)
    return PixtralProcessor(
        longest=Size(longest, longest) if longest else Size(int(size["height"]), int(size["width"])),
        cell=patch * merge,
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        resample=resample_of(config, BICUBIC),
    )

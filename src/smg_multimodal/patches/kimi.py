"""Kimi K2.5 and K3 (MoonViT): pictures at their own size, shrunk only to stay within a patch budget, padded to whole blocks.

Above: `families.registry`. Below: `pixels.transforms`, `pixels.resample`. Follows transformers' image_processing_kimi_k25, whose
sizes are K3's in SGLang too: never enlarged, black padding at the right and bottom, patches in raster order.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import RESIZE, ProcessorClass, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, on_canvas, resample_of, resize
from smg_multimodal.pixels.transforms import HALF, Normalizer, fused_normalizer, normalizer_of, write_patches
from smg_multimodal.records.types import Array, Float32, ItemFeatures, Size

__all__ = ["MoonVitProcessor", "kimi_image"]

_CLASS = ProcessorClass(frozenset({"Kimi_K25ImageProcessor"}), {"do_resize": True}, {"do_resize": (True,)}, own=True)
_K3 = ProcessorClass(frozenset({"KimiK3VisionProcessor"}), _CLASS.defaults, _CLASS.only, own=True)


@dataclass(frozen=True, slots=True)
class MoonVitProcessor:
    """Pictures to (patches, 3, patch, patch) floats and a (1, 3) grid (1, rows, columns) of patches.

    `most` bounds the patches of a picture, `longest` the patches along a side; `merge` x `merge` patches are one token.
    """

    normalizer: Normalizer
    most: int = 16384
    longest: int = 512
    patch: int = 14
    merge: int = 2
    resample: Filter = BICUBIC

    def target(self, size: Size) -> tuple[Size, Size]:
        """The size a picture is resized to, and the size it is then padded to."""
        limit = self.longest * self.patch
        patches = max(1, size.height // self.patch) * max(1, size.width // self.patch)
        scale = min(1.0, math.sqrt(self.most / patches), limit / size.height, limit / size.width)
        fitted = Size(*(min(max(1, int(side * scale)), limit) for side in size))
        block = self.patch * self.merge
        return fitted, Size(*(-(-side // block) * block for side in fitted))

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (1, rows, columns) grid of patches."""
        _, (height, width) = self.target(size)
        rows, columns = height // self.patch, width // self.patch
        return rows * columns // self.merge**2, (1, rows, columns)

    def write(self, out: Float32, image: Image.Image) -> None:
        """Write the patches of one RGB picture."""
        fitted, canvas = self.target(Size(image.height, image.width))
        pixels = on_canvas(resize(image, fitted, self.resample), canvas, 0, 0)
        write_patches(out, [pixels], self.normalizer, patch=self.patch)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, grid = self.measure(size)
        out = np.empty((grid[1] * grid[2], 3, self.patch, self.patch), np.float32)
        self.write(out, image)
        return ItemFeatures({"pixel_values": out, "image_grid_thw": np.array([grid], np.int64)}, size, tokens, grid)

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All patches one after the other; one grid row per picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in ("pixel_values", "image_grid_thw")}


def kimi_image(config: Mapping[str, Any]) -> MoonVitProcessor:
    """From preprocessor_config.json, in transformers' form or the original's `media_proc_cfg`."""
    original = config.get("media_proc_cfg") or {}
    if original:  # the model's own code resizes by Pillow everywhere
        config = {**config, RESIZE: None}
    if (fixed := original.get("fixed_output_tokens")) is not None:
        raise refused("fixed_output_tokens", fixed, "tokens are counted by the size of the picture here")
    config = settled(config, _CLASS, _K3)
    size = config.get("size") or {}
    if size.get("max_height") != size.get("max_width") or not set(size) <= {"max_height", "max_width"}:
        raise refused("size", dict(size), "max_height and max_width are needed, and alike")
    merged = {**original, **config}
    return MoonVitProcessor(
        normalizer=normalizer_of(merged, HALF, HALF, fused_normalizer),
        most=int(config.get("max_patches") or original.get("in_patch_limit") or 16384),
        longest=int(size.get("max_height") or original.get("patch_limit_on_one_side") or 512),
        patch=int(merged.get("patch_size") or 14),
        merge=int(config.get("merge_size") or original.get("merge_kernel_size") or 2),
        resample=resample_of(config, BICUBIC),
    )

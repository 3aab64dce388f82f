"""Kimi-VL (MoonViT): pictures at their own size, shrunk only where they have too many patches, padded to whole blocks.

Above: `families.pipelines`. Below: `pixels.transforms`, `pixels.resample`. Follows the processor that is published with the
model; transformers has that of Kimi K2.5, which bounds sides too, counts patches otherwise and is in `kimi`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.keys import RESIZE, ProcessorClass, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, on_canvas, resample_of, resize
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, Normalizer, normalizer_of, write_patches
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Array, ItemFeatures, Size

__all__ = ["KimiVlProcessor", "kimi_vl_image"]

_CLASS = ProcessorClass(frozenset({"KimiVLImageProcessor"}), {"pad_input": False}, {"pad_input": (True,)})
_MOST_ALONG_A_SIDE = 512


@dataclass(frozen=True, slots=True)
class KimiVlProcessor:
    """Pictures to (patches, 3, patch, patch) floats and a (1, 2) grid (rows, columns) of patches.

    A picture of more than `most` whole patches is shrunk; `merge` (down, across) patches are one token.
    """

    normalizer: Normalizer
    most: int = 4096
    patch: int = 14
    merge: tuple[int, int] = (2, 2)
    resample: Filter = BICUBIC

    def target(self, size: Size) -> tuple[Size, Size]:
        """The size a picture is resized to, and the size it is then padded to. Raises `BadMedia` for sides too long."""
        patches = (size.width // self.patch) * (size.height // self.patch)
        scale = math.sqrt(self.most / patches) if patches > self.most else 1.0
        fitted = Size(*(int(side * scale) for side in size))
        blocks = (self.patch * self.merge[0], self.patch * self.merge[1])
        canvas = Size(*(-(-side // block) * block for side, block in zip(fitted, blocks, strict=True)))
        if not min(fitted) or max(canvas) // self.patch >= _MOST_ALONG_A_SIDE:
            raise BadMedia(f"the image is {size.width}x{size.height}: too thin")
        return fitted, canvas

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (rows, columns) of patches."""
        rows, columns = (side // self.patch for side in self.target(size)[1])
        return rows * columns // (self.merge[0] * self.merge[1]), (rows, columns)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        fitted, canvas = self.target(size)
        tokens, grid = self.measure(size)
        pixels = on_canvas(resize(image, fitted, self.resample), canvas, 0, 0)
        out = np.empty((grid[0] * grid[1], 3, self.patch, self.patch), np.float32)
        write_patches(out, [pixels], self.normalizer, patch=self.patch)
        return ItemFeatures({"pixel_values": out, "image_grid_hws": np.array([grid], np.int64)}, size, tokens, grid)

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All patches one after the other; one grid row per picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in ("pixel_values", "image_grid_hws")}


def kimi_vl_image(config: Mapping[str, Any]) -> KimiVlProcessor:
    """From preprocessor_config.json."""
    config = settled({**config, RESIZE: None}, _CLASS)  # the model's own code resizes by Pillow
    down, across = config.get("merge_kernel_size") or (2, 2)
    return KimiVlProcessor(
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        most=int(config.get("in_token_limit") or 4096),
        patch=int(config.get("patch_size") or 14),
        merge=(int(down), int(across)),
        resample=resample_of(config, BICUBIC),
    )

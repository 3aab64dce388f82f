"""Idefics 3 and SmolVLM: the picture's longer side brought to one length, cut into squares, and the whole in one more.

Above: `families.pipelines`. Below: `pixels.transforms`, `pixels.resample`. Follows transformers' image_processing_pil_idefics3:
each of the steps resizes what the step before has made.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import ProcessorClass, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import LANCZOS, resample_of, resize
from smg_multimodal.pixels.transforms import HALF, Normalizer, normalizer_of, write_tiles
from smg_multimodal.records.types import Array, ItemFeatures, Size

__all__ = ["Idefics3Processor", "idefics3_image"]

_LONGEST = 4096
_DEFAULTS = {
    "do_resize": True,
    "do_pad": True,
    "do_image_splitting": True,
    "size": {"longest_edge": 4 * 364},
    "max_image_size": {"longest_edge": 364},
}
_ONLY = {"do_resize": (True,), "do_pad": (True,)}
_IDEFICS3 = ProcessorClass(frozenset({"Idefics3ImageProcessor"}), _DEFAULTS, _ONLY)
_SMOLVLM = ProcessorClass(frozenset({"SmolVLMImageProcessor"}), _DEFAULTS, _ONLY)


@dataclass(frozen=True, slots=True)
class Idefics3Processor:
    """Pictures to (views, 3, tile, tile) floats and a (views, tile, tile) mask of ones; `per_tile` tokens for each view.

    The longer side becomes `longest` pixels. Without `split` the whole picture is the only view.
    """

    longest: int
    tile: int
    per_tile: int
    normalizer: Normalizer
    split: bool = True
    resample: Filter = LANCZOS

    def fitted(self, size: Size) -> Size:
        """The size with the longer side at its length: the other one is even, unless that is over 4096 pixels."""
        height, width = size
        aspect = width / height
        if width >= height:
            width, height = self.longest, int(self.longest / aspect)
            height = max(1, height + height % 2)
        else:
            height, width = self.longest, int(self.longest * aspect)
            width = max(1, width + width % 2)
        aspect = width / height
        if max(height, width) > _LONGEST:
            height, width = (
                (int(_LONGEST / aspect), _LONGEST) if width >= height else (_LONGEST, int(_LONGEST * aspect))
            )
        return Size(max(1, height), max(1, width))

    def _whole_tiles(self, size: Size) -> Size:
        """`size` enlarged to whole tiles, the longer side first."""
        height, width = size
        aspect = width / height
        if width >= height:
            width = self._up(width)
            return Size(self._up(int(width / aspect)), width)
        height = self._up(height)
        return Size(height, self._up(int(height * aspect)))

    def _up(self, side: int) -> int:
        return math.ceil(side / self.tile) * self.tile

    def tiles(self, size: Size) -> tuple[int, int]:
        """(rows, columns) of tiles; (0, 0) for a picture that is not cut."""
        if not self.split:
            return 0, 0
        height, width = self._whole_tiles(self.fitted(size))
        rows, columns = height // self.tile, width // self.tile
        return (rows, columns) if rows * columns > 1 else (0, 0)

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (rows, columns) of tiles."""
        grid = self.tiles(size)
        return (grid[0] * grid[1] + 1) * self.per_tile, grid

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, grid = self.measure(size)
        count, square = grid[0] * grid[1], Size(self.tile, self.tile)
        out = np.empty((count + 1, 3, *square), np.float32)
        seen = self._resized(image, self.fitted(size))
        if self.split:
            seen = self._resized(seen, self._whole_tiles(self.fitted(size)))
        if count:
            write_tiles(out[:count], np.asarray(seen), self.normalizer)
        write_tiles(out[count:], resize(seen, square, self.resample), self.normalizer)
        tensors: dict[str, Array] = {
            "pixel_values": out,
            "pixel_attention_mask": np.ones((count + 1, *square), np.int64),
            "num_patches": np.array([count + 1], np.int64),
        }
        return ItemFeatures(tensors, size, tokens, grid)

    def _resized(self, image: Image.Image, size: Size) -> Image.Image:
        if image.size == (size.width, size.height):
            return image
        return Image.fromarray(np.ascontiguousarray(resize(image, size, self.resample)))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All views one after the other; the number of views of each picture."""
        return {
            name: joined([item.tensors[name] for item in items])
            for name in ("pixel_values", "pixel_attention_mask", "num_patches")
        }


def idefics3_image(
    config: Mapping[str, Any], model: Mapping[str, Any], processor: Mapping[str, Any]
) -> Idefics3Processor:
    """From preprocessor_config.json, config.json and processor_config.json."""
    config = settled(config, _IDEFICS3, _SMOLVLM)
    longest, tile = (config[key].get("longest_edge") for key in ("size", "max_image_size"))
    for key, side in (("size", longest), ("max_image_size", tile)):
        if not side:
            raise refused(key, dict(config[key]), "a longest_edge is needed")
    vision = model.get("vision_config") or {}
    side = int(vision.get("image_size") or tile) // int(vision.get("patch_size") or 14)
    scale = int(model.get("scale_factor") or 2)
    return Idefics3Processor(
        longest=int(longest),
        tile=int(tile),
        per_tile=int(processor.get("image_seq_len") or side**2 // scale**2),
        normalizer=normalizer_of(config, HALF, HALF),
        split=bool(config["do_image_splitting"]),
        resample=resample_of(config, LANCZOS),
    )

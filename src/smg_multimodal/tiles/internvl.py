"""InternVL 3 (and GOT-OCR 2): the picture stretched over the tile grid nearest its shape, then a thumbnail.

Above: `families.registry`. Below: `pixels.transforms`, `pixels.resample`. Follows transformers' image_processing_pil_got_ocr2
with `crop_to_patches`, as InternVL's processor calls it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import MOST_TILES, refused
from smg_multimodal.configs.keys import RESIZE, ProcessorClass, fixed_size, positive_number, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, resample_of, resize
from smg_multimodal.pixels.transforms import (
    CLIP_MEAN,
    CLIP_STD,
    IMAGENET_MEAN,
    IMAGENET_STD,
    Normalizer,
    normalizer_of,
    write_tiles,
)
from smg_multimodal.records.types import Array, ItemFeatures, Size

__all__ = ["InternVlProcessor", "internvl_chat_image", "internvl_image", "nearest_grid"]

_CLASS = ProcessorClass(
    frozenset({"GotOcr2ImageProcessor"}), {"do_resize": True, "size": {"height": 384, "width": 384}, "max_patches": 12}
)
_ORIGINAL = ProcessorClass(frozenset({"CLIPImageProcessor"}), own=True)
"""What files of internvl_chat name. The model's own code reads nothing but the arithmetic of pixels there; tiles are those of
config.json."""


def nearest_grid(size: Size, tile: Size, least: int, most: int, *, hashed: bool = False) -> tuple[int, int]:
    """(columns, rows) of `least` to `most` tiles whose shape is nearest the picture's.

    Of equally near grids the larger is taken as long as the picture has more than half its pixels. `hashed` says that those of
    equal area are tried in the order that a set of them has, as the code of InternVL's authors does.
    """
    shapes = [(w, h) for w in range(1, most + 1) for h in range(1, most + 1) if least <= w * h <= most]
    if hashed:
        span = range(least, most + 1)
        pairs = {(w, h) for n in span for w in range(1, n + 1) for h in range(1, n + 1) if least <= w * h <= most}
        shapes = list(pairs)
    best, difference = (1, 1), math.inf
    for columns, rows in sorted(shapes, key=lambda shape: shape[0] * shape[1]):
        found = abs(size.width / size.height - columns / rows)
        enough = size.width * size.height > 0.5 * tile.height * tile.width * columns * rows
        if found < difference or (found == difference and enough):
            best, difference = (columns, rows), found
    return best


@dataclass(frozen=True, slots=True)
class InternVlProcessor:
    """Pictures to (tiles, 3, height, width) floats, the thumbnail (if any) last; `per_tile` tokens for each of them."""

    tile: Size
    per_tile: int
    normalizer: Normalizer
    least: int = 1
    most: int = 12
    resample: Filter = BICUBIC
    thumbnail: bool = True
    hashed: bool = False

    def _views(self, tiles: int) -> int:
        return tiles + (self.thumbnail and tiles > 1)

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (rows, columns) of the grid."""
        columns, rows = 1, 1
        if self.most > 1:
            columns, rows = nearest_grid(size, self.tile, self.least, self.most, hashed=self.hashed)
        tiles = rows * columns
        return self._views(tiles) * self.per_tile, (rows, columns)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, (rows, columns) = self.measure(size)
        tiles = rows * columns
        out = np.empty((self._views(tiles), 3, *self.tile), np.float32)
        stretched = Size(rows * self.tile.height, columns * self.tile.width)
        write_tiles(out[:tiles], resize(image, stretched, self.resample), self.normalizer)
        if len(out) > tiles:
            write_tiles(out[tiles:], resize(image, self.tile, self.resample), self.normalizer)
        tensors: dict[str, Array] = {"pixel_values": out, "num_patches": np.array([len(out)], np.int64)}
        return ItemFeatures(tensors, size, tokens, (rows, columns))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All tiles one after the other; the number of tiles of each picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in ("pixel_values", "num_patches")}


def _tokens_of(tile: Size, model: Mapping[str, Any]) -> int:
    """How many tokens the model makes of a tile."""
    patch = (model.get("vision_config") or {}).get("patch_size") or 14
    patch = int(patch[0] if isinstance(patch, list | tuple) else patch)
    ratio = float(model.get("downsample_ratio") or 0.5)
    return int((tile.height // patch) * (tile.width // patch) * ratio**2)


def internvl_image(
    config: Mapping[str, Any], model: Mapping[str, Any], processor: Mapping[str, Any]
) -> InternVlProcessor:
    """From preprocessor_config.json, config.json and processor_config.json, as transformers publishes the model.

    `crop_to_patches` is not read: published files say false, and the model's processor asks for crops all the same.
    """
    config = settled(config, _CLASS)
    tile, most = fixed_size(config), positive_number(config, "max_patches", MOST_TILES)
    if not config["do_resize"] and most <= 1:
        raise refused("do_resize", False, "a tile has the model's size")
    length = processor.get("image_seq_length") or model.get("image_seq_length")
    return InternVlProcessor(
        tile=tile,
        per_tile=int(length or _tokens_of(tile, model)),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        least=int(config.get("min_patches") or 1),
        most=most,
        resample=resample_of(config, BICUBIC),
    )


def internvl_chat_image(config: Mapping[str, Any], model: Mapping[str, Any]) -> InternVlProcessor:
    """From config.json and preprocessor_config.json, as the model's authors published it.

    The tile is `force_image_size`, else the tower's; `min_dynamic_patch` to `max_dynamic_patch` tiles are made where
    `dynamic_image_size` is true, else one.
    """
    config = settled({**config, RESIZE: None}, _ORIGINAL)  # that code resizes by Pillow everywhere
    side = int(model.get("force_image_size") or (model.get("vision_config") or {}).get("image_size") or 448)
    tile = Size(side, side)
    dynamic = bool(model.get("dynamic_image_size", True))
    tiles = {key: model.get(key) or usual for key, usual in (("min_dynamic_patch", 1), ("max_dynamic_patch", 12))}
    return InternVlProcessor(
        tile=tile,
        per_tile=_tokens_of(tile, model),
        normalizer=normalizer_of(config, IMAGENET_MEAN, IMAGENET_STD),
        least=positive_number(tiles, "min_dynamic_patch", MOST_TILES) if dynamic else 1,
        most=positive_number(tiles, "max_dynamic_patch", MOST_TILES) if dynamic else 1,
        resample=resample_of(config, BICUBIC),
        thumbnail=bool(model.get("use_thumbnail", True)),
        hashed=True,
    )

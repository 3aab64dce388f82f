"""LFM2-VL: pictures as patches within bounds of tokens; large ones as square tiles and the whole, padded to one length.

Above: `families.patch_pipelines`. Below: `tiles.internvl`, whose rule for the grid holds here too, `pixels.transforms`. Follows
transformers' image_processing_lfm2_vl, which is there for torchvision alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import MOST_TILES, refused
from smg_multimodal.configs.keys import ProcessorClass, positive_number, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BILINEAR, resample_of, resize
from smg_multimodal.pixels.transforms import (
    HALF,
    Normalizer,
    fused_normalizer,
    normalizer_of,
    write_interleaved_patches,
)
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Array, Bytes8, ItemFeatures, Size
from smg_multimodal.tiles.internvl import nearest_grid

__all__ = ["Lfm2Processor", "lfm2_image"]

_CLASS = ProcessorClass(
    frozenset({"Lfm2VlImageProcessor"}),
    {
        "downsample_factor": 2,
        "do_image_splitting": True,
        "min_tiles": 2,
        "max_tiles": 10,
        "use_thumbnail": True,
        "min_image_tokens": 64,
        "max_image_tokens": 256,
        "encoder_patch_size": 16,
        "tile_size": 512,
        "max_pixels_tolerance": 2.0,
        "do_pad": True,
        "size": {"height": 512, "width": 512},
    },
    {"do_pad": (True,)},
)
_OVER = 4
"""How many times the tokens that a whole picture may have are made of one that is too thin for whole blocks."""


@dataclass(frozen=True, slots=True)
class Lfm2Processor:
    """Pictures to (views, patches, patch * patch * 3) floats, a mask of real patches, and (rows, columns) of each view.

    `least` and `most` are tokens of a picture that is not cut; one of more than `tolerance` times as many is cut into `tiles`
    tiles of `side` pixels, from the fewest to the most, with the whole picture behind them if there is a `thumbnail`. `down` x
    `down` patches are one token.
    """

    normalizer: Normalizer
    least: int
    most: int
    side: int
    tiles: tuple[int, int]
    patch: int = 16
    down: int = 2
    thumbnail: bool = True
    tolerance: float = 2.0
    resample: Filter = BILINEAR

    @property
    def per_tile(self) -> int:
        """Tokens of a tile."""
        return math.ceil(self.side // self.patch / self.down) ** 2

    @property
    def _length(self) -> int:
        """Patches of a view, with padding."""
        cut = self.tiles != (1, 1)
        return max(self.most * self.down**2, (self.side // self.patch) ** 2 if cut else 0)

    def _rounded(self, size: Size, fewest: int) -> list[int]:
        block = self.patch * self.down
        return [max(fewest, round(side / block) * block) for side in size]

    def whole(self, size: Size) -> Size:
        """The size that a picture of `size` is brought to as a whole."""
        block = self.patch * self.down
        tall, wide = self._rounded(size, block)
        if tall * wide > self.most * block**2:
            shrink = math.sqrt(size.height * size.width / (self.most * block**2))
            tall, wide = (max(block, math.floor(side / shrink / block) * block) for side in size)
        elif tall * wide < self.least * block**2:
            grow = math.sqrt(self.least * block**2 / (size.height * size.width))
            tall, wide = (math.ceil(side * grow / block) * block for side in size)
        return Size(tall, wide)

    def grid(self, size: Size) -> tuple[int, int] | None:
        """(columns, rows) of tiles; None for a picture that is not cut."""
        tall, wide = self._rounded(size, self.patch)
        if self.tiles == (1, 1) or tall * wide <= self.most * (self.patch * self.down) ** 2 * self.tolerance:
            return None
        return nearest_grid(size, Size(self.side, self.side), *self.tiles, hashed=True)

    def tokens_of_whole(self, size: Size) -> int:
        """Tokens of the picture as a whole."""
        rows, columns = (math.ceil(side // self.patch / self.down) for side in self.whole(size))
        return rows * columns

    def measure(self, size: Size) -> tuple[int, tuple[int, int, int, int]]:
        """Tokens, and (rows, columns) of tiles, the tokens of the whole picture, and whether it stands behind tiles.

        Raises `BadMedia` for one so thin that its whole has many times the tokens of any other."""
        columns, rows = self.grid(size) or (1, 1)
        whole, several = self.tokens_of_whole(size), rows * columns > 1
        behind = several and self.thumbnail
        if whole > _OVER * self.most or (behind and whole * self.down**2 > self._length):
            raise BadMedia(f"the image is {size.width}x{size.height}: too thin")
        tokens = rows * columns * self.per_tile + behind * whole if several else whole
        return tokens, (rows, columns, whole, int(behind))

    def nbytes(self, size: Size) -> int:
        """Bytes of the tensors of a picture of `size`; those of a few numbers are not counted."""
        _, (rows, columns, whole, behind) = self.measure(size)
        views, longest = rows * columns + behind, whole * self.down**2
        length = max(self._length, longest if views == 1 else 0)
        return views * length * (self.patch**2 * 3 + 1) * 4

    def _views(self, image: Image.Image, size: Size) -> list[Bytes8]:
        """The bytes of each view: tiles row by row, and the whole."""
        grid = self.grid(size)
        if grid is None:
            return [resize(image, self.whole(size), self.resample)]
        columns, rows = grid
        pixels = resize(image, Size(rows * self.side, columns * self.side), self.resample)
        cut = pixels.reshape(rows, self.side, columns, self.side, 3).transpose(0, 2, 1, 3, 4)
        views = list(cut.reshape(rows * columns, self.side, self.side, 3))
        if self.thumbnail and len(views) > 1:
            views.append(resize(image, self.whole(size), self.resample))
        return views

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        views = self._views(image, size)
        shapes = np.array([[side // self.patch for side in view.shape[:2]] for view in views], np.int64)
        length = max(self._length, *np.prod(shapes, axis=1))
        out = np.zeros((len(views), length, self.patch**2 * 3), np.float32)
        mask = np.zeros((len(views), length), np.int32)
        for index, view in enumerate(views):
            count = int(np.prod(shapes[index]))
            write_interleaved_patches(out[index, :count], view, self.normalizer, patch=self.patch)
            mask[index, :count] = 1
        tensors: dict[str, Array] = {
            "pixel_values": out,
            "pixel_attention_mask": mask,
            "spatial_shapes": shapes,
            "num_patches": np.array([len(views)], np.int64),
        }
        return ItemFeatures(tensors, size, *self.measure(size))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All views one after the other."""
        return {name: joined([item.tensors[name] for item in items]) for name in items[0].tensors}


def lfm2_image(config: Mapping[str, Any]) -> Lfm2Processor:
    """From preprocessor_config.json."""
    config = settled(config, _CLASS)
    tiles = (positive_number(config, "min_tiles"), positive_number(config, "max_tiles", MOST_TILES))
    if not config["do_image_splitting"]:
        tiles = (1, 1)
    if tiles[0] > tiles[1]:
        raise refused("min_tiles", tiles[0], f"it is above max_tiles, {tiles[1]}")
    tolerance = config["max_pixels_tolerance"]
    if not isinstance(tolerance, int | float):
        raise refused("max_pixels_tolerance", tolerance, "a number is needed")
    side, patch = positive_number(config, "tile_size"), positive_number(config, "encoder_patch_size")
    if tiles != (1, 1) and side % patch:
        raise refused("tile_size", side, f"it is no multiple of encoder_patch_size, {patch}")
    return Lfm2Processor(
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
        least=positive_number(config, "min_image_tokens"),
        most=positive_number(config, "max_image_tokens"),
        side=side,
        tiles=tiles,
        patch=patch,
        down=positive_number(config, "downsample_factor"),
        thumbnail=bool(config["use_thumbnail"]),
        tolerance=float(tolerance),
        resample=resample_of(config, BILINEAR),
    )

"""Ovis 2: tiles of a picture on the smallest grid that covers it, and before them the whole.

Above: `families.registry`. Below: `internvl` for the other way to choose a grid, `pixels.transforms`, `pixels.resample`.
Follows transformers' image_processing_pil_ovis2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import MOST_TILES, refused
from smg_multimodal.configs.keys import ProcessorClass, fixed_size, positive_number, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, resample_of, resize
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, Normalizer, normalizer_of, write_tiles
from smg_multimodal.records.types import Array, Box, ItemFeatures, Size
from smg_multimodal.tiles.internvl import nearest_grid

__all__ = ["Ovis2Processor", "covering_grid", "ovis2_image"]

_COVERED = 0.9
"""The part of a picture that tiles must show at full size."""

_OVIS2 = ProcessorClass(frozenset({"Ovis2ImageProcessor"}), {"do_resize": True, "size": {"height": 384, "width": 384}})


def _boxes(size: Size, grid: tuple[int, int]) -> Iterator[Box]:
    """(left, top, right, bottom) of the parts of a picture on (rows, columns); the last ones take what is left over."""
    down, across = grid
    tall, wide = size.height // down, size.width // across
    for row in range(down):
        for column in range(across):
            right = size.width if column == across - 1 else (column + 1) * wide
            bottom = size.height if row == down - 1 else (row + 1) * tall
            yield column * wide, row * tall, right, bottom


def _covered(box: Box, side: int) -> float:
    """The area that a part has when its longer side is brought down to `side`."""
    left, top, right, bottom = box
    long, short = max(right - left, bottom - top), min(right - left, bottom - top)
    return side * (short / long * side) if long > side else long * short


def covering_grid(size: Size, side: int, most: int) -> tuple[int, int]:
    """(rows, columns) of the fewest tiles of `side` that show nine tenths of a picture and more, else of what shows most."""
    shapes = [(down, across) for down in range(1, most + 1) for across in range(1, most // down + 1)]
    area = size.height * size.width
    found = [(sum(_covered(box, side) for box in _boxes(size, shape)) / area, shape) for shape in shapes]
    enough = [each for each in found if each[0] > _COVERED]
    if enough:
        return min(enough, key=lambda each: (each[1][0] * each[1][1], -each[0]))[1]
    return min(found, key=lambda each: (-each[0], each[1][0] * each[1][1]))[1]


@dataclass(frozen=True, slots=True)
class Ovis2Processor:
    """Pictures to (views, 3, height, width) floats, the whole first; `per_view` tokens for each of them.

    `most` bounds the tiles, 1 for none. `covering` has the grid chosen by what its tiles show, else by its shape.
    """

    tile: Size
    per_view: int
    normalizer: Normalizer
    least: int = 1
    most: int = 12
    covering: bool = True
    resample: Filter = BICUBIC

    def grid(self, size: Size) -> tuple[int, int]:
        """(rows, columns) of tiles. Where the grid is chosen by what tiles show, it is laid across the other way."""
        if self.most <= 1:
            return 1, 1
        if self.covering:
            columns, rows = covering_grid(size, self.tile.height, self.most)
        else:
            columns, rows = nearest_grid(size, self.tile, self.least, self.most)
        return rows, columns

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (rows, columns) of tiles."""
        rows, columns = self.grid(size)
        tiles = rows * columns
        return (tiles + (tiles > 1)) * self.per_view, (rows, columns)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, (rows, columns) = self.measure(size)
        first = int(rows * columns > 1)
        out = np.empty((first + rows * columns, 3, *self.tile), np.float32)
        if first:
            write_tiles(out[:1], resize(image, self.tile, self.resample), self.normalizer)
        stretched = Size(rows * self.tile.height, columns * self.tile.width)
        write_tiles(out[first:], resize(image, stretched, self.resample), self.normalizer)
        tensors: dict[str, Array] = {"pixel_values": out, "grids": np.array([[rows, columns]], np.int64)}
        return ItemFeatures(tensors, size, tokens, (rows, columns))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All views one after the other; a grid for each picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in ("pixel_values", "grids")}


def ovis2_image(config: Mapping[str, Any], processor: Mapping[str, Any]) -> Ovis2Processor:
    """From transformers' preprocessor_config.json and processor_config.json."""
    config = settled(config, _OVIS2)
    most = (
        positive_number({"max_patches": 12, **config}, "max_patches", MOST_TILES)
        if config.get("crop_to_patches")
        else 1
    )
    if config.get("do_center_crop"):
        raise refused("do_center_crop", True, "views are not cropped")
    if most == 1 and not config["do_resize"]:
        raise refused("do_resize", False, "pictures without tiles are stretched over one")
    return Ovis2Processor(
        tile=fixed_size(config),
        per_view=int(processor.get("image_seq_length") or 256),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        least=int(config.get("min_patches") or 1),
        most=most,
        covering=config.get("use_covering_area_grid") is not False,
        resample=resample_of(config, BICUBIC),
    )

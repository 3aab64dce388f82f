"""DeepSeek-OCR, DeepSeek-OCR-2, Unlimited-OCR: the whole picture on a grey square, and tiles of one that is larger than a tile.

Above: `families.registry`. Below: `internvl` for the grid, `pixels.transforms`, `pixels.resample`. The first model's rules are
those of the processor in vLLM, since transformers has none; the second's follow transformers'
image_processing_pil_deepseek_ocr2. They round differently where the picture comes to lie on the square. Unlimited-OCR counts as
the first and lays as the second; it follows image_processing_unlimited_ocr, which is there for torchvision alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import MOST_TILES, refused
from smg_multimodal.configs.keys import ProcessorClass, fixed_size, positive_number, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.passes import Colour
from smg_multimodal.pixels.resample import BICUBIC, on_canvas, resample_of, resize
from smg_multimodal.pixels.transforms import (
    HALF,
    Normalizer,
    divided_normalizer,
    fused_normalizer,
    normalizer_of,
    write_tiles,
)
from smg_multimodal.records.types import Array, Bytes8, ItemFeatures, Size
from smg_multimodal.tiles.internvl import nearest_grid

__all__ = [
    "DeepseekOcr2Processor",
    "DeepseekOcrProcessor",
    "UnlimitedOcrProcessor",
    "deepseek_ocr2_image",
    "deepseek_ocr_image",
    "unlimited_ocr_image",
]

_OCR2 = ProcessorClass(frozenset({"DeepseekOcr2ImageProcessor"}), {"size": {"height": 1024, "width": 1024}})
_UNLIMITED = ProcessorClass(
    frozenset({"UnlimitedOcrImageProcessor"}),
    {
        "size": {"height": 1024, "width": 1024},
        "crop_to_patches": True,
        "min_patches": 2,
        "max_patches": 32,
        "tile_size": 640,
        "maximum_pad_value": 640,
        "background_color": (127, 127, 127),
    },
    own=True,
)
_PER_CELL = 64
"""Pixels of a token's side: patches of 16, joined four by four."""


@dataclass(frozen=True, slots=True)
class DeepseekOcrProcessor:
    """Pictures to (1, 3, base, base) floats, and to (tiles, 3, tile, tile) of `least` to `most` tiles or of none.

    Each row of tokens has one more at its end, those of all tiles lying side by side; one stands between the two views.
    """

    normalizer: Normalizer
    base: int = 1024
    tile: int = 640
    least: int = 2
    most: int = 6
    fill: Colour = (127, 127, 127)
    resample: Filter = BICUBIC
    cell: int = _PER_CELL

    def grid(self, size: Size) -> tuple[int, int]:
        """(rows, columns) of tiles; (0, 0) for a picture that fits one."""
        if max(size) <= self.tile:
            return 0, 0
        columns, rows = nearest_grid(size, Size(self.tile, self.tile), self.least, self.most)
        return rows, columns

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and (rows, columns) of tiles."""
        rows, columns = self.grid(size)
        whole, part = -(-self.base // self.cell), -(-self.tile // self.cell)
        tiles = rows * part * (columns * part + 1) if rows else 0
        return whole * (whole + 1) + 1 + tiles, (rows, columns)

    def nbytes(self, size: Size) -> int:
        """Bytes of the tensors of a picture of `size`; those of a few numbers are not counted."""
        rows, columns = self.grid(size)
        return 12 * (self.base**2 + rows * columns * self.tile**2)

    def _whole(self, image: Image.Image) -> Bytes8:
        """The picture within the square, centred; a line thinner than half a pixel there leaves nothing but the square."""
        wide, tall = image.size
        side = self.base
        fitted = Size(round(tall / wide * side), side) if wide > tall else Size(side, round(wide / tall * side))
        if not min(fitted):
            return np.broadcast_to(np.array(self.fill, np.uint8), (side, side, 3))
        pixels = resize(image, fitted, self.resample)
        top, left = (round((side - length) * 0.5) for length in fitted)
        return on_canvas(pixels, Size(side, side), top, left, self.fill)

    def views(self, image: Image.Image) -> tuple[Array, Array, tuple[int, int]]:
        """The whole, the tiles, and (rows, columns) of these."""
        rows, columns, whole = *self.grid(Size(image.height, image.width)), self._whole(image)
        overview = np.empty((1, 3, *whole.shape[:2]), np.float32)
        write_tiles(overview, whole, self.normalizer)
        tiles = np.empty((rows * columns, 3, self.tile, self.tile), np.float32)
        if rows:
            stretched = resize(image, Size(rows * self.tile, columns * self.tile), self.resample)
            write_tiles(tiles, stretched, self.normalizer)
        return overview, tiles, (rows, columns)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture; a picture without tiles counts as one across and one down."""
        size = Size(image.height, image.width)
        overview, tiles, (rows, columns) = self.views(image)
        shape = np.array([[max(1, columns), max(1, rows)]], np.int64)
        tensors = {"pixel_values": overview, "images_crop": tiles, "images_spatial_crop": shape}
        return ItemFeatures(tensors, size, *self.measure(size))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All wholes, and all tiles one after the other."""
        return {name: joined([item.tensors[name] for item in items]) for name in items[0].tensors}


@dataclass(frozen=True, slots=True)
class DeepseekOcr2Processor(DeepseekOcrProcessor):
    """As the first, but with a token for each cell alone, tiles one after the other. A cell has `cell` pixels a side."""

    tile: int = 768

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and (rows, columns) of tiles."""
        rows, columns = self.grid(size)
        whole, part = -(-self.base // self.cell), -(-self.tile // self.cell)
        return whole**2 + 1 + rows * columns * part**2, (rows, columns)

    def _whole(self, image: Image.Image) -> Bytes8:
        return _centred(image, self)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture; one without tiles counts as none, and as one across and one down."""
        size = Size(image.height, image.width)
        return ItemFeatures(_with_counted_tiles(self, image), size, *self.measure(size))


def _centred(image: Image.Image, maker: DeepseekOcrProcessor) -> Bytes8:
    """The picture within the square of the whole."""
    scale = maker.base / max(image.size)
    fitted = Size(round(image.height * scale), round(image.width * scale))
    pixels = resize(image, fitted, maker.resample)
    top, left = ((maker.base - length) // 2 for length in fitted)
    return on_canvas(pixels, Size(maker.base, maker.base), top, left, maker.fill)


def _with_counted_tiles(maker: DeepseekOcrProcessor, image: Image.Image) -> dict[str, Array]:
    """The whole, the tiles, how many these are, and (columns, rows) of them."""
    overview, tiles, (rows, columns) = maker.views(image)
    return {
        "pixel_values": overview,
        "pixel_values_local": tiles,
        "num_local_patches": np.array([rows * columns], np.int64),
        "images_spatial_crop": np.array([[max(1, columns), max(1, rows)]], np.int64),
    }


@dataclass(frozen=True, slots=True)
class UnlimitedOcrProcessor(DeepseekOcrProcessor):
    """As the first, of more tiles. Without `tiled` there are none, and with `stretched` the whole fills its square."""

    most: int = 32
    tiled: bool = True
    stretched: bool = False

    def grid(self, size: Size) -> tuple[int, int]:
        """(rows, columns) of tiles; (0, 0) for a picture without."""
        return DeepseekOcrProcessor.grid(self, size) if self.tiled else (0, 0)

    def _whole(self, image: Image.Image) -> Bytes8:
        square = Size(self.base, self.base)
        return resize(image, square, self.resample) if self.stretched else _centred(image, self)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture; one without tiles counts as none, and as one across and one down."""
        made = _with_counted_tiles(self, image)
        tensors = {"patches_grid" if name == "images_spatial_crop" else name: array for name, array in made.items()}
        size = Size(image.height, image.width)
        return ItemFeatures(tensors, size, *self.measure(size))


def deepseek_ocr_image(processor: Mapping[str, Any]) -> DeepseekOcrProcessor:
    """From processor_config.json: sizes are in no file of the models, and are those that vLLM starts with."""
    mean, std = (tuple(processor.get(key) or HALF) for key in ("image_mean", "image_std"))
    resample_of({}, BICUBIC)
    red, green, blue = (int(value * 255) for value in mean)
    plain = processor.get("normalize") is False
    return DeepseekOcrProcessor(
        normalizer=divided_normalizer(*((None, None) if plain else (mean, std))),
        most=int(processor.get("max_crops") or 6),
        fill=(red, green, blue),
    )


def deepseek_ocr2_image(config: Mapping[str, Any], processor: Mapping[str, Any]) -> DeepseekOcr2Processor:
    """From preprocessor_config.json and processor_config.json."""
    config = settled(config, _OCR2)
    if config.get("crop_to_patches") is False:
        raise refused("crop_to_patches", False, "tokens are those of the larger square")
    red, green, blue = config.get("background_color") or (127, 127, 127)
    return DeepseekOcr2Processor(
        normalizer=normalizer_of(config, HALF, HALF),
        base=fixed_size(config).height,
        tile=int(config.get("tile_size") or 768),
        least=int(config.get("min_patches") or 2),
        most=positive_number({"max_patches": 6, **config}, "max_patches", MOST_TILES),
        fill=(int(red), int(green), int(blue)),
        resample=resample_of(config, BICUBIC),
        cell=int(processor.get("patch_size") or 16) * int(processor.get("downsample_ratio") or 4),
    )


def unlimited_ocr_image(config: Mapping[str, Any], processor: Mapping[str, Any]) -> UnlimitedOcrProcessor:
    """From preprocessor_config.json and processor_config.json."""
    config = settled(config, _UNLIMITED)
    base, tiled = max(fixed_size(config)), bool(config["crop_to_patches"])
    red, green, blue = config["background_color"]
    return UnlimitedOcrProcessor(
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
        base=base,
        tile=positive_number(config, "tile_size"),
        least=positive_number(config, "min_patches"),
        most=positive_number(config, "max_patches", MOST_TILES),
        fill=(int(red), int(green), int(blue)),
        resample=resample_of(config, BICUBIC),
        cell=int(processor.get("patch_size") or 16) * int(processor.get("downsample_ratio") or 4),
        tiled=tiled,
        stretched=not tiled and base <= int(config["maximum_pad_value"]),
    )

"""Llama 4 vision: the tiles of the least wasteful canvas, then the whole picture as one more tile.

Above: `families.registry`. Below: `pixels.transforms`, `pixels.resample`. Decides canvas and tiles; follows transformers'
image_processing_llama4, which computes scales in single precision and normalises in bfloat16: so does this.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import MOST_TILES, refused
from smg_multimodal.configs.keys import ProcessorClass, fixed_size, positive_number, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BILINEAR, on_canvas, resample_of, resize
from smg_multimodal.pixels.transforms import HALF, Normalizer, bfloat16_normalizer, normalizer_of, write_tiles
from smg_multimodal.records.types import Array, ItemFeatures, Size

__all__ = ["Llama4Processor", "llama4_image"]

_CLASS = ProcessorClass(
    frozenset({"Llama4ImageProcessor"}),
    {"do_resize": True, "do_rescale": True, "do_normalize": True},
    {"do_resize": (True,)},
)


def _canvases(most: int) -> tuple[tuple[int, int], ...]:
    """Every (rows, columns) of up to `most` tiles, grouped by aspect ratio, larger groups' members first."""
    groups: dict[float, list[tuple[int, int]]] = defaultdict(list)
    for count in range(most, 0, -1):
        for rows in range(1, count + 1):
            if count % rows == 0:
                groups[rows / (count // rows)].append((rows, count // rows))
    return tuple(shape for group in groups.values() for shape in group)


@dataclass(frozen=True, slots=True)
class _Scale:
    """How much a side grows; `single` says in which precision that was computed."""

    value: float
    single: bool

    @classmethod
    def of(cls, wanted: int, side: int, single: bool) -> "_Scale":
        """From a side of `side` pixels to one of `wanted`."""
        return cls(float(np.float32(wanted) / np.float32(side)) if single else wanted / side, single)

    def below(self, other: "_Scale") -> bool:
        """Whether this is less; in single precision if either is."""
        if self.single or other.single:
            return bool(np.float32(self.value) < np.float32(other.value))
        return self.value < other.value

    def times(self, side: int) -> int:
        """A side of that many pixels, scaled and rounded down."""
        return math.floor(np.float32(side) * np.float32(self.value) if self.single else side * self.value)


@dataclass(frozen=True, slots=True)
class Llama4Processor:
    """Pictures to (tiles, 3, tile, tile) floats and a (1, 2) grid of tiles (rows, columns).

    `per_tile` is the number of tokens of one tile. Canvases of more than one tile are followed by a tile of the whole.
    """

    tile: int
    most: int
    per_tile: int
    normalizer: Normalizer
    resample: Filter = BILINEAR
    to_largest: bool = False

    def canvas(self, size: Size) -> tuple[int, int]:
        """Rows and columns of tiles: least enlargement that fits, else least reduction; then the smallest area."""
        shapes = np.array(_canvases(self.most), np.int64)
        edges = (shapes * self.tile).astype(np.float32)
        down, across = edges[:, 0] / np.float32(size.height), edges[:, 1] / np.float32(size.width)
        scales = np.minimum(down, across)
        larger = scales[scales >= 1]
        if not len(larger):
            larger = scales[scales == scales.max()]
        chosen = larger.max() if self.to_largest else larger.min()
        fits = shapes[scales == chosen]
        rows, columns = fits[int(np.argmin(fits[:, 0] * fits[:, 1]))]
        return int(rows), int(columns)

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens that receive embeddings, and the (rows, columns) of the canvas."""
        rows, columns = self.canvas(size)
        tiles = rows * columns
        return (tiles + (tiles > 1)) * self.per_tile, (rows, columns)

    def _fitted(self, size: Size, canvas: Size) -> Size:
        """The size a picture is resized to before it is laid on `canvas`.

        The reference divides in single precision wherever a side is that of the canvas, since canvases are tensors there."""
        sides, single = canvas, (True, True)
        if not self.to_largest:
            wanted = [max(side, self.tile) for side in size]
            single = (canvas.height < wanted[0], canvas.width < wanted[1])
            sides = Size(min(wanted[0], canvas.height), min(wanted[1], canvas.width))
        down, across = (_Scale.of(*each) for each in zip(sides, size, single, strict=True))
        if across.below(down):
            return Size(max(1, min(across.times(size.height), sides.height)), sides.width)
        return Size(sides.height, max(1, min(down.times(size.width), sides.width)))

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, (rows, columns) = self.measure(size)
        tiles = rows * columns
        canvas = Size(rows * self.tile, columns * self.tile)
        out = np.empty((tiles + (tiles > 1), 3, self.tile, self.tile), np.float32)
        pixels = on_canvas(resize(image, self._fitted(size, canvas), self.resample), canvas, 0, 0)
        write_tiles(out[:tiles], pixels, self.normalizer)
        if tiles > 1:
            write_tiles(out[tiles:], resize(image, Size(self.tile, self.tile), self.resample), self.normalizer)
        tensors: dict[str, Array] = {
            "pixel_values": out,
            "aspect_ratios": np.array([(rows, columns)], np.int64),
            "patches_per_image": np.array([len(out)], np.int64),
        }
        return ItemFeatures(tensors, size, tokens, (rows, columns))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All tiles one after the other; one grid row per picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in ("pixel_values", "aspect_ratios")}


def llama4_image(config: Mapping[str, Any], model: Mapping[str, Any]) -> Llama4Processor:
    """From preprocessor_config.json and config.json."""
    vision = model.get("vision_config") or {}
    side = vision.get("image_size") or 336
    config = settled({"size": {"height": side, "width": side}, **config}, _CLASS)
    size = fixed_size(config)
    if size.height != size.width:
        raise refused("size", dict(config["size"]), "tiles are squares")
    if config["do_normalize"] and not config["do_rescale"]:
        raise refused("do_rescale", False, "bytes are not normalised unless they are rescaled")
    tile = size.height
    ratio = float(vision.get("pixel_shuffle_ratio") or 0.5)
    per_side = tile // int(vision.get("patch_size") or 14)
    return Llama4Processor(
        tile=tile,
        most=positive_number({"max_patches": 16, **config}, "max_patches", MOST_TILES),
        per_tile=per_side * per_side // round(1 / ratio**2),
        normalizer=normalizer_of(config, HALF, HALF, bfloat16_normalizer),
        resample=resample_of(config, BILINEAR),
        to_largest=bool(config.get("resize_to_max_canvas")),
    )

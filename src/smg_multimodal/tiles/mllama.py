"""Llama 3.2 Vision: tiles of the canvas that enlarges a picture least, which the model attends to across its text.

Above: `families.pipelines`. Below: `pixels.transforms`, `pixels.resample`. Follows transformers' image_processing_pil_mllama:
every picture has room for as many tiles as any may have, and only one token in the prompt, whatever its size.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import ProcessorClass, fixed_size, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BILINEAR, on_canvas, resample_of, resize
from smg_multimodal.pixels.transforms import HALF, Normalizer, normalizer_of, write_tiles
from smg_multimodal.records.types import Array, ItemFeatures, Size

__all__ = ["MllamaProcessor", "mllama_image"]

_CLASS = ProcessorClass(
    frozenset({"MllamaImageProcessor"}),
    {"do_resize": True, "do_pad": True, "size": {"height": 224, "width": 224}, "max_image_tiles": 4},
    {"do_resize": (True,), "do_pad": (True,)},
)
_TENSORS = ("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask")


@dataclass(frozen=True, slots=True)
class MllamaProcessor:
    """Pictures to (1, 1, most, 3, tile, tile) floats, the (1, 1) number of the canvas and a (1, 1, most) mask of tiles.

    Canvases are numbered from 1 in the order of `canvases`.
    """

    tile: int
    normalizer: Normalizer
    most: int = 4
    resample: Filter = BILINEAR

    @property
    def canvases(self) -> list[tuple[int, int]]:
        """(rows, columns) of every canvas."""
        span = range(1, self.most + 1)
        return [(rows, columns) for rows in span for columns in span if rows * columns <= self.most]

    def canvas(self, size: Size) -> tuple[int, int]:
        """Rows and columns: the least enlargement that fits, else the least reduction; of those the smallest area."""
        scales = {
            shape: min(shape[0] * self.tile / size.height, shape[1] * self.tile / size.width) for shape in self.canvases
        }
        chosen = min((scale for scale in scales.values() if scale >= 1), default=max(scales.values()))
        return min((shape for shape, scale in scales.items() if scale == chosen), key=math.prod)

    def _fitted(self, size: Size, canvas: Size) -> Size:
        bounds = Size(*(min(max(side, self.tile), edge) for side, edge in zip(size, canvas, strict=True)))
        down, across = bounds.height / size.height, bounds.width / size.width
        if across < down:
            return Size(min(math.floor(size.height * across) or 1, bounds.height), bounds.width)
        return Size(bounds.height, min(math.floor(size.width * down) or 1, bounds.width))

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """One token, and the (rows, columns) of the canvas."""
        return 1, self.canvas(size)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, (rows, columns) = self.measure(size)
        tiles, canvas = rows * columns, Size(rows * self.tile, columns * self.tile)
        out = np.empty((1, 1, self.most, 3, self.tile, self.tile), np.float32)
        pixels = on_canvas(resize(image, self._fitted(size, canvas), self.resample), canvas, 0, 0)
        write_tiles(out[0, 0, :tiles], pixels, self.normalizer)
        out[0, 0, tiles:] = 0
        tensors: dict[str, Array] = {
            "pixel_values": out,
            "aspect_ratio_ids": np.array([[self.canvases.index((rows, columns)) + 1]], np.int64),
            "aspect_ratio_mask": (np.arange(self.most) < tiles).astype(np.int64)[None, None],
        }
        return ItemFeatures(tensors, size, tokens, (rows, columns))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """One row for the prompt, with its pictures along the second axis."""
        return {name: joined([item.tensors[name] for item in items], axis=1) for name in _TENSORS}


def mllama_image(config: Mapping[str, Any]) -> MllamaProcessor:
    """From preprocessor_config.json."""
    config = settled(config, _CLASS)
    size = fixed_size(config)
    if size.height != size.width:
        raise refused("size", dict(config["size"]), "tiles are squares")
    return MllamaProcessor(
        tile=size.height,
        normalizer=normalizer_of(config, HALF, HALF),
        most=int(config["max_image_tiles"]),
        resample=resample_of(config, BILINEAR),
    )

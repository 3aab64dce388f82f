"""Aria: every picture in the corner of one square, as large as its longer side lets it be, no side of it too short.

Above: `families.tile_pipelines`. Below: `pixels.resample`, `pixels.transforms`. Follows transformers' image_processing_pil_aria
as its processor calls it: without squares of parts, whatever the files say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import is_whole, refused
from smg_multimodal.configs.keys import ProcessorClass, positive_number, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, resample_of, resize
from smg_multimodal.pixels.transforms import HALF, Normalizer, normalizer_of, write_tiles
from smg_multimodal.records.types import Array, ItemFeatures, Size

__all__ = ["AriaProcessor", "aria_image"]

_SIDE = 980
_TOKENS = 256
"""Tokens of a square, where the processor's file says no other number."""
_CLASS = ProcessorClass(frozenset({"AriaImageProcessor"}), {"min_image_size": 336})


@dataclass(frozen=True, slots=True)
class AriaProcessor:
    """Pictures to (1, 3, side, side) floats, and a (1, side, side) mask of what is picture."""

    normalizer: Normalizer
    least: int = 336
    tokens: int = _TOKENS
    resample: Filter = BICUBIC

    def target(self, size: Size) -> Size:
        """The size a picture of `size` is brought to."""
        scale = _SIDE / max(size)
        height, width = (max(int(side * scale), self.least) for side in size)
        return Size(height, _SIDE) if size.width >= size.height else Size(_SIDE, width)

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Always the same number of tokens, one square."""
        del size
        return self.tokens, (1, 1)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        height, width = self.target(size)
        square = np.zeros((_SIDE, _SIDE, 3), np.uint8)
        square[:height, :width] = resize(image, Size(height, width), self.resample)
        pixels, mask = np.empty((1, 3, _SIDE, _SIDE), np.float32), np.zeros((1, _SIDE, _SIDE), np.bool_)
        write_tiles(pixels, square, self.normalizer)
        mask[0, :height, :width] = True
        tensors: dict[str, Array] = {"pixel_values": pixels, "pixel_mask": mask}
        return ItemFeatures(tensors, size, self.tokens, (1, 1))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """One row per picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in items[0].tensors}


def _tokens(processor: Mapping[str, Any]) -> int:
    """What processor_config.json says under `size_conversion` of a square's side."""
    conversion = processor.get("size_conversion")
    if conversion is None:
        return _TOKENS
    count = conversion.get(str(_SIDE), conversion.get(_SIDE)) if isinstance(conversion, Mapping) else None
    if not is_whole(count):
        raise refused("size_conversion", conversion, f"a number of tokens for {_SIDE} is needed")
    return int(count)


def aria_image(config: Mapping[str, Any], processor: Mapping[str, Any]) -> AriaProcessor:
    """From preprocessor_config.json and processor_config.json."""
    config = settled(config, _CLASS)
    return AriaProcessor(
        normalizer=normalizer_of(config, HALF, HALF),
        least=positive_number(config, "min_image_size", _SIDE),
        tokens=_tokens(processor),
        resample=resample_of(config, BICUBIC),
    )

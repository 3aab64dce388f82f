"""DeepSeek-VL, and the hybrid that looks at every picture twice: as large as a square lets it be, on the mean colour.

Above: `families.tile_pipelines`. Below: `pixels.resample`, `pixels.transforms`. The hybrid's smaller square is made of its
larger one. Follows transformers' image_processing_pil_deepseek_vl and image_processing_pil_deepseek_vl_hybrid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import ProcessorClass, fixed_size, positive_number, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, resample_of, resize
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, Normalizer, means_of, normalizer_of, write_tiles
from smg_multimodal.records.types import Array, Bytes8, ItemFeatures, Size

__all__ = ["DeepseekVlProcessor", "Square", "deepseek_vl_hybrid_image", "deepseek_vl_image"]

_WHOLE = {"do_resize": (True,), "do_pad": (True,)}
_ONE = {"do_resize": True, "do_pad": True, "size": {"height": 384, "width": 384}, "min_size": 14}
_SINGLE = ProcessorClass(frozenset({"DeepseekVLImageProcessor"}), _ONE, _WHOLE)
_HYBRID = ProcessorClass(
    frozenset({"DeepseekVLHybridImageProcessor"}),
    {**_ONE, "high_res_size": {"height": 1024, "width": 1024}},
    _WHOLE,
)


@dataclass(frozen=True, slots=True)
class Square:
    """One square: its side, the colour of what the picture leaves free, and the arithmetic of its pixels."""

    side: int
    background: tuple[int, ...]
    normalizer: Normalizer
    resample: Filter = BICUBIC

    def of(self, image: Image.Image, least: int) -> Bytes8:
        """`image` in the middle of the square, no side of it shorter than `least`."""
        share = self.side / max(image.size)
        size = Size(*(max(round(side * share), least) for side in (image.height, image.width)))
        pixels = resize(image, size, self.resample)
        if size.height == size.width:
            return pixels
        out = np.empty((max(size), max(size), 3), np.uint8)
        out[:] = self.background
        top, left = ((max(size) - side) // 2 for side in size)
        out[top : top + size.height, left : left + size.width] = pixels
        return out

    def tensor(self, pixels: Bytes8) -> Array:
        """(1, 3, side, side) floats."""
        out = np.empty((1, 3, *pixels.shape[:2]), np.float32)
        write_tiles(out, pixels, self.normalizer)
        return out


@dataclass(frozen=True, slots=True)
class DeepseekVlProcessor:
    """Pictures to (1, 3, side, side) floats, twice where there is a `high` square; `tokens` for each picture."""

    low: Square
    tokens: int
    high: Square | None = None
    least: int = 14

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Always the same number of tokens, one square."""
        del size
        return self.tokens, (1, 1)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size, tensors = Size(image.height, image.width), dict[str, Array]()
        if self.high is not None:
            large = self.high.of(image, self.least)
            tensors["high_res_pixel_values"] = self.high.tensor(large)
            image = Image.fromarray(np.ascontiguousarray(large))
        tensors["pixel_values"] = self.low.tensor(self.low.of(image, self.least))
        return ItemFeatures(tensors, size, self.tokens, (1, 1))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """One row per picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in items[0].tensors}


def _square(config: Mapping[str, Any], prefix: str = "") -> Square:
    """The square that a settled configuration describes, under keys with this prefix."""
    sides = fixed_size(config, f"{prefix}size")
    least = positive_number(config, "min_size")
    if sides.height != sides.width:
        raise refused(f"{prefix}size", dict(config[f"{prefix}size"]), "height and width must be the same")
    if least > sides.height:
        raise refused("min_size", least, "it is above the sides of the square")
    own = {"image_mean": config.get(f"{prefix}image_mean"), "image_std": config.get(f"{prefix}image_std")}
    mean = means_of(own, CLIP_MEAN)
    return Square(
        side=sides.height,
        background=tuple(int(value * 255) for value in mean),
        normalizer=normalizer_of({**config, **own}, CLIP_MEAN, CLIP_STD),
        resample=resample_of({**config, "resample": config.get(f"{prefix}resample")}, BICUBIC),
    )


def _tokens(processor: Mapping[str, Any]) -> int:
    return int(processor.get("num_image_tokens") or 576)


def deepseek_vl_image(config: Mapping[str, Any], processor: Mapping[str, Any]) -> DeepseekVlProcessor:
    """From preprocessor_config.json and processor_config.json."""
    config = settled(config, _SINGLE)
    return DeepseekVlProcessor(_square(config), _tokens(processor), least=positive_number(config, "min_size"))


def deepseek_vl_hybrid_image(config: Mapping[str, Any], processor: Mapping[str, Any]) -> DeepseekVlProcessor:
    """From preprocessor_config.json and processor_config.json of a model with two towers."""
    config = settled(config, _HYBRID)
    return DeepseekVlProcessor(
        _square(config), _tokens(processor), _square(config, "high_res_"), least=positive_number(config, "min_size")
    )

"""GLM-5.3: pictures as merged patches, which keep their proportions on a canvas of whole blocks.

Above: `families.patch_pipelines`. Below: `qwen`, whose patches these are. Bounds are in tokens. The canvas is the picture's size
rounded up to whole blocks; where that has too many tokens, the largest that has not. The picture is never enlarged to fill
it, and what is beside it is black. Follows transformers' image_processing_pil_glm5_next.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.keys import ProcessorClass, positive_number, settled
from smg_multimodal.patches.qwen import PatchImageProcessor
from smg_multimodal.pixels.resample import BICUBIC, resample_of, resize
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, normalizer_of
from smg_multimodal.records.types import Bytes8, ItemFeatures, Modality, Size

__all__ = ["Glm5Processor", "canvas_of", "content_of", "glm5_image", "on_black_canvas"]

_CLASS = ProcessorClass(
    frozenset({"Glm5NextImageProcessor"}),
    {
        "do_resize": True,
        "size": {"longest_edge": 1},
        "patch_size": 14,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "min_image_tokens": 16,
        "max_image_tokens": 8000,
    },
    {"do_resize": (True,)},
    squares=False,
)


def _up(value: float, factor: int) -> int:
    return math.ceil(value / factor) * factor


def canvas_of(size: Size, frames: int, group: int, factor: int, bounds: tuple[int, int]) -> Size:
    """The canvas of `frames` frames of `size`, in whole blocks of `factor` pixels. `bounds` are the fewest and the most tokens; a
    token is a block of `group` frames."""
    height, width = size
    least, most = (tokens * group * factor**2 for tokens in bounds)
    deep = max(group, round(frames / group) * group)
    tall, wide = _up(height, factor), _up(width, factor)
    if deep * tall * wide < least:
        scale = math.sqrt(least / (frames * height * width))
        tall, wide = (_up(max(1, math.ceil(side * scale)), factor) for side in size)
    if deep * tall * wide > most:
        return _largest(size, deep, factor, most)
    return Size(tall, wide)


def _largest(size: Size, deep: int, factor: int, most: int) -> Size:
    """The largest canvas in the picture's proportions that has no more than `most` pixels in `deep` frames."""
    best, low, high = Size(factor, factor), 1, size.height
    while low <= high:
        tall = (low + high) // 2
        wide = max(1, math.floor(size.width * tall / size.height))
        canvas = Size(_up(tall, factor), _up(wide, factor))
        if deep * canvas.height * canvas.width <= most:
            best, low = canvas, tall + 1
        else:
            high = tall - 1
    return best


def content_of(size: Size, canvas: Size, *, enlarged: bool) -> Size:
    """The size of a picture on its canvas, in its own proportions; made larger only where that is said."""
    scale = min(canvas.height / size.height, canvas.width / size.width)
    scale = scale if enlarged else min(1.0, scale)
    return Size(*(max(1, min(most, math.floor(side * scale))) for side, most in zip(size, canvas, strict=True)))


def on_black_canvas(pixels: Bytes8, canvas: Size) -> Bytes8:
    """`pixels` in the upper left corner of a black canvas."""
    if pixels.shape[:2] == canvas:
        return pixels
    out = np.zeros((*canvas, 3), np.uint8)
    out[: pixels.shape[0], : pixels.shape[1]] = pixels
    return out


@dataclass(frozen=True, slots=True)
class Glm5Processor(PatchImageProcessor):
    """Pictures to (patches, 3 * temporal * patch * patch) floats and a (1, 3) grid; `least` and `most` are tokens."""

    def target(self, size: Size) -> Size:
        """The canvas of a picture of `size`."""
        return canvas_of(size, self.temporal, self.temporal, self.patch * self.merge, (self.least, self.most))

    def content(self, size: Size) -> Size:
        """The size of the picture itself on its canvas."""
        enough = size.height * size.width >= (self.patch * self.merge) ** 2 * self.least
        return content_of(size, self.target(size), enlarged=not enough)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, grid = self.measure(size)
        pixels = on_black_canvas(resize(image, self.content(size), self.resample), self.target(size))
        tensors = {"pixel_values": self.patches([pixels]), "image_grid_thw": np.array([grid], np.int64)}
        return ItemFeatures(tensors, size, tokens, grid, Modality.IMAGE)


def glm5_image(config: Mapping[str, Any]) -> Glm5Processor:
    """From a GLM-5.3 preprocessor_config.json."""
    config = settled(config, _CLASS)
    return Glm5Processor(
        least=positive_number(config, "min_image_tokens"),
        most=positive_number(config, "max_image_tokens"),
        patch=positive_number(config, "patch_size"),
        merge=positive_number(config, "merge_size"),
        temporal=positive_number(config, "temporal_patch_size"),
        resample=resample_of(config, BICUBIC),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
    )

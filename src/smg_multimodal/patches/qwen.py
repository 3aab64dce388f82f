"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL (and GLM-4.xV, which shares the layout): pictures as merged patches.

Above: `families.registry`. Below: `pixels.transforms`, `pixels.resample`. Decides how big a picture becomes (area between two
bounds, sides a multiple of patch times merge) and how many tokens that is. Does not know token ids: `prompts.expand` turns
counts into prompts. Sizes and rounding follow transformers' image_processing_pil_qwen2_vl and image_processing_pil_glm46v.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import ProcessorClass, settled
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, resample_of, resize
from smg_multimodal.pixels.transforms import (
    CLIP_MEAN,
    CLIP_STD,
    Normalizer,
    normalizer_of,
    rescale_normalizer,
    write_patches,
    write_tiles,
)
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Array, Bytes8, ItemFeatures, Modality, Size

__all__ = [
    "PatchImageProcessor",
    "StretchProcessor",
    "first_qwen_image",
    "fit_area",
    "fit_volume",
    "glm_image",
    "qwen_image",
]

_MAX_ASPECT = 200
_RESIZED = {"do_resize": (True,)}
_QWEN2_VL = ProcessorClass(
    frozenset({"Qwen2VLImageProcessor", "Qwen2_5_VLImageProcessor", "Qwen3VLImageProcessor"}),
    {"do_resize": True, "size": {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}},
    _RESIZED,
    squares=False,
)
_GLM = ProcessorClass(
    frozenset({"Glm4vImageProcessor", "Glm46VImageProcessor"}),
    {"do_resize": True, "size": {"shortest_edge": 112 * 112, "longest_edge": 28 * 28 * 15000}},
    _RESIZED,
    squares=False,
)
_FIRST_QWEN = ProcessorClass(frozenset({"CLIPImageProcessor"}), {"do_resize": True}, _RESIZED)


def _check_aspect(height: float, width: float) -> None:
    if max(height, width) / min(height, width) > _MAX_ASPECT:
        raise BadMedia(f"the image is {width:g}x{height:g}; one side may be at most {_MAX_ASPECT} times the other")


def fit_area(size: Size, factor: int, least: int, most: int) -> Size:
    """`size` with both sides rounded to multiples of `factor` and the area moved into [`least`, `most`] pixels."""
    return fit_volume(size, 1, 1, factor, least, most)


def fit_volume(size: Size, frames: int, group: int, factor: int, least: int, most: int) -> Size:
    """As `fit_area`, with bounds on frames times height times width; `frames` rounds to a multiple of `group`."""
    height, width = size
    _check_aspect(height, width)
    tall, wide = round(height / factor) * factor, round(width / factor) * factor
    deep = round(frames / group) * group
    if deep * tall * wide > most:
        shrink = math.sqrt(frames * height * width / most)
        tall = max(factor, math.floor(height / shrink / factor) * factor)
        wide = max(factor, math.floor(width / shrink / factor) * factor)
    elif deep * tall * wide < least:
        grow = math.sqrt(least / (frames * height * width))
        tall = math.ceil(height * grow / factor) * factor
        wide = math.ceil(width * grow / factor) * factor
    return Size(tall, wide)


@dataclass(frozen=True, slots=True)
class PatchImageProcessor:
    """Pictures to (patches, 3 * temporal * patch * patch) floats and a (1, 3) grid of (t, h, w) patches.

    `least` and `most` bound the area in pixels. With `volumetric` the bounds count the picture `temporal` times and a
    picture smaller than one block is first scaled up to it (GLM's rule).
    """

    least: int = 56 * 56
    most: int = 28 * 28 * 1280
    patch: int = 14
    merge: int = 2
    temporal: int = 2
    volumetric: bool = False
    resample: Filter = BICUBIC
    normalizer: Normalizer = field(default_factory=lambda: rescale_normalizer(CLIP_MEAN, CLIP_STD))

    def target(self, size: Size) -> Size:
        """The size a picture of `size` is brought to. Raises `BadMedia` beyond 200:1."""
        factor = self.patch * self.merge
        if not self.volumetric:
            return fit_area(size, factor, self.least, self.most)
        height, width = size
        if height < factor or width < factor:
            scale = max(factor / height, factor / width)
            height, width = int(height * scale), int(width * scale)
        return fit_volume(Size(height, width), self.temporal, self.temporal, factor, self.least, self.most)

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (t, h, w) grid of patches."""
        height, width = self.target(size)
        rows, columns = height // self.patch, width // self.patch
        return rows * columns // self.merge**2, (1, rows, columns)

    def patches(self, frames: Sequence[Bytes8]) -> Array:
        """The rows of one temporal group of frames, all of one size that is a multiple of patch times merge."""
        height, width, _ = frames[0].shape
        rows = (height // self.patch) * (width // self.patch)
        out = np.empty((rows, 3 * self.temporal * self.patch**2), np.float32)
        write_patches(out, frames, self.normalizer, patch=self.patch, merge=self.merge, temporal=self.temporal)
        return out

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size = Size(image.height, image.width)
        tokens, grid = self.measure(size)
        tensors = {
            "pixel_values": self.patches([resize(image, self.target(size), self.resample)]),
            "image_grid_thw": np.array([grid], np.int64),
        }
        return ItemFeatures(tensors, size, tokens, grid, Modality.IMAGE)

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All patches one after the other; one grid row per picture."""
        return {name: joined([item.tensors[name] for item in items]) for name in ("pixel_values", "image_grid_thw")}


@dataclass(frozen=True, slots=True)
class StretchProcessor:
    """The first Qwen-VL: every picture stretched over one square, (1, 3, height, width) floats, a fixed token count."""

    size: Size
    tokens: int
    normalizer: Normalizer
    resample: Filter = BICUBIC

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Always the same number of tokens, one tile."""
        del size
        return self.tokens, (1, 1)

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        out = np.empty((1, 3, *self.size), np.float32)
        write_tiles(out, resize(image, self.size, self.resample), self.normalizer)
        return ItemFeatures({"pixel_values": out}, Size(image.height, image.width), self.tokens, (1, 1))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """One row per picture."""
        return {"pixel_values": joined([item.tensors["pixel_values"] for item in items])}


def first_qwen_image(config: Mapping[str, Any], model: Mapping[str, Any]) -> StretchProcessor:
    """The processor of the first Qwen-VL, from the `visual` part of its config.json."""
    visual, config = model.get("visual") or {}, settled(config, _FIRST_QWEN)
    side = int(visual.get("image_size") or 448)
    return StretchProcessor(
        size=Size(side, side),
        tokens=int(visual.get("n_queries") or 256),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        resample=resample_of(config, BICUBIC),
    )


def qwen_image(config: Mapping[str, Any]) -> PatchImageProcessor:
    """The processor that a Qwen2-VL, Qwen2.5-VL or Qwen3-VL preprocessor_config.json describes. `min_pixels` and `max_pixels`
    stand before `size`."""
    config = settled(config, _QWEN2_VL)
    sides = dict(config["size"])
    least = config.get("min_pixels") or sides.get("shortest_edge") or sides.get("min_pixels")
    most = config.get("max_pixels") or sides.get("longest_edge") or sides.get("max_pixels")
    return _patch_processor(config, least, most, volumetric=False)


def glm_image(config: Mapping[str, Any]) -> PatchImageProcessor:
    """The processor that a GLM-4.1V, GLM-4.5V or GLM-4.6V preprocessor_config.json describes."""
    config = settled(config, _GLM)
    return _patch_processor(
        config, config["size"].get("shortest_edge"), config["size"].get("longest_edge"), volumetric=True
    )


def _patch_processor(
    config: Mapping[str, Any], least: int | None, most: int | None, *, volumetric: bool
) -> PatchImageProcessor:
    if least is None or most is None:
        raise refused("size", dict(config["size"]), "shortest_edge and longest_edge are needed")
    return PatchImageProcessor(
        least=int(least),
        most=int(most),
        patch=int(config.get("patch_size") or 14),
        merge=int(config.get("merge_size") or 2),
        temporal=int(config.get("temporal_patch_size") or 2),
        volumetric=volumetric,
        resample=resample_of(config, BICUBIC),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
    )

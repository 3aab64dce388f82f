"""PaddleOCR-VL, ERNIE-4.5-VL and HunYuanVL: pictures as patches, within bounds of area as Qwen2-VL's.

Above: `families.registry`. Below: `qwen`, whose rule for the area holds here too, `pixels.transforms`. What differs is the
order of patches, what becomes of very thin pictures, and how tokens are counted. Follows transformers'
image_processing_pil_paddleocr_vl, image_processing_pil_ernie4_5_vl_moe and image_processing_pil_hunyuan_vl.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from smg_multimodal.configs.keys import RESIZE, ProcessorClass, settled
from smg_multimodal.patches.qwen import PatchImageProcessor, fit_area
from smg_multimodal.pixels.resample import BICUBIC, resample_of
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, normalizer_of, write_patches
from smg_multimodal.records.types import Array, Bytes8, Size

__all__ = ["HunyuanProcessor", "PaddleOcrProcessor", "ernie_image", "hunyuan_image", "paddleocr_image"]


_RESIZED = {"do_resize": (True,)}
_PADDLEOCR = ProcessorClass(
    frozenset({"PaddleOCRVLImageProcessor", "SiglipImageProcessor"}),
    {"do_resize": True, "size": {"shortest_edge": 384 * 384, "longest_edge": 1536 * 1536}},
    _RESIZED,
    squares=False,
)
_ERNIE = ProcessorClass(
    frozenset(
        {
            "Ernie4_5_VLMoeImageProcessor",
            "Ernie4_5_VL_MoeImageProcessor",
            "Ernie4_5_VLImageProcessor",
            "Ernie_45T_VLImageProcessor",
        }
    ),
    {"do_resize": True, "size": {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 6177}},
    _RESIZED,
    squares=False,
)
_HUNYUAN = ProcessorClass(
    frozenset({"HunYuanVLImageProcessor"}),
    {"do_resize": True, "size": {"shortest_edge": 512 * 512, "longest_edge": 2048 * 2048}},
    _RESIZED,
    squares=False,
)


@dataclass(frozen=True, slots=True)
class PaddleOcrProcessor(PatchImageProcessor):
    """Pictures to (patches, 3 * temporal, patch, patch) floats, row after row, and a (1, 3) grid of (1, rows, columns)."""

    def target(self, size: Size) -> Size:
        """The size a picture of `size` is brought to: one thinner than a block is widened first. Raises `BadMedia` beyond
        200:1."""
        height, width = size
        factor = self.patch * self.merge
        if height < factor:
            height, width = factor, round(width * factor / height)
        if width < factor:
            height, width = round(height * factor / width), factor
        return fit_area(Size(height, width), factor, self.least, self.most)

    def patches(self, frames: Sequence[Bytes8]) -> Array:
        """The patches of one picture, whose sides are multiples of patch times merge."""
        rows = _in_raster_order(self, frames)
        return rows.reshape(len(rows), 3 * self.temporal, self.patch, self.patch)


@dataclass(frozen=True, slots=True)
class HunyuanProcessor(PatchImageProcessor):
    """Pictures to (patches, 3 * temporal * patch * patch) floats, row after row, and a (1, 3) grid of (1, rows, columns).

    Each row of tokens has one more at its end, and the whole has `edges` more.
    """

    edges: int = 2

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens, and the (1, rows, columns) grid of patches."""
        height, width = self.target(size)
        rows, columns = height // self.patch, width // self.patch
        return (rows // self.merge) * (columns // self.merge + 1) + self.edges, (1, rows, columns)

    def patches(self, frames: Sequence[Bytes8]) -> Array:
        """The patches of one picture, whose sides are multiples of patch times merge."""
        return _in_raster_order(self, frames)


def _in_raster_order(processor: PatchImageProcessor, frames: Sequence[Bytes8]) -> Array:
    height, width, _ = frames[0].shape
    patch, temporal = processor.patch, processor.temporal
    out = np.empty(((height // patch) * (width // patch), 3 * temporal * patch**2), np.float32)
    write_patches(out, frames, processor.normalizer, patch=patch, temporal=temporal)
    return out


_Made = TypeVar("_Made", bound=PatchImageProcessor)


def _made(kind: type[_Made], config: Mapping[str, Any], least: Any, most: Any, patch: int = 14, **more: Any) -> _Made:
    return kind(
        least=int(least),
        most=int(most),
        patch=int(config.get("patch_size") or patch),
        merge=int(config.get("merge_size") or 2),
        temporal=int(config.get("temporal_patch_size") or 1),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD),
        **more,
    )


def _bounds(config: Mapping[str, Any], least: int, most: int) -> tuple[Any, Any]:
    """The bounds of area that a configuration names, `min_pixels` and `max_pixels` before `size`; else those given."""
    size = config.get("size") or {}
    return (
        config.get("min_pixels") or size.get("shortest_edge") or size.get("min_pixels") or least,
        config.get("max_pixels") or size.get("longest_edge") or size.get("max_pixels") or most,
    )


def paddleocr_image(config: Mapping[str, Any]) -> PaddleOcrProcessor:
    """From a PaddleOCR-VL preprocessor_config.json."""
    config = settled(config, _PADDLEOCR)
    bounds = _bounds(config, 384 * 384, 1536 * 1536)
    return _made(PaddleOcrProcessor, config, *bounds, resample=resample_of(config, BICUBIC))


def ernie_image(config: Mapping[str, Any]) -> PatchImageProcessor:
    """From an ERNIE-4.5-VL preprocessor_config.json, whose `min_pixels` and `max_pixels` count for nothing: the code published
    with the models has bounds of its own, transformers reads `size`."""
    config = settled(config, _ERNIE)
    size = config["size"]
    bounds = (size.get("shortest_edge") or 56 * 56, size.get("longest_edge") or 28 * 28 * 6177)
    return _made(PatchImageProcessor, config, *bounds, resample=resample_of(config, BICUBIC))


def hunyuan_image(config: Mapping[str, Any], processor: Mapping[str, Any]) -> HunyuanProcessor:
    """From HunYuanVL's preprocessor_config.json, whose `resample` counts for nothing, and processor_config.json."""
    config = settled(config, _HUNYUAN)
    resample = resample_of({RESIZE: config.get(RESIZE)}, BICUBIC)
    edges = 0 if processor.get("cat_extra_token") is False else 2
    return _made(HunyuanProcessor, config, *_bounds(config, 512 * 512, 2048 * 2048), 16, edges=edges, resample=resample)

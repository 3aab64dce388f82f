"""Cohere Compass, Cosmos 3 Edge, Hy4-VL and MiniMax-M3: pictures as patches within bounds of area, as Qwen2-VL's.

Above: `families.patch_pipelines`. Below: `qwen`, `paddleocr`. What differs are defaults, the order of patches and of what is in
one, how tokens are counted, and whose arithmetic it is. Follows transformers' image_processing_pil_cohere_compass,
_cosmos3_edge, _hy_v4_vl and image_processing_minimax_m3_vl, which is there for torchvision alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import RESIZE, ProcessorClass, positive_number, settled
from smg_multimodal.patches.paddleocr import HunyuanProcessor
from smg_multimodal.patches.qwen import PatchImageProcessor
from smg_multimodal.pixels.resample import BICUBIC, resample_of
from smg_multimodal.pixels.transforms import (
    CLIP_MEAN,
    CLIP_STD,
    HALF,
    Normalizer,
    fused_normalizer,
    normalizer_of,
    write_interleaved_patches,
)
from smg_multimodal.records.types import Array, Bytes8, Float32

__all__ = ["CosmosProcessor", "compass_image", "cosmos_image", "hy4_image", "minimax_image", "write_pixel_by_pixel"]

_RESIZED = {"do_resize": (True,)}
_PATCHED = {"do_resize": True, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
_COMPASS = ProcessorClass(
    frozenset({"CohereCompassImageProcessor"}),
    {**_PATCHED, "size": {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}},
    _RESIZED,
    squares=False,
)
_MINIMAX = ProcessorClass(
    frozenset({"MiniMaxM3VLImageProcessor"}),
    {**_PATCHED, "size": {"shortest_edge": 4 * 28 * 28, "longest_edge": 451584}},
    _RESIZED,
    squares=False,
)
_HY4 = ProcessorClass(
    frozenset({"HYV4VLImageProcessor"}),
    {
        **_PATCHED,
        "patch_size": 16,
        "temporal_patch_size": 1,
        "size": {"shortest_edge": 512 * 512, "longest_edge": 2048 * 2048},
    },
    _RESIZED,
    squares=False,
)
_COSMOS = ProcessorClass(
    frozenset({"Cosmos3EdgeImageProcessor"}),
    {
        **_PATCHED,
        "patch_size": 16,
        "temporal_patch_size": 1,
        "size": {"shortest_edge": 256 * 256, "longest_edge": 4096 * 4096},
    },
    {**_RESIZED, "temporal_patch_size": (1,)},
    squares=False,
)


def write_pixel_by_pixel(out: Float32, pixels: Bytes8, normalizer: Normalizer, patch: int, merge: int) -> None:
    """Write the patches of a picture into `out`, block by block; in a patch row by row and pixel by pixel."""
    height, width, _ = pixels.shape
    rows, columns = height // patch, width // patch
    raster = np.empty((rows * columns, patch**2 * 3), np.float32)
    write_interleaved_patches(raster, pixels, normalizer, patch=patch)
    blocks = raster.reshape(rows // merge, merge, columns // merge, merge, -1).transpose(0, 2, 1, 3, 4)
    out[:] = blocks.reshape(raster.shape)


@dataclass(frozen=True, slots=True)
class CosmosProcessor(PatchImageProcessor):
    """Pictures to (patches, patch * patch * 3) floats, in a patch row by row and pixel by pixel; else as Qwen2-VL's."""

    def patches(self, frames: Sequence[Bytes8]) -> Array:
        """The patches of one picture, block by block."""
        height, width, _ = frames[0].shape
        rows, columns, merge = height // self.patch, width // self.patch, self.merge
        out = np.empty((rows * columns, self.patch**2 * 3), np.float32)
        write_pixel_by_pixel(out, frames[0], self.normalizer, self.patch, merge)
        return out


def _bounds(config: Mapping[str, Any]) -> tuple[int, int]:
    """The bounds of area: `min_pixels` and `max_pixels` stand before `size`."""
    size = config["size"]
    least, most = config.get("min_pixels"), config.get("max_pixels")
    least, most = least or size.get("shortest_edge"), most or size.get("longest_edge")
    if not least or not most:
        raise refused("size", dict(size), "shortest_edge and longest_edge are needed")
    return int(least), int(most)


def _patched(config: Mapping[str, Any]) -> dict[str, Any]:
    """What all of these read of a settled configuration."""
    least, most = _bounds(config)
    sizes = {"patch": "patch_size", "merge": "merge_size", "temporal": "temporal_patch_size"}
    return {
        "least": least,
        "most": most,
        "resample": resample_of(config, BICUBIC),
        **{name: positive_number(config, key) for name, key in sizes.items()},
    }


def compass_image(config: Mapping[str, Any]) -> PatchImageProcessor:
    """From a Cohere Compass preprocessor_config.json."""
    config = settled(config, _COMPASS)
    return PatchImageProcessor(**_patched(config), normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD))


def minimax_image(config: Mapping[str, Any]) -> PatchImageProcessor:
    """From a MiniMax-M3 preprocessor_config.json. The first published files say a `size` of two numbers, which is none."""
    if config.get("size") == [672, 672]:
        config = {**config, "size": None}
    config = settled(config, _MINIMAX)
    normalizer = normalizer_of(config, CLIP_MEAN, CLIP_STD, fused_normalizer)
    return PatchImageProcessor(**_patched(config), normalizer=normalizer)


def hy4_image(config: Mapping[str, Any]) -> HunyuanProcessor:
    """From a Hy4-VL preprocessor_config.json, whose `resample` counts for nothing. A row of tokens has one more at its end."""
    config = settled(config, _HY4)
    made = {**_patched(config), "resample": resample_of({RESIZE: config.get(RESIZE)}, BICUBIC)}
    return HunyuanProcessor(**made, normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD), edges=0)


def cosmos_image(config: Mapping[str, Any]) -> CosmosProcessor:
    """From a Cosmos 3 Edge preprocessor_config.json, whose `size` alone bounds the area."""
    config = settled(config, _COSMOS)
    config = {**config, "min_pixels": None, "max_pixels": None}
    return CosmosProcessor(**_patched(config), normalizer=normalizer_of(config, HALF, HALF), volumetric=True)

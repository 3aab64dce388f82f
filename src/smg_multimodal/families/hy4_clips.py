"""Clips of Hy4-VL: frames that are never enlarged, at the largest size of whole blocks that fits every bound.

Above: `rows_of_2026` puts these into the family's row. Below: `clips.video`, whose clips these are but for what is said here.
Follows transformers' video_processing_hy_v4_vl and processing_hy_v4_vl.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smg_multimodal.clips.sampling import EvenRounded, count_or_rate
from smg_multimodal.clips.video import PatchVideoProcessor
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import VIDEO_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.families.modalities import Modal
from smg_multimodal.pixels.resample import BICUBIC, resample_of
from smg_multimodal.pixels.transforms import HALF, fused_normalizer, normalizer_of, write_patches
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer, repeat_rule, token
from smg_multimodal.records.errors import BadClip
from smg_multimodal.records.types import Batched, Bytes8, Flat, Float32, Modality, Size

__all__ = ["HY4_VIDEO", "Hy4VideoProcessor"]

_CLASS = ProcessorClass(
    frozenset({"HYV4VLVideoProcessor"}),
    {
        "do_resize": True,
        "size": {"shortest_edge": 4096, "longest_edge": 32 * 1024 * 1024},
        "max_image_size": {"longest_edge": 1024 * 1024},
        "patch_size": 16,
        "temporal_patch_size": 1,
        "merge_size": 2,
        "min_frames": 2,
        "max_frames": 1024,
        "fps": 2,
    },
    {"do_resize": (True,)},
)
_THINNEST = 200
"""How many times one side of a frame may be the other."""


@dataclass(frozen=True, slots=True)
class Hy4VideoProcessor(PatchVideoProcessor):
    """Clips to (patches, 3 * temporal * patch * patch) floats, row after row; each row of tokens has one more at its end.

    `most` bounds the pixels of all frames, those of the tokens at the ends of rows among them, `of_frame` those of one.
    """

    of_frame: int = 1024 * 1024

    def target(self, size: Size, frames: int) -> Size:
        """The size of every frame: as many rows of blocks as fit, and as many columns as its shape then has."""
        height, width = size
        if max(height, width) / min(height, width) > _THINNEST:
            raise BadClip(f"the clip is {width}x{height}; one side may be at most {_THINNEST} times the other")
        block = self.patch * self.merge
        widest, tokens = max(1, width // block), self.most // block**2
        for rows in range(max(1, height // block), 0, -1):
            fewest = 1 if rows == 1 else max(1, width * rows // height)
            of_shape = min(widest, max(1, -(-width * (rows + 1) // height) - 1))
            columns = min(of_shape, tokens // (frames * rows) - 1, self.of_frame // (block**2 * rows))
            if columns >= fewest:
                return Size(rows * block, columns * block)
        return Size(block, block)

    def measure(self, size: Size, frames: int) -> tuple[int, tuple[int, int, int]]:
        """Tokens, and the (t, h, w) grid of patches, of `frames` sampled frames of `size`."""
        height, width = self.target(size, frames)
        grid = (math.ceil(frames / self.temporal), height // self.patch, width // self.patch)
        return grid[0] * (grid[1] // self.merge) * (grid[2] // self.merge + 1), grid

    def write(self, out: Float32, frames: Sequence[Bytes8]) -> None:
        """Write the patches of one group of frames, row after row."""
        write_patches(out, frames, self.normalizer, patch=self.patch, temporal=self.temporal)


def _edge(config: Mapping[str, Any], key: str) -> int:
    found = config[key].get("longest_edge")
    if not found:
        raise refused(key, dict(config[key]), "a longest_edge is needed")
    return int(found)


def _clips(files: ModelFiles) -> Hy4VideoProcessor:
    """From video_preprocessor_config.json, of whose `size` the longest edge alone counts."""
    config = settled(files.clips, _CLASS, kind=VIDEO_CLASS)
    _, fps = count_or_rate(config)
    return Hy4VideoProcessor(
        least=0,
        most=_edge(config, "size"),
        of_frame=_edge(config, "max_image_size"),
        sampling=EvenRounded(fps or 2.0, positive_number(config, "min_frames"), positive_number(config, "max_frames")),
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
        patch=positive_number(config, "patch_size"),
        merge=positive_number(config, "merge_size"),
        temporal=positive_number(config, "temporal_patch_size"),
        resample=resample_of(config, BICUBIC),
    )


def _prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    return repeat_rule("<|video_pad|>", token(vocabulary, "<|video_pad|>", model.get("video_token_id")), Modality.VIDEO)


HY4_VIDEO = Modal(
    _clips,
    _prompt,
    {"pixel_values_videos": Flat("patches_per_video"), "video_grid_thw": Batched()},
    "pixel_values_videos",
    frozenset({"video_grid_thw"}),
)

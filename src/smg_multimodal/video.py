"""Clips for the Qwen families: which frames are taken, how big they become, and when they are shown.

Above: `modalities`, applications. Below: `qwen`, `transforms`, `resample`. A clip comes as frames (pictures) with a rate, from
`clips` or from whatever decoder the application has. Follows transformers'
video_processing_qwen2_vl and video_processing_qwen3_vl, which exist for torchvision: arithmetic is theirs, the resize Pillow's.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.errors import BadClip
from smg_multimodal.qwen import fit_area, fit_volume
from smg_multimodal.resample import BICUBIC, Filter, resample_of, resize
from smg_multimodal.transforms import (
    CLIP_MEAN,
    CLIP_STD,
    HALF,
    Normalizer,
    fused_normalizer,
    normalizer_of,
    write_patches,
)
from smg_multimodal.types import Array, Bytes8, ItemFeatures, Modality, Size

__all__ = ["QwenVideoProcessor", "qwen2_video", "qwen3_video"]


@dataclass(frozen=True, slots=True)
class QwenVideoProcessor:
    """Clips to (patches, 3 * temporal * patch * patch) floats and a (1, 3) grid of (t, h, w) patches.

    `least` and `most` bound a frame's area, or with `timed` (Qwen3-VL) the whole clip's volume, in pixels. `timed` clips
    take frames evenly with rounding and carry a time for every temporal patch; others (Qwen2-VL, Qwen2.5-VL) take whole
    groups of frames and carry the seconds between temporal patches.
    """

    least: int
    most: int
    normalizer: Normalizer
    patch: int = 14
    merge: int = 2
    temporal: int = 2
    fps: float = 2.0
    fewest: int = 4
    greatest: int = 768
    timed: bool = False
    resample: Filter = BICUBIC

    def sample(self, total: int, rate: float) -> list[int]:
        """The indices of the frames that are taken from a clip of `total` frames at `rate` per second."""
        if total < 1 or not rate > 0:
            raise BadClip("the clip has no frames or no rate")
        if self.timed:
            count = min(max(int(total / rate * self.fps), self.fewest), self.greatest, total)
            return [int(index) for index in np.linspace(0, total - 1, count).round().astype(np.int64)]
        most = math.floor(min(self.greatest, total) / self.temporal) * self.temporal
        wanted = min(max(total / rate * self.fps, self.fewest), most, total)
        count = math.floor(wanted / self.temporal) * self.temporal
        if count < 1:
            raise BadClip(f"the clip has fewer than {self.temporal} frames")
        step = total / count
        return [int(np.float32(index * step)) for index in range(math.ceil(total / step))]

    def target(self, size: Size, frames: int) -> Size:
        """The size every frame is brought to."""
        factor = self.patch * self.merge
        if not self.timed:
            return fit_area(size, factor, self.least, self.most)
        if frames < self.temporal:
            raise BadClip(f"the clip has fewer than {self.temporal} frames")
        height, width = size
        if height < factor or width < factor:
            scale = max(factor / height, factor / width)
            height, width = int(height * scale), int(width * scale)
        return fit_volume(Size(height, width), frames, self.temporal, factor, self.least, self.most)

    def measure(self, size: Size, frames: int) -> tuple[int, tuple[int, int, int]]:
        """Tokens, and the (t, h, w) grid of patches, of `frames` sampled frames of `size`."""
        height, width = self.target(size, frames)
        grid = (-(-frames // self.temporal), height // self.patch, width // self.patch)
        return math.prod(grid) // self.merge**2, grid

    def nbytes(self, size: Size, frames: int) -> int:
        """Bytes of the tensors of `frames` sampled frames of `size`."""
        _, grid = self.measure(size, frames)
        return math.prod(grid) * 3 * self.temporal * self.patch**2 * 4 + _BESIDE

    def item(self, frames: Iterable[Image.Image], seconds: Sequence[float], rate: float | None = None) -> ItemFeatures:
        """The tensors of sampled RGB `frames`, shown at `seconds`; a last group that is not full repeats its last.

        `frames` are taken one after the other. `rate` is how many a second were taken; without it, `fps` of them."""
        coming = iter(frames)
        first = next(coming, None)
        if first is None or not seconds:
            raise BadClip("the clip has no frames")
        size, count = Size(first.height, first.width), len(seconds)
        tokens, grid = self.measure(size, count)
        target = self.target(size, count)
        rows = grid[1] * grid[2]
        out = np.empty((grid[0] * rows, 3 * self.temporal * self.patch**2), np.float32)
        groups = self._groups(chain((first,), coming), count, target)
        for group, pixels in enumerate(groups):
            part = out[group * rows : (group + 1) * rows]
            write_patches(part, pixels, self.normalizer, patch=self.patch, merge=self.merge, temporal=self.temporal)
        tensors: dict[str, Array] = {"pixel_values_videos": out, "video_grid_thw": np.array([grid], np.int64)}
        if not self.timed:
            tensors["second_per_grid_ts"] = np.array([self.temporal / (rate or self.fps)], np.float32)
        return ItemFeatures(tensors, size, tokens, grid, Modality.VIDEO, {"seconds": self._moments(seconds)})

    def _groups(self, frames: Iterator[Image.Image], count: int, target: Size) -> Iterator[list[Bytes8]]:
        """`count` frames at the size that they are brought to, in whole groups."""
        group: list[Bytes8] = []
        size: tuple[int, int] | None = None
        taken = 0
        for taken, frame in enumerate(frames, 1):
            size = size or frame.size
            if frame.size != size or taken > count:
                raise BadClip("a clip's frames must be of one size, with a time for each")
            group.append(resize(frame, target, self.resample))
            if len(group) == self.temporal:
                yield group
                group = []
        if taken < count:
            raise BadClip(f"the clip has {taken} of the {count} frames that were to be taken")
        if group:
            yield [*group, *[group[-1]] * (self.temporal - len(group))]

    def _moments(self, seconds: Sequence[float]) -> tuple[float, ...]:
        """The second in the middle of each group of frames."""
        times = [*seconds, *[seconds[-1]] * (-len(seconds) % self.temporal)]
        starts = range(0, len(times), self.temporal)
        return tuple((times[at] + times[at + self.temporal - 1]) / 2 for at in starts)

    def clip(self, frames: Sequence[Image.Image], rate: float) -> ItemFeatures:
        """`item` of the frames that `sample` takes from a whole clip."""
        taken = self.sample(len(frames), rate)
        chosen = (frames[index] for index in taken)
        return self.item(chosen, [index / rate for index in taken], len(taken) / len(frames) * rate)


_BESIDE = 4096
"""Bytes of a clip's small tensors."""


def _bound(config: Mapping[str, Any], old: str, new: str, fallback: int) -> int:
    return int(config.get(old) or (config.get("size") or {}).get(new) or fallback)


def qwen2_video(config: Mapping[str, Any]) -> QwenVideoProcessor:
    """From video_preprocessor_config.json of Qwen2-VL or Qwen2.5-VL."""
    return QwenVideoProcessor(
        least=_bound(config, "min_pixels", "shortest_edge", 128 * 28 * 28),
        most=_bound(config, "max_pixels", "longest_edge", 28 * 28 * 768),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD, fused_normalizer),
        patch=int(config.get("patch_size") or 14),
        merge=int(config.get("merge_size") or 2),
        temporal=int(config.get("temporal_patch_size") or 2),
        fps=float(config.get("fps") or 2.0),
        fewest=int(config.get("min_frames") or 4),
        greatest=int(config.get("max_frames") or 768),
        resample=resample_of(config, BICUBIC),
    )


def qwen3_video(config: Mapping[str, Any]) -> QwenVideoProcessor:
    """From video_preprocessor_config.json of Qwen3-VL."""
    return QwenVideoProcessor(
        least=_bound(config, "min_pixels", "shortest_edge", 128 * 32 * 32),
        most=_bound(config, "max_pixels", "longest_edge", 32 * 32 * 768),
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
        patch=int(config.get("patch_size") or 16),
        merge=int(config.get("merge_size") or 2),
        temporal=int(config.get("temporal_patch_size") or 2),
        fps=float(config.get("fps") or 2.0),
        fewest=int(config.get("min_frames") or 4),
        greatest=int(config.get("max_frames") or 768),
        timed=True,
        resample=resample_of(config, BICUBIC),
    )

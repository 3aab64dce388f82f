"""Clips as rows of patches, for Qwen2-VL to 3.5 and GLM-4.1V to 4.6V: frames taken, their size, and when they are shown.

Above: `families.modalities`, applications. Below: `sampling`, `patches.qwen`, `pixels.transforms`, `pixels.resample`. A clip
comes as frames (pictures) with a rate, from `decoding.clips` or from whatever decoder the application has. Follows
transformers' video_processing_qwen2_vl, _qwen3_vl, _glm4v and _glm46v, which exist for torchvision: the arithmetic is theirs,
the resize Pillow's or torch's, as everywhere here.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.clips.frames import of_one_size
from smg_multimodal.clips.sampling import ByLength, BySecond, EvenRounded, FrameSampling, WholeGroups, count_or_rate
from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import VIDEO_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.patches.qwen import fit_area, fit_volume
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, resample_of, resize
from smg_multimodal.pixels.transforms import (
    CLIP_MEAN,
    CLIP_STD,
    HALF,
    Normalizer,
    fused_normalizer,
    normalizer_of,
    write_patches,
)
from smg_multimodal.records.errors import BadClip
from smg_multimodal.records.types import Array, Bytes8, Float32, ItemFeatures, Modality, Size

__all__ = ["PatchVideoProcessor", "glm41_video", "glm46_video", "qwen2_video", "qwen3_video"]

_RESIZED = {"do_resize": (True,)}
_QWEN2 = ProcessorClass(
    frozenset({"Qwen2VLVideoProcessor", "Qwen2_5_VLVideoProcessor"}),
    {
        "do_resize": True,
        "size": {"shortest_edge": 128 * 28 * 28, "longest_edge": 28 * 28 * 768},
        "patch_size": 14,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "min_frames": 4,
        "max_frames": 768,
        "max_video_tokens": 128_000,
    },
    _RESIZED,
)
_QWEN3 = ProcessorClass(
    frozenset({"Qwen3VLVideoProcessor", "CohereCompassVideoProcessor"}),
    {
        **_QWEN2.defaults,
        "size": {"shortest_edge": 128 * 32 * 32, "longest_edge": 32 * 32 * 768},
        "patch_size": 16,
        "max_video_tokens": 768,
        "fps": 2,
    },
    _RESIZED,
)
_GLM41 = ProcessorClass(
    frozenset({"Glm4vVideoProcessor"}),
    {
        "do_resize": True,
        "size": {"shortest_edge": 112 * 112, "longest_edge": 28 * 28 * 2 * 30_000},
        "patch_size": 14,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "max_duration": 300,
        "fps": 2,
    },
    _RESIZED,
)
_GLM46 = ProcessorClass(frozenset({"Glm46VVideoProcessor"}), _GLM41.defaults, _RESIZED)
_REFERENCE_SHARE = 0.9
"""Qwen2-VL's cap: the share of the model's context that a clip may have."""
_LEAST_OVER = 1.05
"""Times the least area of a frame that the cap leaves it in any case."""


@dataclass(frozen=True, slots=True)
class Cap:
    """`cap_pixels_per_frame` of the Qwen families: each frame has an even share of what the whole clip may have.

    `tokens` is `max_video_tokens`: of the whole clip for Qwen2-VL, of one frame with `of_frame` (Qwen3-VL).
    """

    tokens: int
    of_frame: bool

    def most(self, most: int, least: int, frames: int, cell: int, temporal: int) -> int:
        """The bound that takes the place of `most` for `frames` frames, whose least area is `least`; a token is `cell` pixels."""
        floor = int(least * _LEAST_OVER)
        if self.of_frame:
            return max(min(self.tokens * cell, most // frames), floor) * frames
        return max(min(most, int(self.tokens * cell * _REFERENCE_SHARE) * temporal // frames), floor)


@dataclass(frozen=True, slots=True)
class PatchVideoProcessor:
    """Clips to (patches, 3 * temporal * patch * patch) floats and a (1, 3) grid of (t, h, w) patches.

    `least` and `most` bound a frame's area, or with `volumetric` (Qwen3-VL, GLM) the whole clip's volume, in pixels.
    `sampling` says which frames are taken. `intervals` adds a tensor with the seconds between temporal patches (Qwen2-VL).
    `middle` has each temporal patch shown at the middle of its frames' times, else at that of every second frame, or with
    `firsts` of its first one.
    """

    least: int
    most: int
    normalizer: Normalizer
    sampling: FrameSampling
    patch: int = 14
    merge: int = 2
    temporal: int = 2
    volumetric: bool = False
    intervals: bool = False
    middle: bool = True
    firsts: bool = False
    cap: Cap | None = None
    resample: Filter = BICUBIC

    def sample(self, total: int, rate: float) -> list[int]:
        """The indices of the frames that are taken from a clip of `total` frames at `rate` per second."""
        return self.sampling(total, rate)

    def target(self, size: Size, frames: int) -> Size:
        """The size every frame is brought to."""
        factor, most = self.patch * self.merge, self.most
        if self.cap is not None:
            most = self.cap.most(most, self.least, frames, factor**2, self.temporal)
        if not self.volumetric:
            return fit_area(size, factor, self.least, most)
        if frames < self.temporal:
            raise BadClip(f"the clip has fewer than {self.temporal} frames")
        height, width = size
        if height < factor or width < factor:
            scale = max(factor / height, factor / width)
            height, width = int(height * scale), int(width * scale)
        return fit_volume(Size(height, width), frames, self.temporal, factor, self.least, most)

    def measure(self, size: Size, frames: int) -> tuple[int, tuple[int, int, int]]:
        """Tokens, and the (t, h, w) grid of patches, of `frames` sampled frames of `size`."""
        height, width = self.target(size, frames)
        grid = (-(-frames // self.temporal), height // self.patch, width // self.patch)
        return math.prod(grid) // self.merge**2, grid

    def nbytes(self, size: Size, frames: int) -> int:
        """Bytes of the tensors of `frames` sampled frames of `size`."""
        _, grid = self.measure(size, frames)
        return math.prod(grid) * 3 * self.temporal * self.patch**2 * 4 + _OVERHEAD

    def item(self, frames: Iterable[Image.Image], seconds: Sequence[float], rate: float | None = None) -> ItemFeatures:
        """The tensors of sampled RGB `frames`, shown at `seconds`; a last group that is not full repeats its last.

        `frames` are taken one after the other. `rate` is how many a second were taken; without it, as `seconds` have it."""
        if not seconds:
            raise BadClip("the clip has no frames")
        count = len(seconds)
        coming = of_one_size(frames, count)
        first = next(coming)
        size = Size(first.height, first.width)
        tokens, grid = self.measure(size, count)
        target = self.target(size, count)
        rows = grid[1] * grid[2]
        out = np.empty((grid[0] * rows, 3 * self.temporal * self.patch**2), np.float32)
        for group, pixels in enumerate(self._groups(chain((first,), coming), target, count)):
            self.write(out[group * rows : (group + 1) * rows], pixels)
        tensors: dict[str, Array] = {"pixel_values_videos": out, "video_grid_thw": np.array([grid], np.int64)}
        if self.intervals:
            tensors["second_per_grid_ts"] = np.array([self.interval(seconds, rate)], np.float32)
        return ItemFeatures(tensors, size, tokens, grid, Modality.VIDEO, {"seconds": self._moments(seconds)})

    def interval(self, seconds: Sequence[float], rate: float | None) -> float:
        """The seconds between groups of frames that stand at `seconds`, of which `rate` a second were taken."""
        return self.temporal / (rate or _rate_of(seconds))

    def brought(self, frame: Image.Image, target: Size, count: int) -> Bytes8:
        """A frame, of `count`, at the size that all are brought to."""
        del count
        return resize(frame, target, self.resample)

    def write(self, out: Float32, frames: Sequence[Bytes8]) -> None:
        """Write the patches of one group of frames."""
        write_patches(out, frames, self.normalizer, patch=self.patch, merge=self.merge, temporal=self.temporal)

    def _groups(self, frames: Iterable[Image.Image], target: Size, count: int) -> Iterator[list[Bytes8]]:
        """The frames at the size that they are brought to, in whole groups."""
        group: list[Bytes8] = []
        for frame in frames:
            group.append(self.brought(frame, target, count))
            if len(group) == self.temporal:
                yield group
                group = []
        if group:
            yield [*group, *[group[-1]] * (self.temporal - len(group))]

    def _moments(self, seconds: Sequence[float]) -> tuple[float, ...]:
        """The second at which each group of frames is shown."""
        if self.firsts:
            return tuple(seconds[:: self.temporal])
        if not self.middle:
            count = -(-len(seconds) // self.temporal)
            every = list(seconds[::2])[:count]
            return (*every, *[every[-1]] * (count - len(every)))
        times = [*seconds, *[seconds[-1]] * (-len(seconds) % self.temporal)]
        starts = range(0, len(times), self.temporal)
        return tuple((times[at] + times[at + self.temporal - 1]) / 2 for at in starts)

    def clip(self, frames: Sequence[Image.Image], rate: float) -> ItemFeatures:
        """`item` of the frames that `sample` takes from a whole clip."""
        taken = self.sample(len(frames), rate)
        chosen = (frames[index] for index in taken)
        return self.item(chosen, [index / rate for index in taken], len(taken) / len(frames) * rate)


_OVERHEAD = 4096
"""Bytes of a clip's small tensors."""


def _rate_of(seconds: Sequence[float]) -> float:
    """Frames a second of frames that are shown at `seconds`; one a second where there is but one."""
    lasting = seconds[-1] - seconds[0]
    return (len(seconds) - 1) / lasting if lasting > 0 else 1.0


def _bounds(config: Mapping[str, Any], sides: Mapping[str, Any]) -> tuple[int, int]:
    least, most = sides.get("shortest_edge"), sides.get("longest_edge")
    if not least or not most:
        raise refused("size", dict(config["size"]), "shortest_edge and longest_edge are needed")
    return int(least), int(most)


def _cap(config: Mapping[str, Any], *, of_frame: bool) -> Cap | None:
    return Cap(positive_number(config, "max_video_tokens"), of_frame) if config.get("cap_pixels_per_frame") else None


def _processor(
    config: Mapping[str, Any],
    sides: Mapping[str, Any],
    sampling: FrameSampling,
    mean: Sequence[float] = CLIP_MEAN,
    std: Sequence[float] = CLIP_STD,
) -> PatchVideoProcessor:
    """What all of these have in common, from a settled configuration."""
    least, most = _bounds(config, sides)
    return PatchVideoProcessor(
        least=least,
        most=most,
        sampling=sampling,
        normalizer=normalizer_of(config, mean, std, fused_normalizer),
        patch=positive_number(config, "patch_size"),
        merge=positive_number(config, "merge_size"),
        temporal=positive_number(config, "temporal_patch_size"),
        resample=resample_of(config, BICUBIC),
    )


def qwen2_video(config: Mapping[str, Any]) -> PatchVideoProcessor:
    """From video_preprocessor_config.json of Qwen2-VL or Qwen2.5-VL, or from preprocessor_config.json where that is missing.

    transformers' class takes all frames where neither `fps` nor `num_frames` is given; two a second are meant then, which is
    what Qwen's own code takes. `min_pixels` and `max_pixels` stand before `size`.
    """
    config = settled(config, _QWEN2, kind=VIDEO_CLASS)
    size = config["size"]
    sides = {
        "shortest_edge": config.get("min_pixels") or size.get("shortest_edge") or size.get("min_pixels"),
        "longest_edge": config.get("max_pixels") or size.get("longest_edge") or size.get("max_pixels"),
    }
    count, fps = count_or_rate(config)
    sampling = WholeGroups(
        fps or 2.0,
        count,
        positive_number(config, "temporal_patch_size"),
        positive_number(config, "min_frames"),
        positive_number(config, "max_frames"),
    )
    return replace(_processor(config, sides, sampling), intervals=True, cap=_cap(config, of_frame=False))


def qwen3_video(config: Mapping[str, Any]) -> PatchVideoProcessor:
    """From video_preprocessor_config.json of Qwen3-VL."""
    config = settled(config, _QWEN3, kind=VIDEO_CLASS)
    _, fps = count_or_rate(config)
    sampling = EvenRounded(fps or 2.0, positive_number(config, "min_frames"), positive_number(config, "max_frames"))
    made = _processor(config, config["size"], sampling, HALF, HALF)
    return replace(made, volumetric=True, cap=_cap(config, of_frame=True))


def glm41_video(config: Mapping[str, Any]) -> PatchVideoProcessor:
    """From video_preprocessor_config.json of GLM-4.1V or GLM-4.5V."""
    config = settled(config, _GLM41, kind=VIDEO_CLASS)
    _, fps = count_or_rate({**config, "num_frames": None})  # the class does not read `num_frames`
    sampling = BySecond(fps or 2.0, float(positive_number(config, "max_duration")))
    return replace(_processor(config, config["size"], sampling), volumetric=True, middle=False)


def glm46_video(config: Mapping[str, Any]) -> PatchVideoProcessor:
    """From video_preprocessor_config.json of GLM-4.6V: frames are taken by the clip's length, whatever `fps` says."""
    config = settled(config, _GLM46, kind=VIDEO_CLASS)
    made = _processor(config, config["size"], ByLength(positive_number(config, "temporal_patch_size")))
    return replace(made, volumetric=True, middle=False)

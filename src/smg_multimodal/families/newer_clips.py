"""Clips of GLM-5.3, Muse, Cosmos 3 Edge and MiniMax-M3: the rules of their pictures, for groups of frames.

Above: `rows_of_2026` puts these into rows. Below: `clips.video`, whose clips these are but for what is said here, and the
families' picture modules. Follows transformers' video_processing_glm5_next, _muse_glimmer, _cosmos3_edge and _minimax_m3_vl.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.clips.sampling import EvenGroups, EvenRounded, SpreadAtRate, Uniform, count_or_rate
from smg_multimodal.clips.video import PatchVideoProcessor
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import VIDEO_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.families.modalities import Modal
from smg_multimodal.patches.glm5 import canvas_of, content_of, on_black_canvas
from smg_multimodal.patches.muse import nearest_blocks
from smg_multimodal.patches.patch_variants import write_pixel_by_pixel
from smg_multimodal.pixels.resample import BICUBIC, LANCZOS, resample_of, resize
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, HALF, fused_normalizer, normalizer_of, write_patches
from smg_multimodal.prompts.clip_prompts import glm_clip_rule
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer, ReplacementWriter, timed_video_rule, token
from smg_multimodal.records.errors import BadClip
from smg_multimodal.records.types import (
    Array,
    Batched,
    Bytes8,
    Flat,
    Float32,
    ItemFeatures,
    Layout,
    Modality,
    Replacement,
    Size,
)

__all__ = [
    "COSMOS_VIDEO",
    "GLM5_VIDEO",
    "MINIMAX_VIDEO",
    "MUSE_VIDEO",
    "Glm5VideoProcessor",
    "MinimaxVideoProcessor",
    "MuseVideoProcessor",
    "unsegmented",
]

_PATCHED = {"do_resize": True, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2, "fps": 2}
_GLM5 = ProcessorClass(
    frozenset({"Glm5NextVideoProcessor"}),
    {
        **_PATCHED,
        "max_duration": 0,
        "patch_expand_factor": 1,
        "max_frames": 2048,
        "min_image_tokens": 16,
        "max_image_tokens": 240_000,
    },
    {"do_resize": (True,), "patch_expand_factor": (1,)},
)
_WRITTEN = "Time: {timestamp:.1f}s"
_MUSE = ProcessorClass(
    frozenset({"MuseGlimmerVideoProcessor"}),
    {**_PATCHED, "num_frames": 96, "max_video_frame_tokens": 144, "frame_timestamp_format": _WRITTEN},
    {"do_resize": (True,)},
)
_COSMOS = ProcessorClass(
    frozenset({"Cosmos3EdgeVideoProcessor"}),
    {
        **_PATCHED,
        "patch_size": 16,
        "temporal_patch_size": 1,
        "size": {"shortest_edge": 64 * 64, "longest_edge": 24 * 1024 * 1024},
    },
    {"do_resize": (True,), "temporal_patch_size": (1,)},
)
_MINIMAX = ProcessorClass(
    frozenset({"MiniMaxM3VLVideoProcessor"}),
    {
        **_PATCHED,
        "fps": 1,
        "min_pixels": 4 * 28 * 28,
        "max_pixels": 768 * 28 * 28,
        "vision_segment_max_frames": 4,
    },
    {"do_resize": (True,)},
)
_FRAMES = (4, 768)
"""The fewest and the most frames of a clip of Cosmos 3 Edge, whatever the files say."""
_OVER = 4
"""How many times the tokens that a frame may have are made of one that is too thin for whole blocks; more are refused."""


@dataclass(frozen=True, slots=True)
class Glm5VideoProcessor(PatchVideoProcessor):
    """Clips of GLM-5.3, whose frames lie on black canvases; `least` and `most` are tokens of the whole clip."""

    def target(self, size: Size, frames: int) -> Size:
        """The canvas of every frame. Raises `BadClip` where not one block of each fits."""
        if max(self.temporal, round(frames / self.temporal) * self.temporal) > self.most * self.temporal:
            raise BadClip(f"the clip has {frames} frames, which {self.most} tokens are not enough for")
        return canvas_of(size, frames, self.temporal, self.patch * self.merge, (self.least, self.most))

    def brought(self, frame: Image.Image, target: Size, count: int) -> Bytes8:
        """A frame, of `count`, on its canvas; enlarged only where the clip has less pixels than it must have."""
        size = Size(frame.height, frame.width)
        block = self.temporal * (self.patch * self.merge) ** 2
        enough = count * size.height * size.width >= block * self.least
        return on_black_canvas(resize(frame, content_of(size, target, enlarged=not enough), self.resample), target)


@dataclass(frozen=True, slots=True)
class MuseVideoProcessor(PatchVideoProcessor):
    """Clips of Muse to (patches, temporal * 3 * patch * patch) floats, row after row; `most` are tokens of a frame. `written`
    is how the prompt says a moment."""

    written: str = _WRITTEN

    def target(self, size: Size, frames: int) -> Size:
        """The size every frame is brought to. Raises `BadClip` for frames that are too thin."""
        del frames
        block = self.patch * self.merge
        rows, columns = nearest_blocks(size, block, self.most)
        if rows * columns > _OVER * self.most:
            raise BadClip(f"the clip is {size.width}x{size.height}: too thin")
        return Size(rows * block, columns * block)

    def write(self, out: Float32, frames: Sequence[Bytes8]) -> None:
        """Write the patches of one group of frames, moment after moment within each."""
        moments = out.reshape(len(out), self.temporal, -1)
        for moment, frame in enumerate(frames):
            part = np.empty((len(out), 3 * self.patch**2), np.float32)
            write_patches(part, [frame], self.normalizer, patch=self.patch)
            moments[:, moment] = part

    def item(self, frames: Iterable[Image.Image], seconds: Sequence[float], rate: float | None = None) -> ItemFeatures:
        """As of any clip, with the texts of its moments."""
        made = PatchVideoProcessor.item(self, frames, seconds, rate)
        texts = tuple(self.written.format(timestamp=second) for second in made.facts["seconds"])
        return replace(made, facts={**made.facts, "texts": texts})


@dataclass(frozen=True, slots=True)
class CosmosVideoProcessor(PatchVideoProcessor):
    """Clips of Cosmos 3 Edge to (patches, patch * patch * 3) floats, frame by frame."""

    def write(self, out: Float32, frames: Sequence[Bytes8]) -> None:
        """Write the patches of one frame."""
        write_pixel_by_pixel(out, frames[0], self.normalizer, self.patch, self.merge)


@dataclass(frozen=True, slots=True)
class MinimaxVideoProcessor(PatchVideoProcessor):
    """Clips of MiniMax-M3, whose grid has a row for each `segment` groups of frames: groups see those of their segment alone."""

    segment: int | None = 4

    def item(self, frames: Iterable[Image.Image], seconds: Sequence[float], rate: float | None = None) -> ItemFeatures:
        """As of any clip, with the grid in segments and the number of them."""
        made = PatchVideoProcessor.item(self, frames, seconds, rate)
        groups, rows, columns = made.grid
        most = self.segment or groups
        grid = [(min(most, groups - start), rows, columns) for start in range(0, groups, most)]
        segments = {"video_grid_thw": np.array(grid, np.int64), "num_chunks_per_video": np.array([len(grid)], np.int64)}
        return replace(made, tensors={**made.tensors, **segments})


def unsegmented(item: ItemFeatures) -> dict[str, Array]:
    """The tensors of a clip of MiniMax-M3 with one row in the grid, for engines that make the segments themselves."""
    grid = item.tensors["video_grid_thw"]
    whole = np.array([[grid[:, 0].sum(), *grid[0, 1:]]], np.int64)
    return {"pixel_values_videos": item.tensors["pixel_values_videos"], "video_grid_thw": whole}


def _sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    keys = {"patch": "patch_size", "merge": "merge_size", "temporal": "temporal_patch_size"}
    return {name: positive_number(config, key) for name, key in keys.items()}


def _glm5_clips(files: ModelFiles) -> Glm5VideoProcessor:
    """From video_preprocessor_config.json; `num_frames` counts for nothing there."""
    config = settled(files.clips, _GLM5, kind=VIDEO_CLASS)
    _, fps = count_or_rate({**config, "num_frames": None})
    seconds = config["max_duration"]
    if not isinstance(seconds, int | float):
        raise refused("max_duration", seconds, "a number is needed")
    return Glm5VideoProcessor(
        least=positive_number(config, "min_image_tokens"),
        most=positive_number(config, "max_image_tokens"),
        sampling=SpreadAtRate(fps or 2.0, positive_number(config, "max_frames"), float(seconds)),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD, fused_normalizer),
        resample=resample_of(config, BICUBIC),
        middle=False,
        **_sizes(config),
    )


def _muse_clips(files: ModelFiles) -> MuseVideoProcessor:
    """From video_preprocessor_config.json; `num_frames` is the most that are taken at `fps`."""
    config = settled(files.clips, _MUSE, kind=VIDEO_CLASS)
    _, fps = count_or_rate({**config, "num_frames": None})
    sizes = _sizes(config)
    return MuseVideoProcessor(
        least=0,
        most=positive_number(config, "max_video_frame_tokens"),
        sampling=EvenGroups(fps or 2.0, positive_number(config, "num_frames"), sizes["temporal"]),
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
        resample=resample_of(config, LANCZOS),
        firsts=True,
        written=_written(config),
        **sizes,
    )


def _cosmos_clips(files: ModelFiles) -> CosmosVideoProcessor:
    """From video_preprocessor_config.json."""
    config = settled(files.clips, _COSMOS, kind=VIDEO_CLASS)
    _, fps = count_or_rate(config)
    size = config["size"]
    if not size.get("shortest_edge") or not size.get("longest_edge"):
        raise refused("size", dict(size), "shortest_edge and longest_edge are needed")
    return CosmosVideoProcessor(
        least=int(size["shortest_edge"]),
        most=int(size["longest_edge"]),
        sampling=EvenRounded(fps or 2.0, *_FRAMES),
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
        resample=resample_of(config, BICUBIC),
        volumetric=True,
        **_sizes(config),
    )


def _minimax_clips(files: ModelFiles) -> MinimaxVideoProcessor:
    """From video_preprocessor_config.json, whose `size` counts for nothing (pictures' files say two numbers there)."""
    config = settled({**files.clips, "size": None}, _MINIMAX, kind=VIDEO_CLASS)
    count, fps = count_or_rate(config)
    least, most = positive_number(config, "min_pixels"), positive_number(config, "max_pixels")
    if least > most:
        raise refused("min_pixels", least, f"it is above max_pixels, {most}")
    endless = files.clips.get("vision_segment_max_frames", 4) is None
    return MinimaxVideoProcessor(
        least=least,
        most=most,
        sampling=Uniform(count, fps),
        normalizer=normalizer_of(config, CLIP_MEAN, CLIP_STD, fused_normalizer),
        resample=resample_of(config, BICUBIC),
        firsts=True,
        segment=None if endless else positive_number(config, "vision_segment_max_frames"),
        **_sizes(config),
    )


def _minimax_prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """The second of each group of frames, and its tokens between the marks of a picture."""
    start, end = token(vocabulary, "]<]start of image[>["), token(vocabulary, "]<]end of image[>[")
    feature = token(vocabulary, "]<]video[>[", model.get("video_token_id"))

    def write(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer, moments = ReplacementWriter(), item.facts["seconds"]
        for second in moments:
            writer.put(*vocabulary.encode(f"]<]{second:.1f} seconds[>["), start)
            writer.run(feature, item.tokens // len(moments)).put(end)
        return writer.done()

    return PromptRule(Modality.VIDEO, "]<]video[>[", feature, feature, write)


def _written(config: Mapping[str, Any]) -> str:
    """How the prompt says a moment. Raises `UnsupportedModel` where it is no such text."""
    text = config["frame_timestamp_format"]
    try:
        str(text).format(timestamp=0.0)
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise refused("frame_timestamp_format", text, "this does not say a {timestamp}") from error
    return str(text)


def _muse_prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """A start, each group's time and tokens with a mark between groups, and an end."""
    start, end = token(vocabulary, "<|vid_start|>"), token(vocabulary, "<|vid_end|>")
    between = token(vocabulary, "<|vid_frame_separator|>")
    feature = token(vocabulary, "<|video|>", model.get("video_token_id"))

    def write(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer, texts = ReplacementWriter().put(start), item.facts["texts"]
        for number, text in enumerate(texts):
            if number:
                writer.put(between)
            writer.put(*vocabulary.encode(text)).run(feature, item.tokens // len(texts))
        return writer.put(end).done()

    return PromptRule(Modality.VIDEO, "<|video|>", feature, feature, write)


_LAYOUTS: Mapping[str, Layout] = {"pixel_values_videos": Flat("patches_per_video"), "video_grid_thw": Batched()}
COSMOS_VIDEO = Modal(
    _cosmos_clips,
    lambda model, vocabulary: timed_video_rule(vocabulary, model),
    _LAYOUTS,
    "pixel_values_videos",
    frozenset({"video_grid_thw"}),
)
GLM5_VIDEO = Modal(_glm5_clips, glm_clip_rule, _LAYOUTS, "pixel_values_videos", frozenset({"video_grid_thw"}))
MUSE_VIDEO = Modal(_muse_clips, _muse_prompt, _LAYOUTS, "pixel_values_videos", frozenset({"video_grid_thw"}))
MINIMAX_VIDEO = Modal(
    _minimax_clips,
    _minimax_prompt,
    {
        "pixel_values_videos": Flat("patches_per_video"),
        "video_grid_thw": Flat("num_chunks_per_video"),
        "num_chunks_per_video": Batched(),
    },
    "pixel_values_videos",
    frozenset({"video_grid_thw", "num_chunks_per_video"}),
)

"""Nemotron Nano Omni: clips as groups of frames of one size, recordings by Parakeet's features, and what stands for both.

Above: `rows_of_2026` puts these into rows. Below: `patches.nemotron`, `recordings.parakeet`, `pixels.floats`. Follows
transformers' processing_nemotron_h_omni and video_processing_nemotron_h_omni, which is there for torchvision alone.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.clips.frames import of_one_size
from smg_multimodal.clips.sampling import FrameSampling, Uniform, count_or_rate
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.keys import VIDEO_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.families.modalities import Modal, of_recordings
from smg_multimodal.patches.nemotron import merge_of
from smg_multimodal.pixels.floats import FloatNormalizer, float_bands
from smg_multimodal.pixels.resample import BICUBIC
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, means_of
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer, ReplacementWriter, marked_rule, token
from smg_multimodal.recordings.parakeet import parakeet_recordings
from smg_multimodal.records.errors import BadClip
from smg_multimodal.records.types import Array, Batched, Float32, ItemFeatures, Modality, Replacement, Size

__all__ = ["NEMOTRON_AUDIO", "NEMOTRON_VIDEO", "NemotronVideoProcessor", "nemotron_image_rule", "separate_frames"]

_CLIPS = ProcessorClass(
    frozenset({"NemotronH_Omni_Reasoning_V3VideoProcessor"}),
    {
        "patch_size": 16,
        "downsample_ratio": 0.5,
        "video_target_num_patches": 1024,
        "video_maintain_aspect_ratio": True,
        "temporal_patch_size": 2,
    },
    own=True,
)
_USUAL_FRAMES = 32
"""Frames that are taken where the files do not say how many: as many as vLLM's loader takes."""
_MOST_PATCHES = 64 * 1024 * 1024 // 256
"""Patches of a frame beyond which a model is refused."""
_OVERHEAD = 4096
"""Bytes of a clip's small tensors."""


@dataclass(frozen=True, slots=True)
class NemotronVideoProcessor:
    """Clips to (1, groups, frames of a group * 3, height, width) floats and the number of frames.

    Every frame has about `target` patches, `merge` x `merge` of which are one token of a group of `temporal` frames. A frame
    keeps its shape with `shaped`, else it is square.
    """

    normalizer: FloatNormalizer
    sampling: FrameSampling
    target: int = 1024
    patch: int = 16
    merge: int = 2
    temporal: int = 2
    shaped: bool = True

    def sample(self, total: int, rate: float) -> list[int]:
        """The numbers of the frames that are taken of `total` at `rate` per second."""
        return self.sampling(total, rate)

    def grid(self, size: Size) -> tuple[int, int]:
        """(rows, columns) of patches of every frame. Raises `BadClip` for frames that are too thin."""
        if not self.shaped:
            side = max(self.merge, math.isqrt(self.target) // self.merge * self.merge)
            return side, side
        ratio = size.width / size.height
        wanted = [max(round(math.sqrt(self.target / ratio)), 1), max(round(math.sqrt(self.target * ratio)), 1)]
        more = [-(-side // self.merge) * self.merge for side in wanted]
        fewer = [max(self.merge, side // self.merge * self.merge) for side in wanted]
        rows, columns = more if math.prod(more) <= self.target else fewer
        if rows * columns > _MOST_PATCHES:
            raise BadClip(f"the clip is {size.width}x{size.height}: too thin")
        return rows, columns

    def measure(self, size: Size, frames: int) -> tuple[int, tuple[int, ...]]:
        """Tokens, and (groups, rows, columns) of patches, of `frames` taken frames of `size`."""
        rows, columns = self.grid(size)
        groups = -(-frames // self.temporal)
        return groups * (rows * columns // self.merge**2), (groups, rows, columns)

    def nbytes(self, size: Size, frames: int) -> int:
        """Bytes of the tensors of `frames` taken frames of `size`."""
        groups, rows, columns = self.measure(size, frames)[1]
        return groups * self.temporal * rows * columns * 3 * self.patch**2 * 4 + _OVERHEAD

    def item(self, frames: Iterable[Image.Image], seconds: Sequence[float], rate: float | None = None) -> ItemFeatures:
        """The tensors of taken RGB `frames`, shown at `seconds`; a last group that is not full repeats its last."""
        del rate
        if not seconds:
            raise BadClip("the clip has no frames")
        count, coming = len(seconds), of_one_size(frames, len(seconds))
        first = next(coming)
        size = Size(first.height, first.width)
        tokens, grid = self.measure(size, count)
        out = np.empty((grid[0] * self.temporal, 3, grid[1] * self.patch, grid[2] * self.patch), np.float32)
        self._write(out[0], first)
        for number, frame in enumerate(coming, 1):
            self._write(out[number], frame)
        out[count:] = out[count - 1]
        tensors: dict[str, Array] = {
            "pixel_values_videos": out.reshape(1, grid[0], -1, *out.shape[2:]),
            "num_frames": np.array([count], np.int64),
        }
        facts = {"seconds": tuple(seconds), "temporal": self.temporal}
        return ItemFeatures(tensors, size, tokens, grid, Modality.VIDEO, facts)

    def _write(self, out: Float32, frame: Image.Image) -> None:
        for top, band in float_bands(np.asarray(frame), Size(*out.shape[1:]), BICUBIC, self.patch):
            out[:, top : top + self.patch] = self.normalizer(band).transpose(2, 0, 1)

    def numbered(self, frames: Iterable[Image.Image], places: Sequence[int], rate: float) -> ItemFeatures:
        """As `item`, of the frames at `places` of a clip at `rate`: a moment counts by a frame's whole milliseconds."""
        made = self.item(frames, [place / rate for place in places])
        lasting = int(1000.0 / rate)
        moments = tuple(place * lasting / 1000.0 for place in places)
        return replace(made, facts={**made.facts, "seconds": moments, "places": tuple(places), "milliseconds": lasting})


def separate_frames(item: ItemFeatures) -> dict[str, Array]:
    """The tensors of a clip frame by frame, with their numbers and how long one is shown, as vLLM's class takes them."""
    pixels, (count,) = item.tensors["pixel_values_videos"], item.tensors["num_frames"].tolist()
    return {
        "pixel_values_videos": pixels.reshape(-1, 3, *pixels.shape[3:])[:count],
        "num_frames": item.tensors["num_frames"],
        "frames_indices": np.array([item.facts.get("places", range(count))], np.int64),
        "frame_duration_ms": np.array([item.facts.get("milliseconds", 0)], np.int64),
    }


def _clips(files: ModelFiles) -> NemotronVideoProcessor:
    """From video_preprocessor_config.json, whose means are those of pictures where it says none. How many frames are a group is
    what processor_config.json says, if it does."""
    config = settled(files.clips, _CLIPS, kind=VIDEO_CLASS)
    if (group := files.processor.get("video_temporal_patch_dim")) is not None:
        config["temporal_patch_size"] = group
    image = files.image
    mean = means_of(config, image.get("norm_mean") or means_of(image, CLIP_MEAN), "norm_mean")
    std = means_of(config, image.get("norm_std") or means_of(image, CLIP_STD, "image_std"), "norm_std")
    count, fps = count_or_rate(config)
    return NemotronVideoProcessor(
        normalizer=FloatNormalizer(np.array(mean, np.float32), np.array(std, np.float32), 1 / 255),
        sampling=Uniform(_USUAL_FRAMES if count is None and fps is None else count, fps),
        target=positive_number(config, "video_target_num_patches", _MOST_PATCHES),
        patch=positive_number(config, "patch_size"),
        merge=merge_of(config),
        temporal=positive_number(config, "temporal_patch_size"),
        shaped=bool(config["video_maintain_aspect_ratio"]),
    )


def _marks(vocabulary: PromptTokenizer, model: Mapping[str, Any]) -> tuple[int, int, int]:
    """The tokens before, of and after a picture."""
    configured = model.get("image_token_id") or model.get("img_context_token_id")
    return token(vocabulary, "<img>"), token(vocabulary, "<image>", configured), token(vocabulary, "</img>")


def nemotron_image_rule(files: ModelFiles, vocabulary: PromptTokenizer) -> PromptRule:
    """A picture: its tokens between `<img>` and `</img>`."""
    return marked_rule(*_marks(vocabulary, files.model), "<image>")


def _clip_prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """A clip: a line for each group, which says when its frames are shown, and its tokens as a picture's."""
    start, feature, end = _marks(vocabulary, model)
    anchor = token(vocabulary, "<video>", model.get("video_token_id") or model.get("video_context_token_id"))

    def write(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer, seconds, temporal = ReplacementWriter(), item.facts["seconds"], item.facts["temporal"]
        for first in range(0, len(seconds), temporal):
            lines = [
                f"{'frame' if offset else 'Frame'} {first + offset + 1} sampled at {second:.2f} seconds"
                for offset, second in enumerate(seconds[first : first + temporal])
            ]
            line = "\n" if first else ""
            writer.put(*vocabulary.encode(f"{line}{' and '.join(lines)}: "), start)
            writer.run(feature, item.tokens // item.grid[0]).put(end)
        return writer.done()

    return PromptRule(Modality.VIDEO, "<video>", anchor, feature, write)


def _audio_prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    configured = model.get("audio_token_id") or model.get("sound_context_token_id")
    feature = token(vocabulary, "<so_embedding>", configured)
    start, end = token(vocabulary, "<so_start>"), token(vocabulary, "<so_end>")
    return marked_rule(start, feature, end, "<so_embedding>", Modality.AUDIO)


NEMOTRON_VIDEO = Modal(
    _clips,
    _clip_prompt,
    {"pixel_values_videos": Batched(), "num_frames": Batched()},
    "pixel_values_videos",
    frozenset({"num_frames"}),
)
NEMOTRON_AUDIO = Modal(
    of_recordings(parakeet_recordings),
    _audio_prompt,
    {"input_features": Batched(), "input_features_mask": Batched()},
    "input_features",
)

"""Clips of Kimi K2.5: every frame as a picture on whole blocks, a few frames to a chunk, the time of each chunk before it.

Above: `registry` puts these into the family's row. Below: `patches.kimi`, whose pictures these frames are, and `clips`. Follows
transformers' video_processing_kimi_k25 and processing_kimi_k25.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.clips.frames import of_one_size
from smg_multimodal.clips.sampling import FrameSampling, Uniform, count_or_rate
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import VIDEO_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.families.modalities import Modal
from smg_multimodal.patches.kimi import MoonVitProcessor
from smg_multimodal.pixels.resample import BICUBIC, resample_of
from smg_multimodal.pixels.transforms import HALF, fused_normalizer, normalizer_of
from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer, ReplacementWriter, token
from smg_multimodal.records.errors import BadClip
from smg_multimodal.records.types import Array, Batched, Flat, ItemFeatures, Layout, Modality, Replacement, Size

__all__ = ["KIMI_VIDEO", "KimiVideoProcessor"]

_CLIPS = ProcessorClass(
    frozenset({"Kimi_K25VideoProcessor"}),
    {
        "do_resize": True,
        "size": {"max_height": 512, "max_width": 512},
        "patch_size": 14,
        "temporal_patch_size": 4,
        "merge_size": 2,
        "max_patches": 4096,
        "fps": 2,
    },
    {"do_resize": (True,)},
    own=True,
)
_ANCHOR = "<|kimi_k25_video_placeholder|>"
_OVERHEAD = 4096
"""Bytes of a clip's small tensors for each frame."""


@dataclass(frozen=True, slots=True)
class KimiVideoProcessor:
    """Clips to (patches, 3, patch, patch) floats and a row (frames, rows, columns) of patches for each chunk of `chunk` frames.

    The tokens of a chunk are as many as those of one frame.
    """

    image: MoonVitProcessor
    sampling: FrameSampling
    chunk: int = 4

    def sample(self, total: int, rate: float) -> list[int]:
        """The numbers of the frames that are taken of `total` at `rate` per second."""
        return self.sampling(total, rate)

    def measure(self, size: Size, frames: int) -> tuple[int, tuple[int, ...]]:
        """Tokens, and (frames, rows, columns) of patches, of `frames` taken frames of `size`."""
        tokens, (_, rows, columns) = self.image.measure(size)
        return -(-frames // self.chunk) * tokens, (frames, rows, columns)

    def nbytes(self, size: Size, frames: int) -> int:
        """Bytes of the tensors of `frames` taken frames of `size`."""
        _, grid = self.measure(size, frames)
        return math.prod(grid) * 3 * self.image.patch**2 * 4 + _OVERHEAD

    def item(self, frames: Iterable[Image.Image], seconds: Sequence[float], rate: float | None = None) -> ItemFeatures:
        """The tensors of taken RGB `frames`, which come one after the other, shown at `seconds`."""
        del rate
        if not seconds:
            raise BadClip("the clip has no frames")
        count, coming = len(seconds), of_one_size(frames, len(seconds))
        first = next(coming)
        size = Size(first.height, first.width)
        tokens, (_, rows, columns) = self.measure(size, count)
        each = rows * columns
        out = np.empty((count * each, 3, self.image.patch, self.image.patch), np.float32)
        self.image.write(out[:each], first)
        for number, frame in enumerate(coming, 1):
            self.image.write(out[number * each : (number + 1) * each], frame)
        starts = range(0, count, self.chunk)
        grid = [(min(self.chunk, count - start), rows, columns) for start in starts]
        tensors: dict[str, Array] = {
            "pixel_values_videos": out,
            "video_grid_thw": np.array(grid, np.int64),
            "num_chunks_per_video": np.array([len(grid)], np.int64),
        }
        facts = {"seconds": tuple(seconds[start] for start in starts)}
        return ItemFeatures(tensors, size, tokens, (count, rows, columns), Modality.VIDEO, facts)


def _clips(files: ModelFiles) -> KimiVideoProcessor:
    """From video_preprocessor_config.json."""
    config = settled(files.clips, _CLIPS, kind=VIDEO_CLASS)
    size = config["size"]
    if size.get("max_height") != size.get("max_width") or set(size) != {"max_height", "max_width"}:
        raise refused("size", dict(size), "max_height and max_width are needed, and alike")
    count, fps = count_or_rate(config)
    image = MoonVitProcessor(
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
        most=positive_number(config, "max_patches"),
        longest=positive_number(size, "max_height"),
        patch=positive_number(config, "patch_size"),
        merge=positive_number(config, "merge_size"),
        resample=resample_of(config, BICUBIC),
    )
    return KimiVideoProcessor(image, Uniform(count, fps), positive_number(config, "temporal_patch_size"))


def _clock(second: float) -> str:
    """Hours of the day, minutes, seconds and thousandths, the last cut off."""
    whole = int(second)
    return f"{whole // 3600 % 24:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{int(second % 1 * 1000):03d}"


def _prompt(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """The time of each chunk, and its tokens between the marks of media."""
    begin, content = token(vocabulary, "<|media_begin|>"), token(vocabulary, "<|media_content|>")
    end = token(vocabulary, "<|media_end|>")
    feature = token(vocabulary, _ANCHOR, model.get("video_token_id"))

    def write(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer, moments, kind = ReplacementWriter(), item.facts["seconds"], vocabulary.encode("video")
        for second in moments:
            writer.put(*vocabulary.encode(_clock(second)), begin, *kind, content)
            writer.run(feature, item.tokens // len(moments)).put(end)
        return writer.done()

    return PromptRule(Modality.VIDEO, _ANCHOR, feature, feature, write)


_LAYOUTS: Mapping[str, Layout] = {
    "pixel_values_videos": Flat("patches_per_video"),
    "video_grid_thw": Flat("num_chunks_per_video"),
    "num_chunks_per_video": Batched(),
}
KIMI_VIDEO = Modal(
    _clips, _prompt, _LAYOUTS, "pixel_values_videos", frozenset({"video_grid_thw", "num_chunks_per_video"})
)

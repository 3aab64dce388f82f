"""Clips of Molmo 2: every frame on one square, its patches pooled to tokens, and the second at which it is shown before it.

Above: `registry` puts these into the family's row. Below: `tiles.molmo`, whose pictures these frames are without their squares,
and `clips`. Follows transformers' video_processing_molmo2 and processing_molmo2.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from smg_multimodal.clips.frames import of_one_size
from smg_multimodal.clips.sampling import AtMostRate, FrameSampling, count_or_rate
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import VIDEO_CLASS, ProcessorClass, fixed_size, positive_number, settled
from smg_multimodal.families.modalities import Modal
from smg_multimodal.pixels.transforms import HALF, fused_normalizer, normalizer_of
from smg_multimodal.prompts.clip_prompts import molmo2_clip_rule
from smg_multimodal.records.errors import BadClip
from smg_multimodal.records.types import Array, Batched, Flat, ItemFeatures, Layout, Modality, Size
from smg_multimodal.tiles.molmo import Molmo2Processor, nearest_four

__all__ = ["MOLMO2_VIDEO", "Molmo2VideoProcessor"]

_CLIPS = ProcessorClass(
    frozenset({"Molmo2VideoProcessor"}),
    {
        "resample": 2,
        "size": {"height": 378, "width": 378},
        "patch_size": 14,
        "pooling_size": (3, 3),
        "num_frames": 64,
        "max_fps": 2,
        "do_rescale": False,
        "do_normalize": False,
    },
    {"resample": (2,)},
)
"""As transformers' class has them: it leaves bytes as they are where no file says otherwise, which published ones do."""
_FRAME_MARKS = (151943, 151944)
"""The ids before and after a frame's patches, where config.json has none."""
_OVERHEAD = 4096
"""Bytes of a clip's small tensors."""


@dataclass(frozen=True, slots=True)
class Molmo2VideoProcessor:
    """Clips to (frames, patches, patch * patch * 3) floats, rows of patches pooled to a token, and (frames, rows, columns) of
    tokens; and to the counts and the ids that vLLM asks for. `marks` are the ids before, of and after a frame."""

    image: Molmo2Processor
    sampling: FrameSampling
    marks: tuple[int, int, int]

    def sample(self, total: int, rate: float) -> list[int]:
        """The numbers of the frames that are taken of `total` at `rate` per second."""
        return self.sampling(total, rate)

    def measure(self, size: Size, frames: int) -> tuple[int, tuple[int, ...]]:
        """Tokens, and (frames, rows, columns) of them, of `frames` taken frames of any size."""
        del size
        rows, columns = self.image.whole_grid
        return frames * rows * columns, (frames, rows, columns)

    def nbytes(self, size: Size, frames: int) -> int:
        """Bytes of the tensors of `frames` taken frames of any size."""
        tokens, _ = self.measure(size, frames)
        pooled = self.image.pool[0] * self.image.pool[1]
        return 4 * (frames * 3 * self.image.side**2 + tokens * pooled) + 8 * (tokens + 2 * frames) + _OVERHEAD

    def item(self, frames: Iterable[Image.Image], seconds: Sequence[float], rate: float | None = None) -> ItemFeatures:
        """The tensors of taken RGB `frames`, which come one after the other, shown at `seconds`."""
        del rate
        count, size, side = len(seconds), Size(0, 0), self.image.side
        if not count:
            raise BadClip("the clip has no frames")
        patches = (side // self.image.patch) ** 2
        out = np.empty((count, patches, 3 * self.image.patch**2), np.float32)
        for number, frame in enumerate(of_one_size(frames, count)):
            size = Size(frame.height, frame.width)
            out[number] = self.image.patches(nearest_four(np.asarray(frame), Size(side, side)))
        tokens, grid = self.measure(size, count)
        one = self.image.pools(np.arange(patches, dtype=np.int32).reshape(side // self.image.patch, -1))
        moved = (np.arange(count, dtype=np.int32) * np.int32(patches))[:, None, None]
        start, patch, end = self.marks
        written = np.tile(np.array([start, *[patch] * len(one), end], np.int64), count)
        tensors: dict[str, Array] = {
            "pixel_values_videos": out,
            "video_token_pooling": np.where(one >= 0, one + moved, np.int32(-1)).reshape(tokens, -1).astype(np.int32),
            "video_grids": np.array([grid], np.int64),
            "video_num_crops": np.array([count], np.int64),
            "video_num_pooled_patches": np.array([tokens], np.int64),
            "video_num_patches": np.array([count * patches], np.int64),
            "video_tokens": written,
            "num_video_tokens": np.array([len(written)], np.int64),
        }
        return ItemFeatures(tensors, size, tokens, grid, Modality.VIDEO, {"seconds": tuple(seconds)})


def _clips(files: ModelFiles) -> Molmo2VideoProcessor:
    """From video_preprocessor_config.json and config.json."""
    config = settled(files.clips, _CLIPS, kind=VIDEO_CLASS)
    size, patch = fixed_size(config), positive_number(config, "patch_size")
    if size.height != size.width:
        raise refused("size", dict(config["size"]), "a square is needed")
    if size.height % patch:
        raise refused("patch_size", patch, f"a square of {size.height} pixels is no whole number of patches")
    tall, wide = config["pooling_size"]
    image = Molmo2Processor(
        normalizer=normalizer_of(config, HALF, HALF, fused_normalizer),
        side=size.height,
        patch=patch,
        pool=(int(tall), int(wide)),
    )
    count, fps = count_or_rate(config)
    start, end = (
        int(files.model.get(key) or usual)
        for key, usual in zip(("frame_start_token_id", "frame_end_token_id"), _FRAME_MARKS, strict=True)
    )
    return Molmo2VideoProcessor(
        image=image,
        sampling=AtMostRate(count, fps, positive_number(config, "max_fps")),
        marks=(start, int(files.model.get("image_patch_id") or image.tokens.patch), end),
    )


_LAYOUTS: Mapping[str, Layout] = {
    "pixel_values_videos": Flat("video_num_crops"),
    "video_token_pooling": Flat("video_num_pooled_patches"),
    "video_tokens": Flat("num_video_tokens"),
    "video_grids": Batched(),
    "video_num_crops": Batched(),
    "video_num_pooled_patches": Batched(),
    "video_num_patches": Batched(),
    "num_video_tokens": Batched(),
}
MOLMO2_VIDEO = Modal(
    _clips,
    molmo2_clip_rule,
    _LAYOUTS,
    "pixel_values_videos",
    frozenset({"video_num_crops", "video_num_pooled_patches", "video_num_patches", "num_video_tokens"}),
)

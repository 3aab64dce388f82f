"""Clips of MiniCPM-V 4.6, 4.7 and MiniCPM-OCR: a frame a second, each cut into slices as a picture is.

Above: `registry` and `rows_of_2026` put these into rows. Below: `patches.minicpm`, whose pictures these frames are, and `clips`.
Follows transformers' video_processing_minicpmv4_6 and _minicpm_ocr, whose arithmetic is that of the torchvision backend.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from smg_multimodal.clips.frames import of_one_size
from smg_multimodal.clips.sampling import FrameSampling, OneASecond
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.configs.keys import VIDEO_CLASS, ProcessorClass, positive_number, settled
from smg_multimodal.families.modalities import ClipProcessor, Modal
from smg_multimodal.patches.minicpm import MiniCpmProcessor, slicer_of
from smg_multimodal.pixels.transforms import HALF, fused_normalizer, normalizer_of
from smg_multimodal.prompts.clip_prompts import minicpm_clip_rule
from smg_multimodal.records.errors import BadClip
from smg_multimodal.records.types import Array, Batched, Flat, ItemFeatures, Layout, Modality, Size

__all__ = ["MINICPM_VIDEO", "MiniCpmVideoProcessor"]

_DONE = {"do_resize": (True,), "stack_frames": (1, None), "downsample_mode": ("4x", "16x")}
_KEYS = {"do_resize": True, "max_num_frames": 128, "stack_frames": 1}
_MINICPM = ProcessorClass(frozenset({"MiniCPMV4_6VideoProcessor"}), {**_KEYS, "downsample_mode": "16x"}, _DONE)
_OCR = ProcessorClass(frozenset({"MiniCPMOcrVideoProcessor"}), {**_KEYS, "downsample_mode": "4x"}, _DONE)
_PER_VIEW = 8
"""Bytes of the sides of a view."""
_OVERHEAD = 64
"""Bytes of a clip's small tensors."""


@dataclass(frozen=True, slots=True)
class MiniCpmVideoProcessor:
    """Clips to (1, 3, patch, patches * patch) floats, view by view, and (views, 2) rows of (rows, columns) of patches.

    `image` says what the views of a frame are, `with_number` whether the prompt has the clip's number.
    """

    image: MiniCpmProcessor
    sampling: FrameSampling
    with_number: bool = True

    def sample(self, total: int, rate: float) -> list[int]:
        """The numbers of the frames that are taken of `total` at `rate` per second."""
        return self.sampling(total, rate)

    def measure(self, size: Size, frames: int) -> tuple[int, tuple[int, ...]]:
        """Tokens, and (frames, rows, columns) of slices, of `frames` taken frames of `size`."""
        tokens, grid = self.image.measure(size)
        return frames * tokens, (frames, *grid)

    def nbytes(self, size: Size, frames: int) -> int:
        """Bytes of the tensors of `frames` taken frames of `size`."""
        views = self.image.shapes(size)
        patches = sum(self.image.patches(view) for view in views)
        return frames * (patches * 3 * self.image.patch**2 * 4 + len(views) * _PER_VIEW) + _OVERHEAD

    def item(self, frames: Iterable[Image.Image], seconds: Sequence[float], rate: float | None = None) -> ItemFeatures:
        """The tensors of taken RGB frames, which come one after the other, shown at `seconds`."""
        del rate
        if not seconds:
            raise BadClip("the clip has no frames")
        count, length = len(seconds), 0
        out: Array | None = None
        rows: list[Array] = []
        size, per_frame = Size(0, 0), (0,)
        for number, frame in enumerate(of_one_size(frames, count)):
            made = self.image.item(frame)
            strip = made.tensors["pixel_values"]
            if out is None:
                size, per_frame, length = made.size, made.facts["tokens"], strip.shape[-1]
                out = np.empty((*strip.shape[:-1], count * length), strip.dtype)
            out[..., number * length : (number + 1) * length] = strip
            rows.append(made.tensors["target_sizes"])
        if out is None:
            raise BadClip("the clip has no frames")
        tokens, grid = self.measure(size, count)
        tensors: dict[str, Array] = {
            "pixel_values_videos": out,
            "target_sizes_videos": np.concatenate(rows),
            "num_frames_per_video": np.array([count], np.int64),
        }
        facts = {"tokens": per_frame, "numbered": self.with_number}
        return ItemFeatures(tensors, size, tokens, grid, Modality.VIDEO, facts)


def _clips(files: ModelFiles) -> ClipProcessor:
    """From video_preprocessor_config.json; 4.7 does not number its clips. Frames put beside each other are not done."""
    usual = (_OCR, _MINICPM) if files.model.get("model_type") == "minicpm_ocr" else (_MINICPM, _OCR)
    config = settled(files.clips, *usual, kind=VIDEO_CLASS)
    image = slicer_of(config, normalizer_of(config, HALF, HALF, fused_normalizer))
    numbered = files.model.get("model_type") != "minicpmv4_7" and bool(files.image.get("use_image_id", True))
    return MiniCpmVideoProcessor(image, OneASecond(positive_number(config, "max_num_frames")), numbered)


_LAYOUTS: Mapping[str, Layout] = {
    "pixel_values_videos": Batched(),
    "target_sizes_videos": Flat("views_per_video"),
    "num_frames_per_video": Batched(),
}
MINICPM_VIDEO = Modal(_clips, minicpm_clip_rule, _LAYOUTS, "pixel_values_videos", frozenset({"num_frames_per_video"}))

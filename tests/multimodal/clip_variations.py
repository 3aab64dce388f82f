"""Other values than the defaults for every key that transformers' video processors take.

`variations` gives a configuration once for each of them. A key of a class that is not in `VALUES` is an error, so that nobody
forgets one: a family whose class has keys of its own adds a line with a value or two for each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sound_files import clip

Change = Mapping[str, Any]

VALUES: Mapping[str, tuple[Change, ...]] = {
    "do_convert_rgb": ({"do_convert_rgb": False},),
    "do_resize": ({"do_resize": False},),
    "size": ({"size": {"shortest_edge": 12_000, "longest_edge": 40_000}}, {"size": 112}),
    "default_to_square": ({"default_to_square": False}, {"default_to_square": True}),
    "resample": ({"resample": 2}, {"resample": 3}),
    "do_rescale": ({"do_rescale": False}, {"do_rescale": False, "do_normalize": False}),
    "rescale_factor": ({"rescale_factor": 1 / 127.5}, {"rescale_factor": 0.01}),
    "do_normalize": ({"do_normalize": False},),
    "image_mean": ({"image_mean": [0.1, 0.2, 0.7]},),
    "image_std": ({"image_std": [0.2, 0.3, 0.9]},),
    "do_center_crop": ({"do_center_crop": True, "crop_size": {"height": 56, "width": 84}}, {"do_center_crop": False}),
    "crop_size": ({"crop_size": {"height": 56, "width": 84}},),
    "do_pad": ({"do_pad": True}, {"do_pad": False}),
    "data_format": ({"data_format": "channels_last"},),
    "input_data_format": ({"input_data_format": "channels_first"},),
    "fps": ({"fps": 1}, {"fps": 5.5}),
    "num_frames": ({"num_frames": 7}, {"num_frames": 8, "fps": 3}, {"num_frames": 1}),
    "min_pixels": ({"min_pixels": 90_000},),
    "max_pixels": ({"max_pixels": 9_000},),
    "patch_size": ({"patch_size": 7}, {"patch_size": 16}),
    "temporal_patch_size": ({"temporal_patch_size": 1}, {"temporal_patch_size": 3}),
    "merge_size": ({"merge_size": 1}, {"merge_size": 3}),
    "min_frames": ({"min_frames": 7},),
    "max_frames": ({"max_frames": 5},),
    "cap_pixels_per_frame": (
        {"cap_pixels_per_frame": True},
        {"cap_pixels_per_frame": True, "size": {"shortest_edge": 2_000, "longest_edge": 90_000}},
    ),
    "max_video_tokens": ({"cap_pixels_per_frame": True, "max_video_tokens": 24}, {"max_video_tokens": 24}),
    "max_duration": ({"max_duration": 2},),
    "max_image_size": ({"max_image_size": {"longest_edge": 112}},),
    "initial_shift": ({"initial_shift": False}, {"initial_shift": 2}, {"initial_shift": 1.5}),
    "max_soft_tokens": ({"max_soft_tokens": 140}, {"max_soft_tokens": 100}),
    "pooling_kernel_size": ({"pooling_kernel_size": 2},),
    "patch_expand_factor": ({"patch_expand_factor": 2},),
    "min_image_tokens": ({"min_image_tokens": 200}, {"min_image_tokens": 1}),
    "max_image_tokens": ({"max_image_tokens": 30}, {"max_image_tokens": 2}),
    "max_video_frame_tokens": ({"max_video_frame_tokens": 5},),
    "norm_mean": ({"norm_mean": [0.1, 0.2, 0.7]}, {"norm_mean": None}),
    "norm_std": ({"norm_std": [0.2, 0.3, 0.9]},),
    "downsample_ratio": ({"downsample_ratio": 0.25}, {"downsample_ratio": 1.0}),
    "video_target_num_patches": ({"video_target_num_patches": 100}, {"video_target_num_patches": 3}),
    "video_maintain_aspect_ratio": (
        {"video_maintain_aspect_ratio": False},
        {"video_maintain_aspect_ratio": False, "video_target_num_patches": 110},
    ),
    "pooling_size": ({"pooling_size": [2, 3]},),
    "max_fps": ({"max_fps": 3}, {"max_fps": 1}),
    "max_patches": ({"max_patches": 9},),
    "total_pixels": ({"total_pixels": 9_000},),
    "vision_segment_max_frames": ({"vision_segment_max_frames": 1}, {"vision_segment_max_frames": None}),
    "max_num_frames": ({"max_num_frames": 2}, {"max_num_frames": 1}),
    "stack_frames": ({"stack_frames": 2}, {"stack_frames": None}),
    "max_slice_nums": ({"max_slice_nums": 2}, {"max_slice_nums": 1}),
    "scale_resolution": ({"scale_resolution": 98},),
    "slice_mode": ({"slice_mode": False},),
    "downsample_mode": ({"downsample_mode": "4x"}, {"downsample_mode": "16x"}),
    "use_image_id": ({"use_image_id": False},),
    "frame_timestamp_format": ({"frame_timestamp_format": "at {timestamp:.2f}"},),
}
"""Under each key what is changed in a configuration, one change at a time; some need another key beside theirs."""

CALLED_ANYHOW = frozenset({"return_tensors", "device", "video_metadata", "return_metadata", "do_sample_frames"})
"""What says how a call is made, not what is computed. Frames are always sampled, by the gateway: it decodes no others. Where a
configuration says that the processor does not sample, somebody before it would."""

CLIPS = ((100, 70, 30, 10.0), (50, 90, 9, 3.0))
"""(width, height, frames, frames a second)."""


@dataclass(frozen=True)
class Filmed:
    """A family with clips: its `model_type`, transformers' class for them, the configuration that is changed, and the tensors
    that are compared, by our names. `call` is what is asked for where a change asks for nothing: how many frames."""

    name: str
    module: str
    kind: str
    config: Change = field(default_factory=dict)
    call: Change = field(default_factory=dict)
    model: Change = field(default_factory=dict)
    processor: Change = field(default_factory=dict)
    tensors: tuple[str, ...] = ("pixel_values_videos", "video_grid_thw")
    of: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    always: Change = field(default_factory=dict)
    """What transformers' processor of the model calls the class with, whatever its configuration says."""
    floats: bool = False
    """Whether the reference interpolates floats, which is compared with a tolerance."""
    in_one_row: bool = False
    """Whether the reference has an axis for the clips of a call in front, which is left out here."""

    def sampled(self, change: Change) -> Change:
        """What the processor is called with besides `change`."""
        return {} if "fps" in change or "num_frames" in change else self.call


_SIZES = (
    {"size": {"height": 70, "width": 98}},
    {"size": {"shortest_edge": 84}},
    {"size": 70},
    {"size": {"height": 70, "width": 98}, "do_center_crop": False},
)
_OF_ONE_SIZE = {"size": _SIZES, "do_resize": ({"do_resize": False}, {"do_resize": False, "do_center_crop": False})}
_LLAVA = {"size": {"shortest_edge": 84}, "crop_size": {"height": 84, "width": 84}}
_SMALL = {"size": {"height": 84, "width": 84}}
_SIX = {"num_frames": 6}
FILMED = (
    Filmed("qwen2_vl", "qwen2_vl", "Qwen2VLVideoProcessor", call={"fps": 2}),
    Filmed("qwen3_vl", "qwen3_vl", "Qwen3VLVideoProcessor"),
    Filmed("cohere_compass", "cohere_compass", "CohereCompassVideoProcessor"),
    Filmed(
        "glm5_next",
        "glm5_next",
        "Glm5NextVideoProcessor",
        {"max_image_tokens": 400},
        of={"max_duration": ({"max_duration": 2}, {"max_duration": 0})},
    ),
    *(
        Filmed(
            name,
            "muse_glimmer",
            "MuseGlimmerVideoProcessor",
            of={"resample": ({"resample": 1}, {"resample": 2}, {"resample": 3}), "num_frames": ({"num_frames": 7},)},
        )
        for name in ("muse_glimmer", "muse_spark")
    ),
    Filmed(
        "cosmos3_edge",
        "cosmos3_edge",
        "Cosmos3EdgeVideoProcessor",
        of={"num_frames": ({"num_frames": 7}, {"num_frames": 8, "fps": 3})},
    ),
    Filmed(
        "minimax_m3_vl",
        "minimax_m3_vl",
        "MiniMaxM3VLVideoProcessor",
        {"vision_segment_max_frames": 2, "fps": 3},
        tensors=("pixel_values_videos", "video_grid_thw", "num_chunks_per_video"),
        of={"num_frames": ({"num_frames": 7}, {"num_frames": 7, "fps": None}, {"num_frames": 8, "fps": 3})},
    ),
    Filmed(
        "nemotron_h_omni",
        "nemotron_h_omni",
        "NemotronH_Omni_Reasoning_V3VideoProcessor",
        {"norm_mean": [0.48, 0.46, 0.41], "norm_std": [0.27, 0.26, 0.28], "video_target_num_patches": 64},
        _SIX,
        tensors=("pixel_values_videos", "num_frames"),
        floats=True,
        of={"num_frames": ({"num_frames": 7}, {"num_frames": 8, "fps": 3}, {"num_frames": 1})},
    ),
    Filmed(
        "molmo2",
        "molmo2",
        "Molmo2VideoProcessor",
        {"size": {"height": 84, "width": 84}, "do_rescale": True, "do_normalize": True},
        tensors=("pixel_values_videos", "video_token_pooling", "video_grids"),
        of={
            "size": ({"size": {"height": 70, "width": 98}}, {"size": {"height": 70, "width": 70}}),
            "resample": ({"resample": 3},),
        },
    ),
    Filmed(
        "kimi_k25",
        "kimi_k25",
        "Kimi_K25VideoProcessor",
        {"fps": 3},
        tensors=("pixel_values_videos", "video_grid_thw", "num_chunks_per_video"),
        of={
            "size": (
                {"size": {"max_height": 4, "max_width": 4}},
                {"size": {"max_height": 4, "max_width": 6}},
                {"size": 112},
            ),
            "num_frames": ({"num_frames": 7}, {"num_frames": 7, "fps": None}, {"num_frames": 8, "fps": 3}),
            "max_patches": ({"max_patches": 9},),
        },
    ),
    Filmed("dots3_note", "qwen3_vl", "Qwen3VLVideoProcessor"),
    Filmed(
        "hy_v4_vl",
        "hy_v4_vl",
        "HYV4VLVideoProcessor",
        of={
            "num_frames": ({"num_frames": 7}, {"num_frames": 8, "fps": 3}),
            "max_image_size": ({"max_image_size": {"longest_edge": 3000}}, {"max_image_size": {"longest_edge": 112}}),
            "size": (
                {"size": {"shortest_edge": 12_000, "longest_edge": 40_000}},
                {"size": {"shortest_edge": 1, "longest_edge": 2_000}},
                {"size": 112},
            ),
        },
    ),
    *(
        Filmed(
            name,
            module,
            kind,
            {"scale_resolution": 56, "patch_size": 7},
            tensors=("pixel_values_videos", "target_sizes_videos"),
            of={"patch_size": ({"patch_size": 4}, {"patch_size": 14})},
        )
        for name, module, kind in (
            ("minicpmv4_6", "minicpmv4_6", "MiniCPMV4_6VideoProcessor"),
            ("minicpm_ocr", "minicpm_ocr", "MiniCPMOcrVideoProcessor"),
        )
    ),
    *(
        Filmed(
            name,
            "qwen2_vl",
            "Qwen2VLVideoProcessor",
            call={"fps": 2},
            always={"min_pixels": 128 * side**2, "max_pixels": 768 * side**2},
        )
        for name, side in (("qwen2_5_omni", 28), ("qwen3_omni_moe", 32))
    ),
    Filmed("glm4v", "glm4v", "Glm4vVideoProcessor"),
    Filmed("glm46v", "glm46v", "Glm46VVideoProcessor"),
    Filmed(
        "llava_next_video",
        "llava_next_video",
        "LlavaNextVideoVideoProcessor",
        _LLAVA,
        _SIX,
        tensors=("pixel_values_videos",),
        of=_OF_ONE_SIZE,
    ),
    Filmed(
        "llava_onevision",
        "llava_onevision",
        "LlavaOnevisionVideoProcessor",
        _SMALL,
        _SIX,
        tensors=("pixel_values_videos",),
        of=_OF_ONE_SIZE,
    ),
    Filmed(
        "internvl",
        "internvl",
        "InternVLVideoProcessor",
        _SMALL,
        _SIX,
        tensors=("pixel_values_videos",),
        of=_OF_ONE_SIZE,
        in_one_row=True,
    ),
    Filmed(
        "smolvlm",
        "smolvlm",
        "SmolVLMVideoProcessor",
        {"size": {"longest_edge": 150}, "max_image_size": {"longest_edge": 84}, "fps": 1, "num_frames": 64},
        tensors=("pixel_values", "pixel_attention_mask"),
        of={
            "size": ({"size": {"longest_edge": 200}}, {"size": 112}, {"size": {"longest_edge": 5000}}),
            "resample": ({"resample": 1}, {"resample": 2}, {"resample": 3}),
            "num_frames": ({"num_frames": 2}, {"num_frames": 8, "fps": 3}),
        },
    ),
    Filmed(
        "gemma4_unified",
        "gemma4_unified",
        "Gemma4UnifiedVideoProcessor",
        {"num_frames": 6},
        tensors=("pixel_values_videos", "video_position_ids", "num_frames_per_video"),
    ),
    Filmed(
        "gemma4",
        "gemma4",
        "Gemma4VideoProcessor",
        {"num_frames": 6},
        tensors=("pixel_values_videos", "video_position_ids", "num_frames_per_video"),
    ),
)


def variations(filmed: Filmed, keys: Iterator[str]) -> Iterator[tuple[str, Change]]:
    """(key, change) for all `keys` that the class takes. Raises `KeyError` for a key that nobody has given values."""
    for key in keys:
        if key not in CALLED_ANYHOW:
            for change in filmed.of.get(key, VALUES[key]):
                yield key, change


def films() -> list[tuple[list[Any], float]]:
    """The frames of each clip, and how many of them there are a second."""
    return [(clip(width, height, frames), rate) for width, height, frames, rate in CLIPS]

"""Other values than the defaults for every key that transformers' image processors take.

`variations` gives a family's configuration once for each of them. A key of a class that is not in `VALUES` is an error, so that
nobody forgets one: a new family whose class has keys of its own adds a line with two or three values for each, and a line in
`OF_A_FAMILY` where the common values make no sense for it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from PIL import Image
from reference_families import Family, reference_class

Change = Mapping[str, Any]

SQUARE = {"height": 70, "width": 70}
VALUES: Mapping[str, tuple[Change, ...]] = {
    "do_convert_rgb": ({"do_convert_rgb": False},),
    "do_resize": ({"do_resize": False},),
    "size": ({"size": {"height": 112, "width": 112}}, {"size": {"shortest_edge": 112}}, {"size": 112}),
    "default_to_square": ({"default_to_square": False, "size": 112}, {"default_to_square": True, "size": 112}),
    "crop_size": ({"crop_size": {"height": 98, "width": 126}}, {"crop_size": 98}),
    "resample": tuple({"resample": code} for code in range(6)),
    "do_rescale": ({"do_rescale": False}, {"do_rescale": False, "do_normalize": False}),
    "rescale_factor": ({"rescale_factor": 1 / 127.5}, {"rescale_factor": 0.01}),
    "do_normalize": ({"do_normalize": False},),
    "image_mean": ({"image_mean": [0.1, 0.2, 0.7]}, {"image_mean": 0.3}),
    "image_std": ({"image_std": [0.2, 0.3, 0.9]}, {"image_std": 0.4}),
    "do_pad": ({"do_pad": True}, {"do_pad": False}),
    "pad_size": ({"pad_size": {"height": 900, "width": 900}},),
    "do_center_crop": ({"do_center_crop": True}, {"do_center_crop": False}),
    "data_format": ({"data_format": "channels_last"},),
    "input_data_format": ({"input_data_format": "channels_first"},),
    "disable_grouping": ({"disable_grouping": True},),
    "image_seq_length": ({"image_seq_length": 99},),
    "min_pixels": ({"min_pixels": 90_000},),
    "max_pixels": ({"max_pixels": 9_000},),
    "patch_size": ({"patch_size": 7}, {"patch_size": 16}),
    "temporal_patch_size": ({"temporal_patch_size": 1}, {"temporal_patch_size": 3}),
    "merge_size": ({"merge_size": 1}, {"merge_size": 3}),
    "image_grid_pinpoints": ({"image_grid_pinpoints": [[336, 672], [336, 336]]},),
    "do_pan_and_scan": ({"do_pan_and_scan": True}, {"do_pan_and_scan": False}),
    "pan_and_scan_min_crop_size": ({"pan_and_scan_min_crop_size": 20},),
    "pan_and_scan_max_num_crops": ({"pan_and_scan_max_num_crops": 2, "pan_and_scan_min_crop_size": 20},),
    "pan_and_scan_min_ratio_to_activate": ({"pan_and_scan_min_ratio_to_activate": 3.5},),
    "crop_to_patches": ({"crop_to_patches": False},),
    "min_patches": ({"min_patches": 3},),
    "max_patches": ({"max_patches": 3}, {"max_patches": 1}, {"max_patches": 1, "do_resize": False}),
    "max_slice_nums": ({"max_slice_nums": 2, "scale_resolution": 112},),
    "scale_resolution": ({"scale_resolution": 112},),
    "slice_mode": ({"slice_mode": False, "scale_resolution": 112},),
    "downsample_mode": ({"downsample_mode": "4x"}, {"downsample_mode": "4x", "scale_resolution": 112}),
    "use_image_id": ({"use_image_id": False},),
    "resize_to_max_canvas": ({"resize_to_max_canvas": True},),
    "dynamic_hd": ({"dynamic_hd": 3},),
    "tile_size": ({"tile_size": 128}, {"tile_size": 96, "min_patches": 1}),
    "background_color": ({"background_color": [10, 200, 90]},),
    "use_covering_area_grid": ({"use_covering_area_grid": False}, {"use_covering_area_grid": True}),
    "max_crops": ({"max_crops": 3},),
    "overlap_margins": ({"overlap_margins": [3, 2]}, {"overlap_margins": [0, 0]}),
    "pooling_size": ({"pooling_size": [3, 2]},),
    "num_crops": ({"num_crops": 4},),
    "max_soft_tokens": ({"max_soft_tokens": 70}, {"max_soft_tokens": 100}),
    "pooling_kernel_size": ({"pooling_kernel_size": 2},),
    "do_image_splitting": ({"do_image_splitting": False}, {"do_image_splitting": True}),
    "max_image_size": ({"max_image_size": {"longest_edge": 112}}, {"max_image_size": {"height": 112, "width": 112}}),
    "return_row_col_info": ({"return_row_col_info": True},),
    "max_image_tiles": ({"max_image_tiles": 2}, {"max_image_tiles": 6}),
    "num_img_tokens": ({"num_img_tokens": 100},),
    "downsample_factor": ({"downsample_factor": 1}, {"downsample_factor": 4}),
    "min_tiles": ({"min_tiles": 4}, {"min_tiles": 1}),
    "max_tiles": ({"max_tiles": 3},),
    "use_thumbnail": (
        {"use_thumbnail": False},
        {"use_thumbnail": False, "max_image_tokens": 20, "min_image_tokens": 9},
    ),
    "encoder_patch_size": ({"encoder_patch_size": 8},),
    "max_pixels_tolerance": ({"max_pixels_tolerance": 0.1}, {"max_pixels_tolerance": 1}),
    "min_size": ({"min_size": 100},),
    "high_res_size": ({"high_res_size": {"height": 500, "width": 500}}, {"high_res_size": 400}),
    "high_res_resample": ({"high_res_resample": 2}, {"high_res_resample": 1}),
    "high_res_image_mean": ({"high_res_image_mean": [0.1, 0.2, 0.7]},),
    "high_res_image_std": ({"high_res_image_std": [0.2, 0.3, 0.9]},),
    "rescale_image_frac": ({"rescale_image_frac": 0.5}, {"rescale_image_frac": 3.0}),
    "rescale_image_max_upscaled_long_edge": (
        {"rescale_image_max_upscaled_long_edge": 600, "rescale_image_frac": 2.0},
        {"rescale_image_max_upscaled_long_edge": None, "rescale_image_frac": 5.0},
    ),
    "downsample_ratio": ({"downsample_ratio": 0.25}, {"downsample_ratio": 1.0}, {"downsample_ratio": 0.3}),
    "min_num_patches": ({"min_num_patches": 0}, {"min_num_patches": 500}),
    "max_num_patches": ({"max_num_patches": 100}, {"max_num_patches": 300}, {"max_num_patches": 0}),
    "max_model_len": ({"max_model_len": 80}, {"max_model_len": 3}),
    "maximum_pad_value": (
        {"maximum_pad_value": 900},
        {"crop_to_patches": False, "maximum_pad_value": 640},
        {"crop_to_patches": False, "maximum_pad_value": 600},
    ),
    "min_image_size": ({"min_image_size": 500}, {"min_image_size": 2000}),
    "split_resolutions": ({"split_resolutions": [[490, 980], [980, 490]]},),
    "small_image_upsize": (
        {"small_image_upsize": "never"},
        {"small_image_upsize": "never", "scale_resolution": 112},
        {"small_image_upsize": "adaptive"},
    ),
    "patch_expand_factor": ({"patch_expand_factor": 2},),
    "min_image_tokens": ({"min_image_tokens": 100},),
    "max_image_tokens": ({"max_image_tokens": 20}, {"max_image_tokens": 3}),
}
"""Under each key what is changed in a configuration, one change at a time; some need another key beside theirs."""

AREAS = (
    *("qwen2_vl", "glm4v", "glm46v", "paddleocr_vl", "ernie4_5_vl_moe", "hunyuan_vl"),
    *("cohere_compass", "cosmos3_edge", "hy_v4_vl", "minimax_m3_vl"),
)
_AREA = {"size": {"shortest_edge": 12_000, "longest_edge": 40_000}}
OF_A_FAMILY: Mapping[tuple[str, str], tuple[Change, ...]] = {
    **{(name, "size"): (_AREA, {"size": 112}) for name in AREAS},
    ("kimi_k25", "size"): (
        {"size": {"max_height": 10, "max_width": 10}},
        {"size": {"max_height": 10, "max_width": 12}},
        {"size": {"height": 112, "width": 112}},
    ),
    ("llama4", "size"): (
        {"size": {"height": 112, "width": 112}},
        {"size": {"height": 112, "width": 126}},
        {"size": {"shortest_edge": 112}},
    ),
    ("step3p7", "max_image_size"): ({"max_image_size": 300},),
    ("step3p7", "size"): ({"size": {"height": 448, "width": 448}}, {"size": 448}),
    ("lfm2_vl", "max_image_tokens"): ({"max_image_tokens": 70}, {"max_image_tokens": 20, "min_image_tokens": 9}),
    ("lfm2_vl", "tile_size"): ({"tile_size": 128}, {"tile_size": 64, "max_image_tokens": 20, "min_image_tokens": 9}),
    ("inkling", "size"): ({"size": {"height": 30, "width": 30}}, {"size": {"height": 30, "width": 31}}, {"size": 112}),
    ("inkling2", "size"): ({"size": {"height": 30, "width": 30}}, {"size": {"height": 30, "width": 44}}, {"size": 112}),
    ("inkling", "resample"): tuple({"resample": code, "rescale_image_frac": 0.7} for code in (1, 2, 3)),
    ("deepseek_vl", "size"): (
        {"size": {"height": 112, "width": 112}},
        {"size": {"height": 112, "width": 126}},
        {"size": 99},
    ),
    ("deepseek_vl_hybrid", "size"): ({"size": {"height": 112, "width": 112}}, {"size": {"height": 112, "width": 126}}),
    ("muse_glimmer", "resample"): tuple({"resample": code} for code in (1, 2, 3)),
    ("llama4", "max_patches"): ({"max_patches": 3}, {"max_patches": 1}),
    **{
        (name, "resample"): tuple({"resample": code} for code in (2, 3))
        for name in (
            *("llama4", "kimi_k25", "phi4_multimodal", "minimax_m3_vl", "cohere2_vision", "gemma4_unified"),
            *("lfm2_vl", "step3p7", "nemotron_h_omni", "unlimited_ocr", "minicpm_ocr"),
        )
    },
    # Bytes are left as they are for engines that normalise; the overview, which torch would round to bytes, is kept exact then.
    ("phi4_multimodal", "do_rescale"): ({"do_rescale": False},),
    ("kimi_k25", "max_patches"): ({"max_patches": 100},),
    ("pixtral", "size"): (
        {"size": {"longest_edge": 112}},
        {"size": {"height": 112, "width": 140}},
        {"size": 112},
        {"size": {"shortest_edge": 112}},
    ),
    **{
        (name, "size"): ({"size": {"longest_edge": 728}}, {"size": {"height": 700, "width": 350}})
        for name in ("idefics3", "smolvlm")
    },
    ("mllama", "size"): (
        {"size": {"height": 112, "width": 112}},
        {"size": {"height": 112, "width": 126}},
        {"size": {"shortest_edge": 112}},
    ),
    ("llava", "crop_size"): ({"crop_size": SQUARE}, {"crop_size": 98}, {"crop_size": SQUARE, "do_resize": False}),
    ("llava_onevision", "image_grid_pinpoints"): ({"image_grid_pinpoints": [[384, 768], [384, 384]]},),
}
"""By the reference's name and the key: what stands in `VALUES`' place. torch has not all of Pillow's filters."""

CALLED_ANYHOW = frozenset({"return_tensors", "device"})
"""What says how a call is made, not what is computed; a configuration cannot give it."""


SIZES = ((470, 150), (31, 90))


def small_pictures() -> list[Image.Image]:
    """A wide and a tall picture, the same on every run."""
    rng = np.random.default_rng(7)
    coarse = [rng.integers(0, 256, (height // 3 + 1, width // 3 + 1, 3), np.uint8) for width, height in SIZES]
    return [
        Image.fromarray(each).resize(size, Image.Resampling.BILINEAR) for each, size in zip(coarse, SIZES, strict=True)
    ]


def keys_of(family: Family) -> list[str]:
    """The keys that the family's class takes, but for those that its processor sets at every call."""
    if family.torch == "phi3_v":
        return list(family.preprocessor)  # its code is published with the model, and reads these alone
    kind = reference_class(family)
    return [key for key in kind.valid_kwargs.__annotations__ if key not in family.call and key not in CALLED_ANYHOW]


def variations(family: Family) -> Iterator[tuple[str, Change]]:
    """(key, change) for all of them. Raises `KeyError` for a key that nobody has given values."""
    for key in keys_of(family):
        for change in OF_A_FAMILY.get((family.reference or family.torch or "", key), VALUES[key]):
            yield key, change

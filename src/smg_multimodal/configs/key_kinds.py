"""The kind of value of each key of a processor's configuration.

Above: `keys`, which checks a configuration when a model is loaded, and `files`. Below: `records.errors`. A key whose value is
of another kind (a number in quotes, a list for a number, nothing at all) is refused by its name: it is a mistake in the file,
and there is no telling what an engine would make of it.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from smg_multimodal.records.errors import UnsupportedModel

__all__ = ["FLAGS", "MOST_TILES", "check_kinds", "check_sections", "is_whole", "refused"]

MOST_TILES = 1024
"""Tiles of one picture beyond which a configuration is refused: all ways to lay them are gone through when a model is loaded."""

FLAGS = frozenset(
    {
        "crop_to_patches",
        "do_center_crop",
        "do_image_splitting",
        "do_normalize",
        "do_pad",
        "do_pan_and_scan",
        "do_rescale",
        "do_resize",
        "resize_to_max_canvas",
        "slice_mode",
        "use_covering_area_grid",
        "use_image_id",
    }
)
"""Keys that are true or false. transformers takes null for false here, whatever the class has without the key."""

Holds = Callable[[Any], bool]


def refused(key: str, value: Any, why: str) -> UnsupportedModel:
    """The error for a configuration whose `key` has a value that is not done here."""
    return UnsupportedModel(f"{key} {value!r} in the processor's configuration: {why}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_above_nothing(value: Any) -> bool:
    return _is_number(value) and value > 0


def is_whole(value: Any) -> TypeGuard[float]:
    """Whether it is a whole number above nothing, which may be written with a point."""
    return _is_above_nothing(value) and value == int(value)


def _is_count_of_tiles(value: Any) -> bool:
    return is_whole(value) and value <= MOST_TILES


def _is_list_of(count: int, holds: Holds) -> Holds:
    return lambda value: isinstance(value, list | tuple) and len(value) == count and all(map(holds, value))


def _is_mean(value: Any) -> bool:
    return _is_number(value) or _is_list_of(3, _is_number)(value)


def _is_deviation(value: Any) -> bool:
    return _is_mean(value) and (value != 0 if _is_number(value) else 0 not in value)


def _is_list_of_sizes(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_list_of(2, is_whole), value))


_WHOLE = (is_whole, "a whole number above nothing is needed")
_TILES = (_is_count_of_tiles, f"a whole number from 1 to {MOST_TILES} is needed")
_NUMBER = (_is_above_nothing, "a number above nothing is needed")
_ANY_NUMBER = (_is_number, "a number is needed")
_KINDS: Mapping[str, tuple[Holds, str]] = {
    **dict.fromkeys(
        (
            "dynamic_hd",
            "max_crops",
            "max_image_tiles",
            "max_slice_nums",
            "min_patches",
            "num_crops",
            "pan_and_scan_max_num_crops",
        ),
        _TILES,
    ),
    **dict.fromkeys(
        (
            "image_seq_length",
            "max_patches",
            "max_pixels",
            "max_soft_tokens",
            "merge_size",
            "min_pixels",
            "num_img_tokens",
            "patch_size",
            "pan_and_scan_min_crop_size",
            "pooling_kernel_size",
            "scale_resolution",
            "temporal_patch_size",
            "tile_size",
        ),
        _WHOLE,
    ),
    **dict.fromkeys(("audio_tokens_per_second", "pan_and_scan_min_ratio_to_activate", "rescale_factor"), _NUMBER),
    "global_log_mel_max": _ANY_NUMBER,
    "background_color": (_is_list_of(3, _is_number), "three numbers are needed"),
    "image_grid_pinpoints": (_is_list_of_sizes, "pairs of whole numbers above nothing are needed"),
    "image_mean": (_is_mean, "one number or three are needed"),
    "image_std": (_is_deviation, "one number or three are needed, none of them nothing"),
    "overlap_margins": (_is_list_of(2, _is_number), "two numbers are needed"),
    "pooling_size": (_is_list_of(2, is_whole), "two whole numbers above nothing are needed"),
}
"""By the key: whether a value will do, and what is needed where it does not."""


def check_kinds(config: Mapping[str, Any]) -> None:
    """Raises `UnsupportedModel` by the name of the first key of `config` whose value is of a kind that it does not take. Null is
    a value of none: the class's stands in its place."""
    for key, value in config.items():
        if key in FLAGS and not isinstance(value, bool | None):
            raise refused(key, value, "true or false is needed")
        holds, needed = _KINDS.get(key, (None, ""))
        if value is not None and holds is not None and not holds(value):
            raise refused(key, value, needed)


_SECTIONS = (
    "audio_config",
    "feature_extractor",
    "image_processor",
    "media_proc_cfg",
    "text_config",
    "thinker_config",
    "video_processor",
    "vision_config",
    "visual",
)


def check_sections(*files: Mapping[str, Any]) -> None:
    """Raises `UnsupportedModel` by the name of the first part of a model's files that should have keys of its own, and has
    none."""
    for file in files:
        for key in _SECTIONS:
            if not isinstance(file.get(key), Mapping | None):
                raise UnsupportedModel(f"{key} {file[key]!r} in the model's files: it needs keys of its own")

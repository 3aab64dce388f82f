"""The meaning of the keys of a processor's configuration: the defaults of its class, and the values that are done here.

Above: the family modules, whose makers call `settled` before they read anything. Below: `key_kinds`. A configuration names a
class of transformers (under `image_processor_type`, `video_processor_type` or `feature_extractor_type`) and gives some of its
keys; the class gives the others. Every key that changes tensors or token counts is either read by the maker or listed in
`ProcessorClass.only` with the values that are what the maker does anyway; any other value is refused when the model is
loaded, by the key's name. Keys that change nothing are in neither. tests/multimodal/configs/test_keys.py, test_clip_keys.py and
test_recording_keys.py walk all keys that transformers' own classes take, with other values than the defaults.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from smg_multimodal.configs.key_kinds import FLAGS, check_kinds, is_whole, refused
from smg_multimodal.records.types import Size

__all__ = [
    "NAMED_KEYS",
    "PICTURE_CLASS",
    "RECORDING_CLASS",
    "RESIZE",
    "VIDEO_CLASS",
    "ProcessorClass",
    "fixed_size",
    "positive_number",
    "settled",
]

PICTURE_CLASS = "image_processor_type"
VIDEO_CLASS = "video_processor_type"
RECORDING_CLASS = "feature_extractor_type"
"""The keys under which a configuration names the class that pictures, clips and recordings are processed by."""

RESIZE = "resize"
"""The one key that is ours and in no published file: "torch" has the torchvision backend's arithmetic used where a class has
both, else it is the PIL backend's."""

NAMED_KEYS = "told"
"""A key that is ours too: the names of the keys that an engine's command line gave. They stand before what a family's
processor says of its own, which stands before the files."""

_SIZES = ("size", "crop_size", "pad_size", "max_image_size", "high_res_size")
_MOST_AREA = 64 * 1024 * 1024
"""Pixels of a size beyond which a model is refused: no picture is made as large."""


@dataclass(frozen=True, slots=True)
class ProcessorClass:
    """One class of transformers, or of a model's own code.

    `names` are the values of the configuration's class key that mean it, without a "Fast" or "Pil" at the end. `defaults` are
    what it takes for keys that a configuration does not have, or (`FLAGS` are false then) has as null. `only` has, for keys
    that no maker reads, the values that are done. `squares` says that a `size` that is one number is both sides of a square,
    else it is the shortest edge. `own` says that it is a model's own code, so that a name that `auto_map` finds there means
    it too.
    """

    names: frozenset[str]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    squares: bool = True
    own: bool = False


def _named(config: Mapping[str, Any], kind: str) -> str | None:
    """The class that a configuration names under `kind`. The oldest files name that of pictures as a feature extractor."""
    name = config.get(kind)
    if name is None and kind == PICTURE_CLASS and isinstance(older := config.get(RECORDING_CLASS), str):
        name = older.replace("FeatureExtractor", "ImageProcessor")
    return name.removesuffix("Fast").removesuffix("Pil") if isinstance(name, str) else None


def _as_sides(key: str, value: Any, *, squares: bool) -> Mapping[str, int]:
    """A size in any of the ways it may be written, as a mapping."""
    given = value
    if isinstance(value, int):
        given = {"height": value, "width": value} if squares else {"shortest_edge": value}
    elif isinstance(value, list | tuple) and len(value) == 2:
        given = {"height": value[0], "width": value[1]}
    if not isinstance(given, Mapping):
        raise refused(key, value, "this is no size")
    sides = {name: side for name, side in given.items() if side is not None}
    if not all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in sides.values()):
        raise refused(key, value, "sides are numbers above nothing")
    if sides.get("height", 1) * sides.get("width", 1) > _MOST_AREA:
        raise refused(key, value, f"at most {_MOST_AREA} pixels are made")
    return sides


def settled(config: Mapping[str, Any], *classes: ProcessorClass, kind: str = PICTURE_CLASS) -> dict[str, Any]:
    """`config` with what it leaves to its class, sizes written as mappings. A family's maker calls it when a model is loaded.

    `kind` is the key that names the class; `classes` are those that the family takes, and the first of them is meant where none
    is named. Raises `UnsupportedModel` by the key's name for a class that is not among them and for a value that is not done.
    """
    name = _named(config, kind)
    found = classes[0] if name is None else next((each for each in classes if name in each.names), None)
    if found is None and classes[0].own and config.get("auto_map"):
        found = classes[0]
    if found is None:
        raise refused(kind, name, "the family is made by other classes")
    check_kinds(config)
    given = {
        key: False if value is None else value for key, value in config.items() if value is not None or key in FLAGS
    }
    made = {**found.defaults, **given, kind: next(iter(sorted(found.names)))}
    squares = bool(made.get("default_to_square", found.squares))
    for key in () if kind == RECORDING_CLASS else _SIZES:
        if made.get(key) is not None:
            made[key] = _as_sides(key, made[key], squares=squares or key != "size")
    for key, values in found.only.items():
        if made.get(key) not in values:
            raise refused(key, made.get(key), f"only {_listed(values)} is done here")
    return made


def _listed(values: Iterable[Any]) -> str:
    return " or ".join(repr(value) for value in values)


def positive_number(config: Mapping[str, Any], key: str, most: int | None = None) -> int:
    """The whole number above nothing, and up to `most`, under `key`. Raises `UnsupportedModel` by the key's name for anything
    else."""
    value = config.get(key)
    if not is_whole(value):
        raise refused(key, value, "a whole number above nothing is needed")
    if most is not None and value > most:
        raise refused(key, value, f"at most {most} are done here")
    return int(value)


def fixed_size(config: Mapping[str, Any], key: str = "size") -> Size:
    """The height and width that a settled configuration states. Raises `UnsupportedModel` where it states something else."""
    sides = config[key]
    if set(sides) != {"height", "width"}:
        raise refused(key, dict(sides), "a height and a width are needed")
    return Size(int(sides["height"]), int(sides["width"]))

"""What the keys of a processor's configuration mean: the defaults of its class, and the values that are done here.

Above: the family modules, whose makers call `settled` before they read anything. Below: `errors`. A configuration names a class
of transformers (under `image_processor_type`, `video_processor_type` or `feature_extractor_type`) and gives some of its keys; the
class gives the others. Every key that changes tensors or token counts is either read by the maker or listed in
`ProcessorClass.only` with the values that are what the maker does anyway; any other value is refused when the model is loaded, by
the key's name. Keys that change nothing are in neither. tests/multimodal/test_keys.py, test_clip_keys.py and
test_recording_keys.py walk all keys that transformers' own classes take, with other values than the defaults.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from smg_multimodal.errors import UnsupportedModel
from smg_multimodal.types import Size

__all__ = [
    "PICTURE_CLASS",
    "RECORDING_CLASS",
    "RESIZE",
    "TOLD",
    "VIDEO_CLASS",
    "ProcessorClass",
    "fixed_size",
    "positive_number",
    "refused",
    "settled",
]

PICTURE_CLASS = "image_processor_type"
VIDEO_CLASS = "video_processor_type"
RECORDING_CLASS = "feature_extractor_type"
"""The keys under which a configuration names the class that pictures, clips and recordings are processed by."""

RESIZE = "resize"
"""The one key that is ours and in no published file: "torch" has the torchvision backend's arithmetic used where a class has
both, else it is the PIL backend's."""

TOLD = "told"
"""A key that is ours too: the names of the keys that an engine's command line gave. They stand before what a family's
processor says of its own, which stands before the files."""

_SIZES = ("size", "crop_size", "pad_size")


def refused(key: str, value: Any, why: str) -> UnsupportedModel:
    """The error for a configuration whose `key` has a value that is not done here."""
    return UnsupportedModel(f"{key} {value!r} in the processor's configuration: {why}")


@dataclass(frozen=True, slots=True)
class ProcessorClass:
    """One class of transformers, or of a model's own code.

    `names` are the values of the configuration's class key that mean it, without a "Fast" or "Pil" at the end. `defaults` are
    what it takes for keys that a configuration does not have, or has as null. `only` has, for keys that no maker reads, the
    values that are done. `squares` says that a `size` that is one number is both sides of a square, else it is the shortest
    edge. `own` says that it is a model's own code, so that a name that `auto_map` finds there means it too.
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
    if isinstance(value, int):
        return {"height": value, "width": value} if squares else {"shortest_edge": value}
    if isinstance(value, list | tuple) and len(value) == 2:
        return {"height": value[0], "width": value[1]}
    if not isinstance(value, Mapping):
        raise refused(key, value, "this is no size")
    sides = {name: side for name, side in value.items() if side is not None}
    if not all(isinstance(side, int) and side > 0 for side in sides.values()):
        raise refused(key, value, "sides are numbers above nothing")
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
    given = {key: value for key, value in config.items() if value is not None}
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


def positive_number(config: Mapping[str, Any], key: str) -> int:
    """The whole number above nothing under `key`. Raises `UnsupportedModel` by the key's name for anything else."""
    value = config.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or value != int(value) or value < 1:
        raise refused(key, value, "a whole number above nothing is needed")
    return int(value)


def fixed_size(config: Mapping[str, Any], key: str = "size") -> Size:
    """The height and width that a settled configuration states. Raises `UnsupportedModel` where it states something else."""
    sides = config[key]
    if set(sides) != {"height", "width"}:
        raise refused(key, dict(sides), "a height and a width are needed")
    return Size(int(sides["height"]), int(sides["width"]))

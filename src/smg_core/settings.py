"""The kinds of settings: a field with its text, default and bounds, the values it takes, and how they are read from text.

Decides: whether a value fits a setting, what to say when it does not, and how a flag's or a variable's text becomes a value.
Below: attrs and the standard library. Above: the `settings` of each room, which are records of such fields, and `config`, which
gathers them and reads their sources. Does not know which settings there are.
"""

import json
import math
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import attrs

__all__ = [
    "MIB",
    "ConfigError",
    "FieldType",
    "Setting",
    "Value",
    "bound",
    "closest",
    "complaint",
    "from_file",
    "from_override",
    "from_text",
    "nearest",
    "number_flag",
    "option",
    "port_of",
    "shape_of",
]

Value = str | int | float | bool | tuple[str, ...] | None
T = TypeVar("T")
MIB = 1 << 20  # bytes
LONGEST_QUOTE = 60  # characters of a wrong value that a message repeats


def number_flag(kind: type[int] | type[float], least: float, most: float) -> Callable[[str], float]:
    """The type of a command's flag for argparse: a number from `least` to `most`. What is no number, NaN and infinity are none
    either."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            import argparse  # whoever calls this has it loaded

            words = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text[:LONGEST_QUOTE]!r} is no {words} from {least:g} to {most:g}")
        return value

    return read


def port_of(place: str, flag: str, expected: str = "HOST:PORT") -> int:
    """The port of a flag's HOST:PORT. Raises ConfigError, which says what was `expected`, where there is none to listen at."""
    port = place.rpartition(":")[2]
    if ":" not in place or not (port.isascii() and port.isdecimal()):
        raise ConfigError(f"{flag}: {place[:LONGEST_QUOTE]}: expected {expected}")
    if len(port) > 5 or int(port) >= 1 << 16:
        raise ConfigError(f"{flag}: {place[:LONGEST_QUOTE]}: a port is from 0 to 65535")
    return int(port)


class ConfigError(ValueError):
    """The faults of a configuration, one sentence a problem, each beginning with its source."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


# ------------------------------------------------------------------------------------------------- what a setting is


def option(
    default: T,
    text: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    flag: str | None = None,
    secret: bool = False,
) -> T:
    """A field of a section that operators set. `flag` replaces the flag's usual name; a `secret` is never printed."""
    metadata = {"text": text, "at_least": at_least, "at_most": at_most, "flag": flag, "secret": secret, "set": True}
    field: T = attrs.field(default=default, metadata=metadata, validator=_Validator(), repr=not secret)
    return field


def bound(
    default: T, text: str, *, at_least: float | None = None, at_most: float | None = None, secret: bool = False
) -> T:
    """A field of a section that is an argument in Python alone: no flag, no variable and no key of a file sets it."""
    metadata = {"text": text, "at_least": at_least, "at_most": at_most, "flag": None, "secret": secret, "set": False}
    field: T = attrs.field(default=default, metadata=metadata, validator=_Validator(), repr=not secret)
    return field


class _Validator:
    """Checks the values of one field. Its type is read once: a configuration has hundreds of fields, and is made many times."""

    __slots__ = ("_shape",)

    def __init__(self) -> None:
        self._shape: FieldType | None = None

    def __call__(self, instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
        if self._shape is None:
            self._shape = shape_of(attribute)
        wrong = complaint(self._shape, value)
        if wrong:
            raise ConfigError(f"{type(instance).__name__}.{attribute.name}: {wrong}")


@attrs.frozen
class Setting:
    """One setting as every source sees it. `path` is the file's key ("server.port"); `kind` one of "string", "integer",
    "number", "boolean"; `optional` means it may be absent (null); `repeated` means it is a list."""

    path: str
    flag: str
    env: str
    kind: str
    default: Value
    text: str
    optional: bool = False
    repeated: bool = False
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    secret: bool = False

    @property
    def section(self) -> str:
        return self.path.partition(".")[0]

    @property
    def bound(self) -> str:
        """The bound in words, or an empty string."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least:,} to {self.at_most:,}"
        if self.at_least is not None:
            return f"at least {self.at_least:,}"
        return f"at most {self.at_most:,}" if self.at_most is not None else ""


@attrs.frozen
class FieldType:
    """A field's type and bounds."""

    kind: str
    optional: bool
    repeated: bool
    choices: tuple[str, ...]
    at_least: float | None
    at_most: float | None
    secret: bool


_KINDS: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def shape_of(attribute: "attrs.Attribute[Any]") -> FieldType:
    hint, optional, repeated, choices = attribute.type, False, False, ()
    if isinstance(hint, types.UnionType):
        hint = next(arm for arm in typing.get_args(hint) if arm is not type(None))
        optional = True
    if typing.get_origin(hint) is tuple:
        hint, repeated = typing.get_args(hint)[0], True
    if typing.get_origin(hint) is Literal:
        hint, choices = str, typing.get_args(hint)
    bounds = attribute.metadata
    return FieldType(_KINDS[hint], optional, repeated, choices, bounds["at_least"], bounds["at_most"], bounds["secret"])


# ------------------------------------------------------------------------------------------------- checking one value


def complaint(shape: FieldType | Setting, value: object) -> str | None:
    """What is wrong with `value` as a setting of this shape, or None. A secret's value is not repeated."""
    if value is None:
        return None if shape.optional else _unlike(shape, value)
    if shape.repeated:
        if not isinstance(value, tuple) or not all(isinstance(item, str) and item for item in value):
            return _unlike(shape, value)
        wrong = next((item for item in value if shape.choices and item not in shape.choices), None)
        return None if wrong is None else _no_choice(shape, wrong)
    if not _is_kind(shape.kind, value):
        return _no_choice(shape, str(value).lower()) if shape.choices else _unlike(shape, value)
    if shape.choices and value not in shape.choices:
        return _no_choice(shape, str(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _out_of_bounds(shape, value)
    return None


def _no_choice(shape: FieldType | Setting, value: str) -> str:
    return f"expected one of {', '.join(shape.choices)}, not {_rendered(value)}{nearest(value, shape.choices)}"


def _is_kind(kind: str, value: object) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, str)


def _out_of_bounds(shape: FieldType | Setting, value: float) -> str | None:
    if shape.at_least is not None and value < shape.at_least:
        return f"{value} is below {shape.at_least:,}"
    if shape.at_most is not None and value > shape.at_most:
        return f"{value} is above {shape.at_most:,}"
    return None


def _unlike(shape: FieldType | Setting, value: object) -> str:
    """What was expected, and what was given instead."""
    kind = "list of strings, none of them empty" if shape.repeated else shape.kind
    expected = f"expected {kind} or null" if shape.optional and not shape.repeated else f"expected {kind}"
    return expected if shape.secret else f"{expected}, not {_rendered(value)}"


def _rendered(value: object) -> str:
    """A value as a message repeats it: as JSON where it is JSON, and no longer than a line."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 3]}..."


def nearest(name: str, known: Sequence[str]) -> str:
    """A question after the likeliest of `known` names, or an empty string where none is near."""
    near = closest(name, known)
    return f"; did you mean {near}?" if near else ""


def closest(name: str, known: Sequence[str], *, likeness: float = 0.5) -> str | None:
    """The one of `known` that is most like `name`, if any is as alike as `likeness` (1: the same)."""
    import difflib  # when a name is wrong

    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=likeness)), None)


# ------------------------------------------------------------------------------------------------- from text to values

_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def from_text(setting: Setting, text: str) -> object:
    """A value from an environment variable or a flag. What cannot be read comes back as it was, for `complaint`."""
    if setting.repeated:
        return tuple(item.strip() for item in text.split(",") if item.strip())
    if setting.optional and not text:
        return None
    if setting.kind == "boolean":
        lowered = text.strip().lower()
        return True if lowered in _TRUE else False if lowered in _FALSE else text
    if setting.kind in {"integer", "number"}:
        try:
            return int(text) if setting.kind == "integer" else float(text)
        except ValueError:
            return text
    return text


def from_file(setting: Setting, value: object) -> object:
    """A value from a parsed file: a list becomes a tuple, one string may stand for a list of one, 5 may mean 5.0, and what YAML
    takes for a truth value is the word again where it is one of the choices: `kind: off`."""
    if setting.repeated and isinstance(value, list):
        return tuple(value)
    if setting.repeated and isinstance(value, str):
        return (value,)
    if setting.kind == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, bool) and (word := "on" if value else "off") in setting.choices:
        return word
    return value


def from_override(setting: Setting, value: object) -> object:
    if isinstance(value, str):
        return (value,) if setting.repeated else from_text(setting, value)
    return from_file(setting, value)

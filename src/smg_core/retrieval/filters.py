"""Conditions on the attributes of files, as OpenAI's API writes them: read, and asked of a file.

    {"type": "eq", "key": "year", "value": 2024}
    {"type": "or", "filters": [{"type": "gte", "key": "year", "value": 2020}, {"type": "in", "key": "kind", "value": ["a"]}]}

Pure. Above: searches, and the decoders of requests that have filters. Below: errors.
"""

from collections.abc import Callable, Mapping
from typing import cast

import attrs

from smg_core.errors import InvalidRequest
from smg_core.json_types import Json

__all__ = ["AttributeValue", "Comparison", "Compound", "FileAttributes", "FileFilter", "read_filter"]

AttributeValue = str | float | bool
"""What an attribute of a file can be."""

FileAttributes = Mapping[str, AttributeValue]

_COMPARISONS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin")
_COMPOUNDS = ("and", "or")
_DEEPEST = 8  # filters within filters
_MOST = 128  # filters in one
_LONGEST_KEY = 64
_LONGEST_VALUE = 512
_MOST_VALUES = 1000  # of one list


@attrs.frozen
class Comparison:
    """A condition on one attribute. A file without it fulfils "ne" and "nin" alone; values of different kinds are never equal,
    and none of them is greater."""

    type: str
    key: str
    value: AttributeValue | tuple[AttributeValue, ...]

    def holds(self, attributes: FileAttributes) -> bool:
        """Whether a file with these attributes fulfils it."""
        mine = attributes.get(self.key)
        if self.type in ("in", "nin"):
            values = self.value if isinstance(self.value, tuple) else (self.value,)
            return (mine is not None and any(_equal(mine, each) for each in values)) is (self.type == "in")
        value = cast("AttributeValue", self.value)
        if self.type in ("eq", "ne"):
            return (mine is not None and _equal(mine, value)) is (self.type == "eq")
        if mine is None or _kind(mine) != _kind(value):
            return False
        return _ORDERS[self.type](mine, value)


@attrs.frozen
class Compound:
    """All ("and") or any ("or") of several conditions."""

    type: str
    filters: "tuple[Comparison | Compound, ...]"

    def holds(self, attributes: FileAttributes) -> bool:
        """Whether a file with these attributes fulfils it."""
        found = (each.holds(attributes) for each in self.filters)
        return all(found) if self.type == "and" else any(found)


FileFilter = Comparison | Compound

_ORDERS: Mapping[str, Callable[[AttributeValue, AttributeValue], bool]] = {
    "gt": lambda mine, value: mine > value,  # type: ignore[operator]
    "gte": lambda mine, value: mine >= value,  # type: ignore[operator]
    "lt": lambda mine, value: mine < value,  # type: ignore[operator]
    "lte": lambda mine, value: mine <= value,  # type: ignore[operator]
}


def _kind(value: AttributeValue) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _equal(one: AttributeValue, other: AttributeValue) -> bool:
    return _kind(one) == _kind(other) and one == other


def read_filter(value: Json, param: str = "filters") -> FileFilter:
    """The filter that a body has at `param`. Raises InvalidRequest naming the place."""
    found, count = _read(value, param, 0)
    if count > _MOST:
        raise InvalidRequest(f"Invalid '{param}': at most {_MOST} filters.", param=param)
    return found


def _read(value: Json, param: str, depth: int) -> tuple[FileFilter, int]:
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"Invalid type for '{param}': expected an object.", param=param, code="invalid_type")
    if depth > _DEEPEST:
        raise InvalidRequest(f"Invalid '{param}': filters are at most {_DEEPEST} deep.", param=param)
    kind = value.get("type")
    if kind in _COMPOUNDS:
        return _read_compound(value, param, depth)
    if kind not in _COMPARISONS:
        known = ", ".join(f"'{each}'" for each in (*_COMPARISONS, *_COMPOUNDS))
        at = f"{param}.type"
        raise InvalidRequest(
            f"Invalid value for '{at}'. Supported values are: {known}.", param=at, code="invalid_value"
        )
    _check_known(value, ("type", "key", "value"), param)
    key = value.get("key")
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
        at = f"{param}.key"
        raise InvalidRequest(f"Invalid '{at}': a text of 1 to {_LONGEST_KEY} characters.", param=at)
    return Comparison(str(kind), key, _read_value(str(kind), value.get("value"), f"{param}.value")), 1


def _read_compound(value: Mapping[str, Json], param: str, depth: int) -> tuple[FileFilter, int]:
    _check_known(value, ("type", "filters"), param)
    parts, at = value.get("filters"), f"{param}.filters"
    if not isinstance(parts, list) or not parts or len(parts) > _MOST:
        raise InvalidRequest(f"Invalid '{at}': a list of 1 to {_MOST} filters.", param=at)
    found, count = [], 1
    for place, part in enumerate(parts):
        each, size = _read(part, f"{at}[{place}]", depth + 1)
        found.append(each)
        count += size
        if count > _MOST:
            break
    return Compound(str(value["type"]), tuple(found)), count


def _read_value(kind: str, value: Json, at: str) -> AttributeValue | tuple[AttributeValue, ...]:
    if kind not in ("in", "nin"):
        return _read_scalar(value, at, ordered=kind not in ("eq", "ne"))
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_VALUES:
        raise InvalidRequest(f"Invalid '{at}': a list of 1 to {_MOST_VALUES} values.", param=at)
    return tuple(_read_scalar(each, f"{at}[{place}]") for place, each in enumerate(value))


def _read_scalar(value: Json, at: str, *, ordered: bool = False) -> AttributeValue:
    if isinstance(value, str):
        if len(value) > _LONGEST_VALUE:
            raise InvalidRequest(f"Invalid '{at}': at most {_LONGEST_VALUE} characters.", param=at)
        return value
    if isinstance(value, bool):
        if not ordered:
            return value
    elif isinstance(value, int | float):
        return value
    what = "a text or a number" if ordered else "a text, a number or a boolean"
    raise InvalidRequest(f"Invalid type for '{at}': expected {what}.", param=at, code="invalid_type")


def _check_known(value: Mapping[str, Json], known: tuple[str, ...], param: str) -> None:
    for name in value:
        if name not in known:
            at = f"{param}.{name[:100]}"
            raise InvalidRequest(f"Unknown parameter: '{at}'.", param=at, code="unknown_parameter")

"""Whether a record has values of the types that its class promises.

Nothing checks that when a plugin makes a request with `msgspec.structs.replace`, and what stands behind the plugins relies on it.
Only what is not the same object as before is looked at. Pure. Above: `request_checks`. Below: nothing.
"""

import types
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

__all__ = ["misfit"]

_SHOWN = 60  # characters of a type's name in a complaint


def misfit(value: object, hint: Any, at: str, known: Collection[int] = frozenset()) -> str:
    """The first place within `value` that is not of the type `hint`, in words; "" where all is. `at` is the name of the place;
    `known` are the ids of objects that are known to be right. Raises TypeError for a type that no record here has."""
    if hint is Any or id(value) in known:
        return ""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _of_union(value, get_args(hint), at, known)
    if origin is Literal:
        fits = any(type(value) is type(each) and value == each for each in get_args(hint))
        return "" if fits else _complaint(value, at)
    if origin is not None:
        return _of_many(value, origin, get_args(hint), at, known)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _of_struct(value, hint, at, known)
    return "" if _is_plain(value, hint) else _complaint(value, at)


@cache
def _fields(record: type[Struct]) -> Mapping[str, Any]:
    """The types of a record's fields, by name."""
    return get_type_hints(record)


def _complaint(value: object, at: str) -> str:
    return f"{at} is of the type {type(value).__name__[:_SHOWN]}"


def _is_plain(value: object, hint: object) -> bool:
    """Whether a value that holds no others is of a type. A bool is no number here; a whole number is one with a fraction."""
    if hint is None or hint is type(None):
        return value is None
    if hint is float:
        return type(value) in (int, float)
    if hint in (int, bool):
        return type(value) is hint
    if hint in (str, bytes):
        return isinstance(value, hint)
    raise TypeError(f"no record has a field of the type {hint!r}")


def _of_union(value: object, hints: Sequence[Any], at: str, known: Collection[int]) -> str:
    for hint in hints:
        if type(value) is hint:
            return misfit(value, hint, at, known)
    return "" if any(not misfit(value, hint, at, known) for hint in hints) else _complaint(value, at)


def _of_struct(value: object, record: type[Struct], at: str, known: Collection[int]) -> str:
    if not isinstance(value, record):
        return _complaint(value, at)
    for name, hint in _fields(record).items():
        found = misfit(getattr(value, name), hint, f"{at}.{name}" if at else name, known)
        if found:
            return found
    return ""


_MANY: dict[object, tuple[type, ...]] = {
    tuple: (tuple,),
    frozenset: (frozenset,),
    Mapping: (Mapping,),
    Sequence: (Sequence,),
}


def _of_many(value: object, origin: object, hints: Sequence[Any], at: str, known: Collection[int]) -> str:
    if origin not in _MANY:
        raise TypeError(f"no record has a field of the type {origin!r}")
    if not isinstance(value, _MANY[origin]) or (origin is Sequence and isinstance(value, str | bytes)):
        return _complaint(value, at)
    if isinstance(value, Mapping):
        inner = ((each, hint) for pair in value.items() for each, hint in zip(pair, hints, strict=True))
    else:
        inner = ((each, _inner(hints)) for each in value)  # type: ignore[attr-defined]
    return next((found for each, hint in inner if (found := misfit(each, hint, f"an entry of {at}", known))), "")


def _inner(hints: Sequence[Any]) -> Any:
    """The type of all entries of a tuple, set or list."""
    if len(hints) == 2 and hints[1] is not Ellipsis:
        raise TypeError("no record has a field of several types in a fixed order")
    return hints[0]

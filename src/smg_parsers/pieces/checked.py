"""Refuses a record of the table in which a field is not of its kind.

Decides: which values a field may have, by its type, and what the error says. A text is a sequence of texts to Python, so that
a forgotten comma, `("<act>")`, would make a marker of every letter; an empty marker would be found everywhere.
Above: `family`, `reasoning`, the grammars' specs. Below: `base`.
Does not know: what a field means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from smg_parsers.pieces.base import InvalidFamily


class Checked:
    """A dataclass that checks its fields when it is made: those that are tuples, texts, names or other records.

    A tuple may be given as any other collection, but not as a text. Its members, if they are texts, are not empty, except in a
    tuple of a fixed length. Raises `InvalidFamily`, which names the field.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, hint in _kinds(kind).items():
            object.__setattr__(self, name, of_kind(f"{kind.__name__}.{name}", hint, getattr(self, name)))


@cache
def _kinds(record: Any) -> dict[str, Any]:
    """The types of the fields that the caller of a record's class gives."""
    hints = get_type_hints(record)
    return {field.name: hints[field.name] for field in fields(record) if field.init}


def of_kind(place: str, hint: Any, value: Any) -> Any:
    """The value of the field at `place`, if it is of the type `hint`; tuples as tuples. Raises `InvalidFamily`."""
    origin = get_origin(hint)
    if origin is tuple:
        return _members(place, get_args(hint), value)
    if origin is UnionType:
        (wanted,) = (each for each in get_args(hint) if each is not NoneType)
        return None if value is None else of_kind(place, wanted, value)
    if origin is Literal:
        if value not in get_args(hint):
            raise InvalidFamily(f"{place} is {value!r}, which is none of {', '.join(get_args(hint))}")
    elif hint is not bool and not isinstance(value, hint):
        raise InvalidFamily(f"{place} is {_kind_of(value)}; it must be {_named(hint)}")
    return value


def _members(place: str, kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    several = kinds[-1] is Ellipsis
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        quoted = repr(value) if isinstance(value, str) else "…"
        raise InvalidFamily(
            f"{place} is {_kind_of(value)}; write {f'({quoted},)' if several else f'{len(kinds)} in brackets'}"
        )
    members = tuple(value)
    if several:
        kinds = (kinds[0],) * len(members)
        if "" in members:
            raise InvalidFamily(f"{place}[{members.index('')}] is an empty text")
    elif len(members) != len(kinds):
        raise InvalidFamily(f"{place} has {len(members)} members; it must have {len(kinds)}")
    return tuple(
        of_kind(f"{place}[{at}]", kind, each) for at, (kind, each) in enumerate(zip(kinds, members, strict=True))
    )


def _kind_of(value: object) -> str:
    return "a text" if isinstance(value, str) else "None" if value is None else f"of type {type(value).__name__}"


def _named(hint: type[object]) -> str:
    return "a text" if hint is str else f"a {hint.__name__}"

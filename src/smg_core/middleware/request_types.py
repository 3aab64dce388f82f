"""Whether a record has values of the types that its class promises, and how much there is of them.

Nothing checks that when a plugin makes a request with `msgspec.structs.replace`, and what stands behind the plugins relies on it.
A value is walked, each object as often as it is met, until the walk has met too much: a list that holds itself, or one of a
million references to another one, ends too. Pure. Above: `request_checks`. Below: nothing.
"""

import types
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import islice
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

__all__ = ["Misfit", "TooMuch", "Walk"]

_LONGEST_QUOTE = 60  # characters of a type's name in a complaint
_OBJECT = 16  # characters that an object counts for, beside those of its text
_ID = 2  # characters that a token id takes in JSON, with its comma
_DEEPEST = 512  # levels of free-form JSON


class Misfit(Exception):
    """A value is not of the type that it should have; the text names the place and the type."""


class TooMuch(Exception):
    """There is more of a value than may be."""


@cache
def _fields(record: type[Struct]) -> Mapping[str, Any]:
    """The types of a record's fields, by name."""
    return get_type_hints(record)


class Walk:
    """Looks at values; `most` is how many characters there may be of all of them, reckoned with a few for each object. `known`
    are objects that are right, each of which is passed once."""

    def __init__(self, most: int, known: Iterable[object] = ()) -> None:
        self._left = most
        self._known = {id(each) for each in known}

    def check(self, value: object, hint: Any, at: str) -> None:
        """Look at a value of the type `hint`; `at` is the name of its place. Raises Misfit, TooMuch, and TypeError for a type
        that no record here has."""
        if id(value) in self._known:
            self._known.discard(id(value))
            return
        origin = get_origin(hint)
        if origin in (Union, types.UnionType):
            self._union(value, get_args(hint), at)
        elif origin is Literal:
            if not any(type(value) is type(each) and value == each for each in get_args(hint)):
                raise _misfit(value, at)
        elif origin is not None:
            self._many(value, origin, get_args(hint), at)
        elif hint is Any:
            self._json(value, at)
        elif isinstance(hint, type) and issubclass(hint, Struct):
            self._struct(value, hint, at)
        elif not _is_plain(value, hint):
            raise _misfit(value, at)
        else:
            self._count(value)

    def _count(self, value: object) -> None:
        self._left -= _OBJECT + (len(value) if isinstance(value, str | bytes) else 0)
        if self._left < 0:
            raise TooMuch

    def _union(self, value: object, hints: Sequence[Any], at: str) -> None:
        for hint in hints:
            if type(value) is hint:
                self.check(value, hint, at)
                return
        for hint in hints:
            if not (isinstance(hint, type) and issubclass(hint, Struct)):
                try:
                    self.check(value, hint, at)
                except Misfit:
                    continue
                return
        raise _misfit(value, at)

    def _struct(self, value: object, record: type[Struct], at: str) -> None:
        if not isinstance(value, record):
            raise _misfit(value, at)
        self._count(value)
        for name, hint in _fields(record).items():
            self.check(getattr(value, name), hint, f"{at}.{name}" if at else name)

    def _many(self, value: object, origin: Any, hints: Sequence[Any], at: str) -> None:
        if origin is Mapping:
            if type(value) is not dict:
                raise _misfit(value, at)
            self._count(value)
            for name, each in value.items():
                self.check(name, hints[0], f"a name in {at}")
                self.check(each, hints[1], f"an entry of {at}")
        elif origin in (tuple, frozenset):
            if not isinstance(value, tuple | frozenset) or type(value) is not origin:
                raise _misfit(value, at)
            if origin is tuple and hints[-1] is not Ellipsis:
                raise TypeError("no record has a field of several types in a fixed order")
            self._count(value)
            for each in value:
                self.check(each, hints[0], f"an entry of {at}")
        elif origin is Sequence and hints == (int,):
            self._ids(value, at)
        else:
            raise TypeError(f"no record has a field of the type {origin!r}")

    def _ids(self, value: object, at: str) -> None:
        """Token ids, in any list of a kind that is written as one."""
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise _misfit(value, at)
        self._left -= _ID * len(value)
        if self._left < 0:
            raise TooMuch
        for each in islice(value, len(value)):
            if type(each) is not int:
                raise _misfit(each, f"an entry of {at}")

    def _json(self, value: object, at: str) -> None:
        """Free-form JSON, as a parser makes it."""
        level: list[object] = [value]
        for _ in range(_DEEPEST):
            below: list[object] = []
            for each in level:
                self._count(each)
                if type(each) is dict:
                    for name in each:
                        if type(name) is not str:
                            raise _misfit(name, f"a name in {at}")
                        self._count(name)
                    below += each.values()
                elif isinstance(each, list | tuple) and type(each) in (list, tuple):
                    below += each
                elif each is not None and not _is_text(each) and type(each) not in (bool, int, float):
                    raise _misfit(each, at)
                if _OBJECT * len(below) > self._left:
                    raise TooMuch
            if not below:
                return
            level = below
        raise TooMuch


def _misfit(value: object, at: str) -> Misfit:
    return Misfit(f"{at} is of the type {type(value).__name__[:_LONGEST_QUOTE]}")


def _is_text(value: object) -> bool:
    """Whether a value is a text, or a member of an enumeration of texts: encoders take no other kind."""
    return type(value) is str or isinstance(value, StrEnum)


def _is_plain(value: object, hint: object) -> bool:
    """Whether a value that holds no others is of a type. A bool is no number here; a whole number is one with a fraction."""
    if hint is None or hint is type(None):
        return value is None
    if hint is float:
        return type(value) in (int, float)
    if hint in (int, bool):
        return type(value) is hint
    if hint is str:
        return _is_text(value)
    if hint is bytes:
        return type(value) is bytes
    raise TypeError(f"no record has a field of the type {hint!r}")

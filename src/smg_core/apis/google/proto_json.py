"""Reads bodies as Google's APIs take JSON: other spellings of names and values, and Google's words for what is wrong.

A name may be written in lowerCamelCase or snake_case at any depth; SDKs mix both in one request. Enum values may have any case,
integers may be texts, and null is absent. A body that is written as its wire type is, is read in one pass; any other is put into
that form first. Free-form values (arguments, results, schemas) stay as they are.

Pure. Above: gemini. Below: decoding. Source: the ProtoJSON format.
"""

import re
from functools import cache
from typing import Generic, TypeVar

import msgspec
from msgspec import inspect

from smg_core.errors import InvalidJson, InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.wire.compat import STRICT, Compat
from smg_core.wire.decoding import WireDecoder, explained, no_kind, plain_body
from smg_core.wire.settings import LimitsConfig

__all__ = ["ProtoJsonDecoder", "proto_number", "proto_value", "refuse_no_string"]

T = TypeVar("T", bound=msgspec.Struct)


class ProtoJsonDecoder(Generic[T]):
    """Reads bodies of one wire type, whose names are lowerCamelCase or snake_case."""

    __slots__ = ("_decoder", "_kind")

    def __init__(self, wire_type: type[T]) -> None:
        self._decoder: WireDecoder[T] = WireDecoder(wire_type, {})
        self._kind = inspect.type_info(wire_type)

    def decode(self, body: bytes, limits: LimitsConfig, compat: Compat = STRICT) -> T:
        """The body. Raises as `WireDecoder.decode`, in Google's words."""
        try:
            return self._decoder.decode(body, limits)
        except InvalidJson:
            raise
        except InvalidRequest as error:
            if error.code == "too_many_values":
                raise
        plain = plain_body(body, limits)
        try:
            return self._decoder.decode_plain(_canonical(plain, self._kind, ""), compat)
        except InvalidJson:
            raise
        except InvalidRequest as error:
            raise _in_googles_words(error) from None


def proto_value(plain: object, wire_type: type[T], at: str) -> T:
    """`plain`, a decoded part of a body that stands at `at`, as `wire_type`. Raises InvalidRequest in Google's words."""
    try:
        return msgspec.convert(plain, wire_type)
    except msgspec.ValidationError:
        pass  # it may be spelt another way
    try:
        return explained(_canonical(plain, inspect.type_info(wire_type), at), wire_type, at)
    except InvalidRequest as error:
        raise _in_googles_words(error) from None


def refuse_no_string(plain: JsonObject, at: str) -> None:
    """Raise InvalidRequest where the type of the object at `at` is missing or no string."""
    if not isinstance(plain.get("type"), str):
        raise _in_googles_words(no_kind(plain, at))


def _in_googles_words(error: InvalidRequest) -> InvalidRequest:
    param = error.param or ""
    if error.code == "unknown_parameter":
        place, _, name = param.rpartition(".")
        at = f" at '{place}'" if place else ""
        text = f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.'
    elif error.code == "missing_required_parameter":
        text = f"{param}: the field is required"
    else:
        text = f"Invalid value at '{param}': {error.message}"
    return InvalidRequest(text, param=param or None, code=error.code)


# ----------------------------------------------------------------------------------------------------- other spellings


def _canonical(value: object, kind: inspect.Type, at: str) -> object:
    """`value`, which stands at `at`, with the names and values that its type has."""
    if isinstance(kind, inspect.UnionType):
        kind = next((each for each in kind.types if not isinstance(each, inspect.NoneType)), kind)
    if isinstance(kind, inspect.StructType):
        return _object(value, kind.cls, at) if type(value) is dict else value
    if isinstance(kind, inspect.ListType):
        if type(value) is dict and isinstance(kind.item_type, inspect.StructType):
            value = [
                value
            ]  # one object stands for a list of one, as Google's own examples of system instructions write it
        if type(value) is not list:
            return value
        return [_canonical(each, kind.item_type, f"{at}[{order}]") for order, each in enumerate(value)]
    if isinstance(kind, inspect.LiteralType):
        return _enum(value, kind)
    if isinstance(kind, inspect.IntType):
        return _integer(value)
    if isinstance(kind, inspect.FloatType) and type(value) is str:
        return proto_number(value)
    return value


def _object(found: dict[str, object], wire_type: type[msgspec.Struct], at: str) -> dict[str, object]:
    """An object with its type's names, without nulls. Raises InvalidRequest for a field that has a value in both spellings: one
    of them would be lost."""
    spellings, kinds = _fields(wire_type)
    renamed: dict[str, object] = {}
    for written, value in found.items():
        name = spellings.get(written, written)
        if value is None:
            continue
        place = f"{at}.{name}" if at else name
        if name in renamed:
            raise InvalidRequest("the field is given in both of its spellings.", param=place, code="invalid_value")
        renamed[name] = _canonical(value, kinds[name], place) if name in kinds else value
    return renamed


@cache
def _fields(wire_type: type[msgspec.Struct]) -> tuple[dict[str, str], dict[str, inspect.Type]]:
    """The two spellings of each field, and the types by name. The cache holds one entry for each wire type."""
    info = inspect.type_info(wire_type)
    fields = info.fields if isinstance(info, inspect.StructType) else ()
    written = {_camel(field.encode_name): field.encode_name for field in fields}
    return written | {field.name: field.encode_name for field in fields}, {
        field.encode_name: field.type for field in fields
    }


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)


def _enum(value: object, kind: inspect.LiteralType) -> object:
    if type(value) is not str:
        return value
    return next((each for each in kind.values if isinstance(each, str) and each.upper() == value.upper()), value)


def _integer(value: object) -> object:
    number = proto_number(value) if type(value) is str else value
    return int(number) if type(number) is float and number.is_integer() else number


def proto_number(value: str) -> float | str:
    """The number that a text is, as ProtoJSON writes large integers; any other text as it is."""
    if len(value) > _LONGEST_NUMBER or _NUMBER.fullmatch(value) is None:
        return value
    return float(value) if "." in value or "e" in value.lower() else int(value)


_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_LONGEST_NUMBER = 32  # characters of a number that is written as a text

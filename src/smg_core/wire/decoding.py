"""Reads a request body into a typed wire object, or raises one error with the place of the fault.

Every JSON API reads its bodies here: msgspec parses and validates in one pass, and its errors are reworded for clients, with the
field's path ("messages[2].content[0].type") as `param`. Rules for every API:

- A field that the wire type does not have is refused by name unless it is null or `compat` allows it.
- Of a key given twice the last one counts, at every level, as in the JSON parsers of the SDKs. Only the decoded object is passed
  on, so no second parser can decide differently.
- Invalid UTF-8, unpaired surrogate escapes, NaN, Infinity and numbers that do not fit are refused.

The number of values in a body, and how deep they are nested, are checked before it is parsed; so no body may be parsed
elsewhere: code that needs a body without a type calls `plain_body`. Above: chat, parse. Below: errors, json_bounds, compat. It
knows no API's fields.
"""

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from smg_core.errors import InvalidJson, InvalidRequest, PayloadTooLarge
from smg_core.wire.compat import STRICT, Compat
from smg_core.wire.json_bounds import nests_deeper, over_values
from smg_core.wire.settings import LimitsConfig

__all__ = [
    "OWN_LEVELS",
    "WireDecoder",
    "brief",
    "check_depth",
    "explained",
    "no_kind",
    "no_string",
    "plain_body",
    "too_many",
]

Body = TypeVar("Body", bound=msgspec.Struct)

_ARTICLES = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_OF_PYTHON = {"NoneType": "null", "dict": "object", "list": "array"}
"""What msgspec calls kinds of JSON values in some of its errors."""
_KINDS = {bool: "bool", int: "int", float: "float", list: "array", dict: "object", str: "str", type(None): "null"}
_OF_A_NAME = "[...]"
"""How msgspec writes the entry of a map in a path."""
OWN_LEVELS = 16
"""Levels that the bodies of all APIs have at most above a value of free form."""


def brief(text: str, limit: int = 80) -> str:
    """`text` cut to `limit` characters, for quoting a client's text in an error."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def no_string(value: object, param: str) -> InvalidRequest:
    """The error for a field that has to be a string, such as the one that says which kind of object this is."""
    got = _ARTICLES[_KINDS[type(value)]]
    return InvalidRequest(
        f"Invalid type for '{param}': expected a string, but got {got} instead.", param=param, code="invalid_type"
    )


def no_kind(found: Mapping[str, object], at: str) -> InvalidRequest:
    """The error for the object at `at` whose type, which says what kind of object it is, is missing or no string."""
    param = f"{at}.type"
    if "type" in found:
        return no_string(found["type"], param)
    return InvalidRequest(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")


def too_many(param: str, count: int, limit: int, noun: str) -> InvalidRequest:
    """The error for a list or object with more than `limit` entries."""
    return InvalidRequest(
        f"Invalid '{param}': too many {noun}. Expected at most {limit}, but got {count} instead.",
        param=param,
        code="array_above_max_length",
    )


def check_depth(values: Iterable[object], limit: int, param: str) -> None:
    """Refuse free-form JSON values if one is nested more than `limit` levels deep."""
    level = [value for value in values if type(value) is dict or type(value) is list]
    for _ in range(limit):
        if not level:
            return
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
    if level:
        raise InvalidRequest(f"Invalid '{param}': nested more than {limit} levels deep.", param=param)


def plain_body(body: bytes, limits: LimitsConfig) -> object:
    """The body as plain JSON values, within the bounds that hold for every body. Raises `PayloadTooLarge`, `InvalidJson` or
    `InvalidRequest`."""
    _check_bounds(body, limits)
    return _parsed(body, limits)


def _check_bounds(body: bytes, limits: LimitsConfig) -> None:
    if len(body) > limits.body_bytes and len(body) > limits.largest_body:
        raise PayloadTooLarge(f"The request body is {len(body)} bytes; at most {limits.largest_body} are taken.")
    if len(body) > limits.json_values and over_values(body, limits.json_values):  # a value is a byte at least
        raise InvalidRequest(
            f"The request body holds more than {limits.json_values} JSON values, which is the most that are taken.",
            code="too_many_values",
        )
    most = limits.json_depth + OWN_LEVELS
    if body.count(b"[") + body.count(b"{") > most and nests_deeper(body, most):
        raise _too_deep(limits)


def _parsed(body: bytes, limits: LimitsConfig) -> object:
    try:
        plain: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(error, limits) from None
    return plain


class WireDecoder(Generic[Body]):
    """Reads bodies of one wire type, a Struct with `forbid_unknown_fields`, as are the Structs inside it.

    `supported` maps a path without indexes ("messages[].role") to the values that an error about it lists. `shaped` names
    the fields that hold no free-form values: in them, as in the body itself, a null field counts as absent, even one that
    the type does not have. Clients that use one class for all messages send such nulls.
    """

    __slots__ = ("_read", "_shaped", "_supported", "_type")

    def __init__(
        self, wire_type: type[Body], supported: Mapping[str, tuple[str, ...]], shaped: tuple[str, ...] = ()
    ) -> None:
        self._type = wire_type
        self._read = msgspec.json.Decoder(wire_type).decode
        self._supported = supported
        self._shaped = shaped

    def decode(self, body: bytes, limits: LimitsConfig, compat: Compat = STRICT) -> Body:
        """The body as the wire type; `compat` says which unknown fields are ignored. Raises `PayloadTooLarge`, `InvalidJson`,
        `UnsupportedParameter` or `InvalidRequest`."""
        _check_bounds(body, limits)
        try:
            return self._read(body)  # in one pass, as most bodies can be
        except msgspec.ValidationError as error:
            if _unknown_field(_split(str(error))[0]) is not None:
                return self._decode_leniently(body, limits, compat)
            plain = msgspec.json.decode(body) if _OF_A_NAME in str(error) else None
            raise _explain(str(error), self._supported, plain) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _malformed(error, limits) from None

    def _decode_leniently(self, body: bytes, limits: LimitsConfig, compat: Compat) -> Body:
        """Decode a body with unknown fields: remove those that may be ignored, then convert."""
        return self.decode_plain(_parsed(body, limits), compat)

    def decode_plain(self, plain: object, compat: Compat = STRICT) -> Body:
        """The same for a body that `plain_body` has read, which may be changed. Raises `UnsupportedParameter` or
        `InvalidRequest`."""
        _drop_nulls(plain, self._shaped)
        compat.relax(plain, self._type)
        try:
            return msgspec.convert(plain, self._type, str_keys=True)
        except msgspec.ValidationError as error:
            raise _explain(str(error), self._supported, plain) from None


def explained(plain: object, wire_type: type[Body], at: str, supported: Mapping[str, tuple[str, ...]] = {}) -> Body:
    """`plain`, a decoded part of a body that stands at `at` ("": the body itself), as `wire_type`. Raises `InvalidRequest` with
    the path from the body's root. `supported` as of `WireDecoder`, by paths that begin with `at`."""
    try:
        return msgspec.convert(plain, wire_type, str_keys=True)
    except msgspec.ValidationError as error:
        complaint, path = _split(str(error))
        joint = "" if not at or not path or path.startswith("[") else "."
        raise _explain(f"{complaint} - at `$.{at}{joint}{path}`", supported) from None


# ------------------------------------------------------------------------------------- msgspec's words, taken apart


def _explain(text: str, supported: Mapping[str, tuple[str, ...]], plain: object = None) -> InvalidRequest:
    complaint, path = _split(text)
    param = _with_name(path, complaint, plain)
    if (name := _unknown_field(complaint)) is not None:
        where = _join(param, name)
        say = (
            f"Unknown parameter: '{brief(where)}'."
            if path
            else f"Unrecognized request argument supplied: {brief(name)}"
        )
        return InvalidRequest(say, param=brief(where), code="unknown_parameter")
    if complaint.startswith("Object missing required field"):
        where = _join(param, _quoted(complaint))
        return InvalidRequest(f"Missing required parameter: '{where}'.", param=where, code="missing_required_parameter")
    if not path and complaint.startswith("Expected `object`"):
        return InvalidJson(f"The request body must be a JSON object, but it is {_got_kind(complaint)}.")
    if complaint.startswith(("Invalid value", "Invalid enum value")):
        return _wrong_value(complaint, param, supported)
    if complaint == "Expected `str`":  # of a field that says which kind of object this is
        return InvalidRequest(f"Invalid type for '{param}': expected a string.", param=param, code="invalid_type")
    if complaint.startswith("Expected ") and ", got " in complaint:
        kinds = [kind for kind in _quoted(complaint).split(" | ") if kind != "null"]
        wanted = " or ".join(_ARTICLES.get(kind, kind) for kind in kinds)
        return InvalidRequest(
            f"Invalid type for '{param}': expected {wanted}, but got {_got_kind(complaint)} instead.",
            param=param,
            code="invalid_type",
        )
    return InvalidRequest(f"Invalid value for '{param}': {_in_words(complaint)}.", param=param, code="invalid_value")


def _wrong_value(complaint: str, param: str, supported: Mapping[str, tuple[str, ...]]) -> InvalidRequest:
    value = complaint[complaint.find("value ") + 6 :]
    known = supported.get(_without_indexes(param), ())
    hint = f" Supported values are: {', '.join(repr(name) for name in known)}." if known else ""
    return InvalidRequest(f"Invalid value for '{param}': {brief(value)}.{hint}", param=param, code="invalid_value")


def _split(text: str) -> tuple[str, str]:
    """msgspec's "complaint - at `$.path`" as (complaint, "path"); the path of a bad key is that of its object."""
    complaint, mark, place = text.rpartition(" - at `")
    if not mark:
        return text, ""
    start = place.find("$")
    return complaint, place[start + 1 : place.rfind("`")].removeprefix(".") if start >= 0 else ""


def _with_name(path: str, complaint: str, plain: object) -> str:
    """The path with the name of the entry that is of a wrong type, where it is one of a map, whose names msgspec leaves out: the
    first entry of the type that it complains of. Without the name where that is not to be told."""
    place, mark, rest = path.partition(_OF_A_NAME)
    node = plain
    for step in place.replace("]", "").replace("[", ".").split(".") if mark and not rest else ():
        if isinstance(node, dict):
            node = node.get(step)
        elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
    if mark and not rest and isinstance(node, dict):
        kind = complaint.rpartition(", got `")[2].rstrip("`")
        wrong = (name for name, value in node.items() if _KINDS.get(type(value)) == _OF_PYTHON.get(kind, kind))
        return _join(place, next(wrong, "")).rstrip(".")
    return path.replace(_OF_A_NAME, "")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _quoted(complaint: str) -> str:
    start = complaint.find("`") + 1
    return complaint[start : complaint.rfind("`") if ", got " not in complaint else complaint.find("`", start)]


def _got_kind(complaint: str) -> str:
    kind = complaint.rpartition(", got `")[2].rstrip("`")
    kind = _OF_PYTHON.get(kind, kind)
    return _ARTICLES.get(kind, kind)


def _unknown_field(complaint: str) -> str | None:
    opening = "Object contains unknown field `"
    return complaint[len(opening) : -1] if complaint.startswith(opening) else None


def _in_words(complaint: str) -> str:
    words = complaint[0].lower() + complaint[1:]
    for kind, article in _ARTICLES.items():
        words = words.replace(f"`{kind}`", article)
    return brief(
        words.replace(" of length >= ", " with a length of at least ").replace(
            " of length <= ", " with a length of at most "
        ),
        200,
    )


def _without_indexes(param: str) -> str:
    kept: list[str] = []
    for piece in param.split("["):
        index, bracket, rest = piece.partition("]")
        kept.append("[]" + rest if bracket and index.isdigit() else piece)
    return "".join(kept)


def _drop_nulls(plain: object, shaped: tuple[str, ...]) -> None:
    """Remove null fields of `plain` itself, and at any depth of its fields `shaped`."""
    if type(plain) is not dict:
        return
    left: list[object] = [plain.get(name) for name in shaped]
    for name in [name for name, value in plain.items() if value is None]:
        del plain[name]
    while left:
        node = left.pop()
        if type(node) is dict:
            for name in [name for name, value in node.items() if value is None]:
                del node[name]
            left.extend(node.values())
        elif type(node) is list:
            left.extend(node)


def _malformed(error: Exception, limits: LimitsConfig) -> InvalidJson:
    if isinstance(error, RecursionError):
        return _too_deep(limits)
    reason = str(error).removeprefix("JSON is malformed: ")
    if (
        isinstance(error, UnicodeDecodeError) or reason == "Invalid UTF-8 encoded string"
    ):  # as msgspec says it since 0.23
        return InvalidJson("The request body is not valid UTF-8.")
    if reason == "Input data was truncated":
        reason = "it ends too early or holds an unpaired surrogate escape"
    return InvalidJson(f"We could not parse the JSON body of your request: {brief(reason, 120)}.")


def _too_deep(limits: LimitsConfig) -> InvalidJson:
    return InvalidJson(f"The request body is nested too deeply; at most {limits.json_depth} levels are taken.")

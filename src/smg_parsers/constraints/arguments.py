"""The arguments of a call as a format of a structural tag: how one family writes the values that a schema allows.

Decides: from a schema and a row of `shapes`, which members may be written, in which order and spelling. Above:
`constraints`. Below: `forms`, `shapes`, `patterns`, `lark`, `free_text`. Does not know: what stands around
a call, engines, how output is parsed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from smg_parsers.constraints.forms import (
    ConstraintError,
    ConstraintUnsupported,
    JsonObject,
    const_text,
    dumped,
    either_form,
    list_or_empty,
    object_or_empty,
    optional_form,
    sequence_form,
    tag_form,
)
from smg_parsers.constraints.lark import LarkError, ebnf
from smg_parsers.constraints.patterns import JSON, PYTHON, RAW, PatternError, Spelling, literal, spelled
from smg_parsers.constraints.shapes import Body
from smg_parsers.json_text.free_text import ARGUMENT

MAX_REF_DEPTH = 16
MAX_NESTING = 4
"""In formats that nest, objects are spelled out member by member down to this depth; deeper ones are free text."""
MAX_UNION_DEPTH = 6
WORD: JsonObject = {"type": "regex", "pattern": "[A-Za-z_][A-Za-z0-9_.-]*"}
"""The name of a member that no schema declares."""
PYTHON_STRING = r"'([^'\\\n]|\\[^\n])*'"


@dataclass(frozen=True, slots=True)
class TextSyntax:
    """What the whole text of a custom tool follows: a regular expression or a Lark grammar."""

    syntax: Literal["regex", "lark"]
    definition: str


def arguments_form(body: Body, schema: JsonObject) -> JsonObject:
    if body.open is None:
        return {"type": "json_schema", "json_schema": schema}
    return _members(body, schema, schema)


def free_text_form(body: Body, asked: TextSyntax) -> JsonObject:
    """The argument of a tool that takes free text: a text of the format, spelled as the family spells strings."""
    if body.open is None:
        return _spelled_text(f'{{"{ARGUMENT}": "', asked, JSON, '"}')
    begin, end = _around(body, ARGUMENT, "string")
    if body.string == "python":
        return either_form(
            [
                _spelled_text(begin + "'", asked, PYTHON, "'" + end),
                _spelled_text(begin + '"', asked, JSON, '"' + end),
            ]
        )
    quote = {"raw": "", "json": '"'}.get(body.string, body.string)
    return _spelled_text(begin + quote, asked, JSON if body.string == "json" else RAW, quote + end)


def _spelled_text(begin: str, asked: TextSyntax, spelling: Spelling, end: str) -> JsonObject:
    """The text between ``begin`` and ``end``. The end is a part of the expression, because a matcher that reads token by
    token could otherwise take its beginning for more of the text."""
    try:
        if asked.syntax == "lark":
            text: JsonObject = {"type": "grammar", "grammar": ebnf(asked.definition, spelling, end)}
        else:
            text = {"type": "regex", "pattern": spelled(asked.definition, spelling) + literal(end)}
    except (PatternError, LarkError) as error:
        raise ConstraintError(f"the format of a custom tool cannot be used: {error}") from error
    return sequence_form([const_text(begin), text])


def _members(body: Body, schema: object, root: JsonObject, depth: int = 0) -> JsonObject:
    """The members of an object as the family writes them, in declared order; optional ones may be missing."""
    resolved = _resolve(schema, root)
    properties = object_or_empty(resolved.get("properties"))
    if not properties:
        return const_text("") if resolved.get("additionalProperties") is False else _any_members(body)
    required = set(list_or_empty(resolved.get("required")))
    keys = sorted(properties, key=str.lower) if body.sort else list(properties)
    made = [(key in required, _member(body, key, properties[key], root, depth)) for key in keys]
    if body.between:
        return _joined(made, body.between, started=False)
    return sequence_form([form if needed else optional_form(form) for needed, form in made])


def _joined(made: Sequence[tuple[bool, JsonObject]], between: str, *, started: bool) -> JsonObject:
    """Members with a separator between any two that are written. ``started``: a member stands before these."""
    if not made:
        return const_text("")
    (needed, form), rest = made[0], made[1:]
    one = sequence_form([const_text(between), form] if started else [form])
    if needed:
        return sequence_form([one, _joined(rest, between, started=True)])
    if started:
        return sequence_form([optional_form(one), _joined(rest, between, started=True)])
    return either_form(
        [sequence_form([one, _joined(rest, between, started=True)]), _joined(rest, between, started=False)]
    )


def _any_members(body: Body) -> JsonObject:
    """Any members, for an object whose schema declares none."""
    if body.sort or body.nested:
        return {"type": "any_text"}
    if not body.between:
        return {"type": "star", "content": either_form([_any_member(body, kind) for kind in _marked_kinds(body)])}
    begin, _, after = (body.open or "").partition("{key}")
    value = either_form([{"type": "json_schema", "json_schema": True}, {"type": "regex", "pattern": PYTHON_STRING}])
    one = sequence_form([const_text(begin), WORD, const_text(after), value])
    more = {"type": "star", "content": sequence_form([const_text(body.between), one])}
    return optional_form(sequence_form([one, more]))


def _marked_kinds(body: Body) -> Sequence[str]:
    """The kinds of values that the family marks in different ways; where it marks none, any value is a string."""
    if "{type}" in (body.open or ""):
        return ("string", "number", "boolean", "object", "array", "null")
    return ("string", "object") if "{is_string}" in (body.open or "") else ("string",)


def _any_member(body: Body, kind: str) -> JsonObject:
    """A member of any name whose value is marked as ``kind``: a raw string, or JSON."""
    begin, end = _around(body, "{key}", kind)
    begin, _, after = begin.partition("{key}")
    if kind == "string":
        return tag_form(begin, sequence_form([WORD, const_text(after), {"type": "any_text"}]), end)
    value: JsonObject = {
        "type": "json_schema",
        "json_schema": {"type": kind} if "{type}" in (body.open or "") else True,
    }
    return sequence_form([const_text(begin), WORD, const_text(after), value, const_text(end)])


def _member(body: Body, key: str, schema: object, root: JsonObject, depth: int = 0) -> JsonObject:
    """One member, in any spelling of one of its types."""
    kinds = _types(schema, root)
    resolved = _resolve(schema, root)
    words = [value for value in _listed(resolved) if isinstance(value, str)]
    marked = "{type}" in (body.open or "") or "{is_string}" in (body.open or "")
    made: list[JsonObject] = []
    if body.string != "python" and (not kinds or "string" in kinds):
        begin, end = _around(body, key, "string")
        quote = "" if body.string == "raw" else body.string
        if words and kinds == {"string"}:
            return either_form([const_text(begin + quote + word + quote + end) for word in words])
        made.append(tag_form(begin + quote, {"type": "any_text"}, quote + end))
        if body.string == "raw" and not marked:
            return made[0]
    others = sorted(kinds if body.string == "python" else kinds - {"string"})
    if not kinds:
        others = ["any"] if body.string == "python" else ["array", "boolean", "null", "number", "object"]
    made += [_spelled(body, key, kind, schema if kinds == {kind} else {"type": kind}, root, depth) for kind in others]
    return either_form(made)


def _spelled(body: Body, key: str, kind: str, schema: object, root: JsonObject, depth: int) -> JsonObject:
    """A member of one type that is not a raw string."""
    begin, end = _around(body, key, kind)
    listed = _listed(_resolve(schema, root))
    yes, no, nothing = (spelling.split("|") for spelling in body.words)
    if kind == "boolean" and not listed:
        return either_form([const_text(begin + word + end) for word in (*yes, *no)])
    if kind == "null":
        return either_form([const_text(begin + word + end) for word in nothing])
    if kind in ("object", "array") and (body.sort or body.nested):
        return _nested(body, key, kind, schema, root, depth)
    value: JsonObject = {"type": "json_schema", "json_schema": True if kind == "any" else _with_defs(schema, root)}
    if kind in ("string", "any") and body.string == "python":
        quoted = [const_text(repr(word)) for word in listed if isinstance(word, str)]
        value = either_form([value, *quoted] if listed else [value, {"type": "regex", "pattern": PYTHON_STRING}])
    return sequence_form([const_text(begin), value, const_text(end)])


def _nested(body: Body, key: str, kind: str, schema: object, root: JsonObject, depth: int) -> JsonObject:
    """An object or an array, in a format that does not write nested values as JSON."""
    begin, end = _around(body, key, kind)
    if body.sort:
        begin, end = (begin + "{", "}" + end) if kind == "object" else (begin + "[", "]" + end)
    if depth == MAX_NESTING:
        return tag_form(begin, {"type": "any_text"}, end)
    if kind == "object":
        return sequence_form([const_text(begin), _members(body, schema, root, depth + 1), const_text(end)])
    items = _resolve(schema, root).get("items", {})
    if body.nested:
        item = _member(body, "item", items, root, depth + 1)
        return sequence_form([const_text(begin), {"type": "star", "content": item}, const_text(end)])
    item = _member(replace(body, open="", close=""), "", items, root, depth + 1)
    more = {"type": "star", "content": sequence_form([const_text(body.between), item])}
    return sequence_form([const_text(begin), optional_form(sequence_form([item, more])), const_text(end)])


def _around(body: Body, key: str, kind: str) -> tuple[str, str]:
    """What is written before and after a value of the member ``key``."""
    name = "number" if kind == "integer" else kind
    begin = (body.open or "").replace("{type}", name).replace("{is_string}", "true" if kind == "string" else "false")
    return begin.replace("{key}", key), body.close.replace("{key}", key)


def _resolve(schema: object, root: JsonObject) -> JsonObject:
    """The schema behind local references; an empty one if they lead nowhere."""
    for _ in range(MAX_REF_DEPTH):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = root if reference == "#" else _pointed(root, reference)
    return {}


def _pointed(root: JsonObject, reference: str) -> object:
    place: object = root
    for part in reference.removeprefix("#/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        place = place.get(name) if isinstance(place, dict) else None
    return place


def _listed(schema: JsonObject) -> list[object]:
    """The values that a schema lists, if it does."""
    return [schema["const"]] if "const" in schema else list_or_empty(schema.get("enum"))


_NAMES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def _types(schema: object, root: JsonObject, depth: int = 0) -> set[str]:
    """The JSON types that a schema allows; empty if it does not say."""
    resolved = _resolve(schema, root)
    if depth > MAX_UNION_DEPTH:
        return set()
    if listed := _listed(resolved):
        return {_NAMES[type(value)] for value in listed}
    kind = resolved.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return set(kind)
    for key in ("anyOf", "oneOf"):
        if branches := list_or_empty(resolved.get(key)):
            found = [_types(branch, root, depth + 1) for branch in branches]
            return set().union(*found) if all(found) else set()
    inner = [_types(branch, root, depth + 1) for branch in list_or_empty(resolved.get("allOf"))]
    return next((found for found in inner if found), set())


def _with_defs(schema: object, root: JsonObject) -> object:
    """A part of a schema, with the definitions that it refers to added."""
    if not isinstance(schema, dict):
        return schema
    if '"$ref":"#"' in dumped(schema):
        raise ConstraintUnsupported(
            "a schema that refers to itself as a whole (#) cannot be taken apart; name it under $defs"
        )
    return schema | {key: root[key] for key in ("$defs", "definitions") if key in root and key not in schema}

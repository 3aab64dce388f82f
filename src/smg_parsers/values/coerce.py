"""Turns an argument written as plain text into JSON of the type that the tool's schema asks for.

Decides: which JSON types a schema allows (through `$ref`, `anyOf`, `oneOf`, `allOf`, type lists, `nullable`, `enum` and
`const`) and the JSON for a text under them. Numbers are rewritten as text, never through `float`, so that precision and
size survive. Results are JSON text.
Above: the XML-like and Python-like grammars. Below: `literals`, `partial_json`.
Does not know: where the text came from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Final

from smg_parsers.json_text.partial_json import JsonScanner, is_json
from smg_parsers.pieces.base import Schema
from smg_parsers.values.lenient_json import mended_json
from smg_parsers.values.literals import integer, literal_to_json, number, quote

_UNFOLD_LIMIT: Final = 64
"""The most sub-schemas read for one argument: schemas may refer to themselves."""

_ALIASES: Final = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "list": "array",
    "tuple": "array",
    "none": "null",
}
_WORDS: Final = {"true": "true", "True": "true", "false": "false", "False": "false", "null": "null", "None": "null"}
_STRING_ONLY: Final = frozenset({"string"})
_ANY: Final = frozenset({"string", "object", "array"})
"""The types that a text in brackets may have where the schema does not say."""
_NUMBERS: Final = frozenset({"integer", "number"})
_NUMBER_BEGINS: Final = frozenset("-0123456789")


def property_schema(schema: Schema, name: str) -> Schema:
    """The schema of one argument; empty if the tool's schema says nothing about it."""
    for part in _unfold(schema, schema):
        properties = part.get("properties")
        found = properties.get(name) if isinstance(properties, Mapping) else None
        if isinstance(found, Mapping):
            return found
    extra = schema.get("additionalProperties")
    return extra if isinstance(extra, Mapping) else {}


def unquoted(text: str) -> str:
    """The string that a text writes as JSON, without its quotes; else the text as it is."""
    written = text.strip()
    if written[:1] != '"' or not is_json(written):
        return text
    return str(json.loads(written, strict=False))  # its line breaks may be raw


def property_names(schema: Schema) -> frozenset[str] | None:
    """The names of a tool's arguments; None if its schema does not list them."""
    found = [part.get("properties") for part in _unfold(schema, schema)]
    listed = [properties for properties in found if isinstance(properties, Mapping)]
    return frozenset(name for properties in listed for name in properties) if listed else None


def required_names(schema: Schema) -> frozenset[str]:
    """The names of the arguments that a tool's schema requires."""
    required = schema.get("required")
    return frozenset(name for name in required if isinstance(name, str)) if isinstance(required, list) else frozenset()


def item_schema(schema: Schema, root: Schema) -> Schema:
    """The schema of a list's items; empty if there is none."""
    for part in _unfold(schema, root):
        items = part.get("items")
        if isinstance(items, Mapping):
            return items
    return {}


def child_schema(schema: Schema, root: Schema, name: str) -> Schema:
    """The schema of a property of a nested object; empty if there is none."""
    for part in _unfold(schema, root):
        properties = part.get("properties")
        found = properties.get(name) if isinstance(properties, Mapping) else None
        if isinstance(found, Mapping):
            return found
    return {}


def types_of(schema: Schema, root: Schema) -> frozenset[str]:
    """The JSON types that the schema allows; empty if it does not say."""
    found: set[str] = set()
    for part in _unfold(schema, root):
        kind = part.get("type")
        for name in kind if isinstance(kind, list) else (kind,):
            if isinstance(name, str):
                lowered = name.lower()
                found.add(_ALIASES.get(lowered, lowered))
        if part.get("nullable") is True:
            found.add("null")
        if kind is None:
            found.update(_implied(part))
    return frozenset(found)


def is_text(schema: Schema, root: Schema) -> bool:
    """Whether a value can only be a string, so that it may be streamed as it is written."""
    return types_of(schema, root) == _STRING_ONLY


def admits_word(schema: Schema, word: str) -> bool:
    """Whether a schema lists a word among its values, so that it is that string."""
    listed = schema.get("enum")
    return schema.get("const") == word or (isinstance(listed, list | tuple) and word in listed)


def coerce(text: str, schema: Schema, root: Schema) -> str:
    """The JSON for a raw text under a schema; the text as a string if no other type fits."""
    types = types_of(schema, root)
    if not types:
        return _infer(text)
    if types == _STRING_ONLY:
        return quote(text)
    stripped = text.strip()
    word = _WORDS.get(stripped) or _WORDS.get(stripped.lower())
    if word == "null" and "null" in types:
        return word
    if "boolean" in types and word in ("true", "false"):
        return word
    number = _typed_number(stripped, types)
    if number is not None:
        return number
    structured = _structure(stripped, types, or_text="string" in types)
    return quote(text) if structured is None else structured


def coerce_json(value: str, schema: Schema, root: Schema) -> str:
    """The same for a value that is JSON already: it is changed only if the schema allows another type that it fits."""
    types = types_of(schema, root)
    kind = json_type(value)
    if not types or kind in types or (kind == "integer" and "number" in types):
        return value
    if kind == "string":
        return coerce(json.loads(value), schema, root)
    if kind == "number" and "integer" in types:
        return integer(value) or value
    if "string" in types and kind in ("integer", "number", "boolean"):
        return quote(value)
    return value


def json_type(value: str) -> str:
    """The JSON type of a valid JSON text."""
    first = value.lstrip()[:1]
    if first == '"':
        return "string"
    if first == "{":
        return "object"
    if first == "[":
        return "array"
    if first in ("t", "f"):
        return "boolean"
    if first == "n":
        return "null"
    return "number" if any(char in ".eE" for char in value) else "integer"


def partial(text: str, schema: Schema, root: Schema) -> str:
    """For a value that was cut off, the beginning of the JSON that it would have become."""
    begun = _structure_begun(text.strip(), types_of(schema, root) or _ANY)
    if begun is not None:
        return begun
    value = coerce(text, schema, root)
    return value[:-1] if value.startswith('"') else value


def _typed_number(text: str, types: frozenset[str]) -> str | None:
    if "string" in types:
        return _plain_number(text, types)
    if "integer" in types:
        whole = integer(text)
        if whole is not None and ("number" not in types or "." not in text):
            return whole
    return number(text) if "number" in types else None


def _plain_number(text: str, types: frozenset[str]) -> str | None:
    """A number where a string could stand too: only as JSON writes it, so that codes (`02139`, `1_000`, `1.0` where a number
    would have to be whole) stay what they are; nor one that no reader can hold (`1e999`)."""
    if text[:1] not in _NUMBER_BEGINS or not is_json(text):
        return None
    fits = "number" in types or ("integer" in types and json_type(text) == "integer")
    return text if fits and _is_finite(text) else None


def _is_finite(text: str) -> bool:
    return json_type(text) == "integer" or math.isfinite(float(text))


def _structure(text: str, types: frozenset[str], *, or_text: bool) -> str | None:
    """The list or the object that a text is. Where a text may stand too (`beside_text`): only as JSON writes it, so that what
    stands in brackets (`[a-z]`, `{ color: red }`) stays what it is."""
    if not _opens(text, types):
        return None
    scanner = JsonScanner()
    written, end = scanner.take(text, 0)
    if scanner.done and not text[end:].strip():
        return written
    if or_text:
        return None
    return literal_to_json(text) or mended_json(text)


def _structure_begun(text: str, types: frozenset[str]) -> str | None:
    """The beginning of the list or the object that a text would have become which was cut off. Where a text may stand too, it
    would have become none if it is no beginning of JSON."""
    if not _opens(text, types):
        return None
    scanner = JsonScanner()
    written, end = scanner.take(text, 0)
    is_text = scanner.bad or (scanner.done and text[end:].strip())
    return None if is_text and "string" in types else written


def _opens(text: str, types: frozenset[str]) -> bool:
    """Whether a text begins as a list or an object does, of which the types have one."""
    return ("object" in types and text[:1] == "{") or ("array" in types and text[:1] == "[")


def _infer(text: str) -> str:
    stripped = text.strip()
    word = _WORDS.get(stripped)
    if word is not None:
        return word
    if stripped[:1] in ("{", "["):
        structured = _structure(stripped, _ANY, or_text=True)
        return quote(text) if structured is None else structured
    return _plain_number(stripped, _NUMBERS) or quote(text)


def _implied(part: Schema) -> Iterator[str]:
    values = part.get("enum")
    given = [*values] if isinstance(values, list) else []
    if "const" in part:
        given.append(part["const"])
    for value in given:
        yield json_type(json.dumps(value))
    if "properties" in part:
        yield "object"
    if "items" in part:
        yield "array"


def _unfold(schema: Schema, root: Schema) -> Iterator[Schema]:
    """The schema and the sub-schemas that apply to the same value, nearest first, each once; at most `_UNFOLD_LIMIT`."""
    queue: list[Schema] = [schema]
    seen: set[int] = set()
    while queue and len(seen) < _UNFOLD_LIMIT:
        part = queue.pop(0)
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        target = _resolve(part.get("$ref"), root)
        if target is not None:
            queue.append(target)
        for keyword in ("anyOf", "oneOf", "allOf"):
            branches = part.get(keyword)
            if isinstance(branches, list):
                queue.extend(branch for branch in branches if isinstance(branch, Mapping))


def _resolve(reference: object, root: Schema) -> Schema | None:
    """The schema at a reference into the same document (`#/$defs/Place`); None for other references."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    node: object = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, Mapping) or name not in node:
            return None
        node = node[name]
    return node if isinstance(node, Mapping) else None

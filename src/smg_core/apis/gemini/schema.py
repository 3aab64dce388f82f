"""Google's schemas (a subset of OpenAPI 3.0) as JSON Schema.

Types are lower-cased, `nullable` becomes a type, counts written as texts become numbers, formats that name number types go, and
`propertyOrdering` orders the properties. A schema that is JSON Schema already stays what it is. Pure. Above: gemini_tools.
"""

from smg_core.apis.google.proto_json import proto_number
from smg_core.json_types import Json, JsonObject

__all__ = ["json_schema"]

_NUMBERS = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties", "minimum", "maximum"}
)
_NAMES = {
    "any_of": "anyOf",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "property_ordering": "propertyOrdering",
    "additional_properties": "additionalProperties",
    "defs": "$defs",
    "ref": "$ref",
}
_NUMBER_FORMATS = frozenset({"int32", "int64", "float", "double", "enum"})
_NOT_JSON_SCHEMA = frozenset({"nullable", "propertyOrdering", "example"})


def json_schema(schema: JsonObject) -> JsonObject:
    """The schema; its nesting must have been checked."""
    named = {_NAMES.get(name, name): value for name, value in schema.items() if value is not None}
    found: JsonObject = {}
    for name, value in named.items():
        if name in _NOT_JSON_SCHEMA or (name == "format" and str(value) in _NUMBER_FORMATS):
            continue
        found[name] = _value(name, value)
    if "type" not in found and isinstance(named.get("properties"), dict):
        found["type"] = "object"
    if found.get("type") == "type_unspecified":
        del found["type"]
    order = named.get("propertyOrdering")
    properties = found.get("properties")
    if isinstance(order, list) and isinstance(properties, dict):
        first = {name: properties[name] for name in order if isinstance(name, str) and name in properties}
        found["properties"] = {**first, **{name: value for name, value in properties.items() if name not in first}}
    return _with_null(found) if named.get("nullable") is True else found


def _value(name: str, value: Json) -> Json:
    if name == "type" and isinstance(value, str):
        return value.lower()
    if name in _NUMBERS and isinstance(value, str):
        return proto_number(value)
    if name in ("properties", "$defs") and isinstance(value, dict):
        return {key: json_schema(each) if isinstance(each, dict) else each for key, each in value.items()}
    if name in ("items", "additionalProperties") and isinstance(value, dict):
        return json_schema(value)
    if name in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
        return [json_schema(each) if isinstance(each, dict) else each for each in value]
    return value


def _with_null(schema: JsonObject) -> JsonObject:
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}

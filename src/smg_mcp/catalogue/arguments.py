"""Arguments on their way to a server, and the schema that the model sees for them.

Above: `inventory` (schemas), `tools` (calls). Below: `records.settings`. Pure.
"""

from collections.abc import Mapping
from typing import Any

from smg_mcp.records.settings import ArgumentMapping

__all__ = ["arguments_for", "schema_for"]


def schema_for(schema: Mapping[str, Any], mapping: ArgumentMapping) -> dict[str, Any]:
    """The schema as the model sees it: renamed, without what is overridden, and with nothing required that has a default."""
    visible = dict(schema)
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return visible
    back = {there: here for here, there in mapping.renames.items()}
    visible["properties"] = {
        back.get(name, name): each for name, each in properties.items() if name not in mapping.overrides
    }
    required = schema.get("required")
    if isinstance(required, list):
        given = mapping.overrides.keys() | mapping.defaults.keys()
        visible["required"] = [back.get(name, name) for name in required if isinstance(name, str) and name not in given]
    return visible


def arguments_for(given: Mapping[str, Any], mapping: ArgumentMapping, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the server gets them: renamed, with defaults and overrides, and with strings made numbers where the
    schema takes numbers only (a whole number stays whole)."""
    sent = {mapping.renames.get(name, name): value for name, value in given.items()}
    sent = {**mapping.defaults, **sent, **mapping.overrides}
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return sent
    return {name: _coerced(value, properties.get(name)) for name, value in sent.items()}


def _coerced(value: Any, schema: Any) -> Any:
    if not isinstance(value, str) or not isinstance(schema, Mapping):
        return value
    kind = schema.get("type")
    try:
        if kind == "integer":
            return int(value) if value.strip().lstrip("+-").isdecimal() else value
        if kind == "number":
            return int(value) if value.strip().lstrip("+-").isdecimal() else _finite(value)
    except ValueError:
        pass
    return value


def _finite(text: str) -> float:
    number = float(text)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number

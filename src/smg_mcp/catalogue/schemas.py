"""Schemas of tools' arguments as they can be offered: a schema that cannot be read costs its tool the schema, and nothing else.

Above: `inventory`. Below: jsonschema_rs, whose patterns take linear time and which is not let fetch anything. Pure; a schema
takes some 50 microseconds, one with patterns a millisecond and more.
"""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

__all__ = ["fault_of_schema", "readable_schema"]

_ANYTHING: Mapping[str, Any] = {"type": "object"}
_OLDER = "http://json-schema.org/draft-07/schema#"
_PATTERNS = ("pattern", "patternProperties")


def readable_schema(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """The schema that models are offered for the arguments that `schema` describes, and what is wrong with `schema`, if anything
    is. One of an older draft is said to be so; one that cannot be read for its patterns goes without them; any other that cannot
    be read becomes one of any object."""
    fault = fault_of_schema(schema)
    if fault is None:
        return schema, None
    older = {**schema, "$schema": _OLDER}
    if fault_of_schema(older) is None:
        return older, None
    for each in (schema, older):
        bare = _without_patterns(each)
        if fault_of_schema(bare) is None:
            return bare, f"its patterns cannot be read, so its arguments are not held to them: {fault}"
    return _ANYTHING, f"its schema cannot be read, so its arguments may be any object: {fault}"


def fault_of_schema(schema: Mapping[str, Any]) -> str | None:
    """Why a schema cannot be used; None if it can."""
    try:
        jsonschema_rs.validator_for(dict(schema), retriever=_nothing, pattern_options=jsonschema_rs.RegexOptions())
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return str(error).partition("\n")[0][:200]
    return None


def _without_patterns(value: Any, names: bool = False) -> Any:
    """A part of a schema without patterns; `names` says that its keys are names of properties or definitions."""
    if isinstance(value, list):
        return [_without_patterns(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: _without_patterns(each, not names and key in ("properties", "$defs", "definitions"))
        for key, each in value.items()
        if names or key not in _PATTERNS
    }


def _nothing(uri: str) -> Any:
    raise ValueError("a schema may not refer to another document")

"""JSON Schemas without the keywords that a provider refuses: what they say moves into the descriptions.

The answer is checked against the whole schema by the gateway, so that nothing is lost but the provider's help. Pure. Above: the
encoders. Below: nothing.
"""

from collections.abc import Callable, Mapping

import msgspec

__all__ = ["without_keywords"]

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_SCHEMAS = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})

_Schema = Mapping[str, object]


def without_keywords(schema: _Schema, refuses: Callable[[str, object], bool]) -> tuple[dict[str, object], bool]:
    """`schema` without the keywords that `refuses` names, at any depth, and whether there were any. `oneOf`, where it is refused,
    becomes `anyOf`, which says as much to a model."""
    kept: dict[str, object] = {}
    moved: dict[str, object] = {}
    changed = False
    for word, value in schema.items():
        if refuses(word, value):
            changed = True
            if word != "oneOf" or "anyOf" in schema:
                moved[word] = value
                continue
            word = "anyOf"
        kept[word], inner = _within(word, value, refuses)
        changed = changed or inner
    if moved:
        constraints = "; ".join(f"{word}: {msgspec.json.encode(value).decode()}" for word, value in moved.items())
        described = kept.get("description")
        kept["description"] = f"{described} ({constraints})" if described else constraints
    return kept, changed


def _within(word: str, value: object, refuses: Callable[[str, object], bool]) -> tuple[object, bool]:
    """The value of a keyword with the schemas in it rewritten."""
    if word in _MAPS and isinstance(value, Mapping):
        pairs = {name: _rewritten(each, refuses) for name, each in value.items()}
        return {name: each for name, (each, _) in pairs.items()}, any(inner for _, inner in pairs.values())
    if word in _LISTS and isinstance(value, list | tuple):
        found = [_rewritten(each, refuses) for each in value]
        return [each for each, _ in found], any(inner for _, inner in found)
    if word in _SCHEMAS:
        return _rewritten(value, refuses)
    return value, False


def _rewritten(value: object, refuses: Callable[[str, object], bool]) -> tuple[object, bool]:
    return without_keywords(value, refuses) if isinstance(value, Mapping) else (value, False)

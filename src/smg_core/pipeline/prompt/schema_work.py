"""Counts the steps of checking a value against a JSON schema, before the check is made.

A validator looks at a value once for every path that leads to it through the schema. With alternatives that refer to
alternatives, a schema of a few lines has too many paths to walk. Decides whether the steps are within a bound, by walking the
same paths without checking anything. Pure. Above: formats. Below: nothing.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from smg_core.json_types import Json

__all__ = ["over_steps"]

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_OF_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_OF_ITEMS = ("items", "additionalItems", "contains", "unevaluatedItems")


def over_steps(schema: Mapping[str, Json], value: Json, most: int) -> bool:
    """Whether checking `value` against `schema` takes more than `most` steps; a step is one value and one part of the schema."""
    left = most
    waiting: list[tuple[Json, Json]] = [(schema, value)]
    while waiting:
        part, found = waiting.pop()
        left -= 1
        if left < 0:
            return True
        if not isinstance(part, Mapping):
            continue
        listed = part.get("enum")
        left -= len(listed) if isinstance(listed, list) else 0
        for pair in chain(((each, found) for each in _of_the_same_value(schema, part)), _below(part, found)):
            waiting.append(pair)
            if len(waiting) > left:
                return True
    return False


def _of_the_same_value(root: Mapping[str, Json], part: Mapping[str, Json]) -> Iterator[Json]:
    """The parts of `part` that apply to the same value."""
    for name in ("$ref", "$dynamicRef", "$recursiveRef"):
        target = part.get(name)
        if isinstance(target, str):
            yield _resolved(root, target)
    for name in _LISTS:
        several = part.get(name)
        if isinstance(several, list):
            yield from several
    for name in _SINGLE:
        if name in part:
            yield part[name]
    dependent = part.get("dependentSchemas")
    if isinstance(dependent, Mapping):
        yield from dependent.values()


def _below(part: Mapping[str, Json], value: Json) -> Iterator[tuple[Json, Json]]:
    """The parts of `part` that apply to members or items of `value`, each with that member or item."""
    if isinstance(value, dict):
        named = part.get("properties")
        patterns = part.get("patternProperties")
        several = list(patterns.values()) if isinstance(patterns, Mapping) else []
        several += [part[name] for name in _OF_MEMBERS if isinstance(part.get(name), Mapping)]
        for key, member in value.items():
            if isinstance(named, Mapping) and key in named:
                yield named[key], member
            for each in several:
                yield each, member
    elif isinstance(value, list):
        several = [part[name] for name in _OF_ITEMS if isinstance(part.get(name), Mapping)]
        for name in ("prefixItems", "items"):
            listed = part.get(name)
            if isinstance(listed, list):
                yield from zip(listed, value, strict=False)
        for item in value:
            for each in several:
                yield each, item


def _resolved(root: Mapping[str, Json], reference: str) -> Json:
    """The part that a reference within the schema names. For a reference that is not a path, the whole schema, which is at least
    as much work."""
    if not reference.startswith("#/"):
        return root
    found: Json = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found

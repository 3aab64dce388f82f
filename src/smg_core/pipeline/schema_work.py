"""How much work it is to hold a value to a JSON schema, found before it is done.

A validator looks at a value once for every way that leads to it through the schema: with alternatives that refer to alternatives,
a schema of a few lines has more ways than can be walked. Decides whether the steps are within a bound, by walking them without
judging anything. Pure. Above: formats. Below: nothing.
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
    """Whether holding `value` to `schema` takes more than `most` steps, each one look at one value by one part of the schema."""
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
        for pair in chain(((each, found) for each in _beside(schema, part)), _below(part, found)):
            waiting.append(pair)
            if len(waiting) > left:
                return True
    return False


def _beside(root: Mapping[str, Json], part: Mapping[str, Json]) -> Iterator[Json]:
    """The schemas that look at the same value."""
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
    """The schemas that look at what is inside of the value, each with that."""
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
    """What a reference inside of the schema means; the whole schema for one that is not a path, which is no less work."""
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

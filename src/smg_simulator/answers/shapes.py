"""Text that satisfies a constraint: an example of a JSON schema, a regular expression, a grammar or a structural tag, or a
choice.

Decides what the text is; pure given a `Random`. Above: engine.engine. Examples are plausible and valid, and not every
feature of every notation is supported: the others are refused by name (`Unfollowable`), as an engine refuses a bad schema.
Depth, length and repetitions are bounded. JSON schemas are followed here, the others in answers.expressions and
answers.structural_tags.
"""

import json
from collections.abc import Mapping
from math import isfinite
from random import Random

from smg_core.engines.constraint import Constraint
from smg_parsers.pieces.base import Schema
from smg_simulator.answers.expressions import Unfollowable, example_of_grammar, example_of_regex
from smg_simulator.answers.structural_tags import StructuralTags

__all__ = ["Shapes"]

_FORMATS = {
    "date": "2024-05-17",
    "time": "09:30:00Z",
    "date-time": "2024-05-17T09:30:00Z",
    "duration": "PT2H",
    "email": "ada@example.com",
    "hostname": "www.example.com",
    "ipv4": "192.0.2.7",
    "ipv6": "2001:db8::7",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "uri": "https://www.example.com/docs",
}
_BY_NAME = {
    "city": "Paris",
    "location": "Paris",
    "country": "France",
    "name": "Ada",
    "title": "A short story",
    "unit": "celsius",
    "timezone": "Europe/Paris",
    "query": "a short story",
    "email": "ada@example.com",
    "date": "2024-05-17",
    "url": "https://www.example.com/docs",
    "language": "English",
    "currency": "EUR",
}

_WORDS = ("the river", "a quiet street", "two simple rules", "the first train", "a better idea", "the morning light")
_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_ANY_OBJECT = {"answer": "The river remembers a short story.", "confidence": 0.92, "tags": ["river", "story"]}


class Shapes:
    """Makes examples. `max_depth` bounds the nesting of schemas that are followed, `max_items` the length of arrays,
    `max_length` the characters of texts made of expressions and grammars."""

    def __init__(self, *, max_depth: int = 32, max_items: int = 64, max_length: int = 4096) -> None:
        self._max_depth = max_depth
        self._max_items = max_items
        self._max_length = max_length

    def text(self, constraint: Constraint, rng: Random) -> str | None:
        """A text that satisfies `constraint`; None where any text does (a structural tag without a forced part). Raises
        Unfollowable."""
        if constraint.kind == "json_object":
            return json.dumps(_ANY_OBJECT)
        if constraint.kind == "json_schema":
            return self._written(_json(constraint.value), rng)
        if constraint.kind == "choice":
            if not constraint.choices:
                raise Unfollowable("choice cannot be empty")
            return rng.choice(constraint.choices)
        if constraint.kind == "regex":
            return example_of_regex(constraint.value, rng, self._max_length)
        if constraint.kind == "grammar":
            return example_of_grammar(constraint.value, rng, self._max_length)
        if constraint.kind == "structural_tag":
            tags = StructuralTags(rng, lambda kind, value: self._leaf(kind, value, rng), lambda: rng.choice(_WORDS))
            return tags.text(_json(constraint.value))
        raise Unfollowable(f"unknown constraint {constraint.kind}")

    def _leaf(self, kind: str, value: object, rng: Random) -> str:
        """The text of one part of a structural tag."""
        return (
            self._written(value, rng) if kind == "json_schema" else self.text(Constraint(kind, str(value)), rng) or ""
        )

    def _written(self, schema: object, rng: Random) -> str:
        """An example of `schema` as text; more than an empty object, where any object will do."""
        return json.dumps(_ANY_OBJECT if _is_open(schema) else self.example(schema, rng), ensure_ascii=False)

    def example(self, schema: object, rng: Random) -> object:
        """A JSON value that is valid for `schema`. Raises Unfollowable where none can be made."""
        return _Walker(schema, rng, self._max_depth, self._max_items).value(schema, "", 0)


def _is_open(schema: object) -> bool:
    """Whether a schema says of an object no more than that it is one, as engines have JSON mode."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return False
    silent = {"type", "additionalProperties", "title", "description", "$schema"}
    return silent.issuperset(schema) and schema.get("additionalProperties", True) in (True, {})


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise Unfollowable("Invalid JSON grammar specification.") from error
    return value


MOST_STEPS = 10_000
"""How many schemas a walk visits before it gives up."""


class _Walker:
    """One walk through one schema. `root` is where references point to."""

    def __init__(self, root: object, rng: Random, max_depth: int, max_items: int) -> None:
        self._root = root
        self._random = rng
        self._max_depth = max_depth
        self._max_items = max_items
        self._steps = MOST_STEPS

    def value(self, schema: object, name: str, depth: int) -> object:
        """An example of `schema`. `name` is the property that it is for, if any, from which a plausible text is chosen."""
        self._steps -= 1
        if self._steps < 0:  # the members of nested unions are tried in turn: a small schema may need endless steps
            raise Unfollowable(f"the schema takes more than {MOST_STEPS} steps")
        if schema is False:
            raise Unfollowable("the schema allows no value")
        if schema is True or schema == {}:
            return self._string({}, name)
        if not isinstance(schema, Mapping):
            raise Unfollowable("a schema is an object or a boolean")
        if depth > self._max_depth:
            raise Unfollowable(f"the schema is deeper than {self._max_depth}")
        if "$ref" in schema:
            return self.value(self._resolve(schema["$ref"]), name, depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._one_of(schema["enum"])
        if "allOf" in schema:
            return self.value(self._merged(schema), name, depth + 1)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return self._first_possible(schema, schema[union], name, depth)
        return self._typed(schema, name, depth)

    def _typed(self, schema: Schema, name: str, depth: int) -> object:
        kind = self._kind(schema)
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, name, depth)
        if kind == "string":
            return self._string(schema, name)
        if kind == "boolean":
            return self._random.random() < 0.5
        if kind == "null":
            return None
        return self._number(schema, whole=kind == "integer")

    def _kind(self, schema: Schema) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((each for each in kind if each != "null"), "null")
        if kind is None:
            if "properties" in schema or "required" in schema or "additionalProperties" in schema:
                return "object"
            if "items" in schema or "prefixItems" in schema:
                return "array"
            return "number" if "minimum" in schema or "maximum" in schema else "string"
        if kind not in _TYPES:
            raise Unfollowable(f"Invalid type: {kind}")
        return str(kind)

    def _object(self, schema: Schema, depth: int) -> dict[str, object]:
        properties = _object(schema, "properties")
        required = _list(schema, "required")
        included = [name for name in properties if name in required or depth < self._max_depth // 4]
        result: dict[str, object] = {}
        for name in included:
            try:
                result[name] = self.value(properties[name], name, depth + 1)
            except Unfollowable:  # an optional property that cannot be (a recursion without end) is left out
                if name in required:
                    raise
        extra = schema.get("additionalProperties", True)
        for name in map(str, required):
            if name not in result:
                result[name] = self.value(extra, name, depth + 1)
        for number in range(len(result), _count(schema, "minProperties", 0)):
            result[f"key_{number}"] = self.value(extra, "", depth + 1)
        return result

    def _array(self, schema: Schema, name: str, depth: int) -> list[object]:
        least = _count(schema, "minItems", 0)
        most = min(_count(schema, "maxItems", self._max_items), self._max_items)
        if least > most:
            raise Unfollowable(f"an array of at least {least} items cannot be made")
        first = [self.value(each, name, depth + 1) for each in _list(schema, "prefixItems")]
        items = schema.get("items", True)
        count = 0 if items is False else max(least, min(most, max(len(first), self._random.randint(1, 3))))
        values = first[:most]
        tries = 0
        while len(values) < count and tries < 8 * self._max_items:
            tries += 1
            try:
                value = self.value(items, name.removesuffix("s"), depth + 1)
            except Unfollowable:
                if least > len(values):
                    raise
                break
            if not schema.get("uniqueItems") or value not in values:
                values.append(value)
        return values

    def _string(self, schema: Schema, name: str) -> str:
        if "pattern" in schema:
            return example_of_regex(str(schema["pattern"]), self._random, 256)
        if (known := _FORMATS.get(str(schema.get("format")))) is not None:
            return known
        text = _BY_NAME.get(name.casefold()) or self._random.choice(_WORDS)
        least, most = _count(schema, "minLength", 0), _count(schema, "maxLength", 4096)
        if least > most or least > 4096:
            raise Unfollowable(f"a string of at least {least} characters cannot be made")
        while len(text) < least:
            text += f" {self._random.choice(_WORDS)}"
        return text[:most]

    def _number(self, schema: Schema, *, whole: bool) -> int | float:
        try:
            value = self._within(schema, whole=whole)
            if isfinite(value):
                return value
        except OverflowError:
            pass
        raise Unfollowable("a number of that size cannot be made")

    def _within(self, schema: Schema, *, whole: bool) -> int | float:
        low, high = _bounds(schema, whole=whole)
        if low > high:
            raise Unfollowable("no number lies between the bounds")
        step = _number(schema, "multipleOf", 1 if whole else None)
        if step:
            first = -(-low // step)
            last = high // step
            if first > last:
                raise Unfollowable("no multiple lies between the bounds")
            value = step * self._random.randint(int(first), int(min(last, first + 100)))
            return int(value) if whole else value
        return round(low + (high - low) * self._random.random(), 2) if high - low > 0.1 else low

    def _one_of(self, values: object) -> object:
        if not isinstance(values, list) or not values:
            raise Unfollowable("an enum lists at least one value")
        chosen: object = self._random.choice(values)
        return chosen

    def _first_possible(self, schema: Schema, members: object, name: str, depth: int) -> object:
        """An example of the first member that has one, merged with the keywords beside the union. null is the last resort."""
        other_keywords = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        reason = Unfollowable("a union lists at least one schema")
        options = members if isinstance(members, list) else []
        for member in options:
            if isinstance(member, Mapping) and member.get("type") == "null" and len(options) > 1:
                continue
            try:
                return self.value(self._merged({"allOf": [other_keywords, member]}), name, depth + 1)
            except Unfollowable as error:
                reason = error
        if any(isinstance(member, Mapping) and member.get("type") == "null" for member in options):
            return None
        raise reason

    def _merged(self, schema: Schema) -> dict[str, object]:
        """One schema of all members of `allOf` and the keywords beside it."""
        out = {key: value for key, value in schema.items() if key != "allOf"}
        for each in _list(schema, "allOf"):
            if not isinstance(each, Mapping):
                continue
            member = self._resolve(each["$ref"]) if "$ref" in each else each
            if not isinstance(member, Mapping):
                raise Unfollowable("a schema is an object or a boolean")
            merged = {
                "properties": {**_object(out, "properties"), **_object(member, "properties")},
                "required": [*_list(out, "required"), *_list(member, "required")],
            }
            out |= {key: merged.get(key, value) for key, value in member.items()}
        return out

    def _resolve(self, pointer: object) -> object:
        if not isinstance(pointer, str) or not pointer.startswith("#"):
            raise Unfollowable(f"cannot follow the reference {pointer!r}")
        node = self._root
        for part in filter(None, pointer[1:].split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, Mapping) or key not in node:
                raise Unfollowable(f"the reference {pointer!r} leads nowhere")
            node = node[key]
        return node


def _bounds(schema: Schema, *, whole: bool) -> tuple[float, float]:
    """The bounds, inclusive; between small positive numbers where the schema has none."""
    tiny = 1 if whole else 0.01
    low = _number(schema, "minimum")
    if (above := _number(schema, "exclusiveMinimum")) is not None:
        low = above + tiny
    high = _number(schema, "maximum")
    if (below := _number(schema, "exclusiveMaximum")) is not None:
        high = below - tiny
    if low is None:
        low = 1 if high is None else min(1, high - 41)
    return low, high if high is not None else low + 41


def _number(schema: Schema, keyword: str, default: float | None = None) -> float | None:
    value = schema.get(keyword, default)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise Unfollowable(f"{keyword} is a number")
    return value


def _count(schema: Schema, keyword: str, default: int) -> int:
    return int(_number(schema, keyword, default) or 0)


def _list(schema: Schema, keyword: str) -> list[object]:
    value = schema.get(keyword) or []
    if not isinstance(value, list):
        raise Unfollowable(f"{keyword} is a list")
    return value


def _object(schema: Schema, keyword: str) -> dict[str, object]:
    value = schema.get(keyword) or {}
    if not isinstance(value, dict):
        raise Unfollowable(f"{keyword} is an object")
    return value

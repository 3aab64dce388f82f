"""Makes one constraint of tool_choice, strict schemas or a response_format, for an engine to hold the output to.

Decides: from a family, a request's tools and the kinds of constraint that an engine supports, the structural tag or JSON
schema to send, or that none is needed. Above: `smg_core`, which builds an engine's sampling parameters. Below:
`constraint_shapes`, `patterns`, `lark`, `free_text`. Does not know engines, wire types, tokenizers, or how output is parsed;
``Constraint.reads`` names the family whose parser reads it.

A family's calls are described by a ``Shape`` (what stands around them) and a ``Body`` (how arguments are written).
Structural tags follow the format of xgrammar (``{"type": "structural_tag", "format": ...}``), which vLLM, SGLang and
TensorRT-LLM take as a string. Every constraint for a forced call ends after the call or calls, so that the model can only
stop there.
"""

import json
import reprlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .constraint_shapes import SHAPES, Body, Shape
from .free_text import ARGUMENT, parameters
from .lark import LarkError, ebnf
from .patterns import JSON, PYTHON, RAW, PatternError, Spelling, literal, spelled

JsonObject = Mapping[str, object]
"""A JSON schema, or a format of a structural tag."""
ConstraintKind = Literal["json_schema", "regex", "ebnf", "structural_tag"]
KINDS: frozenset[str] = frozenset({"json_schema", "regex", "ebnf", "structural_tag"})
"""All kinds. vLLM, SGLang and TensorRT-LLM support all of them; some engines, such as MLX, none."""
MAX_REF_DEPTH = 16
MAX_NESTING = 4
"""In formats that nest, objects are spelled out member by member down to this depth; deeper ones are free text."""
MAX_UNION_DEPTH = 6
PYTHON_STRING = r"'([^'\\\n]|\\[^\n])*'"


class ConstraintError(ValueError):
    """The tools, the tool_choice or the response_format are malformed, or name a tool that is not there. `tool`: the name of the
    tool at fault, None where it is not one tool's."""

    def __init__(self, message: str, tool: str | None = None) -> None:
        super().__init__(message)
        self.tool = tool


class ConstraintUnsupported(ConstraintError):
    """The engine or the family cannot enforce what the request asks for."""


@dataclass(frozen=True, slots=True)
class FamilyConstraint:
    """What to send: ``value`` is the schema, pattern, grammar or tag; ``reads`` names the family whose parser reads it."""

    kind: ConstraintKind
    value: str
    reads: str


@dataclass(frozen=True, slots=True)
class _TextFormat:
    """What the whole text of a custom tool follows: a regular expression or a Lark grammar."""

    syntax: Literal["regex", "lark"]
    definition: str


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    parameters: JsonObject
    strict: bool
    text_format: _TextFormat | None = None


def constrain(
    family: str,
    tools: Sequence[Mapping[str, object]],
    tool_choice: str | Mapping[str, object] = "auto",
    *,
    kinds: Collection[str] = KINDS,
    parallel_tool_calls: bool = True,
    in_reasoning: bool = False,
) -> FamilyConstraint | None:
    """The constraint for a request's tools, or None if the output is free.

    ``tools`` and ``tool_choice`` are as in Chat Completions or Responses, custom tools included; ``kinds`` are those that
    the engine supports (other names are ignored). ``in_reasoning``: the prompt has opened the reasoning block, so a forced
    call comes after its end. Raises ConstraintError for malformed tools and for a tool_choice that names no tool,
    ConstraintUnsupported if the engine or the family cannot enforce what is asked.
    """
    mode, chosen, named = _choose(tools, tool_choice)
    if mode == "none" or not chosen or (mode == "auto" and not any(tool.strict for tool in chosen)):
        return None
    made = _of_tools(family, mode, chosen, parallel=parallel_tool_calls and not named, in_reasoning=in_reasoning)
    return _held(made, kinds, f"tool_choice {mode!r} or a strict tool")


def _of_tools(
    family: str, mode: str, chosen: Sequence[_Tool], *, parallel: bool, in_reasoning: bool
) -> FamilyConstraint:
    shape = SHAPES.get(family)
    if mode == "auto":
        return _tag(_triggered(family, shape, chosen, parallel=parallel), family)
    if shape is None:
        return FamilyConstraint("json_schema", _dump(_calls_schema(chosen, parallel=parallel)), "json")
    return _tag(_forced(shape, chosen, parallel=parallel, in_reasoning=in_reasoning), family)


def _held(made: FamilyConstraint, kinds: Collection[str], needed_by: str) -> FamilyConstraint:
    """``made``, if the engine supports its kind. Raises ConstraintUnsupported."""
    if made.kind in kinds:
        return made
    raise ConstraintUnsupported(f"the engine cannot constrain output to a {made.kind}, which {needed_by} needs")


def constrain_response(
    response_format: Mapping[str, object] | None, *, kinds: Collection[str] = KINDS
) -> FamilyConstraint | None:
    """The constraint of a response_format: a schema, any JSON object, a pattern, a grammar or a tag; None for plain text.

    Raises ConstraintUnsupported if its kind is not among ``kinds``, which the engine supports, ConstraintError if it is
    malformed.
    """
    kind = (response_format or {}).get("type", "text")
    if response_format is None or kind == "text":
        return None
    return _held(_of_format(kind, response_format), kinds, f"response_format {kind!r}")


def _of_format(kind: object, response_format: Mapping[str, object]) -> FamilyConstraint:
    if kind == "json_object":
        return FamilyConstraint("json_schema", _dump({"type": "object"}), "plain")
    if kind == "json_schema":
        holder = response_format.get("json_schema", response_format)
        if not isinstance(holder, Mapping):
            raise ConstraintError(f"json_schema must be an object, not {reprlib.repr(holder)}")
        return FamilyConstraint("json_schema", _dump(holder.get("schema", {})), "plain")
    if kind == "structural_tag":
        return FamilyConstraint("structural_tag", _dump(dict(response_format)), "plain")
    written = response_format.get(kind) if isinstance(kind, str) else None
    if isinstance(written, str) and kind == "regex":
        return FamilyConstraint("regex", written, "plain")
    if isinstance(written, str) and kind == "grammar":
        return FamilyConstraint("ebnf", written, "plain")
    raise ConstraintError(f"response_format {kind!r} is not known")


def _choose(
    tools: Sequence[Mapping[str, object]], choice: str | Mapping[str, object]
) -> tuple[Literal["none", "auto", "required"], list[_Tool], bool]:
    """The mode, the tools that may be called, and whether exactly one of them was named."""
    if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
        raise ConstraintError(f"tools must be a list, not {reprlib.repr(tools)}")
    known = [tool for tool in map(_read_tool, tools) if tool is not None]
    if isinstance(choice, str):
        if choice not in ("none", "auto", "required"):
            raise ConstraintError(f"tool_choice {choice!r} is not known")
        return ("none" if choice == "none" else "auto" if choice == "auto" else "required"), known, False
    if not isinstance(choice, Mapping):
        raise ConstraintError(f"tool_choice must be a word or an object, not {reprlib.repr(choice)}")
    if choice.get("type") == "allowed_tools":
        allowed = choice.get("allowed_tools", choice)
        if not isinstance(allowed, Mapping) or not isinstance(allowed.get("tools", ()), list | tuple):
            raise ConstraintError(f"allowed_tools must be an object with a list of tools, not {reprlib.repr(allowed)}")
        names = [_choice_name(entry) for entry in allowed.get("tools", ())]
        mode = allowed.get("mode", "auto")
        if mode not in ("auto", "required"):
            raise ConstraintError(f"the mode {mode!r} of allowed_tools is not known")
        return ("auto" if mode == "auto" else "required"), [_find(known, name) for name in names], False
    return "required", [_find(known, _choice_name(choice))], True


def _choice_name(entry: object) -> str:
    tool = entry.get("function", entry.get("custom", entry)) if isinstance(entry, Mapping) else entry
    name = tool.get("name") if isinstance(tool, Mapping) else None
    if not isinstance(name, str):
        raise ConstraintError(f"tool_choice names no tool: {reprlib.repr(entry)}")
    return name


def _find(known: Sequence[_Tool], name: str) -> _Tool:
    for tool in known:
        if tool.name == name:
            return tool
    raise ConstraintError(f"tool_choice names {name!r}, which is not among the tools")


def _read_tool(tool: object) -> _Tool | None:
    if not isinstance(tool, Mapping):
        raise ConstraintError(f"a tool must be an object, not {reprlib.repr(tool)}")
    kind = tool.get("type", "function")
    if kind not in ("function", "custom"):
        return None
    body = tool.get(kind, tool)
    if not isinstance(body, Mapping):
        raise ConstraintError(f"a tool's {kind} must be an object, not {reprlib.repr(body)}")
    name = body.get("name")
    if not isinstance(name, str) or not name or any(char in '"\\<>{}[]()' or char.isspace() for char in name):
        raise ConstraintError(f"a tool's name must be a word, not {name!r}", tool=str(name))
    if kind == "custom":
        text_format = _text_format(body.get("format"))
        return _Tool(name, parameters(), strict=text_format is not None, text_format=text_format)
    schema = body.get("parameters") or {"type": "object"}
    if not isinstance(schema, Mapping):
        raise ConstraintError(f"the parameters of {name!r} must be a JSON schema, not {reprlib.repr(schema)}")
    return _Tool(name, dict(schema), bool(body.get("strict", tool.get("strict", False))))


def _text_format(form: object) -> _TextFormat | None:
    """What a custom tool's format says of its text, None if it takes any."""
    grammar = form.get("grammar", form) if isinstance(form, Mapping) else None
    if not isinstance(grammar, Mapping) or grammar.get("syntax") not in ("regex", "lark"):
        return None
    return _TextFormat(grammar["syntax"], str(grammar.get("definition", "")))


def _tag(form: JsonObject, family: str) -> FamilyConstraint:
    return FamilyConstraint("structural_tag", _dump({"type": "structural_tag", "format": form}), family)


def _triggered(family: str, shape: Shape | None, tools: Sequence[_Tool], *, parallel: bool) -> JsonObject:
    """Free text in which every call must conform; tools that are not strict take any arguments."""
    if shape is None or shape.trigger is None:
        raise ConstraintUnsupported(
            f"nothing marks where a call of the family {family!r} begins, so strict tools need tool_choice 'required'"
        )
    calls = [_call(shape, tool, free=not tool.strict) for tool in tools]
    one = not parallel or shape.single
    begin, end = shape.outer
    tags = calls if not begin else [_between(begin, _run(shape, calls, one=one), end)]
    triggers = dict.fromkeys(shape.trigger.replace("{name}", tool.name) for tool in tools)
    return {
        "type": "triggered_tags",
        "triggers": list(triggers),
        "tags": tags,
        "at_least_one": False,
        "stop_after_first": one,
        **({"excludes": list(shape.excludes)} if shape.excludes else {}),
    }


def _forced(shape: Shape, tools: Sequence[_Tool], *, parallel: bool, in_reasoning: bool) -> JsonObject:
    """Reasoning (if the family has it), then the calls, and then the end."""
    calls = [_call(shape, tool, free=False) for tool in tools]
    begin, end = shape.outer
    run = _run(shape, calls, one=not parallel or shape.single)
    parts: list[JsonObject] = []
    if shape.think is not None:
        thought = _between("" if in_reasoning else shape.think[0], {"type": "any_text"}, shape.think[1])
        parts += [thought if in_reasoning else _optional(thought), {"type": "regex", "pattern": "\\n{0,3}"}]
    if shape.lead and not in_reasoning:
        parts.append(_optional(_text(shape.lead)))
    parts += [part for part in (_text(begin), run, _text(end)) if part.get("value") != ""]
    if shape.tail:
        parts.append(_optional(_text(shape.tail)))
    return _sequence(parts)


def _run(shape: Shape, calls: list[JsonObject], *, one: bool) -> JsonObject:
    """One call, or one or more with the family's separator."""
    if one:
        return _either(calls)
    return {"type": "tags_with_separator", "tags": calls, "separator": shape.between, "at_least_one": True}


def _call(shape: Shape, tool: _Tool, *, free: bool) -> JsonObject:
    """One call as a tag. Its beginning holds the tool's name, so that the beginnings of two tools differ."""
    begin = shape.begin.replace("{name}", tool.name)
    if tool.text_format is not None:
        content = _free_text(shape.body, tool.text_format)
    else:
        content = _arguments(shape.body, {"type": "object"} if free else tool.parameters)
    head, number, rest = begin.partition("{n}")
    if number:
        content = _sequence([{"type": "regex", "pattern": "[0-9]{1,6}"}, _text(rest), content])
    return _between(head, content, shape.end)


def _arguments(body: Body, schema: JsonObject) -> JsonObject:
    if body.open is None:
        return {"type": "json_schema", "json_schema": schema}
    return _members(body, schema, schema)


def _free_text(body: Body, asked: _TextFormat) -> JsonObject:
    """The argument of a tool that takes free text: a text of the format, spelled as the family spells strings."""
    if body.open is None:
        return _spelled_text(f'{{"{ARGUMENT}": "', asked, JSON, '"}')
    begin, end = _around(body, ARGUMENT, "string")
    if body.string == "python":
        return _either(
            [
                _spelled_text(begin + "'", asked, PYTHON, "'" + end),
                _spelled_text(begin + '"', asked, JSON, '"' + end),
            ]
        )
    quote = {"raw": "", "json": '"'}.get(body.string, body.string)
    return _spelled_text(begin + quote, asked, JSON if body.string == "json" else RAW, quote + end)


def _spelled_text(begin: str, asked: _TextFormat, spelling: Spelling, end: str) -> JsonObject:
    """The text between ``begin`` and ``end``. The end is a part of the expression, because a matcher that reads token by
    token could otherwise take its beginning for more of the text."""
    try:
        if asked.syntax == "lark":
            text: JsonObject = {"type": "grammar", "grammar": ebnf(asked.definition, spelling, end)}
        else:
            text = {"type": "regex", "pattern": spelled(asked.definition, spelling) + literal(end)}
    except (PatternError, LarkError) as error:
        raise ConstraintError(f"the format of a custom tool cannot be used: {error}") from error
    return _sequence([_text(begin), text])


def _members(body: Body, schema: object, root: JsonObject, depth: int = 0) -> JsonObject:
    """The members of an object as the family writes them, in declared order; optional ones may be missing."""
    resolved = _resolve(schema, root)
    properties = _object(resolved.get("properties"))
    if not properties:
        return _text("") if resolved.get("additionalProperties") is False else _any_members(body)
    required = set(_items(resolved.get("required")))
    keys = sorted(properties, key=str.lower) if body.sort else list(properties)
    made = [(key in required, _member(body, key, properties[key], root, depth)) for key in keys]
    if body.between:
        return _joined(made, body.between, started=False)
    return _sequence([form if needed else _optional(form) for needed, form in made])


def _joined(made: Sequence[tuple[bool, JsonObject]], between: str, *, started: bool) -> JsonObject:
    """Members with a separator between any two that are written. ``started``: a member stands before these."""
    if not made:
        return _text("")
    (needed, form), rest = made[0], made[1:]
    one = _sequence([_text(between), form] if started else [form])
    if needed:
        return _sequence([one, _joined(rest, between, started=True)])
    if started:
        return _sequence([_optional(one), _joined(rest, between, started=True)])
    return _either([_sequence([one, _joined(rest, between, started=True)]), _joined(rest, between, started=False)])


def _any_members(body: Body) -> JsonObject:
    """Any members, for an object whose schema declares none."""
    if body.sort or body.nested:
        return {"type": "any_text"}
    begin, _, after = (body.open or "").replace("{is_string}", "true").replace("{type}", "string").partition("{key}")
    word = {"type": "regex", "pattern": "[A-Za-z_][A-Za-z0-9_.-]*"}
    if not body.between:
        return {
            "type": "star",
            "content": _between(begin, _sequence([word, _text(after), {"type": "any_text"}]), body.close),
        }
    value = _either([{"type": "json_schema", "json_schema": True}, {"type": "regex", "pattern": PYTHON_STRING}])
    one = _sequence([word, _text(after), value])
    more = {"type": "star", "content": _sequence([_text(body.between), one])}
    return _optional(_sequence([one, more]))


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
            return _either([_text(begin + quote + word + quote + end) for word in words])
        made.append(_between(begin + quote, {"type": "any_text"}, quote + end))
        if body.string == "raw" and not marked:
            return made[0]
    others = sorted(kinds if body.string == "python" else kinds - {"string"})
    if not kinds:
        others = ["any"] if body.string == "python" else ["array", "boolean", "null", "number", "object"]
    made += [_spelled(body, key, kind, schema if kinds == {kind} else {"type": kind}, root, depth) for kind in others]
    return _either(made)


def _spelled(body: Body, key: str, kind: str, schema: object, root: JsonObject, depth: int) -> JsonObject:
    """A member of one type that is not a raw string."""
    begin, end = _around(body, key, kind)
    listed = _listed(_resolve(schema, root))
    yes, no, nothing = (spelling.split("|") for spelling in body.words)
    if kind == "boolean" and not listed:
        return _either([_text(begin + word + end) for word in (*yes, *no)])
    if kind == "null":
        return _either([_text(begin + word + end) for word in nothing])
    if kind in ("object", "array") and (body.sort or body.nested):
        return _nested(body, key, kind, schema, root, depth)
    value: JsonObject = {"type": "json_schema", "json_schema": True if kind == "any" else _with_defs(schema, root)}
    if kind in ("string", "any") and body.string == "python":
        quoted = [_text(repr(word)) for word in listed if isinstance(word, str)]
        value = _either([value, *quoted] if listed else [value, {"type": "regex", "pattern": PYTHON_STRING}])
    return _sequence([_text(begin), value, _text(end)])


def _nested(body: Body, key: str, kind: str, schema: object, root: JsonObject, depth: int) -> JsonObject:
    """An object or an array, in a format that does not write nested values as JSON."""
    begin, end = _around(body, key, kind)
    if body.sort:
        begin, end = (begin + "{", "}" + end) if kind == "object" else (begin + "[", "]" + end)
    if depth == MAX_NESTING:
        return _between(begin, {"type": "any_text"}, end)
    if kind == "object":
        return _sequence([_text(begin), _members(body, schema, root, depth + 1), _text(end)])
    items = _resolve(schema, root).get("items", {})
    if body.nested:
        item = _member(body, "item", items, root, depth + 1)
        return _sequence([_text(begin), {"type": "star", "content": item}, _text(end)])
    item = _member(replace(body, open="", close=""), "", items, root, depth + 1)
    more = {"type": "star", "content": _sequence([_text(body.between), item])}
    return _sequence([_text(begin), _optional(_sequence([item, more])), _text(end)])


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
    return [schema["const"]] if "const" in schema else _items(schema.get("enum"))


def _object(value: object) -> JsonObject:
    """The value if it is an object, else an empty object: a malformed part of a schema allows anything."""
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else list(value) if isinstance(value, tuple) else []


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
        if branches := _items(resolved.get(key)):
            found = [_types(branch, root, depth + 1) for branch in branches]
            return set().union(*found) if all(found) else set()
    inner = [_types(branch, root, depth + 1) for branch in _items(resolved.get("allOf"))]
    return next((found for found in inner if found), set())


def _with_defs(schema: object, root: JsonObject) -> object:
    """A part of a schema, with the definitions that it refers to added."""
    if not isinstance(schema, dict):
        return schema
    if '"$ref":"#"' in _dump(schema):
        raise ConstraintUnsupported(
            "a schema that refers to itself as a whole (#) cannot be taken apart; name it under $defs"
        )
    return schema | {key: root[key] for key in ("$defs", "definitions") if key in root and key not in schema}


def _calls_schema(tools: Sequence[_Tool], *, parallel: bool) -> JsonObject:
    """The schema of calls as a JSON array of names and parameters, for families without a shape."""
    definitions: dict[str, object] = {}
    items = []
    for tool in tools:
        parameters = dict(_object(_renamed(tool.parameters, tool.name)))
        for key in ("$defs", "definitions"):
            definitions |= {f"{tool.name}.{name}": part for name, part in _object(parameters.pop(key, None)).items()}
        properties = {"name": {"const": tool.name}, "parameters": parameters}
        items.append(
            {
                "type": "object",
                "properties": properties,
                "required": ["name", "parameters"],
                "additionalProperties": False,
            }
        )
    schema: dict[str, object] = {
        "type": "array",
        "minItems": 1,
        "items": items[0] if len(items) == 1 else {"anyOf": items},
    }
    if not parallel:
        schema["maxItems"] = 1
    return schema | ({"$defs": definitions} if definitions else {})


def _renamed(schema: object, owner: str) -> object:
    """A copy whose references point into the shared definitions, where names begin with the tool's name."""
    if isinstance(schema, list):
        return [_renamed(part, owner) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _renamed(part, owner) for key, part in schema.items()}
    reference = made.get("$ref")
    if reference == "#":
        raise ConstraintUnsupported(f"the schema of {owner!r} refers to itself as a whole (#); name it under $defs")
    for prefix in ("#/$defs/", "#/definitions/"):
        if isinstance(reference, str) and reference.startswith(prefix):
            made["$ref"] = f"#/$defs/{owner}.{reference.removeprefix(prefix)}"
    return made


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text(value: str) -> JsonObject:
    return {"type": "const_string", "value": value}


def _optional(content: JsonObject) -> JsonObject:
    return {"type": "optional", "content": content}


def _between(begin: str, content: JsonObject, end: str) -> JsonObject:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _sequence(parts: Sequence[JsonObject]) -> JsonObject:
    """The parts in order, with nested sequences flattened and empty strings left out."""
    flat: list[JsonObject] = []
    for part in parts:
        flat.extend(map(_object, _items(part["elements"])) if part["type"] == "sequence" else [part])
    kept = [part for part in flat if part != _text("")] or [_text("")]
    return kept[0] if len(kept) == 1 else {"type": "sequence", "elements": kept}


def _either(forms: Sequence[JsonObject]) -> JsonObject:
    return forms[0] if len(forms) == 1 else {"type": "or", "elements": list(forms)}

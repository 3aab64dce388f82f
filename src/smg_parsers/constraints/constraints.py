"""Makes one constraint of tool_choice, strict schemas or a response_format, for an engine's output.

Decides: from a family, a request's tools and the kinds of constraint that an engine supports, the structural tag or JSON
schema to send, or that none is needed. Above: `smg_core`, which builds an engine's sampling parameters. Below:
`arguments`, `forms`, `shapes`, `free_text`. Does not know engines, wire types, tokenizers, or
how output is parsed; ``FamilyConstraint.reads`` names the family whose parser reads it.

A family's calls are described by a ``Shape`` (what stands around them) and a ``Body`` (how arguments are written).
Structural tags follow the format of xgrammar (``{"type": "structural_tag", "format": ...}``), which vLLM, SGLang and
TensorRT-LLM take as a string. Every constraint for a forced call ends after the call or calls, so that the model can only
stop there.
"""

import reprlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from smg_parsers.constraints.arguments import TextSyntax, arguments_form, free_text_form
from smg_parsers.constraints.forms import (
    ConstraintError,
    ConstraintUnsupported,
    JsonObject,
    const_text,
    dumped,
    either_form,
    object_or_empty,
    optional_form,
    sequence_form,
    tag_form,
)
from smg_parsers.constraints.shapes import SHAPES, Shape
from smg_parsers.json_text.free_text import parameters

__all__ = ["KINDS", "ConstraintKind", "FamilyConstraint", "constrain", "constrain_response"]

ConstraintKind = Literal["json_schema", "regex", "ebnf", "structural_tag"]
KINDS: frozenset[str] = frozenset({"json_schema", "regex", "ebnf", "structural_tag"})
"""All kinds. vLLM, SGLang and TensorRT-LLM support all of them; some engines, such as MLX, none."""
ANY_TEXT: JsonObject = {"type": "any_text"}
LINE_ENDS: JsonObject = {"type": "regex", "pattern": "\\n{0,3}"}


@dataclass(frozen=True, slots=True)
class FamilyConstraint:
    """What to send: ``value`` is the schema, pattern, grammar or tag; ``reads`` names the family whose parser reads it."""

    kind: ConstraintKind
    value: str
    reads: str


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    parameters: JsonObject
    strict: bool
    text_format: TextSyntax | None = None


def constrain(
    family: str,
    tools: Sequence[Mapping[str, object]],
    tool_choice: str | Mapping[str, object] = "auto",
    *,
    kinds: Collection[str] = KINDS,
    parallel_tool_calls: bool = True,
    in_reasoning: bool = False,
    marks: Sequence[tuple[str, str]] | None = None,
    perhaps_over: bool = False,
    answer: JsonObject | None = None,
) -> FamilyConstraint | None:
    """The constraint for a request's tools and the format of its answer, or None if the output is free.

    ``tools`` and ``tool_choice`` are as in Chat Completions or Responses, custom tools included; ``kinds`` are those that
    the engine supports (other names are ignored). ``in_reasoning``: the prompt has opened the reasoning block, so a call or an
    answer comes after its end. ``marks`` are the pairs of markers between which reasoning may stand first, if they are not the
    family's usual one; empty if there is none, or if the engine looks only at what comes after it. ``perhaps_over``: whether it
    does is not known. ``answer`` is what the
    text has to be, as a format of a structural tag: the output is then such a text or, if the model may call tools, calls; if it
    must, calls alone. Raises ConstraintError for malformed tools and for a tool_choice that names no tool, ConstraintUnsupported
    if the engine or the family cannot enforce what is asked.
    """
    mode, chosen, named = _choose(tools, tool_choice)
    shape, parallel = SHAPES.get(family), parallel_tool_calls and not named
    mode = mode if chosen else "none"
    pairs = marks if marks is not None else _usual(shape)
    gap = shape is None or not shape.headed
    ends = gap and (answer is None or answer.get("type") == "json_schema")
    reasoning = _Reasoning(tuple(pairs), open=in_reasoning, perhaps_over=perhaps_over, gap=gap, ends=ends)
    if answer is not None and mode != "required":
        calls = None if mode == "none" else _chosen_calls(family, shape, chosen, parallel=parallel)
        return _held(_tag(_answered(shape, answer, calls, reasoning), family), kinds, "a response format here")
    if mode == "none" or (mode == "auto" and not any(tool.strict for tool in chosen)):
        return None
    made = _of_tools(family, mode, chosen, parallel=parallel, reasoning=reasoning)
    return _held(made, kinds, f"tool_choice {mode!r} or a strict tool")


@dataclass(frozen=True, slots=True)
class _Reasoning:
    """What reasoning may stand before calls or an answer: between one of the pairs of markers, the first of which the prompt has
    opened if it is ``open``. ``perhaps_over``: the engine may look only at what comes behind it. ``gap``: the family may write
    line ends before it, and ``ends``: behind it, where they do no harm: white space before JSON is nothing, but a text of an
    expression or a grammar is no such text with a line end before it."""

    pairs: tuple[tuple[str, str], ...]
    open: bool
    perhaps_over: bool
    gap: bool
    ends: bool

    def form(self, *, whole: bool = False) -> list[JsonObject]:
        """The reasoning as a part of an output: required if it is open, else optional. With ``whole``, line ends behind it are a
        part of it."""
        if not self.pairs:
            return []
        behind = self.lines() if whole else []
        if self.open:
            rest = tag_form("", ANY_TEXT, self.pairs[0][1])
            return [optional_form(rest) if self.perhaps_over else rest, *behind]
        block = either_form([tag_form(begin, ANY_TEXT, end) for begin, end in self.pairs])
        return [optional_form(sequence_form([*([LINE_ENDS] if self.gap else []), block, *behind]))]

    def lines(self) -> list[JsonObject]:
        """Line ends behind it, where there may be some."""
        return [LINE_ENDS] if self.ends else []


def _usual(shape: Shape | None) -> Sequence[tuple[str, str]]:
    return () if shape is None or shape.think is None else (shape.think,)


def _of_tools(
    family: str, mode: str, chosen: Sequence[_Tool], *, parallel: bool, reasoning: _Reasoning
) -> FamilyConstraint:
    shape = SHAPES.get(family)
    if mode == "auto":
        calls = _triggered(family, shape, chosen, parallel=parallel)
        # Reasoning that the model opens itself is part of the free text.
        led = reasoning.open and not reasoning.perhaps_over
        return _tag(sequence_form([*reasoning.form(), calls]) if led else calls, family)
    if shape is not None:
        return _tag(_forced(shape, chosen, parallel=parallel, reasoning=reasoning), family)
    schema = _calls_schema(chosen, parallel=parallel)
    if not reasoning.pairs:
        return FamilyConstraint("json_schema", dumped(schema), "json")
    array: JsonObject = {"type": "json_schema", "json_schema": schema}
    return _tag(sequence_form([*reasoning.form(), *reasoning.lines(), array]), "json")


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
        return FamilyConstraint("json_schema", dumped({"type": "object"}), "plain")
    if kind == "json_schema":
        holder = response_format.get("json_schema", response_format)
        if not isinstance(holder, Mapping):
            raise ConstraintError(f"json_schema must be an object, not {reprlib.repr(holder)}")
        return FamilyConstraint("json_schema", dumped(holder.get("schema", {})), "plain")
    if kind == "structural_tag":
        return FamilyConstraint("structural_tag", dumped(dict(response_format)), "plain")
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


def _text_format(form: object) -> TextSyntax | None:
    """What a custom tool's format says of its text, None if it takes any."""
    grammar = form.get("grammar", form) if isinstance(form, Mapping) else None
    if not isinstance(grammar, Mapping) or grammar.get("syntax") not in ("regex", "lark"):
        return None
    return TextSyntax(grammar["syntax"], str(grammar.get("definition", "")))


def _tag(form: JsonObject, family: str) -> FamilyConstraint:
    return FamilyConstraint("structural_tag", dumped({"type": "structural_tag", "format": form}), family)


def _triggered(family: str, shape: Shape | None, tools: Sequence[_Tool], *, parallel: bool) -> JsonObject:
    """Free text in which every call must conform; tools that are not strict take any arguments."""
    if shape is None or shape.trigger is None:
        raise ConstraintUnsupported(
            f"nothing marks where a call of the family {family!r} begins, so strict tools need tool_choice 'required'"
        )
    calls = [_call(shape, tool, free=not tool.strict) for tool in tools]
    one = not parallel or shape.single
    begin, end = shape.outer
    tags = calls if not begin else [tag_form(begin, _run(shape, calls, one=one), end)]
    triggers = dict.fromkeys(shape.trigger.replace("{name}", tool.name) for tool in tools)
    return {
        "type": "triggered_tags",
        "triggers": list(triggers),
        "tags": tags,
        "at_least_one": False,
        "stop_after_first": one,
        **({"excludes": list(shape.excludes)} if shape.excludes else {}),
    }


def _forced(shape: Shape, tools: Sequence[_Tool], *, parallel: bool, reasoning: _Reasoning) -> JsonObject:
    """Reasoning (if the family has it), then the calls, and then the end."""
    parts = reasoning.form()
    if shape.think is not None or parts:
        parts += reasoning.lines()
    if shape.lead and not reasoning.open:
        parts.append(optional_form(const_text(shape.lead)))
    return sequence_form([*parts, _calls(shape, [_call(shape, tool, free=False) for tool in tools], parallel=parallel)])


def _chosen_calls(family: str, shape: Shape | None, tools: Sequence[_Tool], *, parallel: bool) -> JsonObject:
    """The calls that the model may make instead of an answer; tools that are not strict take any arguments."""
    if shape is None:
        raise ConstraintUnsupported(f"how the family {family!r} writes calls beside an answer is not known")
    return _calls(shape, [_call(shape, tool, free=not tool.strict) for tool in tools], parallel=parallel)


def _calls(shape: Shape, calls: list[JsonObject], *, parallel: bool) -> JsonObject:
    """The calls with what stands around all of them."""
    begin, end = shape.outer
    run = _run(shape, calls, one=not parallel or shape.single)
    parts = [part for part in (const_text(begin), run, const_text(end)) if part.get("value") != ""]
    return sequence_form([*parts, optional_form(const_text(shape.tail))] if shape.tail else parts)


def _answered(shape: Shape | None, answer: JsonObject, calls: JsonObject | None, reasoning: _Reasoning) -> JsonObject:
    """Reasoning, and then the answer with what the family writes around it, or calls. Line ends belong to the reasoning, unless
    they may come first: before what may be a call, since a model that begins with one has not chosen yet, and where the engine
    may look only at what comes after the reasoning."""
    before, after = ((), ()) if shape is None else shape.answer
    headed = shape is not None and shape.headed
    heads = [const_text(text) if headed else optional_form(const_text(text)) for text in before]
    whole = sequence_form([*heads, answer, *[optional_form(const_text(text)) for text in after]])
    if calls is None and not reasoning.perhaps_over:
        return sequence_form([*reasoning.form(whole=True), whole])
    last = whole if calls is None else either_form([whole, calls])
    return sequence_form([*reasoning.form(), *reasoning.lines(), last])


def _run(shape: Shape, calls: list[JsonObject], *, one: bool) -> JsonObject:
    """One call, or one or more with the family's separator."""
    if one:
        return either_form(calls)
    return {"type": "tags_with_separator", "tags": calls, "separator": shape.between, "at_least_one": True}


def _call(shape: Shape, tool: _Tool, *, free: bool) -> JsonObject:
    """One call as a tag. Its beginning holds the tool's name, so that the beginnings of two tools differ."""
    begin = shape.begin.replace("{name}", tool.name)
    if tool.text_format is not None:
        content = free_text_form(shape.body, tool.text_format)
    else:
        content = arguments_form(shape.body, {"type": "object"} if free else tool.parameters)
    head, number, rest = begin.partition("{n}")
    if number:
        content = sequence_form([{"type": "regex", "pattern": "[0-9]{1,6}"}, const_text(rest), content])
    return tag_form(head, content, shape.end)


def _calls_schema(tools: Sequence[_Tool], *, parallel: bool) -> JsonObject:
    """The schema of calls as a JSON array of names and parameters, for families without a shape."""
    definitions: dict[str, object] = {}
    items = []
    for tool in tools:
        parameters = dict(object_or_empty(_renamed(tool.parameters, tool.name)))
        for key in ("$defs", "definitions"):
            definitions |= {
                f"{tool.name}.{name}": part for name, part in object_or_empty(parameters.pop(key, None)).items()
            }
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

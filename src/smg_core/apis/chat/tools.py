"""The tools, the tool choice and the response format of a Chat Completions request.

`tools` and the older `functions` become the same records, and so do OpenAI's `response_format` and the engines' own constraint
fields; two constraints at once are refused. Pure. Above: chat. Below: the wire types, json_bounds, request.
"""

from operator import attrgetter
from typing import Literal, Protocol

import msgspec

from smg_core.apis.chat import types as wire
from smg_core.apis.chat.built_in import read_file_tool
from smg_core.apis.chat.mcp import hosted_key, read_hosted
from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.request import (
    ChoiceFormat,
    CustomTool,
    FunctionTool,
    GrammarFormat,
    HostedTool,
    JsonFormat,
    RegexFormat,
    ResponseFormat,
    SchemaFormat,
    StructuralTagFormat,
    TextFormat,
    Tool,
    ToolChoice,
    ToolKey,
)
from smg_core.wire.decoding import brief, check_depth, too_many
from smg_core.wire.json_bounds import NestedJson
from smg_core.wire.settings import LimitsConfig

__all__ = ["one_format", "read_response_format", "read_tool_choice", "read_tools"]

_TEXT = TextFormat()
_ANY_TOOL = ToolChoice()


# -------------------------------------------------------------------------------------------------------------- tools


def read_tools(
    body: wire.ChatBody, limits: LimitsConfig, size: int, hosted: frozenset[str] = frozenset()
) -> tuple[Tool, ...]:
    """The tools offered, in order, from `tools` or from `functions`; `size` is the body's, in bytes, `hosted` are the kinds of
    tools that run here."""
    if body.tools is None and body.functions is None:
        return ()
    if body.tools and body.functions:
        raise InvalidRequest("Only one of 'tools' and 'functions' can be given.", param="functions")
    listed = body.tools or body.functions or []
    param = "functions" if body.functions else "tools"
    if len(listed) > limits.tools:
        raise too_many(param, len(listed), limits.tools, "tools")
    tools = tuple(
        [made for order, tool in enumerate(listed) if (made := _listed(tool, f"tools[{order}]", hosted)) is not None]
    )
    # One walk over all schemas costs less than one each.
    schemas = [_schema_of(tool) for tool in tools]
    check_depth(schemas, limits.json_depth, param)
    _check_size(schemas, limits, param, size)
    return tools


def _listed(
    tool: wire.FunctionToolWire
    | wire.CustomToolWire
    | wire.McpToolWire
    | wire.FileSearchWire
    | wire.FunctionDefinition,
    at: str,
    hosted: frozenset[str],
) -> Tool | None:
    if isinstance(tool, wire.McpToolWire):
        return read_hosted(tool, at, hosted)
    return read_file_tool(tool, at, hosted) if isinstance(tool, wire.FileSearchWire) else _tool(tool)


def _schema_of(tool: Tool) -> object:
    if isinstance(tool, HostedTool):
        return None
    return tool.grammar if isinstance(tool, CustomTool) else tool.parameters


def _check_size(asked: object, limits: LimitsConfig, param: str, size: int) -> None:
    """Refuse schemas, or another constraint, of more than `schema_bytes` bytes. `size` is the body's; a small body is
    not measured."""
    if size <= limits.schema_bytes:
        return
    found = len(asked.encode()) if isinstance(asked, str) else len(msgspec.json.encode(asked))
    if found > limits.schema_bytes:
        raise InvalidRequest(
            f"Invalid '{param}': {found} bytes, and at most {limits.schema_bytes} are taken.",
            param=param,
            code="string_above_max_length",
        )


def _tool(tool: wire.FunctionToolWire | wire.CustomToolWire | wire.FunctionDefinition) -> FunctionTool | CustomTool:
    if isinstance(tool, wire.CustomToolWire):
        custom = tool.custom
        if isinstance(custom.format, wire.CustomGrammarFormat):
            grammar = custom.format.grammar
            return CustomTool(custom.name, custom.description, grammar.syntax, grammar.definition)
        return CustomTool(custom.name, custom.description)
    function = tool.function if isinstance(tool, wire.FunctionToolWire) else tool
    return FunctionTool(function.name, function.description, function.parameters, function.strict)


def read_tool_choice(body: wire.ChatBody, tools: tuple[Tool, ...]) -> ToolChoice:
    """Which of `tools` may or must be called, from `tool_choice` or from `function_call`."""
    choice = body.tool_choice
    if body.functions:
        return _legacy_choice(body, tools)
    if body.function_call is not None:
        raise InvalidRequest("'function_call' is only allowed when 'functions' are specified.", param="function_call")
    parallel = body.parallel_tool_calls
    if choice is None:
        return _ANY_TOOL if parallel is None else ToolChoice(parallel=parallel)
    if choice == "auto" or choice == "none":
        return ToolChoice(choice, (), parallel)
    if not tools:
        raise InvalidRequest("'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
    if isinstance(choice, str):
        return ToolChoice(choice, (), parallel)
    if isinstance(choice, wire.AllowedToolsChoice):
        allowed = choice.allowed_tools
        if not allowed.tools:
            raise InvalidRequest(
                "'tool_choice' allows no tool; use 'none' for that.", param="tool_choice.allowed_tools.tools"
            )
        keys = tuple(
            _chosen(one, tools, f"tool_choice.allowed_tools.tools[{order}]") for order, one in enumerate(allowed.tools)
        )
        return ToolChoice(allowed.mode, keys, parallel)
    return ToolChoice("required", (_chosen(choice, tools, "tool_choice"),), parallel)


def _legacy_choice(body: wire.ChatBody, tools: tuple[Tool, ...]) -> ToolChoice:
    """The choice of a body with `functions`. Its answer has one call at most, so calls are never parallel."""
    if body.tool_choice is not None:
        raise InvalidRequest("'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
    choice = body.function_call
    if isinstance(choice, wire.FunctionName):
        return ToolChoice("required", (_key_of(choice.name, tools, FunctionTool, "function_call.name"),), False)
    return ToolChoice(choice or "auto", (), False)


def _chosen(
    choice: wire.FunctionChoice | wire.CustomChoice | wire.McpChoice, tools: tuple[Tool, ...], at: str
) -> ToolKey:
    if isinstance(choice, wire.McpChoice):
        return hosted_key(choice, tools, at)
    if isinstance(choice, wire.FunctionChoice):
        return _key_of(choice.function.name, tools, FunctionTool, f"{at}.function.name")
    return _key_of(choice.custom.name, tools, CustomTool, f"{at}.custom.name")


def _key_of(name: str, tools: tuple[Tool, ...], kind: type[FunctionTool] | type[CustomTool], at: str) -> ToolKey:
    for tool in tools:
        if isinstance(tool, kind) and tool.name == name:
            return tool.key
    raise InvalidRequest(f"Invalid value for '{at}': no tool is named '{brief(name)}'.", param=at, code="invalid_value")


# --------------------------------------------------------------------------------------------------- response formats


class Constrained(Protocol):
    """The fields of a body that hold the answer to a format."""

    response_format: wire.ResponseFormatWire | None
    structured_outputs: wire.StructuredOutputs | None
    guided_json: JsonObject | str | None
    guided_choice: list[str] | None
    guided_regex: str | None
    regex: str | None
    guided_grammar: str | None
    ebnf: str | None


_CONSTRAINTS = (
    "response_format",
    "structured_outputs",
    "guided_json",
    "guided_choice",
    "guided_regex",
    "regex",
    "guided_grammar",
    "ebnf",
)
_read_constraints = attrgetter(*_CONSTRAINTS)
_UNCONSTRAINED = (None,) * len(_CONSTRAINTS)


def read_response_format(body: Constrained, limits: LimitsConfig, size: int) -> ResponseFormat:
    """The one constraint on the answer; `size` is the body's, in bytes. Raises `InvalidRequest` where there are two."""
    if _read_constraints(body) == _UNCONSTRAINED:  # as most are
        return _TEXT
    return _only_one(_constraints(body, limits), limits, size)


def _only_one(found: list[tuple[str, ResponseFormat]], limits: LimitsConfig, size: int) -> ResponseFormat:
    if not found:
        return _TEXT
    for param, asked in found:
        _check_size(_compiled_part(asked), limits, _FULL_NAMES.get(param, param), size)
    if len(found) > 1:
        names = ", ".join(f"'{name}'" for name, _ in found)
        raise InvalidRequest(f"Only one constraint can be put on the answer, but got {names}.", param=found[1][0])
    return found[0][1]


class ConstrainedByName(Protocol):
    """SGLang's fields for the same, of which `json_schema` and `structural_tag` are JSON texts; "" is none."""

    json_schema: str | None
    regex: str | None
    ebnf: str | None
    structural_tag: str | None
    choice: list[str] | None


def one_format(body: ConstrainedByName, limits: LimitsConfig, size: int, at: str) -> ResponseFormat:
    """The one constraint on the answer, as `read_response_format`; the names of the fields begin with `at`."""
    found: list[tuple[str, ResponseFormat]] = []
    if body.json_schema:
        found.append((f"{at}json_schema", _schema(body.json_schema, f"{at}json_schema", limits)))
    if body.regex:
        found.append((f"{at}regex", RegexFormat(body.regex)))
    if body.ebnf:
        found.append((f"{at}ebnf", GrammarFormat(body.ebnf)))
    if body.structural_tag:
        NestedJson(limits).check(body.structural_tag, f"{at}structural_tag")
        found.append((f"{at}structural_tag", StructuralTagFormat(body.structural_tag)))
    if body.choice:
        found.append((f"{at}choice", _choices(body.choice, f"{at}choice", limits)))
    return _only_one(found, limits, size)


_FULL_NAMES = {"response_format": "response_format.json_schema.schema"}


def _compiled_part(asked: ResponseFormat) -> object:
    """The part of a format that an engine has to compile."""
    match asked:
        case SchemaFormat():
            return asked.schema
        case RegexFormat():
            return asked.pattern
        case GrammarFormat():
            return asked.grammar
        case ChoiceFormat():
            return asked.choices
        case StructuralTagFormat():
            return asked.tag
        case _:
            return ""


def _constraints(body: Constrained, limits: LimitsConfig) -> list[tuple[str, ResponseFormat]]:
    found: list[tuple[str, ResponseFormat]] = []
    if body.response_format is not None and type(body.response_format) is not wire.TextResponseFormat:
        found.append(("response_format", _from_openai(body.response_format, limits)))
    if body.structured_outputs is not None:
        found += _from_structured_outputs(body.structured_outputs, limits)
    if body.guided_json is not None:
        found.append(("guided_json", _schema(body.guided_json, "guided_json", limits)))
    if body.guided_choice is not None:
        found.append(("guided_choice", _choices(body.guided_choice, "guided_choice", limits)))
    found.extend(
        (name, RegexFormat(text)) for name in ("guided_regex", "regex") if (text := getattr(body, name)) is not None
    )
    found.extend(
        (name, GrammarFormat(text)) for name in ("guided_grammar", "ebnf") if (text := getattr(body, name)) is not None
    )
    return found


def _from_openai(wanted: wire.ResponseFormatWire, limits: LimitsConfig) -> ResponseFormat:
    if isinstance(wanted, wire.JsonObjectFormat):
        return JsonFormat()
    if isinstance(wanted, wire.StructuralTagWire):
        tag = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not None}
        if not tag:
            raise InvalidRequest(
                "A 'response_format' of type 'structural_tag' needs 'structures' or 'format'.", param="response_format"
            )
        for name, value in tag.items():
            check_depth([value], limits.json_depth, f"response_format.{name}")
        return StructuralTagFormat(msgspec.json.encode({"type": "structural_tag", **tag}).decode())
    if isinstance(wanted, wire.TextResponseFormat):
        return _TEXT
    asked, at = wanted.json_schema, "response_format.json_schema"
    if not (asked.name.isascii() and asked.name.replace("_", "x").replace("-", "x").isalnum()):
        raise InvalidRequest(
            f"Invalid '{at}.name': it may hold letters, digits, underscores and dashes only.",
            param=f"{at}.name",
            code="invalid_value",
        )
    if asked.schema is None:
        return JsonFormat()
    check_depth([asked.schema], limits.json_depth, f"{at}.schema")
    strength: Literal["bound", "wished"] = "wished" if asked.strict is None else "bound"
    return SchemaFormat(asked.schema, asked.name, asked.description, asked.strict is not False, strength)


def _from_structured_outputs(wanted: wire.StructuredOutputs, limits: LimitsConfig) -> list[tuple[str, ResponseFormat]]:
    at = "structured_outputs"
    found: list[tuple[str, ResponseFormat]] = []
    if wanted.json is not None:
        found.append((f"{at}.json", _schema(wanted.json, f"{at}.json", limits)))
    if wanted.regex is not None:
        found.append((f"{at}.regex", RegexFormat(wanted.regex)))
    if wanted.choice is not None:
        found.append((f"{at}.choice", _choices(wanted.choice, f"{at}.choice", limits)))
    if wanted.grammar is not None:
        found.append((f"{at}.grammar", GrammarFormat(wanted.grammar)))
    if wanted.json_object:
        found.append((f"{at}.json_object", JsonFormat()))
    if wanted.structural_tag is not None:
        NestedJson(limits).check(wanted.structural_tag, f"{at}.structural_tag")
        found.append((f"{at}.structural_tag", StructuralTagFormat(wanted.structural_tag)))
    if not found:
        raise InvalidRequest("'structured_outputs' names no constraint.", param=at)
    return found


def _schema(value: JsonObject | str, at: str, limits: LimitsConfig) -> ResponseFormat:
    schema = _object_in(value, at, limits) if isinstance(value, str) else value
    check_depth([schema], limits.json_depth, at)
    return SchemaFormat(schema)


def _object_in(text: str, at: str, limits: LimitsConfig) -> JsonObject:
    """The JSON object that `text` is. Raises `InvalidRequest` where it is something else, or over a bound."""
    NestedJson(limits).check(text, at)
    try:
        found: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        found = None
    if type(found) is not dict:
        raise InvalidRequest(f"Invalid '{at}': the text is not a JSON object.", param=at, code="invalid_value")
    return found


def _choices(choices: list[str], at: str, limits: LimitsConfig) -> ResponseFormat:
    if not choices:
        raise InvalidRequest(f"Invalid '{at}': empty array.", param=at, code="empty_array")
    if len(choices) > limits.choices:
        raise too_many(at, len(choices), limits.choices, "choices")
    return ChoiceFormat(tuple(choices))

"""Tools that take free text, before engines that know only functions.

Decides how such a tool is described to parsers and constraints, and how a request is rewritten for a server without such tools:
each becomes a function with one string. `smg_parsers.json_text.free_text` takes the text out of the arguments again. Pure. Above:
prepare, reading, fit. Below: the vocabulary.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import JsonObject
from smg_core.request import (
    CustomTool,
    FunctionTool,
    GenerationRequest,
    HostedTool,
    Message,
    Part,
    Tool,
    ToolCall,
    ToolKey,
)
from smg_core.tokenizer.messages import text_asked_for
from smg_parsers.constraints.lark import LarkError, check_lark
from smg_parsers.constraints.patterns import PatternError, spelled
from smg_parsers.json_text.free_text import parameters, wrapped

__all__ = ["as_functions", "check_tools", "custom_names", "described", "without_format"]

_MOST_GRAMMARS = 32_768  # characters; the translation of so many takes some 20 ms of the event loop
_SHARED = tuple(name for name in CustomTool.__struct_fields__ if name in FunctionTool.__struct_fields__)


def check_tools(tools: Sequence[Tool]) -> None:
    """Refuse tools that cannot be called here, and tools whose calls could not be told apart."""
    custom: dict[str, bool] = {}
    characters = 0
    for place, tool in enumerate(tools):
        if isinstance(tool, HostedTool):
            raise UnsupportedParameter(f"Tools of type '{tool.kind}' cannot be called here.", param=f"tools[{place}]")
        if isinstance(tool, CustomTool) and tool.grammar is not None:
            characters += len(tool.grammar)
            _check_grammar(tool.syntax, tool.grammar, characters, f"tools[{place}].grammar")
        kind = isinstance(tool, CustomTool)
        if tool.name in custom:
            both = "Two tools" if custom[tool.name] == kind else "A function and a custom tool"
            raise InvalidRequest(
                f"{both} are both named '{tool.name}': a model calls tools by their names.",
                param=f"tools[{place}].name",
            )
        custom[tool.name] = kind


def custom_names(request: GenerationRequest) -> frozenset[str]:
    """The names of the request's tools that take free text."""
    return frozenset([tool.name for tool in request.tools if isinstance(tool, CustomTool)])


def _check_grammar(syntax: str | None, grammar: str, characters: int, param: str) -> None:
    """Refuse a grammar that cannot be translated for engines; `characters` are those of all grammars up to this one."""
    if characters > _MOST_GRAMMARS:
        why = f"the grammars of the tools have more than {_MOST_GRAMMARS} characters together"
        raise InvalidRequest(f"Invalid '{param}': {why}.", param=param)
    try:
        if syntax == "lark":
            check_lark(grammar)
        else:
            spelled(grammar)
    except (PatternError, LarkError) as error:
        raise InvalidRequest(f"Invalid '{param}': {error}.", param=param) from error


def described(tool: FunctionTool | CustomTool, *, strict: bool = False) -> JsonObject:
    """The tool in Chat Completions' words, which parsers and constraints read; with `strict`, a function as a strict one,
    whatever its client said."""
    if isinstance(tool, FunctionTool):
        held = strict or tool.strict is True
        function: JsonObject = {"name": tool.name, "parameters": tool.parameters or {}, "strict": held}
        return {"type": "function", "function": function}
    custom: JsonObject = {"name": tool.name}
    if tool.grammar is not None:
        grammar: JsonObject = {"syntax": tool.syntax, "definition": tool.grammar}
        custom["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": "custom", "custom": custom}


def without_format(described: JsonObject) -> JsonObject:
    """The description of a tool without the format of its free text."""
    custom = described.get("custom")
    if not isinstance(custom, Mapping) or "format" not in custom:
        return described
    return {"type": "custom", "custom": {"name": custom["name"]}}


def as_functions(request: GenerationRequest) -> GenerationRequest:
    """The same request with functions in place of tools that take free text, in its choice and its history too."""
    choice = request.tool_choice
    return replace(
        request,
        tools=tuple([_function(tool) for tool in request.tools]),
        tool_choice=replace(choice, names=tuple([_function_key(key) for key in choice.names])),
        messages=tuple([_with_functions(message) for message in request.messages]),
    )


def _function(tool: Tool) -> Tool:
    if not isinstance(tool, CustomTool):
        return tool
    shared = {name: getattr(tool, name) for name in _SHARED}
    return FunctionTool(**shared, parameters=parameters(text_asked_for(tool)))


def _function_key(key: ToolKey) -> ToolKey:
    return replace(key, kind="function") if key.kind == "custom" else key


def _with_functions(message: Message) -> Message:
    if not any(isinstance(part, ToolCall) and part.custom for part in message.parts):
        return message
    return replace(message, parts=tuple([_function_call(part) for part in message.parts]))


def _function_call(part: Part) -> Part:
    if isinstance(part, ToolCall) and part.custom:
        return replace(part, arguments=wrapped(part.arguments), custom=False)
    return part

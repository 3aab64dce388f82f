"""Decides how the output of one request is read: the parser, whether it needs control tokens, and the constraint for tool calls.

The model's family was chosen when it joined. The decision here depends on the request's tools, its tool choice, and whether the
rendered prompt has opened the reasoning block already. A choice that must be kept ("required", a named function, strict tools)
becomes the engine's constraint, or is refused by name if the engine cannot be constrained so. Pure. Above: fit. Below:
smg_parsers, custom_tools, formats.
"""

from collections.abc import Callable, Mapping

import attrs

from smg_core.engines.base import Constraint, EngineFacts
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.custom_tools import described, without_format
from smg_core.pipeline.formats import schema_validator
from smg_core.pipeline.output_plan import OutputParser
from smg_core.pipeline.prepare import offered
from smg_core.pipeline.served import ServedModel
from smg_core.request import FunctionTool, GenerationRequest, HostedTool, ToolCall, ToolChoice
from smg_parsers import Family, Parser, UnknownModelFamily, reasoning_open
from smg_parsers.constraints import ConstraintError, ConstraintUnsupported, FamilyConstraint, constrain
from smg_parsers.models import family as family_named

__all__ = ["PARSER_HEADER", "Reading", "reading_of"]

PARSER_HEADER = "x-smg-parser"
"""Request header that names the family to parse this answer with, if a deployment allows that; "none" passes the text on."""


@attrs.frozen
class Reading:
    """`keeps_control`: the parser must see control tokens, so the detokenizer may not hide them. `single_call`: calls
    after the first are not passed on."""

    make_parser: Callable[[], OutputParser] | None = None
    keeps_control: bool = False
    constraint: Constraint | None = None
    single_call: bool = False


_PLAIN = Reading()


def reading_of(request: GenerationRequest, model: ServedModel, prompt: str, facts: EngineFacts) -> Reading:
    """How to read the answer of an engine with these `facts` to `request`; `prompt` is the rendered prompt."""
    if request.prompt is not None:
        return _unread(request)
    calls = bool(request.tools) and request.tool_choice.mode != "none"
    family = _family(request, model)
    if family is None:
        if calls:
            raise UnsupportedParameter(
                f"No tool-call format is known for the model '{model.name}'; name one with the setting model.parser.",
                param="tools",
            )
        return _PLAIN
    if not calls and not family.thinking.opens and not family.headed:
        return _PLAIN
    thinking = reasoning_open(prompt, family)
    tools = [described(tool) for tool in offered(request) if not isinstance(tool, HostedTool)] if calls else []
    narrowed = len(tools) < len(request.tools)
    constraint = None
    calls_before = sum(isinstance(part, ToolCall) for message in request.messages for part in message.parts)
    if tools:
        constraint, family = _constraint(request, family, tools, thinking, facts)
    return Reading(
        make_parser=lambda: Parser(
            family,
            tools=tools,
            in_reasoning=thinking,
            calls_before=calls_before,
            unknown_tools="drop" if narrowed else "forward",
        ),
        keeps_control=family.needs_special_tokens,
        constraint=constraint,
        single_call=request.tool_choice.parallel is False,
    )


def _unread(request: GenerationRequest) -> Reading:
    """The reading of a prompt without a template: its output is plain text."""
    if request.headers.get(PARSER_HEADER, "none") != "none":
        raise UnsupportedParameter(
            f"The header '{PARSER_HEADER}' is not taken with a prompt as it stands.", param=f"headers.{PARSER_HEADER}"
        )
    return _PLAIN


def _family(request: GenerationRequest, model: ServedModel) -> Family | None:
    """The model's family, unless the request names another, or none."""
    named = request.headers.get(PARSER_HEADER)
    if named is None:
        return model.parser
    if not model.parser_header:
        raise UnsupportedParameter(
            f"The header '{PARSER_HEADER}' is not taken on this server.", param=f"headers.{PARSER_HEADER}"
        )
    if named == "none":
        return None
    try:
        return family_named(named)
    except UnknownModelFamily as unknown:
        raise InvalidRequest(f"{unknown}.", param=f"headers.{PARSER_HEADER}") from unknown


def _constraint(
    request: GenerationRequest, family: Family, tools: list[JsonObject], thinking: bool, facts: EngineFacts
) -> tuple[Constraint | None, Family]:
    """The constraint that the tools need, if any, and the family that parses the output under it."""
    try:
        found = _tool_constraint(request, family, tools, thinking, facts)
    except ConstraintUnsupported as error:
        raise UnsupportedParameter(f"{error}.", param="tool_choice") from error
    except ConstraintError as error:
        named = enumerate(request.tools)
        faulty = [place for place, tool in named if not isinstance(tool, HostedTool) and tool.name == error.tool]
        raise InvalidRequest(f"{error}.", param=f"tools[{faulty[0]}].name" if faulty else "tool_choice") from error
    if found is None:
        return None, family
    for place, tool in enumerate(request.tools):
        # The engine compiles these schemas, and engines have crashed on invalid ones.
        if isinstance(tool, FunctionTool) and tool.parameters:
            schema_validator(tool.parameters, f"function '{tool.name}'", f"tools[{place}].parameters")
    return Constraint(found.kind, found.value), family if found.reads == family.name else family_named(found.reads)


def _tool_constraint(
    request: GenerationRequest, family: Family, tools: list[JsonObject], thinking: bool, facts: EngineFacts
) -> FamilyConstraint | None:
    """The constraint with the grammars of custom tools, or without them if the engine cannot enforce those: then only the prompt
    tells the model the format of their text."""
    choice = request.tool_choice

    def constrained(offered: list[JsonObject]) -> FamilyConstraint | None:
        return constrain(
            family.name,
            offered,
            _choice(choice),
            kinds=facts.constraints,
            parallel_tool_calls=choice.parallel is not False,
            in_reasoning=thinking,
        )

    try:
        return constrained(tools)
    except ConstraintUnsupported:
        free = [without_format(tool) for tool in tools]
        if free == tools:
            raise
        return constrained(free)


def _choice(choice: ToolChoice) -> str | Mapping[str, Json]:
    """The choice in Chat Completions' words, which `constrain` reads."""
    if not choice.names:
        return choice.mode
    if choice.mode == "required" and len(choice.names) == 1:
        return {"type": "function", "function": {"name": choice.names[0].name}}
    allowed: list[Json] = [{"type": "function", "function": {"name": key.name}} for key in choice.names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": allowed}}

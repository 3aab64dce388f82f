"""Decides how the output of one request is read: the parser, whether it needs control tokens, and what the engine is held to.

The model's family was chosen when it joined. The decision here depends on the request's tools, its tool choice, the format of its
answer, and whether the rendered prompt has opened the reasoning block already. Pure. Above: fit. Below: smg_parsers, holding,
thought, custom_tools, formats.
"""

from collections.abc import Callable
from dataclasses import replace

import attrs

from smg_core.engines.base import Constraint, EngineFacts
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.pipeline.custom_tools import described
from smg_core.pipeline.formats import constraint_of
from smg_core.pipeline.holding import hold
from smg_core.pipeline.output_plan import OutputParser
from smg_core.pipeline.prepare import offered
from smg_core.pipeline.served import ServedModel
from smg_core.pipeline.thought import NO_THOUGHT, thought_of
from smg_core.request import GenerationRequest, HostedTool, ToolCall
from smg_parsers import Family, Parser, UnknownModelFamily
from smg_parsers.models import family as family_named

__all__ = ["PARSER_HEADER", "Reading", "reading_of"]

PARSER_HEADER = "x-smg-parser"
"""Request header that names the family to parse this answer with, if a deployment allows that; "none" passes the text on."""


@attrs.frozen
class Reading:
    """`keeps_control`: the parser must see control tokens, so the detokenizer may not hide them. `constraint`: what the output is
    held to, and `after_reasoning` as in `EngineRequest`; `closed`: what is held once the gateway has closed the reasoning.
    `single_call`: calls after the first are not passed on. `thinks`: reasoning may come before the answer, as far as the prompt
    and the settings say."""

    make_parser: Callable[[], OutputParser] | None = None
    keeps_control: bool = False
    constraint: Constraint | None = None
    after_reasoning: bool = False
    closed: Constraint | None = None
    single_call: bool = False
    thinks: bool = False


def reading_of(request: GenerationRequest, model: ServedModel, prompt: str, facts: EngineFacts) -> Reading:
    """How to read the answer of an engine with these `facts` to `request`; `prompt` is the rendered prompt."""
    checked = model.on_violation != "report"
    if request.prompt is not None:
        _refuse_parser(request)
        return Reading(constraint=constraint_of(request.response_format, facts.constraints, checked=checked))
    calls = bool(request.tools) and request.tool_choice.mode != "none"
    family = _family(request, model)
    if family is None:
        if calls:
            raise UnsupportedParameter(
                f"No tool-call format is known for the model '{model.name}'; name one with the setting model.parser.",
                param="tools",
            )
        return Reading(constraint=constraint_of(request.response_format, facts.constraints, checked=checked))
    thought = thought_of(request, model, family, prompt)
    held = hold(request, family, thought, facts, checked=checked)
    if not calls and not family.thinking.opens and not family.headed:
        return Reading(constraint=held.constraint)
    closed = held.constraint
    if thought.marks and request.reasoning.budget_tokens is not None:
        closed = hold(request, family, NO_THOUGHT, facts, checked=checked).constraint
    reads = family if held.reads == family.name else replace(family_named(held.reads), thinking=family.thinking)
    tools = [described(tool) for tool in offered(request) if not isinstance(tool, HostedTool)] if calls else []
    narrowed = len(tools) < len(request.tools)
    calls_before = sum(isinstance(part, ToolCall) for message in request.messages for part in message.parts)
    return Reading(
        make_parser=lambda: Parser(
            reads,
            tools=tools,
            in_reasoning=thought.open,
            calls_before=calls_before,
            unknown_tools="drop" if narrowed else "forward",
            strict=True,
        ),
        keeps_control=family.needs_special_tokens,
        constraint=held.constraint,
        after_reasoning=held.after_reasoning,
        closed=closed,
        single_call=request.tool_choice.parallel is False,
        thinks=bool(thought.marks),
    )


def _refuse_parser(request: GenerationRequest) -> None:
    """Refuse a parser for the output of a prompt without a template, which is plain text."""
    if request.headers.get(PARSER_HEADER, "none") != "none":
        raise UnsupportedParameter(
            f"The header '{PARSER_HEADER}' is not taken with a prompt as it stands.", param=f"headers.{PARSER_HEADER}"
        )


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

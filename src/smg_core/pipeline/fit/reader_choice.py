"""Decides how the output of one request is read: the parser, whether it needs control tokens, and what the engine is held to.

The model's family was chosen when it joined. The decision here depends on the request's tools, its tool choice, the format of its
answer, and whether the rendered prompt has opened the reasoning block already. Pure. Above: fit. Below: smg_parsers, holding,
thought, custom_tools, formats.
"""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

from msgspec import Struct

from smg_core.engines.base import EngineFacts
from smg_core.engines.constraint import Constraint
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.origin import Origin
from smg_core.pipeline.fit.constraint import hold
from smg_core.pipeline.output.plan import OutputParser
from smg_core.pipeline.prompt.custom_tools import described
from smg_core.pipeline.prompt.formats import constraint_of
from smg_core.pipeline.prompt.prepare import offered
from smg_core.pipeline.prompt.reasoning_state import NO_THOUGHT, thought_of
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import GenerationRequest, HostedTool, ReasoningSettings, TextFormat, ToolCall
from smg_parsers import Family, Parser, UnknownModelFamily
from smg_parsers.families.models import family as family_named
from smg_parsers.families.reasoning import left_at
from smg_parsers.pieces.call_ids import random_call_id

__all__ = ["PARSER_HEADER", "Reading", "reading_of"]

PARSER_HEADER = "x-smg-parser"
"""Request header that names the family to parse this answer with, if a deployment allows that; "none" passes the text on."""


class Reading(Struct, frozen=True):
    """`keeps_control`: the parser must see control tokens, so the detokenizer may not hide them. `constraint`: what the output is
    held to, and `after_reasoning` as in `EngineRequest`; `closed`: what is held once the gateway has closed the reasoning.
    `single_call`: calls after the first are not passed on. `thinks`: reasoning may come before the answer, as far as the prompt
    and the settings say. `family` is the name of the family whose parser reads the output, `call_ends` are its own markers that
    close calls. `strict` are the functions whose calls are held to their schemas."""

    make_parser: Callable[[], OutputParser] | None = None
    keeps_control: bool = False
    constraint: Constraint | None = None
    after_reasoning: bool = False
    closed: Constraint | None = None
    single_call: bool = False
    thinks: bool = False
    family: str = ""
    call_ends: tuple[str, ...] = ()
    strict: frozenset[str] = frozenset()


def reading_of(
    request: GenerationRequest, model: ServedModel, prompt: str, facts: EngineFacts, *, eased: bool = False
) -> Reading:
    """How to read the answer of an engine with these `facts` to `request`; `prompt` is the rendered prompt, `eased` as in
    `hold`."""
    asks_nothing = not request.tools and request.prompt is None and _THOUGHT(request.reasoning) == _UNSAID
    if (
        asks_nothing
        and type(request.response_format) is TextFormat
        and model.parser is not None
        and PARSER_HEADER not in request.headers
    ):
        return _usual_reading(request, model, model.parser, prompt, facts)
    return _own_reading(request, model, prompt, facts, eased=eased)


def _usual_reading(
    request: GenerationRequest, model: ServedModel, family: Family, prompt: str, facts: EngineFacts
) -> Reading:
    """How to read the answer to a request that asks for nothing which changes that: it is kept for the next one, for each way in
    which the prompt may have left the reasoning."""
    opened, closed = left_at(prompt, family.thinking)
    place = opened, closed, request.tool_choice.parallel
    found = model.readings.get(place)
    if not isinstance(found, Reading):
        found = model.readings[place] = _own_reading(request, model, prompt, facts)
    return found


def _own_reading(
    request: GenerationRequest, model: ServedModel, prompt: str, facts: EngineFacts, *, eased: bool = False
) -> Reading:
    """How to read the answer to a request, found out from the beginning."""
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
    held = hold(request, family, thought, facts, checked=checked, eased=eased)
    if not calls and not family.thinking.opens and not family.headed:
        return Reading(constraint=held.constraint)
    closed = held.constraint
    settings = request.reasoning
    if thought.marks and (settings.budget_tokens is not None or settings.effort is not None):
        closed = hold(request, family, NO_THOUGHT, facts, checked=checked, eased=eased).constraint
    reads = family if held.reads == family.name else replace(family_named(held.reads), thinking=family.thinking)
    tools = [described(tool) for tool in offered(request) if not isinstance(tool, HostedTool)] if calls else []
    narrowed = len(tools) < len(request.tools)
    call_id = _call_ids(request, reads)
    calls_before = 0
    for message in request.messages:
        for part in message.parts:
            calls_before += type(part) is ToolCall
    return Reading(
        make_parser=lambda: Parser(
            reads,
            tools=tools,
            in_reasoning=thought.open,
            calls_before=calls_before,
            unknown_tools="drop" if narrowed else "forward",
            call_id=call_id,
            strict=True,
        ),
        keeps_control=family.special,
        constraint=held.constraint,
        after_reasoning=held.after_reasoning,
        closed=closed,
        single_call=request.tool_choice.parallel is False,
        thinks=bool(thought.marks),
        family=reads.name,
        call_ends=reads.tables.closers,
        strict=held.strict,
    )


_THOUGHT = attrgetter("effort", "budget_tokens", "enabled", "adaptive")
_UNSAID = _THOUGHT(ReasoningSettings())
_USUAL_CALLS = Origin("").calls


def _call_ids(request: GenerationRequest, family: Family) -> Callable[[], str] | None:
    """What makes the ids of calls, where neither the model nor its family's template has a form of its own: None for that of
    Chat Completions."""
    prefix = _USUAL_CALLS if request.origin is None else request.origin.calls
    if family.ids != "random" or prefix == _USUAL_CALLS:
        return None
    return lambda: random_call_id().replace(_USUAL_CALLS, prefix, 1)


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

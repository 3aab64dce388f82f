"""Decides what the engine is told to hold the output of one request to: its calls, an answer of a format, or one of the two.

A choice that must be kept ("required", a named function, strict tools) and the format of the answer become one constraint, or
are refused by name if the engine cannot be constrained so. A format is the answer's: reasoning may come before it, and where the
model may call tools it answers or calls. Whether the constraint has to say so depends on where the engine begins to hold an
output (`EngineFacts.holds_from`). Where it has to and cannot, the format is never the whole grammar: JSON is then checked and
mended, if a setting says so, and the rest refused. Pure. Above: reading. Below: smg_parsers, thought, custom_tools, formats.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from smg_core.engines.base import EngineFacts
from smg_core.engines.constraint import Constraint
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import Json, JsonObject
from smg_core.origin import WISHES_STRICT
from smg_core.pipeline.prompt.custom_tools import described, without_format
from smg_core.pipeline.prompt.formats import (
    answer_form,
    binds,
    constraint_of,
    holdable,
    legal,
    schema_validator,
    unheld,
)
from smg_core.pipeline.prompt.prepare import offered
from smg_core.pipeline.prompt.reasoning_state import NO_THOUGHT, Thought
from smg_core.request import (
    CustomTool,
    FunctionTool,
    GenerationRequest,
    HostedTool,
    SchemaFormat,
    StructuralTagFormat,
    TextFormat,
    Tool,
    ToolChoice,
    has_trait,
)
from smg_parsers import Family
from smg_parsers.constraints.constraints import FamilyConstraint, constrain
from smg_parsers.constraints.forms import ConstraintError, ConstraintUnsupported

__all__ = ["HeldOutput", "hold"]

_Hold = Callable[[Sequence[JsonObject], ToolChoice], FamilyConstraint | None]


class HeldOutput(Struct, frozen=True):
    """The `constraint`, if any. `reads` names the family whose parser reads an output that is held to it. `after_reasoning`: the
    engine is to hold only what follows the reasoning that the prompt has opened. `strict` are the names of the functions whose
    calls it holds to their schemas."""

    constraint: Constraint | None
    reads: str
    after_reasoning: bool = False
    strict: frozenset[str] = frozenset()


def hold(
    request: GenerationRequest,
    family: Family,
    thought: Thought,
    facts: EngineFacts,
    *,
    checked: bool,
    eased: bool = False,
) -> HeldOutput:
    """What an engine with these `facts` is told. `family` reads the output, before which `thought` may come; `checked`: an answer
    in JSON of another form fails or is mended; `eased`: nothing of the schemas of functions that do not bind."""
    asked = request.response_format
    calls = bool(request.tools) and request.tool_choice.mode != "none"
    if not calls and isinstance(asked, TextFormat):  # nothing is held, as in most requests
        return HeldOutput(None, family.name)
    after_reasoning = thought.open and facts.holds_from == "as_told"
    before = _before(thought, facts)
    free = isinstance(asked, TextFormat) or (isinstance(asked, SchemaFormat) and asked.strength == "none")
    if eased:
        request = _with_free_arguments(request)
    if calls and (free or request.tool_choice.mode == "required"):
        held = _tools_held(request, family, before, facts)
    elif isinstance(asked, TextFormat | StructuralTagFormat):  # the client's tag is of the whole output
        held = HeldOutput(constraint_of(asked, facts.constraints), family.name)
    else:
        held = _format_held(request, family, before, facts, calls=calls and bool(family.calls), checked=checked)
    if eased:
        held = replace(held, strict=held.strict & _asked_to_be_strict(request))
    return replace(held, after_reasoning=True) if after_reasoning and held.constraint is not None else held


def _before(thought: Thought, facts: EngineFacts) -> Thought:
    """The reasoning that the constraint itself has to speak of: none where the engine waits for its end."""
    waits = facts.holds_from == "after_reasoning" or (thought.open and facts.holds_from == "as_told")
    return NO_THOUGHT if waits else thought


# --------------------------------------------------------------------------------------------------------- of the answer


def _format_held(
    request: GenerationRequest, family: Family, before: Thought, facts: EngineFacts, *, calls: bool, checked: bool
) -> HeldOutput:
    """The format of the answer; `calls`: the model may call tools instead."""
    asked = request.response_format
    # Engines of such a family that wait for the end of reasoning wait for the header of the answer, so calls are not looked at.
    waits = family.headed and facts.holds_from in ("after_reasoning", "unknown")
    if waits or not (before.expected or calls or family.headed):
        return HeldOutput(constraint_of(asked, facts.constraints, checked=checked), family.name)
    form = answer_form(asked)
    if form is not None and "structural_tag" in facts.constraints:
        found = _together(request, family, before, facts, form, calls=calls)
        if found is not None:
            return found
    if calls:
        _tools_held(request, family, before, facts)  # raises what keeps strict tools from being held to
    if not (before.open or calls or before.asked):
        return HeldOutput(constraint_of(asked, facts.constraints, checked=checked), family.name)
    if unheld(asked, checked=checked):
        return HeldOutput(None, family.name)
    place = "where the model may call tools instead" if calls else "behind its reasoning"
    raise UnsupportedParameter(
        f"This model's engine cannot hold an answer to this format {place}.", param="response_format"
    )


def _together(
    request: GenerationRequest, family: Family, before: Thought, facts: EngineFacts, form: JsonObject, *, calls: bool
) -> HeldOutput | None:
    """The answer behind reasoning, or calls; None where the family's calls cannot be described."""

    def held(tools: Sequence[JsonObject], choice: ToolChoice) -> FamilyConstraint | None:
        return _constrained(family, before, facts, tools, choice, answer=form)

    try:
        none = (held((), ToolChoice("none")), True, frozenset[str]()) if not calls else None
        made, wished, strict = none or _with_tools(request, held)
    except ConstraintUnsupported:
        return None
    except ConstraintError as error:
        raise _fault(request, error) from error
    binding = binds(request.response_format) or not wished
    constraint = None if made is None else Constraint(made.kind, made.value, binding=binding)
    return None if made is None else HeldOutput(constraint, made.reads, strict=strict)


# ---------------------------------------------------------------------------------------------------------- of the calls


def _tools_held(request: GenerationRequest, family: Family, before: Thought, facts: EngineFacts) -> HeldOutput:
    """The constraint that the tools need, if any. Raises UnsupportedParameter or InvalidRequest naming what is in the way."""

    def held(tools: Sequence[JsonObject], choice: ToolChoice) -> FamilyConstraint | None:
        return _constrained(family, before, facts, tools, choice)

    try:
        made, wished, strict = _with_tools(request, held)
    except ConstraintUnsupported as error:
        raise UnsupportedParameter(f"{error}.", param="tool_choice") from error
    except ConstraintError as error:
        raise _fault(request, error) from error
    if made is None:
        return HeldOutput(None, family.name)
    return HeldOutput(Constraint(made.kind, made.value, binding=not wished), made.reads, strict=strict)


def _fault(request: GenerationRequest, error: ConstraintError) -> InvalidRequest:
    """The refusal of a tool by its place, or of the choice among the tools."""
    places = [
        at for at, tool in enumerate(request.tools) if not isinstance(tool, HostedTool) and tool.name == error.tool
    ]
    return InvalidRequest(f"{error}.", param=f"tools[{places[0]}].name" if places else "tool_choice")


def _with_tools(request: GenerationRequest, held: _Hold) -> tuple[FamilyConstraint | None, bool, frozenset[str]]:
    """What `held` makes of the tools, whether it is only wished for, and the functions that it holds to their schemas: where the
    client did not say whether a function is strict, one of Responses is, if its schema can be held to. A custom tool's grammar
    is left out if the engine cannot enforce it: then only the prompt tells the model the format of its text."""
    choice = request.tool_choice
    tools = [tool for tool in offered(request) if not isinstance(tool, HostedTool)]
    forced = choice.mode == "required"
    descriptions = [described(_with_usable_schema(tool) if forced else tool) for tool in tools]
    binding, strict = forced or any(map(_is_strict, descriptions)), frozenset[str]()
    if not forced and has_trait(request, WISHES_STRICT):
        wished = [described(tool, strict=_may_be_strict(tool, held)) for tool in tools]
        made = _made(held, wished, choice) if wished != descriptions else None
        strict = frozenset(tool.name for tool, each in zip(tools, wished, strict=True) if _is_strict(each))
    else:
        made = None
    if made is None:
        made = _held_for_tools(held, descriptions, choice)
        strict = frozenset(
            tool.name
            for tool, each in zip(tools, descriptions, strict=True)
            if _is_strict(each) or (forced and isinstance(tool, FunctionTool) and each == described(tool))
        )
    if made is not None:
        # The engine compiles these schemas, and engines have crashed on invalid ones.
        _check_schemas(request.tools, all_of_them=forced)
    return made, not binding, strict if made is not None else frozenset()


def _held_for_tools(held: _Hold, tools: Sequence[JsonObject], choice: ToolChoice) -> FamilyConstraint | None:
    try:
        return held(tools, choice)
    except ConstraintUnsupported:
        free = [without_format(tool) for tool in tools]
        if free == tools:
            raise
        return held(free, choice)


def _constrained(
    family: Family,
    before: Thought,
    facts: EngineFacts,
    tools: Sequence[JsonObject],
    choice: ToolChoice,
    answer: JsonObject | None = None,
) -> FamilyConstraint | None:
    return constrain(
        family.name,
        tools,
        _choice(choice),
        kinds=facts.constraints,
        parallel_tool_calls=choice.parallel is not False,
        in_reasoning=before.open,
        marks=before.marks,
        perhaps_over=facts.holds_from == "unknown",
        answer=answer,
    )


def _made(held: _Hold, tools: Sequence[JsonObject], choice: ToolChoice) -> FamilyConstraint | None:
    try:
        return held(tools, choice)
    except ConstraintError:
        return None


def _may_be_strict(tool: Tool, held: _Hold) -> bool:
    """Whether a function whose client did not say so can be held to its schema."""
    if not isinstance(tool, FunctionTool) or tool.strict is not None:
        return False
    if _made(held, [described(tool, strict=True)], ToolChoice()) is None:
        return False
    return holdable(tool.parameters or {})


def _with_usable_schema(tool: FunctionTool | CustomTool) -> FunctionTool | CustomTool:
    """The tool as the constraint of a forced call has it: where the client has not asked for its schema to be held to, and that
    cannot be done, the arguments are any object."""
    if not isinstance(tool, FunctionTool) or tool.strict or not tool.parameters or holdable(tool.parameters):
        return tool
    return replace(tool, parameters={"type": "object"})


def _with_free_arguments(request: GenerationRequest) -> GenerationRequest:
    """The request with any object for the arguments of each function whose client has not asked for more."""
    tools = [
        replace(tool, parameters={"type": "object"}, strict=False)
        if isinstance(tool, FunctionTool) and not tool.strict and tool.parameters
        else tool
        for tool in request.tools
    ]
    return replace(request, tools=tuple(tools))


def _asked_to_be_strict(request: GenerationRequest) -> frozenset[str]:
    return frozenset([tool.name for tool in request.tools if isinstance(tool, FunctionTool) and tool.strict])


def _is_strict(described: JsonObject) -> bool:
    """Whether the client wants the tool's calls held to something."""
    function, custom = described.get("function"), described.get("custom")
    if isinstance(function, Mapping):
        return function.get("strict") is True
    return isinstance(custom, Mapping) and "format" in custom


def _check_schemas(tools: Sequence[Tool], *, all_of_them: bool) -> None:
    """Raise InvalidRequest for a strict function that cannot be held to its parameters, and with `all_of_them` for any function
    whose parameters are a schema of no draft."""
    for place, tool in enumerate(tools):
        if not isinstance(tool, FunctionTool) or not tool.parameters:
            continue
        if tool.strict or (all_of_them and not legal(tool.parameters)):
            schema_validator(tool.parameters, f"function '{tool.name}'", f"tools[{place}].parameters")


def _choice(choice: ToolChoice) -> str | Mapping[str, Json]:
    """The choice in Chat Completions' words, which `constrain` reads."""
    if not choice.names:
        return choice.mode
    if choice.mode == "required" and len(choice.names) == 1:
        return {"type": "function", "function": {"name": choice.names[0].name}}
    allowed: list[Json] = [{"type": "function", "function": {"name": key.name}} for key in choice.names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": allowed}}

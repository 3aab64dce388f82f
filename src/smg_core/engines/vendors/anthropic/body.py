"""A `GenerationRequest` as the body of a Messages request.

Decides how each field is written for one model; what cannot be is refused by its path, and what is written otherwise is noted.
Pure. Above: format. Below: turns, facts, the shared modules of providers, the vocabulary.
"""

from collections.abc import Mapping

import attrs

from smg_core.engines.vendors.anthropic.facts import ModelFacts
from smg_core.engines.vendors.anthropic.meaning import meant
from smg_core.engines.vendors.anthropic.turns import PROVIDER, TurnWriter, cache_mark
from smg_core.engines.vendors.client_bytes import as_sent
from smg_core.engines.vendors.losses import Losses, not_for
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.engines.vendors.schemas import without_keywords
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.engines.vendors.written_fields import WrittenFields, put_own_fields, verbosity_of
from smg_core.json_types import Json
from smg_core.request import (
    EFFORT_TOKENS,
    Audio,
    File,
    FunctionTool,
    GenerationRequest,
    Image,
    Message,
    ReasoningSettings,
    Refusal,
    Sampling,
    SchemaFormat,
    Text,
    TextFormat,
    ToolCall,
    ToolChoice,
    ToolResult,
    Video,
)

__all__ = ["WrittenMessages", "refuses_keyword", "write_body"]

_NAME_LENGTH = 128
_BREAKPOINTS = 4
_LEAST_BUDGET = 1024
_HIGHEST_TEMPERATURE = 1
FORMAT_TOOL = "json_answer"
"""The tool whose arguments are the answer, for models that cannot be held to a schema in their text."""
_REFUSED_WORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength"})
_REFUSED_WORDS |= {"maxLength", "maxItems", "uniqueItems", "contains", "prefixItems", "minProperties", "maxProperties"}
_REFUSED_WORDS |= {
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "oneOf",
}
_REFUSED_WORDS |= {"unevaluatedProperties", "unevaluatedItems", "if", "then", "else", "not"}
_TIERS = {"auto": "auto", "standard_only": "standard_only", "default": "standard_only"}

FIELDS = WrittenFields(
    PROVIDER,
    {
        GenerationRequest: frozenset({"model", "messages", "tools", "tool_choice", "response_format", "sampling"})
        | {
            "reasoning",
            "user",
            "cache_key",
            "service_tier",
            "extra",
            "add_generation_prompt",
            "own_fields",
            "template_arguments",
            "continue_final_message",
        },
        Sampling: frozenset({"max_tokens", "temperature", "top_p", "top_k", "stop", "n"}),
        ReasoningSettings: frozenset({"effort", "budget_tokens", "enabled", "adaptive", "visible", "between_tools"}),
        SchemaFormat: frozenset({"schema", "name", "description", "strict"}),
        ToolChoice: frozenset({"mode", "names", "parallel"}),
        FunctionTool: frozenset(FunctionTool.__struct_fields__),
        Message: frozenset({"role", "parts"}),
        Text: frozenset({"text", "cache"}),
        Image: frozenset({"source", "detail", "cache"}),
        Audio: frozenset(Audio.__struct_fields__),
        Video: frozenset(Video.__struct_fields__),
        File: frozenset(File.__struct_fields__),
        Refusal: frozenset({"text", "cache"}),
        ToolCall: frozenset({"id", "name", "arguments", "namespace", "cache"}),
        ToolResult: frozenset({"call_id", "content", "is_error", "name", "value", "cache"}),
    },
)


@attrs.frozen
class WrittenMessages:
    """A body, the names of its tools, whether the answer is the arguments of `FORMAT_TOOL`, whether it has fields that the newest
    version of the API refuses, and whether the answer can be told as it comes, in which case it may be asked for whole."""

    body: bytes
    names: SentNames
    format_tool: bool
    sampled: bool
    verbatim: bool


def write_body(
    request: GenerationRequest, model: str, facts: ModelFacts, losses: Losses, *, verbatim: bool = False
) -> WrittenMessages:
    """The body of `request` for `model`; what it loses is noted in `losses`. `verbatim`: the client may be told the answer in the
    provider's words. Raises UnsupportedParameter naming a field."""
    FIELDS.check(request, "")
    names = SentNames(_NAME_LENGTH)
    turns = TurnWriter(model, names, losses, FIELDS).write(request.messages)
    goes_on = bool(turns.messages) and turns.messages[-1]["role"] == "assistant"
    if goes_on and not (facts.prefill and request.continue_final_message):
        raise not_for(f"messages[{len(request.messages) - 1}]", PROVIDER, "this model does not go on with its own turn")
    if not goes_on and (request.continue_final_message or not request.add_generation_prompt):
        raise not_for("continue_final_message", PROVIDER, "the talk does not end with the assistant")
    tools = [_tool(tool, names, losses, f"tools[{at}]") for at, tool in enumerate(request.tools)]
    thinking = _thinking(request, facts, losses, loop_thinks=turns.loop_thinks)
    form, format_tool = _format(request, facts, losses, thinks=_thinks(thinking, facts))
    body: ProviderJson = {
        "model": model,
        "max_tokens": _most(request.sampling.max_tokens, facts),
        "messages": _trimmed(turns.messages),
        **_sampling(request.sampling, facts),
        **thinking,
        **_rest(request, losses),
    }
    if turns.system:
        body["system"] = list(turns.system)
    config = {**body.pop("output_config", {}), **form}
    if config:
        body["output_config"] = config
    if format_tool is not None:
        tools = [format_tool]
        body["tool_choice"] = {"type": "tool", "name": FORMAT_TOOL}
    elif tools:
        body |= _choice(request.tool_choice, names, thinks=_thinks(thinking, facts))
    if tools:
        body["tools"] = tools
    _limit_marks(body, losses)
    for name, value in request.extra.items():
        if name in body or "." in name or "[" in name or not _of_messages(request):
            raise not_for(f"extra.{name}", PROVIDER)
        body[name] = value
    put_own_fields(request, "messages", body, losses, PROVIDER)
    if verbosity_of(request, PROVIDER) is not None:
        raise not_for("verbosity", PROVIDER)
    sampled = any(name in body for name in ("temperature", "top_p", "top_k"))
    verbatim = verbatim and format_tool is None and not names.changed
    if request.stream or not verbatim:
        body["stream"] = True
    written = request.written if _of_messages(request) else b""
    return WrittenMessages(as_sent(body, written, meant), names, format_tool is not None, sampled, verbatim)


def _of_messages(request: GenerationRequest) -> bool:
    return request.origin is not None and request.origin.api == "messages"


def _most(asked: int | None, facts: ModelFacts) -> int:
    """The bound on the answer, which has to be sent. A bound above the model's own is that of the model."""
    if asked is None:
        return facts.output
    return min(asked, facts.max_tokens) if facts.max_tokens else asked


def _trimmed(messages: tuple[ProviderJson, ...]) -> list[ProviderJson]:
    """The turns, of which the last one does not end in white space where the assistant is to go on with it."""
    last = messages[-1]["content"][-1] if messages and messages[-1]["role"] == "assistant" else {}
    if last.get("type") == "text":
        last["text"] = last["text"].rstrip()
    return list(messages)


# ------------------------------------------------------------------------------------------------------------ settings


def _sampling(sampling: Sampling, facts: ModelFacts) -> ProviderJson:
    FIELDS.check(sampling, "sampling")
    if sampling.n != 1:
        raise not_for("sampling.n", PROVIDER, "it gives one choice at a time")
    wire: ProviderJson = {}
    for name in ("temperature", "top_p", "top_k"):
        value = getattr(sampling, name)
        if value is None:
            continue
        if not facts.sampling:
            raise not_for(f"sampling.{name}", PROVIDER, "this model does not take it")
        if name == "temperature" and value > _HIGHEST_TEMPERATURE:
            raise not_for("sampling.temperature", PROVIDER, "it takes 0 to 1")
        wire[name] = value
    if sampling.stop:
        wire["stop_sequences"] = list(sampling.stop)
    return wire


def _thinks(thinking: ProviderJson, facts: ModelFacts) -> bool:
    """Whether the model may think: it was told to, or does so unless told not to."""
    kind = thinking.get("thinking", {}).get("type", "")
    return kind in ("enabled", "adaptive") or (not kind and not facts.off)


def _thinking(request: GenerationRequest, facts: ModelFacts, losses: Losses, *, loop_thinks: bool) -> ProviderJson:
    """`thinking`, and the effort in `output_config`."""
    asked = request.reasoning
    FIELDS.check(asked, "reasoning")
    if asked.between_tools:
        return {"thinking": {"type": "between_tools"}}
    if asked.enabled is False or asked.effort == "none":
        if not facts.off:
            param = "reasoning.enabled" if asked.enabled is False else "reasoning.effort"
            raise not_for(param, PROVIDER, "this model always thinks")
        return {"thinking": {"type": "disabled"}} if facts.adaptive or facts.budget else {}
    if asked.effort is None and asked.budget_tokens is None and not asked.enabled and not asked.adaptive:
        return {}
    if not facts.adaptive and not facts.budget:
        raise not_for("reasoning", PROVIDER, "this model does not think")
    config = _effort(asked.effort, facts, losses)
    if not loop_thinks:
        losses.note("thinking", "off, for the calls of this turn come without theirs")
        return config
    if facts.adaptive and (asked.budget_tokens is None or asked.adaptive or not facts.budget):
        if asked.budget_tokens is not None and not config:
            losses.note("budget_tokens", "an effort")
            config = _effort(_word_for(asked.budget_tokens), facts, losses)
        return {"thinking": {"type": "adaptive", **_display(request, facts)}, **config}
    return _budgeted(request, facts, losses, config)


def _display(request: GenerationRequest, facts: ModelFacts) -> ProviderJson:
    """What is shown of the thinking; a model that may leave that out is told to show it, by clients of other APIs."""
    visible = request.reasoning.visible
    if visible is None:
        return {"display": "summarized"} if facts.adaptive and not _of_messages(request) else {}
    return {"display": "omitted" if visible in ("none", "sealed") else "summarized"}


def _budgeted(request: GenerationRequest, facts: ModelFacts, losses: Losses, config: ProviderJson) -> ProviderJson:
    """Thinking within a number of tokens, which the bound on the answer has to leave room for."""
    asked, most = request.reasoning, _most(request.sampling.max_tokens, facts)
    if most <= _LEAST_BUDGET:
        losses.note("thinking", "off, for the answer is bounded to fewer tokens than thinking takes")
        return config
    given = asked.budget_tokens if asked.budget_tokens is not None and asked.budget_tokens > 0 else None
    budget = _budget(asked.effort) if given is None else given
    within = min(max(budget, _LEAST_BUDGET), most - 1)
    if given is not None and within != given:
        losses.note("budget_tokens", "within what the model takes")
    return {"thinking": {"type": "enabled", "budget_tokens": within, **_display(request, facts)}, **config}


def _budget(effort: str | None) -> int:
    return EFFORT_TOKENS.get(effort or "medium", EFFORT_TOKENS["xhigh"])


def _word_for(budget: int) -> str:
    """The level of effort that a budget stands for; -1 is as much as the model likes."""
    if budget < 0:
        return "high"
    return [word for word, least in EFFORT_TOKENS.items() if least <= budget or word == "minimal"][-1]


def _effort(effort: str | None, facts: ModelFacts, losses: Losses) -> ProviderJson:
    """The word for how much to think: the nearest one that the model knows."""
    if effort is None or not facts.efforts:
        return {}
    words = ("minimal", *_LEVELS)
    if effort not in words:
        raise not_for("reasoning.effort", PROVIDER, f"it knows {', '.join(facts.efforts)}")
    found = effort
    if found not in facts.efforts:
        at = words.index(effort)
        found = min(facts.efforts, key=lambda word: abs(words.index(word) - at))
        losses.note("effort", found)
    return {"output_config": {"effort": found}}


_LEVELS = ("low", "medium", "high", "xhigh", "max")


def _rest(request: GenerationRequest, losses: Losses) -> ProviderJson:
    wire: ProviderJson = {}
    if request.cache_key is not None:
        losses.note("cache_key", "not sent")
    if request.user is not None:
        wire["metadata"] = {"user_id": request.user}
    if request.service_tier is not None:
        if request.service_tier not in _TIERS:
            raise not_for("service_tier", PROVIDER, f"it knows {', '.join(_TIERS)}")
        wire["service_tier"] = _TIERS[request.service_tier]
    return wire


# --------------------------------------------------------------------------------------------------------------- tools


def _tool(tool: object, names: SentNames, losses: Losses, at: str) -> ProviderJson:
    if not isinstance(tool, FunctionTool):
        raise not_for(at, PROVIDER, "it cannot run this tool")
    wire: ProviderJson = {"name": names.wire(tool.name, tool.namespace)}
    if tool.description:
        wire["description"] = tool.description
    schema = dict(tool.parameters or {})
    if schema.get("type") != "object":
        schema = {"type": "object", "properties": {}, **schema} if "type" not in schema else schema
    if tool.strict:
        schema = _reduced(schema, losses)
        wire["strict"] = True
    wire["input_schema"] = schema
    if tool.deferred:
        wire["defer_loading"] = True
    if tool.examples:
        wire["input_examples"] = [dict(each) for each in tool.examples]
    return wire | cache_mark(tool.cache)


def _reduced(schema: Mapping[str, Json], losses: Losses) -> ProviderJson:
    reduced, changed = without_keywords(schema, refuses_keyword)
    if changed:
        losses.note("schema_keywords", "in descriptions, and checked in the answer")
    return reduced


def refuses_keyword(word: str, value: object) -> bool:
    """Whether a schema that binds may not have this keyword."""
    return word in _REFUSED_WORDS or (word == "minItems" and isinstance(value, int) and value > 1)


def _choice(choice: ToolChoice, names: SentNames, *, thinks: bool) -> ProviderJson:
    FIELDS.check(choice, "tool_choice")
    single = {"disable_parallel_tool_use": True} if choice.parallel is False else {}
    if choice.mode == "none":
        return {"tool_choice": {"type": "none"}}
    if choice.mode == "auto":
        if choice.names:
            raise not_for("tool_choice.names", PROVIDER)
        return {"tool_choice": {"type": "auto", **single}} if single else {}
    if thinks:
        raise not_for("tool_choice", PROVIDER, "a call cannot be demanded of a model that thinks")
    if not choice.names:
        return {"tool_choice": {"type": "any", **single}}
    if len(choice.names) > 1:
        raise not_for("tool_choice.names", PROVIDER)
    key = choice.names[0]
    return {"tool_choice": {"type": "tool", "name": names.wire(key.name, key.namespace), **single}}


# ------------------------------------------------------------------------------------------------------------- formats


def _format(
    request: GenerationRequest, facts: ModelFacts, losses: Losses, *, thinks: bool
) -> tuple[ProviderJson, ProviderJson | None]:
    """What `output_config` says of the format, and the tool that stands in for it where the model has no such word."""
    wanted = request.response_format
    if isinstance(wanted, TextFormat) or (isinstance(wanted, SchemaFormat) and wanted.strength == "none"):
        return {}, None
    if not isinstance(wanted, SchemaFormat):
        raise not_for("response_format", PROVIDER)
    if facts.structured:
        return {"format": {"type": "json_schema", "schema": _reduced(wanted.schema, losses)}}, None
    if request.tools or thinks or wanted.schema.get("type") != "object":
        raise not_for(
            "response_format", PROVIDER, "this model is held to a schema by a tool, which leaves no room for others"
        )
    losses.note("response_format", "the arguments of a tool")
    described = wanted.description or "The answer."
    return {}, {"name": FORMAT_TOOL, "description": described, "input_schema": dict(wanted.schema)}


def _limit_marks(body: ProviderJson, losses: Losses) -> None:
    """Keep the last marks for the cache: more than the API takes are refused by it."""
    marked = [
        each
        for each in (*body.get("tools", ()), *body.get("system", ()), *_blocks(body["messages"]))
        if "cache_control" in each
    ]
    for each in marked[: max(0, len(marked) - _BREAKPOINTS)]:
        losses.note("cache", f"the last {_BREAKPOINTS} marks")
        del each["cache_control"]


def _blocks(messages: list[ProviderJson]) -> list[ProviderJson]:
    blocks: list[ProviderJson] = []
    for turn in messages:
        for block in turn["content"]:
            inner = block.get("content") if block["type"] == "tool_result" else None
            blocks += [*(inner or ()), block]
    return blocks

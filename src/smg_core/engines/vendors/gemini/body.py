"""A `GenerationRequest` as the body of a generateContent request.

Decides how each field is written for one model; what cannot be is refused by its path, and what is written otherwise is noted.
Names are in camel case, and nothing is written that was not asked for. Pure. Above: format. Below: contents, facts, the shared
modules of providers, the vocabulary.
"""

import attrs
import msgspec

from smg_core.engines.vendors.client_bytes import as_sent
from smg_core.engines.vendors.gemini.contents import PROVIDER, ContentWriter
from smg_core.engines.vendors.gemini.facts import GeminiFacts
from smg_core.engines.vendors.gemini.meaning import meant
from smg_core.engines.vendors.losses import Losses, not_for
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.engines.vendors.written_fields import WrittenFields, put_own_fields, verbosity_of
from smg_core.request import (
    EFFORT_TOKENS,
    Audio,
    ChoiceFormat,
    File,
    FunctionTool,
    GenerationRequest,
    Image,
    JsonFormat,
    MediaSource,
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

__all__ = ["FIELDS", "WrittenGemini", "write_gemini"]

_NAME_LENGTH = 64
_STOPS = 5
_CHOICES = 8
_PLAIN = (
    ("temperature", "temperature"),
    ("top_p", "topP"),
    ("top_k", "topK"),
    ("seed", "seed"),
    ("max_tokens", "maxOutputTokens"),
)
_TIERS = {"auto": None, "default": "standard", "standard": "standard", "flex": "flex", "priority": "priority"}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_ORDER = ("minimal", "low", "medium", "high", "xhigh", "max")

FIELDS = WrittenFields(
    PROVIDER,
    {
        GenerationRequest: frozenset({"model", "messages", "tools", "tool_choice", "response_format", "sampling"})
        | {"reasoning", "user", "cache_key", "service_tier", "extra", "own_fields", "template_arguments"},
        Sampling: frozenset({"max_tokens", "temperature", "top_p", "top_k", "stop", "n", "seed"})
        | {"frequency_penalty", "presence_penalty", "logprobs"},
        ReasoningSettings: frozenset({"effort", "budget_tokens", "enabled", "adaptive", "visible"}),
        SchemaFormat: frozenset({"schema", "name", "description", "strict"}),
        ToolChoice: frozenset({"mode", "names", "parallel"}),
        FunctionTool: frozenset({"name", "description", "parameters", "strict", "namespace", "cache", "examples"}),
        Message: frozenset({"role", "parts"}),
        Text: frozenset({"text", "cache"}),
        Image: frozenset({"source", "detail", "cache"}),
        Audio: frozenset({"source", "format", "cache"}),
        Video: frozenset({"source", "cache"}),
        File: frozenset(File.__struct_fields__),
        MediaSource: frozenset(MediaSource.__struct_fields__),
        Refusal: frozenset({"text", "cache"}),
        ToolCall: frozenset({"id", "name", "arguments", "namespace", "cache"}),
        ToolResult: frozenset({"call_id", "content", "is_error", "name", "value", "cache"}),
    },
)


@attrs.frozen
class WrittenGemini:
    """A body, and the names of its tools."""

    body: bytes
    names: SentNames


def write_gemini(request: GenerationRequest, model: str, facts: GeminiFacts, losses: Losses) -> WrittenGemini:
    """The body of `request` for `model`; what it loses is noted in `losses`. Raises UnsupportedParameter naming a field."""
    FIELDS.check(request, "")
    names = SentNames(_NAME_LENGTH, letter_first=True)
    turns = ContentWriter(model, facts, names, losses, FIELDS).write(request.messages)
    body: ProviderJson = {"contents": list(turns.contents)}
    if turns.system:
        body["systemInstruction"] = {"parts": list(turns.system)}
    settings = {
        **_sampling(request.sampling, facts),
        **_thinking(request.reasoning, facts, losses),
        **_format(request, facts),
    }
    if settings:
        body["generationConfig"] = settings
    if request.tools:
        declared = [_tool(tool, names, losses, f"tools[{at}]") for at, tool in enumerate(request.tools)]
        body["tools"] = [{"functionDeclarations": declared}]
        body |= _choice(request, names, losses)
    own = request.origin is not None and request.origin.api == "generate_content"
    put_own_fields(request, "generate_content", body, losses, PROVIDER)
    if verbosity_of(request, PROVIDER) is not None:
        raise not_for("verbosity", PROVIDER)
    _rest(request, body, losses, own=own)
    return WrittenGemini(as_sent(body, request.written if own else b"", meant), names)


def _sampling(sampling: Sampling, facts: GeminiFacts) -> ProviderJson:
    FIELDS.check(sampling, "sampling")
    wire = {word: value for name, word in _PLAIN if (value := getattr(sampling, name)) is not None}
    if facts.output and wire.get("maxOutputTokens", 0) > facts.output:
        wire["maxOutputTokens"] = facts.output  # the gateway's own bound may be a higher one
    if sampling.n > _CHOICES:
        raise not_for("sampling.n", PROVIDER, f"it gives at most {_CHOICES} choices")
    if sampling.n != 1:
        wire["candidateCount"] = sampling.n
    if len(sampling.stop) > _STOPS:
        raise not_for("sampling.stop", PROVIDER, f"it takes at most {_STOPS} strings")
    if sampling.stop:
        wire["stopSequences"] = list(sampling.stop)
    for name, word in (("frequency_penalty", "frequencyPenalty"), ("presence_penalty", "presencePenalty")):
        if (value := getattr(sampling, name)) is not None:
            if not facts.penalties:
                raise not_for(f"sampling.{name}", PROVIDER, "this model does not take it")
            wire[word] = value
    if sampling.logprobs is not None:
        wire |= {"responseLogprobs": True, "logprobs": sampling.logprobs}
    return wire


def _thinking(asked: ReasoningSettings, facts: GeminiFacts, losses: Losses) -> ProviderJson:
    FIELDS.check(asked, "reasoning")
    off = asked.enabled is False or asked.effort == "none" or asked.budget_tokens == 0
    given = asked.effort is not None or asked.budget_tokens is not None or bool(asked.enabled) or asked.adaptive
    if off:
        if not facts.off:
            param = "enabled" if asked.enabled is False else "effort" if asked.effort == "none" else "budget_tokens"
            raise not_for(f"reasoning.{param}", PROVIDER, "this model always thinks")
        return {"thinkingConfig": {"thinkingBudget": 0}} if facts.budget else {}
    visible = asked.visible not in ("none", "sealed") and (given or asked.visible is not None)
    config: ProviderJson = {"includeThoughts": True} if visible else {}
    if given and not facts.levels and not facts.budget:
        raise not_for("reasoning", PROVIDER, "this model does not think")
    if given and facts.budget:
        budget = asked.budget_tokens
        if budget is None and asked.effort is not None:
            if asked.effort not in _ORDER:
                raise not_for("reasoning.effort", PROVIDER, f"it knows {', '.join(_ORDER)}")
            losses.note("effort", "a budget")
            budget = EFFORT_TOKENS.get(asked.effort, -1)
        config["thinkingBudget"] = -1 if budget is None else budget
    elif given and (asked.effort is not None or (asked.budget_tokens or -1) >= 0):
        config["thinkingLevel"] = _level(asked, facts, losses)
    return {"thinkingConfig": config} if config else {}


def _level(asked: ReasoningSettings, facts: GeminiFacts, losses: Losses) -> str:
    """The nearest level that the model knows."""
    wanted = asked.effort
    if wanted is None:
        losses.note("budget_tokens", "a level")
        budget = asked.budget_tokens or 0
        wanted = [word for word, least in EFFORT_TOKENS.items() if least <= budget or word == "minimal"][-1]
    if wanted not in _ORDER:
        raise not_for("reasoning.effort", PROVIDER, f"it knows {', '.join(facts.levels)}")
    at = _ORDER.index(wanted)
    found = min(facts.levels, key=lambda word: abs(_ORDER.index(word) - at))
    if found != wanted and asked.effort is not None:
        losses.note("effort", found)
    return found.upper()


def _format(request: GenerationRequest, facts: GeminiFacts) -> ProviderJson:
    wanted = request.response_format
    if isinstance(wanted, TextFormat) or (isinstance(wanted, SchemaFormat) and wanted.strength == "none"):
        return {}
    if isinstance(wanted, ChoiceFormat):
        return {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": list(wanted.choices)}}
    if not isinstance(wanted, JsonFormat | SchemaFormat):
        raise not_for("response_format", PROVIDER)
    if request.tools and not facts.json_with_tools:
        raise not_for("response_format", PROVIDER, "this model is not held to a format where it has tools")
    schema = {} if isinstance(wanted, JsonFormat) else {"responseJsonSchema": dict(wanted.schema)}
    return {"responseMimeType": "application/json", **schema}


# --------------------------------------------------------------------------------------------------------------- tools


def _tool(tool: object, names: SentNames, losses: Losses, at: str) -> ProviderJson:
    if not isinstance(tool, FunctionTool):
        raise not_for(at, PROVIDER, "it cannot run this tool")
    FIELDS.check(tool, at)
    wire: ProviderJson = {"name": names.wire(tool.name, tool.namespace)}
    described = tool.description or ""
    if tool.examples:
        losses.note("tool_examples", "in the description")
        examples = "\n".join(msgspec.json.encode(each).decode() for each in tool.examples)
        described = f"{described}\nExamples of arguments:\n{examples}".strip()
    if described:
        wire["description"] = described
    if tool.parameters:
        wire["parametersJsonSchema"] = {"type": "object", **tool.parameters}
    if tool.cache is not None:
        losses.note("cache", "the provider's own, without marks")
    return wire


def _choice(request: GenerationRequest, names: SentNames, losses: Losses) -> ProviderJson:
    choice = request.tool_choice
    FIELDS.check(choice, "tool_choice")
    mode = _MODES[choice.mode]
    if mode == "AUTO" and any(isinstance(tool, FunctionTool) and tool.strict for tool in request.tools):
        losses.note("strict", "all tools are held to their schemas")
        mode = "VALIDATED"
    if choice.parallel is False:
        losses.note("parallel_tool_calls", "the first call alone is passed on")
    config: ProviderJson = {"mode": mode}
    if choice.names:
        if choice.mode == "auto":
            raise not_for("tool_choice.names", PROVIDER)
        config["allowedFunctionNames"] = [names.wire(key.name, key.namespace) for key in choice.names]
    return {} if config == {"mode": "AUTO"} else {"toolConfig": {"functionCallingConfig": config}}


def _rest(request: GenerationRequest, body: ProviderJson, losses: Losses, *, own: bool) -> None:
    if request.user is not None:
        losses.note("user", "not sent")
    if request.cache_key is not None:
        losses.note("cache_key", "not sent")
    if request.service_tier is not None:
        if request.service_tier not in _TIERS:
            raise not_for("service_tier", PROVIDER, f"it knows {', '.join(_TIERS)}")
        if (tier := _TIERS[request.service_tier]) is not None:
            body["serviceTier"] = tier
    for name, value in request.extra.items():
        if name in body or "." in name or "[" in name or not own:
            raise not_for(f"extra.{name}", PROVIDER)
        body[name] = value

"""A `GenerationRequest` as the body of a ConverseStream request.

Decides how each field is written for one model; what cannot be is refused by its path, and what is written otherwise is noted.
Pure. Above: converse. Below: converse_turns, families, the shared modules of providers, the vocabulary.
"""

import hashlib
import re
from collections.abc import Mapping

import attrs
import msgspec

from smg_core.engines.vendors.anthropic.body import refuses_keyword
from smg_core.engines.vendors.bedrock.betas import known_betas
from smg_core.engines.vendors.bedrock.converse_turns import PROVIDER, ConverseTurns, ConverseWriter, cache_point
from smg_core.engines.vendors.bedrock.families import ModelFamily, bedrock_family
from smg_core.engines.vendors.losses import Losses, not_for
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.engines.vendors.schemas import without_keywords
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.engines.vendors.written_fields import WrittenFields
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

__all__ = ["WrittenConverse", "write_converse"]

_NAME_LENGTH = 64
_HIGHEST_TEMPERATURE = 1
_BREAKPOINTS = 4
_LEAST_BUDGET = 1024
_TIERS = frozenset({"default", "flex", "priority", "reserved"})
_LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")
_METADATA = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,.\-]{1,256}")
_OWN_FIELDS = frozenset(
    {
        *("guardrailConfig", "performanceConfig", "promptVariables", "requestMetadata"),
        *("additionalModelRequestFields", "additionalModelResponseFieldPaths"),
    }
)
"""Fields of the API that no other one has: a client may send them beside those of its own API."""

FIELDS = WrittenFields(
    PROVIDER,
    {
        GenerationRequest: frozenset({"model", "messages", "tools", "tool_choice", "response_format", "sampling"})
        | {"reasoning", "user", "cache_key", "service_tier", "extra", "add_generation_prompt"}
        | {"continue_final_message"},
        Sampling: frozenset({"max_tokens", "temperature", "top_p", "top_k", "stop", "n", "skip_special_tokens"}),
        ReasoningSettings: frozenset({"effort", "budget_tokens", "enabled", "adaptive", "visible"}),
        SchemaFormat: frozenset({"schema", "name", "description", "strict"}),
        ToolChoice: frozenset({"mode", "names", "parallel"}),
        FunctionTool: frozenset({"name", "description", "parameters", "strict", "namespace", "cache"}),
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
class WrittenConverse:
    """A body as an object, and the names of its tools."""

    body: ProviderJson
    names: SentNames


def write_converse(request: GenerationRequest, model: str, losses: Losses) -> WrittenConverse:
    """The body of `request` for `model`; what it loses is noted in `losses`. Raises UnsupportedParameter naming a field."""
    FIELDS.check(request, "")
    family, names = bedrock_family(model), SentNames(_NAME_LENGTH)
    turns = ConverseWriter(model, family, names, losses, FIELDS).write(request.messages)
    if turns.messages[-1]["role"] == "assistant":
        _continued(turns, family, len(request.messages) - 1)
    own, output = _reasoning(request, family, losses, loop_thinks=turns.loop_thinks)
    body: ProviderJson = {"messages": list(turns.messages)}
    if turns.system:
        body["system"] = list(turns.system)
    if inference := _inference(request.sampling, family, own):
        body["inferenceConfig"] = inference
    if tools := _tools(request, family, names, losses, used=turns.tools_used, own=own):
        body["toolConfig"] = tools
    if request.cache_key is not None:
        losses.note("cache_key", "not sent")
    if output := {**output, **_format(request, family, losses)}:
        body["outputConfig"] = output
    body |= _rest(request)
    _extra(request, body, own)
    if family.claude is not None and (betas := _betas(request, losses)):
        own["anthropic_beta"] = betas
    if own:
        body["additionalModelRequestFields"] = own
    _limit_marks(body, losses)
    return WrittenConverse(body, names)


def _betas(request: GenerationRequest, losses: Losses) -> list[str]:
    """The client's betas of Messages, which one of Anthropic's models is told of among its own fields."""
    return [] if request.origin is None else known_betas(sorted(request.origin.betas), losses)


def _continued(turns: ConverseTurns, family: ModelFamily, at: int) -> None:
    """A talk that ends with the assistant is gone on with, where the model does that; its last text ends in a letter."""
    if not family.prefill:
        raise not_for(f"messages[{at}]", PROVIDER, "this model does not go on with its own turn")
    last = turns.messages[-1]["content"][-1]
    if "text" in last:
        last["text"] = last["text"].rstrip()


def _inference(sampling: Sampling, family: ModelFamily, own: ProviderJson) -> ProviderJson:
    FIELDS.check(sampling, "sampling")
    if sampling.n != 1:
        raise not_for("sampling.n", PROVIDER, "it gives one choice at a time")
    wire: ProviderJson = {}
    if sampling.max_tokens is not None:
        wire["maxTokens"] = sampling.max_tokens
    for name, there in (("temperature", "temperature"), ("top_p", "topP")):
        value = getattr(sampling, name)
        if value is None:
            continue
        if not family.sampling:
            raise not_for(f"sampling.{name}", PROVIDER, "this model does not take it")
        if value > _HIGHEST_TEMPERATURE:
            raise not_for(f"sampling.{name}", PROVIDER, "it takes 0 to 1")
        wire[there] = value
    if sampling.top_k is not None:
        if not family.top_k or not family.sampling:
            raise not_for("sampling.top_k", PROVIDER, "this model does not take it")
        _put(own, family.top_k, sampling.top_k)
    if sampling.stop:
        wire["stopSequences"] = list(sampling.stop)
    return wire


def _put(fields: ProviderJson, path: tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        fields = fields.setdefault(name, {})
    fields[path[-1]] = value


# ----------------------------------------------------------------------------------------------------------- reasoning


def _reasoning(
    request: GenerationRequest, family: ModelFamily, losses: Losses, *, loop_thinks: bool
) -> tuple[ProviderJson, ProviderJson]:
    """The model's own fields, and `outputConfig`, that say how much to reason."""
    asked = request.reasoning
    FIELDS.check(asked, "reasoning")
    off = asked.enabled is False or asked.effort == "none"
    if family.claude is not None:
        return _claude_thinking(request, family, losses, off=off, loop_thinks=loop_thinks)
    if off:
        if family.effort[:1] == ("reasoning_effort",):
            raise not_for("reasoning", PROVIDER, "this model always reasons")
        return {}, {}
    if asked.effort is None and asked.budget_tokens is None and not asked.enabled and not asked.adaptive:
        return {}, {}
    if not family.effort:
        raise not_for("reasoning", PROVIDER, "this model cannot be asked to reason")
    if asked.effort is None and asked.budget_tokens is not None:
        losses.note("budget_tokens", "an effort")
    word = _word(_asked_effort(asked) or "medium", family.efforts, losses)
    own: ProviderJson = {}
    _put(own, family.effort, word)
    if family.name == "nova":
        own["reasoningConfig"]["type"] = "enabled"
    return own, {}


def _asked_effort(asked: ReasoningSettings) -> str | None:
    """The word for how much to reason, of a word or of a number of tokens."""
    if asked.effort is not None or asked.budget_tokens is None:
        return asked.effort
    if asked.budget_tokens < 0:
        return "high"
    return [name for name, least in EFFORT_TOKENS.items() if least <= asked.budget_tokens or name == "minimal"][-1]


def _word(effort: str, known: tuple[str, ...], losses: Losses) -> str:
    """The nearest word that the model knows."""
    if effort not in _LEVELS:
        raise not_for("reasoning.effort", PROVIDER, f"it knows {', '.join(known)}")
    if effort in known:
        return effort
    at = _LEVELS.index(effort)
    found = min(known, key=lambda word: abs(_LEVELS.index(word) - at))
    losses.note("effort", found)
    return found


def _claude_thinking(
    request: GenerationRequest, family: ModelFamily, losses: Losses, *, off: bool, loop_thinks: bool
) -> tuple[ProviderJson, ProviderJson]:
    facts, asked = family.claude, request.reasoning
    if facts is None or (off and not facts.off):
        raise not_for("reasoning", PROVIDER, "this model always reasons")
    thinks = facts.adaptive or facts.budget
    if off:
        return ({"thinking": {"type": "disabled"}} if thinks else {}), {}
    if asked.effort is None and asked.budget_tokens is None and not asked.enabled and not asked.adaptive:
        return {}, {}
    if not thinks:
        raise not_for("reasoning", PROVIDER, "this model cannot be asked to reason")
    output: ProviderJson = {}
    effort = _asked_effort(asked) if facts.adaptive else asked.effort
    if effort is not None and facts.efforts:
        output["effort"] = _word(effort, facts.efforts, losses)
    if not loop_thinks:
        losses.note("thinking", "off, for the calls of this turn come without theirs")
        return {}, output
    if facts.adaptive:  # a budget makes some models on Bedrock end without an answer
        if asked.budget_tokens is not None:
            losses.note("budget_tokens", "an effort")
        display = "omitted" if asked.visible in ("none", "sealed") else "summarized"
        return {"thinking": {"type": "adaptive", "display": display}}, output
    budget = asked.budget_tokens or EFFORT_TOKENS.get(asked.effort or "medium", EFFORT_TOKENS["high"])
    most = request.sampling.max_tokens
    if most is None:
        raise not_for("reasoning", PROVIDER, "this model wants a bound on its answer, above the tokens of reasoning")
    if most <= _LEAST_BUDGET:
        losses.note("thinking", "off, for the answer is bounded to fewer tokens than thinking takes")
        return {}, output
    within = min(max(budget, _LEAST_BUDGET), most - 1)
    if asked.budget_tokens is not None and within != asked.budget_tokens:
        losses.note("budget_tokens", "within what the model takes")
    return {"thinking": {"type": "enabled", "budget_tokens": within}}, output


# --------------------------------------------------------------------------------------------------------------- tools


def _tools(
    request: GenerationRequest,
    family: ModelFamily,
    names: SentNames,
    losses: Losses,
    *,
    used: bool,
    own: ProviderJson,
) -> ProviderJson:
    """The tools and which of them are to be called; {} without any."""
    choice = request.tool_choice
    FIELDS.check(choice, "tool_choice")
    if not request.tools:
        if used:
            raise not_for("tools", PROVIDER, "a talk with calls of tools names these tools again")
        return {}
    if choice.mode == "none":
        if used:
            raise not_for("tool_choice", PROVIDER, "calls cannot be forbidden in a talk that has some")
        losses.note("tool_choice", "the tools are not sent")
        return {}
    sent = request.tools
    if len(choice.names) > 1 or (choice.names and choice.mode == "auto"):
        losses.note("allowed_tools", "only these tools are sent")
        allowed = {(key.name, key.namespace) for key in choice.names}
        sent = tuple(each for each in sent if isinstance(each, FunctionTool) and (each.name, each.namespace) in allowed)
    specs = [spec for at, each in enumerate(sent) for spec in _tool(each, family, names, losses, f"tools[{at}]")]
    thinks = own.get("thinking", {}).get("type") in ("enabled", "adaptive")
    return {"tools": specs, **_demanded(choice, family, names, own, thinks=thinks)}


def _tool(tool: object, family: ModelFamily, names: SentNames, losses: Losses, at: str) -> list[ProviderJson]:
    if not isinstance(tool, FunctionTool):
        raise not_for(at, PROVIDER, "it cannot run this tool")
    FIELDS.check(tool, at)
    schema = dict(tool.parameters or {})
    if "type" not in schema:
        schema = {"type": "object", "properties": {}, **schema}
    spec: ProviderJson = {"name": names.wire(tool.name, tool.namespace), "inputSchema": {"json": schema}}
    if tool.description:
        spec["description"] = tool.description
    if tool.strict:
        spec |= {"strict": True, "inputSchema": {"json": _bound(schema, family, losses)}}
    found: list[ProviderJson] = [{"toolSpec": spec}]
    if tool.cache is not None:
        if family.caches:
            found.append(cache_point(tool.cache))
        else:
            losses.note("cache", "left out, for this model takes no marks")
    return found


def _demanded(
    choice: ToolChoice, family: ModelFamily, names: SentNames, own: ProviderJson, *, thinks: bool
) -> ProviderJson:
    if choice.parallel is False:
        if family.claude is None:
            raise not_for("tool_choice.parallel", PROVIDER, "this model cannot be kept from several calls at once")
        own["tool_choice"] = {"disable_parallel_tool_use": True}
    if choice.mode == "auto":
        return {"toolChoice": {"auto": {}}} if choice.parallel is False else {}
    if thinks:
        raise not_for("tool_choice", PROVIDER, "a call cannot be demanded of a model that reasons")
    if len(choice.names) != 1:
        return {"toolChoice": {"any": {}}}
    if not family.one_tool:
        raise not_for("tool_choice.names", PROVIDER, "this model can be asked for some call, not for one by name")
    key = choice.names[0]
    return {"toolChoice": {"tool": {"name": names.wire(key.name, key.namespace)}}}


# ------------------------------------------------------------------------------------------------------------- the rest


def _format(request: GenerationRequest, family: ModelFamily, losses: Losses) -> ProviderJson:
    wanted = request.response_format
    if isinstance(wanted, TextFormat) or (isinstance(wanted, SchemaFormat) and wanted.strength == "none"):
        return {}
    if not isinstance(wanted, SchemaFormat):
        raise not_for("response_format", PROVIDER)
    if not family.structured:
        raise not_for("response_format", PROVIDER, "this model cannot be held to a schema")
    FIELDS.check(wanted, "response_format")
    written = msgspec.json.encode(_bound(wanted.schema, family, losses)).decode()
    schema: ProviderJson = {"schema": written, "name": wanted.name}
    if wanted.description:
        schema["description"] = wanted.description
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}


def _bound(schema: Mapping[str, Json], family: ModelFamily, losses: Losses) -> ProviderJson:
    """A schema that a model is held to, without the keywords that its family refuses."""
    if family.claude is None:
        return dict(schema)
    reduced, changed = without_keywords(schema, refuses_keyword)
    if changed:
        losses.note("schema_keywords", "in descriptions, and checked in the answer")
    return reduced


def _rest(request: GenerationRequest) -> ProviderJson:
    wire: ProviderJson = {}
    if request.user is not None:
        fits = _METADATA.fullmatch(request.user) is not None
        digest = hashlib.blake2b(request.user.encode("utf-8", "surrogatepass"), digest_size=16)
        wire["requestMetadata"] = {"user_id": request.user if fits else digest.hexdigest()}
    tier = request.service_tier
    if tier is not None and tier != "auto":
        if tier not in _TIERS:
            raise not_for("service_tier", PROVIDER, f"it knows {', '.join(sorted(_TIERS))}")
        wire["serviceTier"] = {"type": tier}
    return wire


def _extra(request: GenerationRequest, body: ProviderJson, own: ProviderJson) -> None:
    """The fields of this API that a client has sent beside those of its own."""
    for name, value in request.extra.items():
        if name not in _OWN_FIELDS:
            raise not_for(f"extra.{name}", PROVIDER)
        if name == "additionalModelRequestFields":
            if not isinstance(value, Mapping) or own.keys() & value.keys():
                raise not_for(f"extra.{name}", PROVIDER, "it says otherwise than the rest of the request")
            own |= value
        elif name == "requestMetadata" and isinstance(value, Mapping):
            body[name] = {**body.get(name, {}), **value}
        else:
            body[name] = value


def _limit_marks(body: ProviderJson, losses: Losses) -> None:
    """Keep the last marks for the cache: more than the API takes are refused by it."""
    places = [body.get("toolConfig", {}).get("tools", []), body.get("system", [])]
    places += [turn["content"] for turn in body["messages"]]
    marks = [(place, at) for place in places for at, each in enumerate(place) if "cachePoint" in each]
    surplus = marks[: max(0, len(marks) - _BREAKPOINTS)]
    for place, at in reversed(surplus):
        losses.note("cache", f"the last {_BREAKPOINTS} marks")
        del place[at]

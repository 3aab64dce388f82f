"""A `GenerationRequest` as the body of a Responses request.

Decides how each field is written; what cannot be is refused by its path, and what is written otherwise is noted. Nothing is
stored at the provider: the history is the gateway's, and reasoning comes and goes encrypted. Pure. Above: format. Below: items,
the shared modules of providers, the vocabulary.
"""

import re

import attrs
import msgspec

from smg_core.engines.vendors.client_bytes import as_sent
from smg_core.engines.vendors.losses import Losses, not_for
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.engines.vendors.responses.items import PROVIDER, ItemWriter
from smg_core.engines.vendors.responses.meaning import meant
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.engines.vendors.written_fields import WrittenFields, put_own_fields, verbosity_of
from smg_core.request import (
    EFFORT_TOKENS,
    CustomTool,
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
    ToolKey,
    ToolResult,
)

__all__ = ["FIELDS", "WrittenResponses", "write_responses"]

_NAME_LENGTH = 64
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_OLDER_USER = re.compile(rb'"user"\s*:')
"""The client's own word for its user; its newer name says the same."""
ENCRYPTED = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"

FIELDS = WrittenFields(
    PROVIDER,
    {
        GenerationRequest: frozenset({"model", "messages", "tools", "tool_choice", "response_format", "sampling"})
        | {"reasoning", "user", "cache_key", "service_tier", "extra", "verbosity", "own_fields", "template_arguments"},
        Sampling: frozenset({"max_tokens", "temperature", "top_p", "n", "logprobs"}),
        ReasoningSettings: frozenset({"effort", "budget_tokens", "enabled", "adaptive", "visible"}),
        SchemaFormat: frozenset({"schema", "name", "description", "strict"}),
        ToolChoice: frozenset({"mode", "names", "parallel"}),
        FunctionTool: frozenset({"name", "description", "parameters", "strict", "namespace", "cache", "examples"}),
        CustomTool: frozenset({"name", "description", "syntax", "grammar", "cache"}),
        Message: frozenset({"role", "parts"}),
        Text: frozenset({"text", "cache"}),
        Image: frozenset({"source", "detail", "cache"}),
        File: frozenset(File.__struct_fields__),
        MediaSource: frozenset({"url", "data", "file_id", "text", "media_type"}),
        Refusal: frozenset({"text", "cache"}),
        ToolCall: frozenset({"id", "name", "arguments", "custom", "namespace", "cache"}),
        ToolResult: frozenset({"call_id", "content", "is_error", "name", "value", "cache"}),
    },
)


@attrs.frozen
class WrittenResponses:
    """A body, the names of its tools, and whether the answer can be told as it comes, in which case it may be asked for whole."""

    body: bytes
    names: SentNames
    verbatim: bool


def write_responses(
    request: GenerationRequest, model: str, account: str, losses: Losses, *, verbatim: bool = False
) -> WrittenResponses:
    """The body of `request` for `model`; what it loses is noted in `losses`. `verbatim`: the client may be told the answer in the
    provider's words. Raises UnsupportedParameter naming a field."""
    FIELDS.check(request, "")
    names = SentNames(_NAME_LENGTH)
    if request.messages and request.messages[-1].role == "assistant":
        raise not_for(f"messages[{len(request.messages) - 1}]", PROVIDER, "it does not go on with its own turn")
    include = [ENCRYPTED]
    body: ProviderJson = {
        "model": model,
        "input": ItemWriter(account, names, losses, FIELDS).write(request.messages),
        "store": False,
        **_sampling(request.sampling, include),
        **_reasoning(request.reasoning, losses),
        **_text(request),
        **_rest(request),
        "include": include,
    }
    if request.tools:
        body["tools"] = [_tool(tool, names, losses, f"tools[{at}]") for at, tool in enumerate(request.tools)]
        body |= _choice(request.tool_choice, names)
    put_own_fields(request, "responses", body, losses, PROVIDER)
    own = request.origin is not None and request.origin.api == "responses"
    for name, value in request.extra.items():
        if name in body or "." in name or "[" in name or not own:
            raise not_for(f"extra.{name}", PROVIDER)
        body[name] = value
    verbatim = verbatim and not names.changed
    if verbatim and request.metadata:
        body["metadata"] = dict(request.metadata)
    if request.stream or not verbatim:
        body["stream"] = True
    return WrittenResponses(as_sent(body, request.written if own else b"", meant), names, verbatim)


def _sampling(sampling: Sampling, include: list[str]) -> ProviderJson:
    FIELDS.check(sampling, "sampling")
    if sampling.n != 1:
        raise not_for("sampling.n", PROVIDER, "it gives one choice at a time")
    wire = {name: value for name in ("temperature", "top_p") if (value := getattr(sampling, name)) is not None}
    if sampling.max_tokens is not None:
        wire["max_output_tokens"] = sampling.max_tokens
    if sampling.logprobs is not None:
        include.append(LOGPROBS)
        wire["top_logprobs"] = sampling.logprobs
    return wire


def _reasoning(asked: ReasoningSettings, losses: Losses) -> ProviderJson:
    FIELDS.check(asked, "reasoning")
    effort = asked.effort
    if asked.enabled is False or asked.budget_tokens == 0:
        return {"reasoning": {"effort": "none"}}
    if effort is not None and effort not in _EFFORTS:
        raise not_for("reasoning.effort", PROVIDER, f"it knows {', '.join(_EFFORTS)}")
    if effort is None and asked.budget_tokens is not None:
        losses.note("budget_tokens", "an effort")
        budget = asked.budget_tokens
        words = [word for word, least in EFFORT_TOKENS.items() if least <= budget or word == "minimal"]
        effort = words[-1] if budget > 0 else "high"
    wire: ProviderJson = {} if effort is None else {"effort": effort}
    given = effort not in (None, "none") or bool(asked.enabled) or asked.adaptive
    if asked.visible in ("text", "summary") or (asked.visible is None and given):
        wire["summary"] = "auto"
    return {"reasoning": wire} if wire else {}


def _text(request: GenerationRequest) -> ProviderJson:
    verbosity = verbosity_of(request, PROVIDER)
    text: ProviderJson = {} if verbosity is None else {"verbosity": verbosity}
    wanted = request.response_format
    if isinstance(wanted, JsonFormat):
        text["format"] = {"type": "json_object"}
    elif isinstance(wanted, SchemaFormat) and wanted.strength != "none":
        form = {"type": "json_schema", "name": wanted.name, "schema": dict(wanted.schema), "strict": wanted.strict}
        text["format"] = form if wanted.description is None else {**form, "description": wanted.description}
    elif not isinstance(wanted, TextFormat | SchemaFormat):
        raise not_for("response_format", PROVIDER)
    return {"text": text} if text else {}


def _rest(request: GenerationRequest) -> ProviderJson:
    wire: ProviderJson = {}
    if request.user is not None:
        older = _OLDER_USER.search(request.written) is not None and b'"safety_identifier"' not in request.written
        wire["user" if older else "safety_identifier"] = request.user
    if request.cache_key is not None:
        wire["prompt_cache_key"] = request.cache_key
    if request.service_tier is not None:
        wire["service_tier"] = request.service_tier
    return wire


# --------------------------------------------------------------------------------------------------------------- tools


def _tool(tool: object, names: SentNames, losses: Losses, at: str) -> ProviderJson:
    if not isinstance(tool, FunctionTool | CustomTool):
        raise not_for(at, PROVIDER, "it is not run here")
    FIELDS.check(tool, at)
    if tool.cache is not None:
        losses.note("cache", "the provider's own, without marks")
    if isinstance(tool, CustomTool):
        wire: ProviderJson = {"type": "custom", "name": tool.name}
        if tool.description:
            wire["description"] = tool.description
        if tool.grammar is not None:
            wire["format"] = {"type": "grammar", "syntax": tool.syntax, "definition": tool.grammar}
        return wire
    wire = {"type": "function", "name": names.wire(tool.name, tool.namespace)}
    described = tool.description or ""
    if tool.examples:
        losses.note("tool_examples", "in the description")
        examples = "\n".join(msgspec.json.encode(each).decode() for each in tool.examples)
        described = f"{described}\nExamples of arguments:\n{examples}".strip()
    if described:
        wire["description"] = described
    schema = dict(tool.parameters or {})
    wire["parameters"] = schema or {"type": "object", "properties": {}}
    wire["strict"] = bool(tool.strict)
    return wire


def _choice(choice: ToolChoice, names: SentNames) -> ProviderJson:
    FIELDS.check(choice, "tool_choice")
    wire: ProviderJson = {} if choice.parallel is None else {"parallel_tool_calls": choice.parallel}
    if not choice.names:
        return wire if choice.mode == "auto" else {**wire, "tool_choice": choice.mode}
    named = [_named(key, names) for key in choice.names]
    if choice.mode == "required" and len(named) == 1:
        return {**wire, "tool_choice": named[0]}
    return {**wire, "tool_choice": {"type": "allowed_tools", "mode": choice.mode, "tools": named}}


def _named(key: ToolKey, names: SentNames) -> ProviderJson:
    name = key.name if key.kind == "custom" else names.wire(key.name, key.namespace)
    return {"type": key.kind, "name": name}

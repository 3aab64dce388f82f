"""A `GenerationRequest` as the body of a Chat Completions request.

Decides how each field is written; one that the API cannot carry is refused by its path (`fields`). The inverse of
`apis.chat.decode.decode_chat`, which a property test checks. Pure. Above: engine. Below: messages, fields, as_written, the
vocabulary.
Whether the server takes the fields that engines add to OpenAI's is an argument.
"""

from smg_core.engines.openai.as_written import as_written
from smg_core.engines.openai.fields import ServerFields, ServerWords, Wire, refuse_unwritten, unsupported
from smg_core.engines.openai.messages import write_messages
from smg_core.request import (
    EFFORT_TOKENS,
    ChoiceFormat,
    CustomTool,
    FunctionTool,
    GenerationRequest,
    GrammarFormat,
    HostedTool,
    JsonFormat,
    ReasoningSettings,
    RegexFormat,
    ResponseFormat,
    Sampling,
    SchemaFormat,
    StructuralTagFormat,
    TextFormat,
    Tool,
    ToolChoice,
    ToolKey,
)

__all__ = ["write_body"]

_PLAIN_SAMPLING = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "seed")
_EXTRA_SAMPLING = ("min_tokens", "top_k", "min_p", "repetition_penalty")
_SWITCHES = (
    # our field, what it is when nothing was said, the wire's word
    ("include_stop", False, "include_stop_str_in_output"),
    ("ignore_eos", False, "ignore_eos"),
    ("skip_special_tokens", True, "skip_special_tokens"),
)

_WORDS = ServerWords()


def write_body(
    request: GenerationRequest, *, model: str = "", extras: bool = True, words: ServerWords = _WORDS
) -> bytes:
    """The JSON body. `model` is the server's own name for the model, where it differs from the request's; `extras` says
    whether the server takes the fields that engines add to OpenAI's, `words` what it reads where servers differ. What the client
    wrote in the same words keeps its bytes. Raises `UnsupportedParameter` naming the field."""
    server = ServerFields(extras, words)
    refuse_unwritten(request, "")
    if request.prompt is not None:
        raise unsupported("prompt")
    body: Wire = {
        "model": model or request.model,
        "messages": write_messages(request.messages, server),
        "stream": True,
        "stream_options": {"include_usage": True},
        **_sampling(request.sampling, server),
        **dict.fromkeys(_bounds(request, server), request.sampling.max_tokens),
        **_reasoning(request, server),
        **_template(request, server),
        **_response_format(request.response_format, server),
        **_rest(request, server),
    }
    if request.tools:
        body["tools"] = [_tool(tool, f"tools[{order}]") for order, tool in enumerate(request.tools)]
    body |= _tool_choice(request.tool_choice, request.tools)
    for name, value in request.extra.items():
        # A field within another cannot be put back by its path: what stood beside it may have been read as something else.
        if name in body or "." in name or "[" in name:
            raise unsupported(f"extra.{name}")
        body[name] = value
    of_chat = request.origin is None or request.origin.api == "chat"
    return as_written(body, request.written if of_chat else b"")


# ------------------------------------------------------------------------------------------------------------ settings


def _sampling(sampling: Sampling, server: ServerFields) -> Wire:
    refuse_unwritten(sampling, "sampling")
    wire = {name: value for name in _PLAIN_SAMPLING if (value := getattr(sampling, name)) is not None}
    for name in _EXTRA_SAMPLING:
        if (value := getattr(sampling, name)) is not None:
            server.needs_extras(f"sampling.{name}")
            wire[name] = value
    for name, default, word in _SWITCHES:
        if (value := getattr(sampling, name)) != default:
            server.needs_extras(f"sampling.{name}")
            wire[word] = value
    if sampling.stop:
        wire["stop"] = list(sampling.stop)
    if sampling.stop_token_ids:
        server.needs_extras("sampling.stop_token_ids")
        wire["stop_token_ids"] = list(sampling.stop_token_ids)
    if sampling.logit_bias is not None:
        wire["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias.items()}
    if sampling.n != 1:
        wire["n"] = sampling.n
    if sampling.logprobs is not None:
        wire["logprobs"] = True
        if sampling.logprobs:
            wire["top_logprobs"] = sampling.logprobs
    return wire


def _bounds(request: GenerationRequest, server: ServerFields) -> tuple[str, ...]:
    """The names under which the bound on tokens is written. OpenAI's newer models take the new name only, some engines (Ollama,
    older ones of llama.cpp) the old one only: without it they would generate without a bound."""
    if request.sampling.max_tokens is None:
        return ()
    named = request.origin.bounds if request.origin is not None else ()
    if not server.extras:
        return named or ("max_completion_tokens",)
    return named if "max_tokens" in named else (*named, "max_tokens")


def _reasoning(request: GenerationRequest, server: ServerFields) -> Wire:
    reasoning = request.reasoning
    refuse_unwritten(reasoning, "reasoning")
    if not server.extras and request.origin is not None and request.origin.api != "chat":
        effort = _effort(reasoning)
        return {} if effort is None else {"reasoning_effort": effort}
    wire: Wire = {}
    if reasoning.effort is not None:
        wire["reasoning_effort"] = reasoning.effort
    if reasoning.enabled is not None:
        server.needs_extras("reasoning.enabled")
        wire["enable_thinking"] = reasoning.enabled
    if reasoning.budget_tokens is not None and reasoning.budget_tokens >= 0:  # below: no bound, as without the word
        server.needs_extras("reasoning.budget_tokens")
        wire["thinking_token_budget"] = reasoning.budget_tokens
    return wire


def _effort(reasoning: ReasoningSettings) -> str | None:
    """The one word that OpenAI's own API has for how much a model reasons; None leaves it to the model. APIs that have a switch
    and a budget mean them as a guide, so the nearest word will do; the same fields of Chat are refused."""
    if reasoning.enabled is False:
        return "none"
    if reasoning.effort is not None or reasoning.adaptive:
        return reasoning.effort
    budget = reasoning.budget_tokens
    if budget is None or budget < 0:
        return "medium" if reasoning.enabled else None
    return [word for word, least in EFFORT_TOKENS.items() if least <= budget or word == "minimal"][-1]


def _template(request: GenerationRequest, server: ServerFields) -> Wire:
    """Fields for the server's chat template."""
    wire: Wire = {}
    if arguments := dict(request.template_arguments):
        server.needs_extras(f"template_arguments.{next(iter(arguments))}")
        wire["chat_template_kwargs"] = arguments
    if request.template is not None:
        server.needs_extras("template")
        wire["chat_template"] = request.template
    if request.documents:
        server.needs_extras("documents")
        wire["documents"] = [dict(document) for document in request.documents]
    if request.continue_final_message:
        server.needs_extras("continue_final_message")
        # Servers open a new turn unless told not to, and refuse to do both.
        wire |= {"continue_final_message": True, "add_generation_prompt": False}
    elif not request.add_generation_prompt:
        server.needs_extras("add_generation_prompt")
        wire["add_generation_prompt"] = False
    return wire


def _rest(request: GenerationRequest, server: ServerFields) -> Wire:
    wire: Wire = {}
    if request.user is not None:
        wire["user"] = request.user
    if request.cache_key is not None:
        wire["prompt_cache_key"] = request.cache_key
    if request.cache_salt is not None:
        server.needs_extras("cache_salt")
        wire["cache_salt"] = request.cache_salt
    if request.priority:
        server.needs_extras("priority")
        wire["priority"] = request.priority
    if request.service_tier is not None:
        wire["service_tier"] = request.service_tier
    if request.verbosity is not None:
        wire["verbosity"] = request.verbosity
    if request.metadata:
        wire["metadata"] = dict(request.metadata)
    return wire


# --------------------------------------------------------------------------------------------------------------- tools


def _tool(tool: Tool, at: str) -> Wire:
    if isinstance(tool, HostedTool):
        raise unsupported(at)
    refuse_unwritten(tool, at)
    wire: Wire = {"name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    if isinstance(tool, CustomTool):
        return {"type": "custom", "custom": wire | _custom_format(tool, at)}
    if tool.parameters is not None:
        wire["parameters"] = dict(tool.parameters)
    if tool.strict is not None:
        wire["strict"] = tool.strict
    return {"type": "function", "function": wire}


def _custom_format(tool: CustomTool, at: str) -> Wire:
    if (tool.syntax is None) != (tool.grammar is None):
        raise unsupported(f"{at}.grammar")
    if tool.syntax is None:
        return {}
    grammar = {"definition": tool.grammar, "syntax": tool.syntax}
    return {"format": {"type": "grammar", "grammar": grammar}}


def _tool_choice(choice: ToolChoice, tools: tuple[Tool, ...]) -> Wire:
    refuse_unwritten(choice, "tool_choice")
    wire: Wire = {} if choice.parallel is None else {"parallel_tool_calls": choice.parallel}
    if not choice.names:
        return wire if choice.mode == "auto" else wire | {"tool_choice": choice.mode}
    if choice.mode == "none":
        raise unsupported("tool_choice.names")
    named = [_named(key, tools, f"tool_choice.names[{order}]") for order, key in enumerate(choice.names)]
    if choice.mode == "required" and len(named) == 1:
        return wire | {"tool_choice": named[0]}
    allowed = {"mode": choice.mode, "tools": named}
    return wire | {"tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}}


def _named(key: ToolKey, tools: tuple[Tool, ...], at: str) -> Wire:
    if not any(isinstance(tool, FunctionTool | CustomTool) and tool.key == key for tool in tools):
        raise unsupported(at)
    return {"type": key.kind, key.kind: {"name": key.name}}


# --------------------------------------------------------------------------------------------------- response formats


def _response_format(wanted: ResponseFormat, server: ServerFields) -> Wire:
    match wanted:
        case TextFormat():
            return {}
        case JsonFormat():
            return {"response_format": {"type": "json_object"}}
        case SchemaFormat():
            return {"response_format": {"type": "json_schema", "json_schema": _schema(wanted)}}
    server.needs_extras("response_format")
    match wanted:
        case RegexFormat():
            constraint: Wire = {"regex": wanted.pattern}
        case GrammarFormat():
            constraint = {"grammar": wanted.grammar}
        case ChoiceFormat():
            constraint = {"choice": list(wanted.choices)}
        case StructuralTagFormat():
            constraint = {"structural_tag": wanted.tag}
    return {"structured_outputs": constraint}


def _schema(wanted: SchemaFormat) -> Wire:
    refuse_unwritten(wanted, "response_format")
    wire: Wire = {"name": wanted.name, "schema": dict(wanted.schema), "strict": wanted.strict}
    if wanted.description is not None:
        wire["description"] = wanted.description
    return wire

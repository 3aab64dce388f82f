"""A Chat Completions request: bytes in, one `ChatRequest` out, or one error that names the parameter at fault.

Decides what every documented parameter, and every field that engines add, becomes in a `GenerationRequest`, and which are
refused because nothing behind this API can honour them (`audio`, `prediction`, ...). Nothing is
dropped: a field is in the `GenerationRequest`, in the `ChatRequest` for the encoders, or the request is refused.

Above: the server. Below: the wire types and their readers, request. It knows no model, engine or template; the pipeline checks
what a model can do.
"""

from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from smg_core.apis.chat.built_in import read_web_options
from smg_core.apis.chat.mcp import MessagesWithCalls, has_calls, read_with_calls
from smg_core.apis.chat.messages import read_messages
from smg_core.apis.chat.paths import chat_field
from smg_core.apis.chat.tools import read_response_format, read_tool_choice, read_tools
from smg_core.apis.chat.types import SUPPORTED_VALUES, ChatBody
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import Json
from smg_core.origin import KEEPS_BUDGET, TELLS_BUDGET, Origin
from smg_core.request import AskedCall, GenerationRequest, HostedTool, ReasoningSettings, Sampling, Tool
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder, check_depth, too_many
from smg_core.wire.fields import read_metadata, read_template_arguments
from smg_core.wire.sampling import read_sampling
from smg_core.wire.settings import LimitsConfig

__all__ = ["ChatRequest", "decode_chat"]

_DECODER = WireDecoder(ChatBody, SUPPORTED_VALUES, shaped=("messages",))
_USUAL_NAMES: Mapping[str, str] = MappingProxyType({})
_NEW_NAMES: Mapping[str, str] = MappingProxyType({"sampling.max_tokens": "max_completion_tokens"})
_DEFAULT_REASONING = ReasoningSettings()
ORIGIN = Origin("chat", traits=frozenset({KEEPS_BUDGET, TELLS_BUDGET}))
_BOUNDED = {
    # By whether the newer and whether the older name is there.
    (False, False): ORIGIN,
    (False, True): replace(ORIGIN, bounds=("max_tokens",)),
    (True, False): replace(ORIGIN, bounds=("max_completion_tokens",)),
    (True, True): replace(ORIGIN, bounds=("max_completion_tokens", "max_tokens")),
}
_COUNTS = "stream_options.continuous_usage_stats"
_UNSUPPORTED = ("audio", "moderation", "prediction", "prompt_logprobs")
_SUPPORTED_AT_ONE_VALUE: tuple[tuple[str, object], ...] = (
    ("store", False),
    ("priority", 0),
    ("modalities", ["text"]),
    ("separate_reasoning", True),
    ("stream_reasoning", True),
)
_read_refusable = attrgetter(
    *_UNSUPPORTED,
    *(name for name, _ in _SUPPORTED_AT_ONE_VALUE),
    "chat_template",
    "prompt_cache_options",
    "stream_options",
)
_NOTHING_REFUSABLE = _read_refusable(ChatBody(model="", messages=[]))
_read_tools = attrgetter("tools", "functions", "web_search_options")
_NONE_READ = _read_tools(ChatBody(model="", messages=[]))
_NO_TOOLS: tuple[tuple[Tool, ...], tuple[str, ...]] = ((), ())


class ChatRequest(Struct, frozen=True):
    """One decoded request: what to generate, and what only the encoders of the answer need.

    `include_usage` puts a usage chunk at the end of a stream, `counts` the usage so far into each chunk. `hides_ids`: token
    ids are asked for to be counted, and not told. `obfuscate` pads stream chunks so that their sizes
    reveal little about the text. `legacy_functions` answers with the older `function_call`. `include_reasoning` False hides the
    model's reasoning from the client. `written` maps a path in `GenerationRequest` to the field that the client used, where
    the API has several names for it. `approved` are calls of tools that run here which the user agrees to, `refused`
    those that the user does not agree to; `places` as in `MessagesWithCalls`, empty where the messages are those of the body.
    `not_offered` are the built-in tools that the model is not offered; `cites`: it is offered some whose results it cites.
    """

    generation: GenerationRequest
    include_usage: bool = False
    obfuscate: bool = False
    legacy_functions: bool = False
    include_reasoning: bool = True
    written: Mapping[str, str] = _USUAL_NAMES
    approved: tuple[AskedCall, ...] = ()
    refused: tuple[AskedCall, ...] = ()
    places: tuple[tuple[int, str], ...] = ()
    counts: bool = False
    hides_ids: bool = False
    not_offered: tuple[str, ...] = ()
    cites: bool = False

    def locate(self, path: str) -> str:
        """The field of the body that `path` in `generation` was read from."""
        return chat_field(path, self.generation, self.written, self.places, legacy=self.legacy_functions)


def decode_chat(incoming: Incoming) -> ChatRequest:
    """Decode the body of `incoming`, with its id, headers and caller. Raises `PayloadTooLarge`, `InvalidJson`,
    `UnsupportedParameter` or `InvalidRequest`; their param is a field of the body."""
    limits = incoming.limits
    wire = _DECODER.decode(incoming.body, limits, incoming.compat)
    if _read_refusable(wire) != _NOTHING_REFUSABLE:
        _refuse_unsupported(wire)
    if len(wire.messages) > limits.messages:
        raise too_many("messages", len(wire.messages), limits.messages, "messages")
    tools, left = _NO_TOOLS if _read_tools(wire) == _NONE_READ else _tools(wire, incoming)
    conversation = _messages(wire, limits, tools, incoming.hosted)
    continues = wire.continue_final_message is True
    if continues and wire.add_generation_prompt:
        raise _both_ends()
    stream = wire.stream is True
    options = wire.stream_options
    counts = options is not None and options.continuous_usage_stats is True
    generation = GenerationRequest(
        id=incoming.request_id,
        model=wire.model,
        messages=conversation.messages,
        tools=tools,
        tool_choice=read_tool_choice(wire, tools),
        response_format=read_response_format(wire, limits, len(incoming.body)),
        sampling=_sampling(wire, limits, counts=counts),
        reasoning=_reasoning(wire),
        stream=stream,
        template_arguments=read_template_arguments(wire.chat_template_kwargs, wire.verbosity, limits),
        documents=_documents(wire, limits) if wire.documents else (),
        add_generation_prompt=not continues and wire.add_generation_prompt is not False,
        continue_final_message=continues,
        user=wire.safety_identifier or wire.user or None,
        cache_key=wire.prompt_cache_key,
        cache_salt=wire.cache_salt,
        service_tier=wire.service_tier,
        metadata=read_metadata(wire.metadata, limits) if wire.metadata else {},
        headers=incoming.headers,
        origin=_BOUNDED[wire.max_completion_tokens is not None, wire.max_tokens is not None],
        caller=incoming.caller,
        size=len(incoming.body),
        written=incoming.kept_body,
    )
    if options is not None and not stream:
        raise _not_streamed()
    return ChatRequest(
        generation,
        include_usage=options is not None and options.include_usage is True,
        obfuscate=options is not None and options.include_obfuscation is True,
        legacy_functions=bool(wire.functions),
        include_reasoning=wire.include_reasoning is not False,
        written=_names(wire, counts=counts),
        approved=conversation.approved,
        refused=conversation.refused,
        places=conversation.places,
        counts=counts,
        hides_ids=counts and not wire.return_token_ids,
        not_offered=left,
        cites=bool(tools) and any(isinstance(tool, HostedTool) and bool(tool.config.get("built_in")) for tool in tools),
    )


def _tools(wire: ChatBody, incoming: Incoming) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """The tools, with the search of the web that the body asks for, and the names of those built in that cannot be had."""
    hosted, left = incoming.hosted, list[str]()
    named = wire.tools is not None or wire.functions is not None
    tools = read_tools(wire, incoming.limits, len(incoming.body), hosted) if named else ()
    if wire.tools and len(tools) < len(wire.tools):
        left.append("file_search")
    if wire.web_search_options is not None:
        search = read_web_options(wire.web_search_options, hosted)
        tools = tools if search is None else (*tools, search)
        left += ["web_search_options"] if search is None else []
    if wire.return_token_ids and any(isinstance(tool, HostedTool) for tool in tools):
        raise _unsupported(
            "return_token_ids", " together with tools that run here: their turns have prompts of their own"
        )
    return tools, tuple(left)


def _both_ends() -> InvalidRequest:
    return InvalidRequest(
        "Only one of 'continue_final_message' and 'add_generation_prompt' can be true.", param="continue_final_message"
    )


def _not_streamed() -> InvalidRequest:
    return InvalidRequest(
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
    )


def _names(wire: ChatBody, *, counts: bool) -> Mapping[str, str]:
    """The fields that the client used for what has several names."""
    names = _USUAL_NAMES if wire.max_completion_tokens is None else _NEW_NAMES
    return {**names, "sampling.token_ids": _COUNTS} if counts and not wire.return_token_ids else names


def _messages(
    wire: ChatBody, limits: LimitsConfig, tools: tuple[Tool, ...], hosted: frozenset[str]
) -> MessagesWithCalls:
    if "mcp" not in hosted or not has_calls(wire.messages):
        return MessagesWithCalls(read_messages(wire.messages, limits))
    labels = frozenset([str(tool.config["label"]) for tool in tools if isinstance(tool, HostedTool)])
    return read_with_calls(wire.messages, limits, labels)


# ------------------------------------------------------------------------------------------------------------ refusals


def _refuse_unsupported(wire: ChatBody) -> None:
    """Refuse parameters that nothing behind this API can honour."""
    for name in _UNSUPPORTED:
        if getattr(wire, name) is not None:
            raise _unsupported(name)
    for name, plain in _SUPPORTED_AT_ONE_VALUE:
        if getattr(wire, name) not in (None, plain):
            raise _unsupported(name, f" with anything but {msgspec.json.encode(plain).decode()}")
    if wire.chat_template is not None:
        raise _unsupported("chat_template", ": templates from requests are turned off")
    if (options := wire.prompt_cache_options) is not None:
        if options.mode == "explicit":
            raise _unsupported("prompt_cache_options.mode", " with the value 'explicit': prefixes are always cached")
        if options.ttl is not None:
            raise _unsupported("prompt_cache_options.ttl", ": engines evict as they need to")


def _unsupported(param: str, how: str = "") -> UnsupportedParameter:
    return UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported on this server{how}.", param=param)


# ------------------------------------------------------------------------------------------------------------ sampling


def _sampling(wire: ChatBody, limits: LimitsConfig, *, counts: bool) -> Sampling:
    logprobs = _logprobs(wire, limits) if wire.logprobs or wire.top_logprobs else None
    sampling = read_sampling(wire, limits, max_tokens=_max_tokens(wire), logprobs=logprobs)
    return msgspec.structs.replace(sampling, token_ids=True) if wire.return_token_ids or counts else sampling


def _max_tokens(wire: ChatBody) -> int | None:
    new, old = wire.max_completion_tokens, wire.max_tokens
    if new is not None and old is not None and new != old:
        raise InvalidRequest(
            "Setting 'max_tokens' and 'max_completion_tokens' to different values is not supported.",
            param="max_tokens",
        )
    return old if new is None else new


def _logprobs(wire: ChatBody, limits: LimitsConfig) -> int | None:
    """How many alternatives to report for each token; None: no log probabilities."""
    top = wire.top_logprobs
    if not wire.logprobs:
        if top:
            raise InvalidRequest("'top_logprobs' is only allowed when 'logprobs' is true.", param="top_logprobs")
        return None
    if top is not None and top > limits.logprobs:
        raise InvalidRequest(
            f"Invalid 'top_logprobs': expected a value <= {limits.logprobs}, but got {top} instead.",
            param="top_logprobs",
            code="integer_above_max_value",
        )
    return top or 0


# ------------------------------------------------------------------------------------------------- reasoning, template


def _reasoning(wire: ChatBody) -> ReasoningSettings:
    switch = wire.thinking
    enabled = wire.enable_thinking if switch is None else switch.type == "enabled"
    budget = switch.budget_tokens if switch is not None else None
    if budget is None:
        budget = wire.thinking_budget if wire.thinking_token_budget is None else wire.thinking_token_budget
    if wire.reasoning_effort is None and enabled is None and budget is None:
        return _DEFAULT_REASONING
    return ReasoningSettings(effort=wire.reasoning_effort, budget_tokens=budget, enabled=enabled)


def _documents(wire: ChatBody, limits: LimitsConfig) -> tuple[Mapping[str, Json], ...]:
    documents = wire.documents or []
    if len(documents) > limits.documents:
        raise too_many("documents", len(documents), limits.documents, "documents")
    check_depth(documents, limits.json_depth, "documents")
    return tuple(documents)

"""A generateContent request: bytes in, one `GeminiRequest` out, or one error that names the field at fault.

The model stands in the path, and whether the answer is streamed too. Every documented field is honoured or refused by name;
safety settings, labels and what only concerns Google's own servers (service tier, logging) are taken and change nothing. Pure.
Above: the server. Below: the wire types and their readers, request.
"""

from collections.abc import Mapping

from msgspec import Struct

from smg_core.apis.gemini.contents import GeminiConversation, read_contents
from smg_core.apis.gemini.models import model_of_path
from smg_core.apis.gemini.tools import (
    ReadTools,
    read_function_choice,
    read_functions,
    read_mime_format,
    schema_field,
)
from smg_core.apis.gemini.types import CountContentBody, GenerateBody, GenerationConfig, ThinkingConfig
from smg_core.apis.google.places import part_place, tool_place
from smg_core.apis.google.proto_json import ProtoJsonDecoder
from smg_core.errors import InvalidRequest, NotFound, UnsupportedParameter
from smg_core.origin import KEEPS_BUDGET, Origin
from smg_core.request import GenerationRequest, JsonFormat, ReasoningSettings, Sampling
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import too_many
from smg_core.wire.fields import read_own_fields
from smg_core.wire.sampling import most_choices, read_stop, read_top_k, read_top_p
from smg_core.wire.settings import LimitsConfig

__all__ = ["GeminiRequest", "decode_count", "decode_generate", "decode_stream_generate"]

_DECODER = ProtoJsonDecoder(GenerateBody)
_COUNT_DECODER = ProtoJsonDecoder(CountContentBody)
ORIGIN = Origin("generate_content", traits=frozenset({KEEPS_BUDGET}), seals="gemini.thought")
_NO_CONFIG = GenerationConfig()
_NO_TOOLS = ReadTools()
_OWN = {"safety_settings": "safetySettings", "labels": "labels", "service_tier": "serviceTier"}
_UNSUPPORTED = ("speech_config", "image_config", "audio_transcription_config", "audio_timestamp")


class GeminiRequest(Struct, frozen=True):
    """One decoded request. `array`: a stream is one JSON array and no server-sent events. `places` has the field of the body for
    each part of each message, `tool_places` for each tool, `schema_place` that of the answer's schema. `shows_tools`: the answer
    has the calls of tools that run here in it. `not_offered` are the kinds of tools that the model is not
    offered. `grounds`: the answer tells what it is grounded in."""

    generation: GenerationRequest
    array: bool = False
    places: tuple[tuple[str, ...], ...] = ()
    tool_places: tuple[str, ...] = ()
    schema_place: str = "generationConfig.responseSchema"
    shows_tools: bool = False
    not_offered: tuple[str, ...] = ()
    grounds: bool = False

    @property
    def shows_thoughts(self) -> bool:
        """Whether the answer has the model's thoughts in it."""
        return self.generation.reasoning.visible == "text"

    def locate(self, path: str) -> str:
        """The field of the body that `path` in `generation` was read from."""
        known = _FIELDS.get(path)
        if known is not None:
            return known
        root, _, rest = path.partition(".")
        if root == "response_format":
            names_none = isinstance(self.generation.response_format, JsonFormat)
            return "generationConfig.responseMimeType" if names_none else self.schema_place
        if root == "sampling":
            return f"generationConfig.{rest}"
        if root.startswith("messages["):
            return part_place(path, self.places, "contents")
        tool = tool_place(path, self.tool_places)
        return tool or _ROOTS.get(root, rest if root == "headers" else path)


_FIELDS: Mapping[str, str] = {
    "sampling.max_tokens": "generationConfig.maxOutputTokens",
    "sampling.n": "generationConfig.candidateCount",
    "sampling.top_p": "generationConfig.topP",
    "sampling.top_k": "generationConfig.topK",
    "sampling.stop": "generationConfig.stopSequences",
    "sampling.frequency_penalty": "generationConfig.frequencyPenalty",
    "sampling.presence_penalty": "generationConfig.presencePenalty",
    "reasoning.budget_tokens": "generationConfig.thinkingConfig.thinkingBudget",
    "reasoning.enabled": "generationConfig.thinkingConfig.thinkingBudget",
    "reasoning.effort": "generationConfig.thinkingConfig.thinkingLevel",
    "reasoning.visible": "generationConfig.thinkingConfig.includeThoughts",
}
"""Paths whose fields have another name in this API."""
_ROOTS: Mapping[str, str] = {
    "messages": "contents",
    "prompt": "contents",
    "tools": "tools",
    "tool_choice": "toolConfig.functionCallingConfig",
    "reasoning": "generationConfig.thinkingConfig",
}


def decode_generate(incoming: Incoming) -> GeminiRequest:
    """The request of generateContent. Raises `PayloadTooLarge`, `InvalidJson`, `NotFound`, `UnsupportedParameter` or
    `InvalidRequest`; their param is a field of the body."""
    return _decoded(_DECODER.decode(incoming.body, incoming.limits, incoming.compat), incoming, stream=False)


def decode_stream_generate(incoming: Incoming) -> GeminiRequest:
    """The request of streamGenerateContent, whose answer is server-sent events where the query says `alt=sse`."""
    return _decoded(_DECODER.decode(incoming.body, incoming.limits, incoming.compat), incoming, stream=True)


def decode_count(incoming: Incoming) -> GeminiRequest:
    """The request of countTokens: that whose prompt is to be counted."""
    wire = _COUNT_DECODER.decode(incoming.body, incoming.limits, incoming.compat)
    inner = wire.generate_content_request
    if inner is not None and wire.contents:
        raise InvalidRequest(
            "Invalid value at 'generateContentRequest': only one of contents and generateContentRequest may be set.",
            param="generateContentRequest",
        )
    if inner is None:
        inner = GenerateBody(
            contents=wire.contents,
            system_instruction=wire.system_instruction,
            generation_config=wire.generation_config,
            tools=wire.tools,
            model=wire.model,
        )
    return _decoded(inner, incoming, stream=False)


def _decoded(wire: GenerateBody, incoming: Incoming, *, stream: bool) -> GeminiRequest:
    limits, config = incoming.limits, wire.generation_config or _NO_CONFIG
    size = len(incoming.body)
    model = model_of_path(incoming.path_values)
    alt = incoming.query.get("alt", ("",))[-1]
    _refuse_unsupported(wire, config, model)
    conversation = _contents(wire, limits)
    offered = read_functions(wire.tools, wire.tool_config, limits, size, incoming.hosted) if wire.tools else _NO_TOOLS
    generation = GenerationRequest(
        id=incoming.request_id,
        written=incoming.kept_body,
        own_fields=read_own_fields(wire, _OWN),
        model=model,
        messages=conversation.messages,
        tools=(*offered.tools, *offered.servers),
        tool_choice=read_function_choice(wire.tool_config, offered),
        response_format=read_mime_format(config, limits, size),
        sampling=_sampling(config, limits),
        reasoning=_reasoning(config.thinking_config),
        stream=stream,
        headers=incoming.headers,
        origin=ORIGIN,
        caller=incoming.caller,
        size=size,
    )
    array = stream and alt != "sse"
    shows_tools = wire.tool_config is not None and wire.tool_config.include_server_side_tool_invocations is True
    return GeminiRequest(
        *(generation, array, conversation.places, offered.places, schema_field(config)),
        shows_tools=shows_tools,
        not_offered=offered.not_offered,
        grounds=offered.has_built_in,
    )


def _contents(wire: GenerateBody, limits: LimitsConfig) -> GeminiConversation:
    contents = wire.contents or []
    if not contents:
        raise InvalidRequest("* GenerateContentRequest.contents: contents is not specified\n", param="contents")
    if len(contents) > limits.messages:
        raise too_many("contents", len(contents), limits.messages, "contents")
    found = read_contents(contents, wire.system_instruction, limits)
    if all(message.role == "system" for message in found.messages):
        raise InvalidRequest("* GenerateContentRequest.contents: contents is not specified\n", param="contents")
    return found


def _refuse_unsupported(wire: GenerateBody, config: GenerationConfig, model: str) -> None:
    if wire.cached_content is not None:
        raise NotFound(f"CachedContent not found: {wire.cached_content[:80]}", param="cachedContent")
    if wire.continuation_token is not None:
        raise _unsupported("continuationToken")
    if wire.model is not None and wire.model.removeprefix("models/") != model:
        raise InvalidRequest("Invalid value at 'model': it is not the model of the path.", param="model")
    for name in _UNSUPPORTED:
        if getattr(config, name) not in (None, False):
            raise _unsupported(f"generationConfig.{_camel(name)}")
    for place, modality in enumerate(config.response_modalities or ()):
        if modality not in ("TEXT", "MODALITY_UNSPECIFIED"):
            raise _unsupported(f"generationConfig.responseModalities[{place}]")


def _camel(name: str) -> str:
    return GenerationConfig.__struct_encode_fields__[GenerationConfig.__struct_fields__.index(name)]


def _sampling(config: GenerationConfig, limits: LimitsConfig) -> Sampling:
    at = "generationConfig"
    logprobs = config.logprobs
    if logprobs is not None and not config.response_logprobs:
        raise InvalidRequest(
            f"Invalid value at '{at}.logprobs': it may be set only when responseLogprobs is true.",
            param=f"{at}.logprobs",
        )
    if logprobs is not None and logprobs > limits.logprobs:
        raise InvalidRequest(
            f"Invalid value at '{at}.logprobs': at most {limits.logprobs} are given.", param=f"{at}.logprobs"
        )
    top_k = None if config.top_k is None else int(config.top_k)
    if top_k != config.top_k:
        raise InvalidRequest(f"Invalid value at '{at}.topK': it must be a whole number.", param=f"{at}.topK")
    return Sampling(
        max_tokens=config.max_output_tokens,
        temperature=config.temperature,
        top_p=read_top_p(config.top_p),
        top_k=read_top_k(top_k),
        frequency_penalty=config.frequency_penalty,
        presence_penalty=config.presence_penalty,
        seed=config.seed,
        stop=read_stop(config.stop_sequences, limits, f"{at}.stopSequences") if config.stop_sequences else (),
        n=most_choices(config.candidate_count or 1, limits, f"{at}.candidateCount"),
        logprobs=(logprobs or 0) if config.response_logprobs else None,
    )


def _reasoning(config: ThinkingConfig | None) -> ReasoningSettings:
    if config is None:
        return ReasoningSettings(visible="none")
    level = config.thinking_level
    if level == "THINKING_LEVEL_UNSPECIFIED":
        level = None
    budget = config.thinking_budget
    if level is not None and budget is not None:
        at = "generationConfig.thinkingConfig.thinkingLevel"
        raise InvalidRequest(
            f"Invalid value at '{at}': only one of thinkingBudget and thinkingLevel may be set.", param=at
        )
    return ReasoningSettings(
        effort=None if level is None else level.lower(),
        budget_tokens=budget if budget is not None and budget > 0 else None,
        enabled=False if budget == 0 else None,
        visible="text" if config.include_thoughts else "none",
    )


def _unsupported(at: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"Invalid value at '{at}': it is not supported on this server.", param=at)

"""The body of a Chat Completions request as msgspec types.

Names, types and fixed ranges only, from OpenAI's API reference and from what vLLM and SGLang add to it. `chat` decides what a
field means and which values are refused because nothing here can honour them; bounds that a deployment sets are checked there
too. Every Struct refuses fields that it does not have.

None means absent or null, which the API treats alike. Above: chat and its readers. Below: msgspec.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from smg_core.apis.responses.wire.built_in import FileRanking
from smg_core.json_types import Json, JsonObject
from smg_core.wire.mcp_types import McpApproval, McpToolFilter
from smg_core.wire.scalars import (
    Bias,
    CacheBreakpoint,
    Count,
    Effort,
    Fraction,
    Label,
    ModelName,
    Name,
    Penalty,
    Positive,
    Seed,
    Tier,
    TokenId,
)

__all__ = [
    "SUPPORTED_VALUES",
    "AllowedToolsChoice",
    "AssistantMessage",
    "AudioUrlPart",
    "ChatBody",
    "CustomChoice",
    "CustomToolWire",
    "DeveloperMessage",
    "FilePart",
    "FunctionChoice",
    "FunctionDefinition",
    "FunctionMessage",
    "FunctionName",
    "FunctionToolWire",
    "ImagePart",
    "InputAudioPart",
    "JsonObjectFormat",
    "JsonSchemaFormat",
    "LegacyCall",
    "McpApprovalRequestWire",
    "McpCallWire",
    "McpChoice",
    "McpToolWire",
    "MessageWire",
    "OpenaiBody",
    "PartWire",
    "RefusalPart",
    "ResponseFormatWire",
    "StructuralTagWire",
    "StructuredOutputs",
    "SystemMessage",
    "TextPart",
    "TextResponseFormat",
    "ThinkingPart",
    "ToolCallWire",
    "ToolMessage",
    "UserMessage",
    "VideoUrlPart",
]


class _Wire(Struct, forbid_unknown_fields=True, gc=False):
    """Base of the types without a tag."""


# ------------------------------------------------------------------------------------------------------ content parts


class CacheControl(_Wire):
    """Anthropic's form of the same, which many agents write in every API."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class _Part(Struct, forbid_unknown_fields=True, gc=False, tag_field="type"):
    """Content parts are told apart by `type`."""


class TextPart(_Part, tag="text"):
    text: str
    prompt_cache_breakpoint: CacheBreakpoint | None = None
    cache_control: CacheControl | None = None


class ImageUrl(_Wire):
    url: Annotated[str, Meta(min_length=1)]
    detail: Literal["auto", "low", "high", "original"] | None = None


class ImagePart(_Part, tag="image_url"):
    image_url: ImageUrl | Annotated[str, Meta(min_length=1)]
    prompt_cache_breakpoint: CacheBreakpoint | None = None
    cache_control: CacheControl | None = None


class MediaUrl(_Wire):
    url: Annotated[str, Meta(min_length=1)]


class VideoUrlPart(_Part, tag="video_url"):
    """Added by engines: video by URL."""

    video_url: MediaUrl


class AudioUrlPart(_Part, tag="audio_url"):
    """Added by engines: sound by URL."""

    audio_url: MediaUrl


class InputAudio(_Wire):
    data: Annotated[str, Meta(min_length=1)]
    format: Literal["wav", "mp3", "flac", "opus", "aac", "pcm16", "ogg", "m4a", "webm"]


class InputAudioPart(_Part, tag="input_audio"):
    input_audio: InputAudio
    prompt_cache_breakpoint: CacheBreakpoint | None = None
    cache_control: CacheControl | None = None


class FileObject(_Wire):
    file_data: Annotated[str, Meta(min_length=1)] | None = None
    file_id: Label | None = None
    filename: Label | None = None


class FilePart(_Part, tag="file"):
    file: FileObject
    prompt_cache_breakpoint: CacheBreakpoint | None = None
    cache_control: CacheControl | None = None


class RefusalPart(_Part, tag="refusal"):
    refusal: str


class ThinkingPart(_Part, tag="thinking"):
    """Added by engines: reasoning in the content of an assistant's message."""

    thinking: str


PartWire = TextPart | ImagePart | VideoUrlPart | AudioUrlPart | InputAudioPart | FilePart | RefusalPart | ThinkingPart
Content = str | list[PartWire]


# ----------------------------------------------------------------------------------------------------------- messages


class _Message(Struct, forbid_unknown_fields=True, gc=False, tag_field="role"):
    """Messages are told apart by `role`."""


class SystemMessage(_Message, tag="system"):
    content: Content
    name: Name | None = None


class DeveloperMessage(_Message, tag="developer"):
    content: Content
    name: Name | None = None


class UserMessage(_Message, tag="user"):
    content: Content
    name: Name | None = None


class LegacyCall(_Wire):
    """`function_call` of an assistant's message, from before there were tools."""

    name: Name
    arguments: str


class CustomCall(_Wire):
    name: Name
    input: str


class ToolCallWire(_Wire):
    """A call of an earlier turn. `index` is left over in clients that join the deltas of a stream."""

    id: Label
    type: Literal["function", "custom"] = "function"
    function: LegacyCall | None = None
    custom: CustomCall | None = None
    index: Count | None = None


class AudioReference(_Wire):
    id: str


class OpaqueBlockWire(_Wire):
    """A block that is returned byte for byte; `data` is its text, or base64 if `encoding` says so. `index` is left
    over in clients that join the deltas of a stream."""

    type: Label
    data: str
    encoding: Literal["base64"] | None = None
    index: Count | None = None


class McpCallWire(_Wire):
    """A call of a tool that ran here, as an earlier answer told it. `index` is left over in clients that join the deltas of a
    stream."""

    id: Label
    server_label: Label
    name: Name
    arguments: str = "{}"
    output: str | None = None
    error: str | None = None
    approval_request_id: Label | None = None
    index: Count | None = None


class McpApprovalRequestWire(_Wire):
    """A call that an earlier answer asked the user to approve."""

    id: Label
    server_label: Label
    name: Name
    arguments: str = "{}"
    index: Count | None = None


class AssistantMessage(_Message, tag="assistant"):
    content: Content | None = None
    name: Name | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallWire] | None = None
    function_call: LegacyCall | None = None
    audio: AudioReference | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    opaque_blocks: list[OpaqueBlockWire] | None = None
    annotations: list[Json] | None = None
    mcp_calls: list[McpCallWire] | None = None
    mcp_approval_requests: list[McpApprovalRequestWire] | None = None


class ToolMessage(_Message, tag="tool"):
    """The result of a call; with `approve`, the user's answer to the question whether a call may run."""

    content: Content
    tool_call_id: Label
    name: Name | None = None
    approve: bool | None = None


class FunctionMessage(_Message, tag="function"):
    name: Name
    content: str | None = None


MessageWire = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage


# -------------------------------------------------------------------------------------------------------------- tools


class FunctionDefinition(_Wire):
    name: Name
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class _Tool(Struct, forbid_unknown_fields=True, gc=False, tag_field="type"):
    """Tools are told apart by `type`."""


class FunctionToolWire(_Tool, tag="function"):
    function: FunctionDefinition


class PlainFormat(Struct, forbid_unknown_fields=True, gc=False, tag_field="type", tag="text"):
    """Free text."""


class GrammarDefinition(_Wire):
    definition: str
    syntax: Literal["lark", "regex"]


class CustomGrammarFormat(Struct, forbid_unknown_fields=True, gc=False, tag_field="type", tag="grammar"):
    grammar: GrammarDefinition


class CustomDefinition(_Wire):
    name: Name
    description: str | None = None
    format: PlainFormat | CustomGrammarFormat | None = None


class CustomToolWire(_Tool, tag="custom"):
    custom: CustomDefinition


class McpToolWire(_Tool, tag="mcp"):
    """A server of tools that run here: an extension, with the fields that Responses has for it."""

    server_label: Annotated[str, Meta(min_length=1, max_length=256)]
    server_url: Annotated[str, Meta(min_length=1)] | None = None
    connector_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: list[str] | McpToolFilter | None = None
    require_approval: Literal["always", "never"] | McpApproval | None = None


class FileSearchWire(_Tool, tag="file_search"):
    """A search of vector stores that runs here: an extension, with the fields that Responses has for it."""

    vector_store_ids: Annotated[list[str], Meta(max_length=8)] = []
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    filters: JsonObject | None = None
    ranking_options: FileRanking | None = None


class FunctionName(_Wire):
    name: Name


class _Choice(Struct, forbid_unknown_fields=True, gc=False, tag_field="type"):
    """Tool choices that are objects are told apart by `type`."""


class FunctionChoice(_Choice, tag="function"):
    function: FunctionName


class CustomChoice(_Choice, tag="custom"):
    custom: FunctionName


class McpChoice(_Choice, tag="mcp"):
    """A tool of a server, or without `name` any of them."""

    server_label: Label
    name: Name | None = None


class AllowedTools(_Wire):
    mode: Literal["auto", "required"]
    tools: list[FunctionChoice | CustomChoice | McpChoice]


class AllowedToolsChoice(_Choice, tag="allowed_tools"):
    allowed_tools: AllowedTools


# --------------------------------------------------------------------------------------------------- response formats


class _Format(Struct, forbid_unknown_fields=True, gc=False, tag_field="type"):
    """Response formats are told apart by `type`."""


class TextResponseFormat(_Format, tag="text"):
    """No constraint."""


class JsonObjectFormat(_Format, tag="json_object"):
    """Any JSON object."""


class JsonSchema(_Wire):
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    description: str | None = None
    schema: JsonObject | None = None
    strict: bool | None = None


class JsonSchemaFormat(_Format, tag="json_schema"):
    json_schema: JsonSchema


class StructuralTagWire(_Format, tag="structural_tag"):
    """Added by engines: xgrammar's structural tags, in its older (`structures`) or newer (`format`) form."""

    structures: list[JsonObject] | None = None
    triggers: list[str] | None = None
    format: JsonObject | None = None


ResponseFormatWire = TextResponseFormat | JsonObjectFormat | JsonSchemaFormat | StructuralTagWire


class StructuredOutputs(_Wire):
    """vLLM's constraint object; exactly one of its fields is set."""

    json: JsonObject | str | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | None = None


# ------------------------------------------------------------------------------------------------------------ the body


class StreamOptions(_Wire):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class CacheOptions(_Wire):
    mode: Literal["implicit", "explicit"] | None = None
    ttl: Literal["30m"] | None = None


class ThinkingSwitch(_Wire):
    """Added by DeepSeek and GLM: the switch for reasoning."""

    type: Literal["enabled", "disabled"]
    budget_tokens: Count | None = None


class OpenaiBody(Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """The fields that the bodies of Chat Completions and of Completions share, with the same types."""

    model: Annotated[ModelName, Meta(min_length=1)]
    frequency_penalty: Penalty | None = None
    logit_bias: dict[TokenId, Bias] | None = None
    n: Positive | None = None
    presence_penalty: Penalty | None = None
    response_format: ResponseFormatWire | None = None
    seed: Seed | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Fraction | None = None
    user: Annotated[str, Meta(max_length=512)] | None = None
    # vLLM, SGLang and the model vendors' own servers
    cache_salt: Label | None = None
    ebnf: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_json: JsonObject | str | None = None
    guided_regex: str | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    min_p: Fraction | None = None
    min_tokens: Count | None = None
    no_stop_trim: bool | None = None
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    prompt_logprobs: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    regex: str | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None = None
    return_token_ids: bool | None = None
    skip_special_tokens: bool | None = None
    stop_token_ids: list[TokenId] | None = None
    structured_outputs: StructuredOutputs | None = None
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None


class ChatBody(OpenaiBody, kw_only=True):
    """The whole body: OpenAI's parameters first, then the fields that engines add."""

    messages: Annotated[list[MessageWire], Meta(min_length=1)]
    audio: JsonObject | None = None
    function_call: Literal["none", "auto"] | FunctionName | None = None
    functions: list[FunctionDefinition] | None = None
    logprobs: bool | None = None
    max_completion_tokens: Positive | None = None
    max_tokens: Positive | None = None
    metadata: dict[str, str] | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    moderation: JsonObject | None = None
    parallel_tool_calls: bool | None = None
    prediction: JsonObject | None = None
    prompt_cache_key: Label | None = None
    prompt_cache_options: CacheOptions | None = None
    prompt_cache_retention: Literal["in_memory", "in-memory", "24h"] | None = None
    reasoning_effort: Effort | None = None
    safety_identifier: Label | None = None
    service_tier: Tier | None = None
    store: bool | None = None
    tool_choice: (
        Literal["none", "auto", "required"] | FunctionChoice | CustomChoice | AllowedToolsChoice | McpChoice | None
    ) = None
    tools: list[FunctionToolWire | CustomToolWire | McpToolWire | FileSearchWire] | None = None
    top_logprobs: Count | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    web_search_options: JsonObject | None = None
    # vLLM, SGLang and the model vendors' own servers
    add_generation_prompt: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: JsonObject | None = None
    continue_final_message: bool | None = None
    documents: list[JsonObject] | None = None
    enable_thinking: bool | None = None
    include_reasoning: bool | None = None
    separate_reasoning: bool | None = None
    stream_reasoning: bool | None = None
    thinking: ThinkingSwitch | None = None
    thinking_budget: Count | None = None
    thinking_token_budget: Count | None = None


SUPPORTED_VALUES: dict[str, tuple[str, ...]] = {
    "messages[].role": ("system", "developer", "user", "assistant", "tool", "function"),
    "messages[].content[].type": (
        "text",
        "image_url",
        "input_audio",
        "file",
        "refusal",
        "video_url",
        "audio_url",
        "thinking",
    ),
    "messages[].content[].image_url.detail": ("auto", "low", "high", "original"),
    "messages[].tool_calls[].type": ("function", "custom"),
    "tools[].type": ("function", "custom"),
    "tool_choice": ("none", "auto", "required"),
    "tool_choice.type": ("function", "custom", "allowed_tools"),
    "function_call": ("none", "auto"),
    "response_format.type": ("text", "json_object", "json_schema", "structural_tag"),
    "modalities[]": ("text", "audio"),
    "reasoning_effort": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "service_tier": ("auto", "default", "flex", "scale", "priority", "fast"),
    "prompt_cache_retention": ("in_memory", "24h"),
    "verbosity": ("low", "medium", "high"),
}

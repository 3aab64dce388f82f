"""The body of a Responses request as msgspec types.

Names, types and fixed ranges only, from OpenAI's API reference and its SDK's own types, and from what vLLM and SGLang add.
`responses` and its readers decide what a field means and which values are refused. The body itself refuses fields that it
does not have; items, their parts and tools may have further keys, since clients send items back with keys of their own: those
are kept where items are stored, and read by nobody.

None means absent or null, which the API treats alike. Above: responses and its readers. Below: msgspec.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from smg_core.json_types import Json, JsonObject
from smg_core.wire.item_ids import ItemId
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
    TokenId,
)

__all__ = [
    "SUPPORTED_VALUES",
    "AdditionalTools",
    "AllowedTools",
    "Compaction",
    "ConfigurationUpdate",
    "CustomCall",
    "CustomTool",
    "FunctionCall",
    "FunctionTool",
    "GrammarSyntax",
    "InputAudioPart",
    "InputFilePart",
    "InputImagePart",
    "ItemReference",
    "JsonSchemaText",
    "McpApprovalRequest",
    "McpApprovalResponse",
    "McpCall",
    "McpServerTool",
    "MessageItem",
    "NamedChoice",
    "NamespaceTool",
    "OutputItem",
    "ReasoningItem",
    "RefusalPart",
    "ReplayedItem",
    "ResponsesBody",
    "TextPart",
    "TextWire",
    "ToolSearchCall",
    "ToolSearchOutput",
    "ToolSearchTool",
]

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class _Item(Struct, gc=False):
    """Base of items, parts and tools. Keys that a type does not have are passed over."""


# ---------------------------------------------------------------------------------------------------------------- parts


class TextPart(_Item):
    """input_text, output_text, text, summary_text and reasoning_text."""

    text: str
    type: str | None = None
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class RefusalPart(_Item):
    refusal: str


class InputImagePart(_Item):
    image_url: Annotated[str, Meta(min_length=1)] | None = None
    file_id: Label | None = None
    detail: Literal["auto", "low", "high", "original"] | None = None
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class InputFilePart(_Item):
    file_data: Annotated[str, Meta(min_length=1)] | None = None
    file_id: Label | None = None
    file_url: Annotated[str, Meta(min_length=1)] | None = None
    filename: Label | None = None
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class InputAudio(_Item):
    data: Annotated[str, Meta(min_length=1)]
    format: Literal["wav", "mp3", "flac", "opus", "aac", "pcm16", "ogg", "m4a", "webm"]


class InputAudioPart(_Item):
    input_audio: InputAudio
    prompt_cache_breakpoint: CacheBreakpoint | None = None


# ---------------------------------------------------------------------------------------------------------------- items


class MessageItem(_Item):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[JsonObject]
    id: ItemId | None = None
    status: ItemStatus | None = None
    phase: Literal["commentary", "final_answer"] | None = None


class ReasoningItem(_Item):
    id: ItemId | None = None
    summary: list[TextPart] = []
    content: list[TextPart] | None = None
    encrypted_content: str | None = None
    status: ItemStatus | None = None


class FunctionCall(_Item):
    call_id: Label
    name: Name
    arguments: str
    namespace: Name | None = None
    id: ItemId | None = None
    status: ItemStatus | None = None


class CustomCall(_Item):
    call_id: Label
    name: Name
    input: str
    namespace: Name | None = None
    id: ItemId | None = None
    status: str | None = None


class OutputItem(_Item):
    """The output of a function's or custom tool's call."""

    call_id: Label
    output: str | list[JsonObject]
    name: Name | None = None
    id: ItemId | None = None
    status: str | None = None


class ToolSearchCall(_Item):
    arguments: Json = None
    call_id: Label | None = None
    id: ItemId | None = None
    execution: str | None = None
    status: ItemStatus | None = None


class ToolSearchOutput(_Item):
    tools: list[JsonObject]
    call_id: Label | None = None
    id: ItemId | None = None
    execution: str | None = None
    status: ItemStatus | None = None


class McpCall(_Item):
    server_label: Label
    name: str
    arguments: str
    output: str | None = None
    error: Json = None
    approval_request_id: ItemId | None = None
    id: ItemId | None = None
    status: str | None = None


class McpApprovalRequest(_Item):
    server_label: Label
    name: str
    arguments: str
    id: ItemId


class McpApprovalResponse(_Item):
    approval_request_id: ItemId
    approve: bool
    reason: str | None = None
    id: ItemId | None = None


class _Kind(_Item):
    """What is told apart by its type, and has fields of its own."""

    type: str | None = None


class _ShellResult(_Kind):
    outcome: _Kind | None = None


class ReplayedItem(_Item):
    """What items of tools that servers run have alike: replayed, they say little or nothing to the model."""

    id: ItemId | None = None
    call_id: str | None = None
    status: str | None = None
    name: str | None = None
    server_label: str | None = None
    action: str | _Kind | None = None
    operation: _Kind | None = None
    output: str | _Kind | list[_ShellResult] | None = None


class BuiltInClientTool(_Item):
    """What is read of a built-in tool that the client runs."""

    display_width: Annotated[int, Meta(ge=1, le=1 << 20)] | None = None
    display_height: Annotated[int, Meta(ge=1, le=1 << 20)] | None = None
    environment: str | JsonObject | None = None


class AdditionalTools(_Item):
    tools: list[JsonObject]
    role: str | None = None


class _ConfiguredReasoning(_Item):
    effort: Effort | None = None


class ConfigurationUpdate(_Item):
    """What holds for the generation that follows; the last one wins."""

    reasoning: _ConfiguredReasoning | None = None
    text: "TextWire | None" = None


class ItemReference(_Item):
    id: ItemId


class Compaction(_Item):
    encrypted_content: str
    id: ItemId | None = None


# ---------------------------------------------------------------------------------------------------------------- tools


class FunctionTool(_Item):
    name: Name
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None
    async_: bool | None = field(default=None, name="async")


class GrammarSyntax(_Item):
    type: Literal["text", "grammar"]
    syntax: Literal["lark", "regex"] | None = None
    definition: str | None = None


class CustomTool(_Item):
    name: Name
    description: str | None = None
    format: GrammarSyntax | None = None
    defer_loading: bool | None = None


class NamespaceTool(_Item):
    name: Name
    tools: list[JsonObject] | None = None
    description: str | None = None


class ToolSearchTool(_Item):
    execution: Literal["server", "client"] | None = None
    description: str | None = None
    parameters: JsonObject | None = None


class McpServerTool(_Item):
    """A server of tools."""

    server_label: Annotated[str, Meta(min_length=1, max_length=256)]
    server_url: Annotated[str, Meta(min_length=1)] | None = None
    connector_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: list[str] | McpToolFilter | None = None
    require_approval: Literal["always", "never"] | McpApproval | None = None
    defer_loading: bool | None = None


class NamedChoice(_Item):
    """A choice of one tool; which of the names it must have depends on its type."""

    type: str
    name: Name | None = None
    namespace: Name | None = None
    server_label: Label | None = None


class AllowedTools(_Item):
    mode: Literal["auto", "required"]
    tools: list[NamedChoice]


# ----------------------------------------------------------------------------------------------------------- the body


class _Wire(Struct, forbid_unknown_fields=True, gc=False):
    """Base of what has no keys but its own."""


class ConversationRef(_Item):
    id: ItemId


class StreamOptions(_Wire):
    """`include_usage` is Chat's: load generators send it to every API. Here the usage always comes with the last event."""

    include_obfuscation: bool | None = None
    include_usage: bool | None = None


class ReasoningWire(_Item):
    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    mode: str | None = None


class JsonSchemaText(_Item):
    """text.format of every type; the schema's fields are those of `json_schema`."""

    type: Literal["text", "json_object", "json_schema"]
    name: Annotated[str, Meta(max_length=64)] | None = None
    schema: JsonObject | None = None
    strict: bool | None = None
    description: str | None = None


class TextWire(_Item):
    format: JsonSchemaText | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ContextManagement(_Item):
    type: str
    compact_threshold: Positive | None = None


class BackgroundOptions(_Item):
    completion_window: Literal["soonest", "2h", "8h"] | None = None
    continuation_id: str | None = None


class PromptCacheOptions(_Item):
    mode: Literal["implicit", "explicit"] | None = None
    ttl: Literal["30m", "12h"] | None = None
    comparison_response_id: str | None = None
    prewarm: bool | None = None


class ImageOptions(_Item):
    context_compression: Literal["auto", "enabled", "disabled"] | None = None


class ResponsesBody(_Wire):
    """The body of POST /v1/responses; input_tokens, compact and the frames of WebSocket mode have some of its fields."""

    model: Annotated[ModelName, Meta(min_length=1)]
    input: Annotated[str, Meta(min_length=1)] | list[JsonObject] | None = None
    instructions: str | None = None
    previous_response_id: ItemId | None = None
    conversation: ItemId | ConversationRef | None = None
    store: bool | None = None
    background: bool | None = None
    background_options: BackgroundOptions | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_output_tokens: Positive | None = None
    max_tool_calls: Positive | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Fraction | None = None
    top_logprobs: Count | None = None
    parallel_tool_calls: bool | None = None
    tool_choice: Literal["none", "auto", "required"] | JsonObject | None = None
    tools: list[JsonObject] | None = None
    reasoning: ReasoningWire | None = None
    text: TextWire | None = None
    include: list[str] | None = None
    metadata: dict[str, str] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    context_management: list[ContextManagement] | None = None
    prompt: JsonObject | None = None
    prompt_cache_key: Annotated[str, Meta(max_length=512)] | None = None
    prompt_cache_retention: Literal["in_memory", "in-memory", "24h"] | None = None
    prompt_cache_options: PromptCacheOptions | None = None
    safety_identifier: Annotated[str, Meta(max_length=128)] | None = None
    user: str | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"] | None = None
    moderation: JsonObject | None = None
    access_programs: JsonObject | None = None
    image: ImageOptions | None = None
    client_metadata: JsonObject | None = None
    personality: str | None = None
    generate: bool | None = None
    # what engines add
    seed: Seed | None = None
    n: Annotated[int, Meta(ge=1, le=1)] | None = None
    include_stop_str_in_output: bool | None = None
    no_stop_trim: bool | None = None
    stop: str | list[str] | None = None
    top_k: Annotated[int, Meta(ge=-1)] | None = None
    min_p: Fraction | None = None
    min_tokens: Count | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    stop_token_ids: list[TokenId] | None = None
    logit_bias: dict[TokenId, Bias] | None = None
    chat_template_kwargs: JsonObject | None = None
    cache_salt: Annotated[str, Meta(min_length=1, max_length=512)] | None = None


SUPPORTED_VALUES: dict[str, tuple[str, ...]] = {
    "background_options.completion_window": ("soonest", "2h", "8h"),
    "image.context_compression": ("auto", "enabled", "disabled"),
    "input[].role": ("user", "assistant", "system", "developer"),
    "prompt_cache_options.mode": ("implicit", "explicit"),
    "prompt_cache_options.ttl": ("30m", "12h"),
    "prompt_cache_retention": ("in_memory", "24h"),
    "reasoning.context": ("auto", "current_turn", "all_turns"),
    "reasoning.effort": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "reasoning.summary": ("auto", "concise", "detailed"),
    "service_tier": ("auto", "default", "flex", "scale", "priority", "fast", "ultrafast"),
    "text.format.type": ("text", "json_object", "json_schema"),
    "text.verbosity": ("low", "medium", "high"),
    "tool_choice": ("none", "auto", "required"),
    "truncation": ("auto", "disabled"),
}
"""For errors: the values that a field takes, by its path without indexes."""

"""The bodies of generateContent and countTokens as msgspec types.

Names, types and fixed ranges only, from Google's API reference and from what its SDKs send. `gemini` decides what a field means
and which values are refused. Names are written as the API answers them (lowerCamelCase); `proto_json` puts the other spellings
that it takes into this one. None means absent or null. Above: gemini and its readers. Below: msgspec.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from smg_core.json_types import Json, JsonObject
from smg_core.wire.scalars import ModelName

__all__ = [
    "CodeExecutionResult",
    "CountContentBody",
    "FileData",
    "FunctionCallPart",
    "FunctionDeclaration",
    "FunctionResponsePart",
    "GeminiContent",
    "GeminiPart",
    "GeminiTool",
    "GenerateBody",
    "GenerationConfig",
    "InlineData",
    "ThinkingConfig",
    "ToolConfig",
]

Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
FunctionName = Annotated[str, Meta(min_length=1, max_length=256)]
Resolution = Literal[
    "MEDIA_RESOLUTION_UNSPECIFIED",
    "MEDIA_RESOLUTION_LOW",
    "MEDIA_RESOLUTION_MEDIUM",
    "MEDIA_RESOLUTION_HIGH",
    "MEDIA_RESOLUTION_ULTRA_HIGH",
]


class _Wire(Struct, forbid_unknown_fields=True, gc=False, rename="camel"):
    """Base of the types."""


class InlineData(_Wire):
    """Media in the request, in either alphabet of base64."""

    data: str
    mime_type: Annotated[str, Meta(min_length=1)]
    display_name: str | None = None


class FileData(_Wire):
    """Media by address."""

    file_uri: Annotated[str, Meta(min_length=1)]
    mime_type: str | None = None
    display_name: str | None = None


class FunctionCallPart(_Wire):
    name: FunctionName
    args: JsonObject | None = None
    id: str | None = None


class FunctionResponseMedia(_Wire):
    """Media in the result of a call."""

    inline_data: InlineData | None = None
    file_data: FileData | None = None


class FunctionResponsePart(_Wire):
    name: FunctionName
    response: JsonObject
    id: str | None = None
    parts: list[FunctionResponseMedia] | None = None
    will_continue: bool | None = None
    scheduling: Literal["SCHEDULING_UNSPECIFIED", "SILENT", "WHEN_IDLE", "INTERRUPT"] | None = None


class ExecutableCode(_Wire):
    code: str
    language: str | None = None
    id: str | None = None


class CodeExecutionResult(_Wire):
    outcome: str | None = None
    output: str | None = None
    id: str | None = None


class PartResolution(_Wire):
    level: Resolution | None = None
    num_tokens: int | None = None


class GeminiPart(_Wire):
    """One part of a content; one of the fields that hold data is set."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    inline_data: InlineData | None = None
    file_data: FileData | None = None
    function_call: FunctionCallPart | None = None
    function_response: FunctionResponsePart | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeExecutionResult | None = None
    tool_call: JsonObject | None = None
    tool_response: JsonObject | None = None
    video_metadata: JsonObject | None = None
    media_resolution: PartResolution | None = None
    part_metadata: JsonObject | None = None


class GeminiContent(_Wire):
    """One turn, or a piece of one."""

    parts: list[GeminiPart] | None = None
    role: Literal["user", "model", "function", "tool", "system"] | None = None


class ThinkingConfig(_Wire):
    include_thoughts: bool | None = None
    thinking_budget: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    thinking_level: Literal["THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"] | None = None


class GenerationConfig(_Wire):
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[float, Meta(ge=0, le=2**31 - 1)] | None = None
    candidate_count: Positive | None = None
    max_output_tokens: Positive | None = None
    stop_sequences: list[str] | None = None
    seed: Int32 | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    response_logprobs: bool | None = None
    logprobs: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    response_mime_type: str | None = None
    response_schema: JsonObject | None = None
    response_json_schema: Json = None
    thinking_config: ThinkingConfig | None = None
    response_modalities: list[Literal["MODALITY_UNSPECIFIED", "TEXT", "IMAGE", "AUDIO", "VIDEO"]] | None = None
    media_resolution: Resolution | None = None
    speech_config: JsonObject | None = None
    image_config: JsonObject | None = None
    audio_transcription_config: JsonObject | None = None
    audio_timestamp: bool | None = None
    enable_enhanced_civic_answers: bool | None = None


class FunctionDeclaration(_Wire):
    name: FunctionName
    description: str | None = None
    parameters: JsonObject | None = None
    parameters_json_schema: Json = None
    response: JsonObject | None = None
    response_json_schema: Json = None
    behavior: Literal["UNSPECIFIED", "BLOCKING", "NON_BLOCKING"] | None = None


class GeminiTool(_Wire):
    """Functions, or one of the tools that Google's servers run."""

    function_declarations: list[FunctionDeclaration] | None = None
    google_search: JsonObject | None = None
    google_search_retrieval: JsonObject | None = None
    code_execution: JsonObject | None = None
    url_context: JsonObject | None = None
    file_search: JsonObject | None = None
    google_maps: JsonObject | None = None
    computer_use: JsonObject | None = None
    mcp_servers: list[JsonObject] | None = None


class FunctionCallingConfig(_Wire):
    mode: Literal["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"] | None = None
    allowed_function_names: list[str] | None = None
    stream_function_call_arguments: bool | None = None


class ToolConfig(_Wire):
    function_calling_config: FunctionCallingConfig | None = None
    retrieval_config: JsonObject | None = None
    include_server_side_tool_invocations: bool | None = None


class SafetySetting(_Wire):
    category: str | None = None
    threshold: str | None = None
    method: str | None = None


class GenerateBody(_Wire):
    """The body of generateContent and streamGenerateContent. `model` repeats the one in the path."""

    contents: list[GeminiContent] | None = None
    system_instruction: GeminiContent | None = None
    generation_config: GenerationConfig | None = None
    tools: list[GeminiTool] | None = None
    tool_config: ToolConfig | None = None
    safety_settings: list[SafetySetting] | None = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    service_tier: str | None = None
    store: bool | None = None
    continuation_token: str | None = None
    model: ModelName | None = None


class CountContentBody(_Wire):
    """The body of countTokens: contents, or a whole request."""

    contents: list[GeminiContent] | None = None
    generate_content_request: GenerateBody | None = None
    system_instruction: GeminiContent | None = None
    generation_config: GenerationConfig | None = None
    tools: list[GeminiTool] | None = None
    model: ModelName | None = None

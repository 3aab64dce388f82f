"""The body of Interactions as msgspec types.

Names, types and fixed ranges only, from what Google's SDK sends. `interactions` decides what a field means and which values are
refused. Contents, steps and tools are read one by one by their `type`, since an input may mix them. None means absent or null.
Above: interactions and its readers. Below: msgspec.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from smg_core.apis.google.mcp_types import AllowedTools
from smg_core.json_types import Json, JsonObject
from smg_core.wire.scalars import ModelName

__all__ = [
    "FunctionCallStep",
    "FunctionDeclarationTool",
    "FunctionResultStep",
    "InteractionBody",
    "InteractionConfig",
    "InteractionTurn",
    "McpCallStep",
    "McpResultStep",
    "MediaContent",
    "ModelOutputStep",
    "TextContent",
    "TextFormatEntry",
    "ThoughtStep",
    "UserInputStep",
]

Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
FunctionName = Annotated[str, Meta(min_length=1, max_length=256)]
CallId = Annotated[str, Meta(min_length=1, max_length=1024)]
Contents = str | list[JsonObject]


class _Wire(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """Base of the types."""


class TextContent(_Wire):
    text: str
    type: Literal["text"] = "text"
    annotations: list[JsonObject] | None = None


class MediaContent(_Wire):
    """An image, a recording, a clip or a document: inline in base64, or by address."""

    type: Literal["image", "audio", "video", "document"]
    data: str | None = None
    uri: str | None = None
    mime_type: str | None = None
    resolution: Literal["low", "medium", "high", "ultra_high"] | None = None
    name: str | None = None
    channels: int | None = None
    sample_rate: int | None = None
    processing: Json = None


class UserInputStep(_Wire):
    type: Literal["user_input"]
    content: Contents | None = None


class ModelOutputStep(_Wire):
    type: Literal["model_output"]
    content: Contents | None = None
    error: JsonObject | None = None


class ThoughtContent(Struct, gc=False):
    """A piece of a summary of thoughts: a text, or a picture, which says nothing here."""

    type: str
    text: str = ""


class ThoughtStep(_Wire):
    """`signature` is the sealed form of the thoughts, in base64."""

    type: Literal["thought"]
    summary: list[ThoughtContent] | None = None
    signature: str | None = None


class FunctionCallStep(_Wire):
    type: Literal["function_call"]
    id: CallId
    name: FunctionName
    arguments: JsonObject | None = None
    signature: str | None = None


class FunctionResultStep(_Wire):
    type: Literal["function_result"]
    call_id: CallId
    result: Json
    name: str | None = None
    is_error: bool | None = None
    signature: str | None = None


class McpCallStep(_Wire):
    """A call of a tool that a server ran."""

    type: Literal["mcp_server_tool_call"]
    id: CallId
    name: FunctionName
    server_name: FunctionName
    arguments: JsonObject | None = None
    signature: str | None = None


class McpResultStep(_Wire):
    """Its result; `is_error` is an addition of this server."""

    type: Literal["mcp_server_tool_result"]
    call_id: CallId
    result: Json = None
    name: str | None = None
    server_name: str | None = None
    is_error: bool | None = None
    signature: str | None = None


class InteractionTurn(_Wire):
    """A turn of the earlier wire revision."""

    role: Literal["user", "model"]
    content: Contents


class FunctionDeclarationTool(_Wire):
    type: Literal["function"]
    name: FunctionName
    description: str | None = None
    short_description: str | None = None
    parameters: JsonObject | None = None
    defer_loading: bool | None = None


class ToolChoiceObject(_Wire):
    allowed_tools: AllowedTools | None = None


class TextFormatEntry(_Wire):
    type: Literal["text"]
    mime_type: str | None = None
    schema: JsonObject | None = None


class InteractionConfig(_Wire):
    max_output_tokens: Positive | None = None
    stop_sequences: list[str] | None = None
    seed: Int32 | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    thinking_level: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None
    thinking_summaries: Literal["auto", "none"] | None = None
    tool_choice: Literal["auto", "any", "none", "validated"] | ToolChoiceObject | None = None
    speech_config: Json = None
    image_config: Json = None
    video_config: Json = None
    transcription_config: Json = None


class InteractionBody(_Wire):
    """The body of `POST /interactions`."""

    model: ModelName | None = None
    agent: Json = None
    agent_config: Json = None
    input: str | JsonObject | list[JsonObject] | None = None
    system_instruction: str | None = None
    tools: list[JsonObject] | None = None
    generation_config: InteractionConfig | None = None
    response_format: JsonObject | list[JsonObject] | None = None
    response_mime_type: str | None = None
    response_modalities: list[Literal["text", "image", "audio", "video", "document"]] | None = None
    previous_interaction_id: str | None = None
    store: bool | None = None
    background: bool | None = None
    stream: bool | None = None
    labels: dict[str, str] | None = None
    safety_settings: list[JsonObject] | None = None
    service_tier: str | None = None
    continuation_token: str | None = None
    cached_content: str | None = None
    environment: Json = None
    webhook_config: Json = None

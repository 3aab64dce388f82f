"""The bodies of Messages and of count_tokens as msgspec types.

Names, types and fixed ranges only. `messages` decides what a field means and what is refused. A field that the types do not have
is passed over with a warning, since clients of this API send fields of betas that a server need not know; blocks of an unknown
type become `OtherBlock` before they get here.

None means absent or null. Above: messages and its readers. Below: msgspec.
"""

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta, Struct

from smg_core.json_types import Json, JsonObject
from smg_core.web_terms import UserPlace
from smg_core.wire.scalars import ModelName

__all__ = [
    "KNOWN_BLOCKS",
    "SUPPORTED_VALUES",
    "AmountWire",
    "Base64Source",
    "BlockWire",
    "ContentSource",
    "CountBody",
    "DocumentBlock",
    "EditWire",
    "FileSource",
    "ImageBlock",
    "MessageWire",
    "MessagesBody",
    "OtherBlock",
    "OutputConfig",
    "OutputFormat",
    "RedactedThinkingBlock",
    "SearchResultBlock",
    "ServerToolResult",
    "ServerToolUse",
    "TextBlock",
    "TextSource",
    "ThinkingBlock",
    "ThinkingWire",
    "ToolChoiceWire",
    "ToolReferenceBlock",
    "ToolResultBlock",
    "ToolUseBlock",
    "ToolWire",
    "UrlSource",
]

Fraction = Annotated[float, Meta(ge=0, le=1)]
Effort = Literal["low", "medium", "high", "xhigh", "max"]


class _Wire(Struct, forbid_unknown_fields=True, gc=False):
    """Base of the types without a tag."""


class CacheControl(TypedDict):
    """A prompt-cache breakpoint after the block. Its further keys are betas of clients and are passed over."""

    type: Literal["ephemeral"]
    ttl: NotRequired[Literal["5m", "1h"] | None]


# ------------------------------------------------------------------------------------------------------------- sources


class _Source(Struct, forbid_unknown_fields=True, gc=False, tag_field="type"):
    """Sources are told apart by `type`."""


class Base64Source(_Source, tag="base64"):
    media_type: str
    data: str


class UrlSource(_Source, tag="url"):
    url: str


class FileSource(_Source, tag="file"):
    file_id: str


class TextSource(_Source, tag="text"):
    data: str
    media_type: str | None = None


class ContentSource(_Source, tag="content"):
    content: "str | list[BlockWire]"


# -------------------------------------------------------------------------------------------------------------- blocks


class _Block(Struct, forbid_unknown_fields=True, gc=False, tag_field="type"):
    """Blocks are told apart by `type`."""


class TextBlock(_Block, tag="text"):
    text: str
    cache_control: CacheControl | None = None
    citations: Json = None


class ImageBlock(_Block, tag="image"):
    source: Base64Source | UrlSource | FileSource
    cache_control: CacheControl | None = None
    transformations: Json = None


class CitationsWire(_Wire):
    enabled: bool | None = None


class DocumentBlock(_Block, tag="document"):
    source: Base64Source | UrlSource | FileSource | TextSource | ContentSource
    title: str | None = None
    context: str | None = None
    citations: CitationsWire | None = None
    cache_control: CacheControl | None = None


class SearchResultBlock(_Block, tag="search_result"):
    source: str
    title: str
    content: list[TextBlock]
    citations: CitationsWire | None = None
    cache_control: CacheControl | None = None


class ToolReferenceBlock(_Block, tag="tool_reference"):
    tool_name: str
    cache_control: CacheControl | None = None


class ToolUseBlock(_Block, tag="tool_use"):
    id: str
    name: str
    input: JsonObject
    cache_control: CacheControl | None = None
    caller: Json = None


class ToolResultBlock(_Block, tag="tool_result"):
    tool_use_id: str
    content: "str | list[BlockWire] | None" = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None


class ThinkingBlock(_Block, tag="thinking"):
    thinking: str
    signature: str = ""


class RedactedThinkingBlock(_Block, tag="redacted_thinking"):
    data: str


class CompactionBlock(_Block, tag="compaction"):
    """What came before it, as a summary; without one it says nothing."""

    content: str | None = None
    encrypted_content: str | None = None
    signature: str | None = None
    tool_changes: Json = None
    cache_control: CacheControl | None = None


class ServerToolUse(Struct, gc=False):
    """What a call of a tool that a server ran has in every API version; the rest is the tool's."""

    input: JsonObject
    id: str
    name: str


class ServerToolContent(Struct, gc=False):
    """One thing that such a tool found, or its error."""

    type: str | None = None


class ServerToolResult(Struct, gc=False):
    """What the result of such a call has in every API version; the rest is the tool's."""

    tool_use_id: str
    content: str | ServerToolContent | list[ServerToolContent] | None = None


class OtherBlock(_Block, tag="smg_other"):
    """A block of a type that the gateway does not know, or that a tool of the provider's wrote."""

    block: JsonObject

    @property
    def of_a_servers_tool(self) -> bool:
        """Whether it is a call or a result of a tool that a server ran: `server_tool_use`, `mcp_tool_result` and so on."""
        kind = self.block.get("type")
        return isinstance(kind, str) and kind.endswith(("_tool_use", "_tool_result"))


BlockWire = (
    TextBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ToolReferenceBlock
    | ToolUseBlock
    | ToolResultBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | CompactionBlock
    | OtherBlock
)
KNOWN_BLOCKS: frozenset[str] = frozenset(
    {"text", "image", "document", "search_result", "tool_reference", "tool_use", "tool_result", "thinking"}
) | {"redacted_thinking", "compaction"}
"""The types of blocks that clients may write and that have a type here."""


class MessageWire(_Wire):
    role: Literal["user", "assistant", "system"]
    content: str | list[BlockWire]


# --------------------------------------------------------------------------------------------------------------- tools


class ToolWire(Struct, gc=False):
    """A tool of any type; those that the server runs have further fields, which are theirs."""

    name: str | None = None
    type: str | None = None
    description: str | None = None
    input_schema: JsonObject | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None
    defer_loading: bool | None = None
    input_examples: list[JsonObject] | None = None
    mcp_server_name: str | None = None
    default_config: JsonObject | None = None
    configs: dict[str, JsonObject] | None = None
    allowed_callers: list[str] | None = None
    max_uses: int | None = None
    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None
    user_location: UserPlace | None = None
    max_content_tokens: int | None = None
    citations: JsonObject | None = None
    url_sources: JsonObject | None = None
    display_width_px: Annotated[int, Meta(ge=1, le=1 << 20)] | None = None
    display_height_px: Annotated[int, Meta(ge=1, le=1 << 20)] | None = None
    enable_zoom: bool | None = None


class McpPermission(Struct, gc=False):
    """Whether calls of a tool run at once, or only when the user has agreed."""

    type: Literal["always_allow", "always_ask"]


class McpToolConfig(Struct, gc=False):
    """Whether a tool of a server is offered, in a toolset, and whether its calls run at once."""

    enabled: bool | None = None
    permission_policy: McpPermission | None = None


class McpToolConfiguration(Struct, gc=False):
    """The same in the earlier form, for all tools of a server."""

    enabled: bool | None = None
    allowed_tools: list[str] | None = None


class McpServerWire(Struct, gc=False):
    """A server of tools."""

    name: Annotated[str, Meta(min_length=1)]
    url: Annotated[str, Meta(min_length=1)]
    authorization_token: str | None = None
    tool_configuration: McpToolConfiguration | None = None


class ToolChoiceWire(_Wire):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


# -------------------------------------------------------------------------------------------------------------- bodies


class ThinkingWire(_Wire):
    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(_Wire):
    type: Literal["json_schema"]
    schema: JsonObject


class OutputConfig(_Wire):
    effort: Effort | None = None
    format: OutputFormat | None = None


class MetadataWire(_Wire):
    user_id: Annotated[str, Meta(max_length=4096)] | None = None


class AmountWire(_Wire):
    """A number of something: of thinking turns, of tool uses, of input tokens."""

    type: Literal["all", "thinking_turns", "tool_uses", "input_tokens"]
    value: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None


class EditWire(_Wire):
    """One edit of the context. `keep` is of those that clear, `trigger` of those that depend on the prompt, `instructions` and
    `pause_after_compaction` of the one that compacts, all else of clear_tool_uses."""

    type: str
    keep: Literal["all"] | AmountWire | None = None
    trigger: AmountWire | None = None
    clear_at_least: AmountWire | None = None
    exclude_tools: list[str] | None = None
    clear_tool_inputs: bool | list[str] | None = None
    instructions: str | None = None
    pause_after_compaction: bool | None = None


class ContextManagement(_Wire):
    edits: list[EditWire] | None = None


class CompactionWire(_Wire):
    """That the history is to be compacted now."""

    type: Literal["summarize"]
    instructions: str | None = None


class CountBody(_Wire, kw_only=True):
    """The body of count_tokens."""

    model: ModelName
    messages: list[MessageWire]
    system: str | list[TextBlock] | None = None
    tools: list[ToolWire] | None = None
    tool_choice: ToolChoiceWire | None = None
    thinking: ThinkingWire | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    cache_control: CacheControl | None = None
    context_management: ContextManagement | None = None
    mcp_servers: list[JsonObject] | None = None
    speed: str | None = None


class MessagesBody(CountBody, kw_only=True):
    """The body of Messages."""

    max_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: Fraction | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    metadata: MetadataWire | None = None
    service_tier: str | None = None
    thread: Json = None
    container: Json = None
    compaction: CompactionWire | None = None
    inference_geo: str | None = None
    diagnostics: Json = None


SUPPORTED_VALUES: dict[str, tuple[str, ...]] = {
    "messages[].role": ("user", "assistant", "system"),
    "tool_choice.type": ("auto", "any", "tool", "none"),
    "thinking.type": ("enabled", "disabled", "adaptive", "between_tools"),
    "thinking.display": ("summarized", "omitted"),
    "output_config.effort": ("low", "medium", "high", "xhigh", "max"),
}

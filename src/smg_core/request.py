"""The first waist: what every public API's request becomes.

Chat Completions, Responses, Messages, Interactions, Realtime and Completions are all decoded into one
`GenerationRequest`; everything behind the decoders works on that alone. It says what the client asked for, in the field's
own terms, and nothing about how it will be done: no token ids, no worker, no template text.

Rules for whoever decodes into it:
- None means "the client did not say": the model's or engine's default applies. A default is never filled in here.
- A field that an API has and this record does not goes into `extra` under its wire name, so that it can be passed on or
  refused by name. It is never dropped.
- Blocks that carry a signature or ciphertext become `Opaque` and keep their bytes.

Below it: nothing. Above it: protocols make it, pipeline reads it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

__all__ = [
    "Audio",
    "Caller",
    "ChoiceFormat",
    "CustomTool",
    "File",
    "FunctionTool",
    "GenerationRequest",
    "GrammarFormat",
    "HistoryRef",
    "HostedTool",
    "Image",
    "JsonFormat",
    "MediaSource",
    "Message",
    "Opaque",
    "Part",
    "Reasoning",
    "ReasoningSettings",
    "Refusal",
    "RegexFormat",
    "ResponseFormat",
    "Role",
    "Sampling",
    "SchemaFormat",
    "StructuralTagFormat",
    "Text",
    "TextFormat",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolResult",
    "Video",
]

Role = Literal["system", "developer", "user", "assistant", "tool"]


# ---------------------------------------------------------------------------------------------------------- content


@attrs.frozen
class MediaSource:
    """Where media comes from: exactly one of a URL (http, https, data or file), bytes, or an uploaded file's id."""

    url: str | None = None
    data: bytes | None = attrs.field(default=None, repr=lambda data: "None" if data is None else f"<{len(data)} bytes>")
    file_id: str | None = None
    media_type: str | None = None

    def __attrs_post_init__(self) -> None:
        if (self.url is not None) + (self.data is not None) + (self.file_id is not None) != 1:
            raise ValueError("a media source has exactly one of url, data and file_id")


@attrs.frozen
class Text:
    """Plain text. `cache` marks a prompt-cache breakpoint behind it (Messages' cache_control), as the API wrote it."""

    text: str
    cache: Mapping[str, Any] | None = None


@attrs.frozen
class Image:
    """An image; `detail` is the resolution the client asks for, `cache` a breakpoint as on `Text`."""

    source: MediaSource
    detail: Literal["auto", "low", "high", "original"] = "auto"
    cache: Mapping[str, Any] | None = None


@attrs.frozen
class Audio:
    """Sound; `format` is the container or codec name ("wav", "mp3", "pcm16")."""

    source: MediaSource
    format: str | None = None
    cache: Mapping[str, Any] | None = None


@attrs.frozen
class Video:
    """Moving pictures."""

    source: MediaSource


@attrs.frozen
class File:
    """A document for the model to read."""

    source: MediaSource
    filename: str | None = None
    cache: Mapping[str, Any] | None = None


@attrs.frozen
class Reasoning:
    """What the model thought in an earlier turn, where the API lets the client send it back as text."""

    text: str


@attrs.frozen
class Opaque:
    """A block whose bytes must survive the round trip: a signed thinking block, encrypted reasoning, a provider's item.

    `kind` is the wire type ("thinking", "redacted_thinking", "reasoning"); `payload` is the block's JSON as received.
    """

    kind: str
    payload: bytes


@attrs.frozen
class Refusal:
    """The model declined, in an earlier turn."""

    text: str


@attrs.frozen
class ToolCall:
    """A call the model made in an earlier turn; `arguments` is the JSON text exactly as it was, or free text where
    `custom` says that the tool is one that takes that."""

    id: str
    name: str
    arguments: str
    custom: bool = False


@attrs.frozen
class ToolResult:
    """What a call returned; `content` may hold text and media."""

    call_id: str
    content: tuple["Part", ...]
    is_error: bool = False


Part = Text | Image | Audio | Video | File | Reasoning | Opaque | Refusal | ToolCall | ToolResult


@attrs.frozen
class Message:
    """One turn. `content_is_text` remembers that the client wrote one plain string, which some templates tell apart
    from a list with one text part."""

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    content_is_text: bool = False

    @property
    def text(self) -> str:
        """All text parts joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


# ------------------------------------------------------------------------------------------------------------ tools


@attrs.frozen
class FunctionTool:
    """A function the client will run. `parameters` is a JSON Schema object; `strict` asks for output that conforms."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: bool = False


@attrs.frozen
class CustomTool:
    """A tool that takes free text, optionally held to a grammar ("lark" or "regex")."""

    name: str
    description: str | None = None
    syntax: Literal["lark", "regex"] | None = None
    grammar: str | None = None


@attrs.frozen
class HostedTool:
    """A tool that the server side runs: web_search, file_search, code_interpreter, mcp, computer, and what comes next.

    `kind` is the wire type; `config` is the rest of the tool's JSON object.
    """

    kind: str
    config: Mapping[str, Any] = attrs.field(factory=dict)


Tool = FunctionTool | CustomTool | HostedTool


@attrs.frozen
class ToolChoice:
    """Which tools may or must be called. `names`: with mode "required" one of these must be, with "auto" only these may
    be; empty means all. `parallel` False allows at most one call; None leaves it to the model."""

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()
    parallel: bool | None = None


# --------------------------------------------------------------------------------------------------- response format


@attrs.frozen
class TextFormat:
    """No constraint."""


@attrs.frozen
class JsonFormat:
    """Any JSON object."""


@attrs.frozen
class SchemaFormat:
    """JSON that conforms to `schema`; `strict` makes the gateway hold the engine to it."""

    schema: Mapping[str, Any]
    name: str = "response"
    description: str | None = None
    strict: bool = True


@attrs.frozen
class RegexFormat:
    """Text that matches `pattern` as a whole."""

    pattern: str


@attrs.frozen
class GrammarFormat:
    """Text of an EBNF (or Lark) grammar, passed to the engine as it is."""

    grammar: str


@attrs.frozen
class ChoiceFormat:
    """Exactly one of `choices`."""

    choices: tuple[str, ...]


@attrs.frozen
class StructuralTagFormat:
    """An xgrammar structural tag as JSON text, passed to the engine as it is."""

    tag: str


ResponseFormat = (
    TextFormat | JsonFormat | SchemaFormat | RegexFormat | GrammarFormat | ChoiceFormat | StructuralTagFormat
)


# --------------------------------------------------------------------------------------------------------- settings


@attrs.frozen
class Sampling:
    """How to draw tokens. None: not said. Units: `max_tokens` and `min_tokens` are tokens of output per choice.

    `logprobs` is how many alternatives to report per position (0: the sampled token alone); None reports nothing.
    `stop` strings are not part of the output unless `include_stop`.
    """

    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop: bool = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    logit_bias: Mapping[int, float] | None = None
    n: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None


@attrs.frozen
class ReasoningSettings:
    """How much to think. `effort` is the API's own word ("none", "minimal", "low", ...); `budget_tokens` a ceiling in
    tokens; `enabled` an explicit switch; `summary` the kind of summary wanted; `encrypted` asks for it as ciphertext."""

    effort: str | None = None
    budget_tokens: int | None = None
    enabled: bool | None = None
    summary: str | None = None
    encrypted: bool = False


@attrs.frozen
class HistoryRef:
    """What to load before and save after: a previous response or interaction, or a conversation."""

    previous_id: str | None = None
    conversation_id: str | None = None
    store: bool = False


@attrs.frozen
class Caller:
    """Who sent the request: the tenant whose data and limits apply, and the user or key within it. Empty: nobody said."""

    tenant: str = ""
    principal: str = ""


@attrs.frozen
class GenerationRequest:
    """One request for generation, whatever API it came through.

    Exactly one of `messages` and `prompt` carries input: `prompt` is the Completions API's raw text or token ids, used
    without a template. `extra` holds fields by wire name that this record has no place for; `headers` the lower-cased
    request headers a room may route by.
    """

    id: str
    model: str
    messages: tuple[Message, ...] = ()
    prompt: str | Sequence[int] | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    response_format: ResponseFormat = TextFormat()
    sampling: Sampling = Sampling()
    reasoning: ReasoningSettings = ReasoningSettings()
    stream: bool = False
    modalities: tuple[str, ...] = ("text",)
    history: HistoryRef = HistoryRef()
    template: str | None = None
    template_arguments: Mapping[str, Any] = attrs.field(factory=dict)
    documents: tuple[Mapping[str, Any], ...] = ()
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    user: str | None = None
    cache_key: str | None = None
    cache_salt: str | None = None
    priority: int = 0
    service_tier: str | None = None
    metadata: Mapping[str, str] = attrs.field(factory=dict)
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    headers: Mapping[str, str] = attrs.field(factory=dict)
    caller: Caller = Caller()

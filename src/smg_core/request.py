"""The first waist: the one record that every public API's request is decoded into.

Chat Completions, Responses, Messages, Gemini, Interactions, Realtime and Completions are all decoded into one
`GenerationRequest`; everything behind the decoders works on that record alone. Embeddings, rerank, score and classify are
decoded into one `PoolRequest`. A record says what the client asked for, not how it will be done: no worker, no template.

Rules for decoders:
- None means "the client did not say": the model's or engine's default applies. A default is never filled in here.
- A field that has no place in the record goes into `extra` by its wire name, to be passed on or refused: it is never dropped.
- Reasoning that this gateway sealed (encrypted) becomes `Reasoning` with its `seal`, so that it can be decrypted and rendered.
  Blocks that only another provider can decrypt become `Opaque` and keep their bytes.
- `cache` on a part or a tool marks a prompt-cache breakpoint after it, as the API wrote it. It serves routing and usage and
  never changes the rendered prompt.
Above: protocols make it, pipeline and engines read it. Below: `json_types`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from smg_core.grants import Grants
from smg_core.imaging import Imaging
from smg_core.json_types import Json
from smg_core.origin import Origin
from smg_core.sources import CitableSource
from smg_core.speech import Speech, Transcription

__all__ = [
    "EFFORT_TOKENS",
    "AskedCall",
    "Audio",
    "Caller",
    "ChoiceFormat",
    "ClearReasoning",
    "ClearToolUses",
    "CompactRequest",
    "ContextEdit",
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
    "PoolInput",
    "PoolKind",
    "PoolRequest",
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
    "ToolKey",
    "ToolResult",
    "Video",
    "has_trait",
]

Role = Literal["system", "developer", "user", "assistant", "tool"]


# ---------------------------------------------------------------------------------------------------------- content


class MediaSource(Struct, frozen=True):
    """Where media comes from: exactly one of a URL (http, https, data or file), bytes, an uploaded file's id, or the text of
    a document as it stands in the request; or the `fault` that its decoder found: an error's message, param and code.
    For a video, `start_s` and `end_s` cut out a part (seconds from its beginning); `fps` is how many frames a second are seen."""

    url: str | None = None
    data: bytes | None = None
    file_id: str | None = None
    media_type: str | None = None
    text: str | None = None
    start_s: float | None = None
    end_s: float | None = None
    fps: float | None = None
    fault: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if [self.url, self.data, self.file_id, self.text, self.fault].count(None) != 4:
            raise ValueError("a media source has exactly one of url, data, file_id, text and fault")

    def __repr__(self) -> str:
        """Shows the length of `data` in place of the bytes, which are long and must not get into a log."""
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        if self.data is not None:
            given["data"] = f"<{len(self.data)} bytes>"
        return f"MediaSource({', '.join(f'{name}={value!r}' for name, value in given.items() if value is not None)})"


class Text(Struct, frozen=True):
    """Plain text."""

    text: str
    cache: Mapping[str, Json] | None = None


class Image(Struct, frozen=True):
    """An image; `detail` is the resolution the client asks for. `of_document`: parts that one in a document is, with its text."""

    source: MediaSource
    detail: Literal["auto", "low", "high", "original"] = "auto"
    cache: Mapping[str, Json] | None = None
    of_document: int = 0


class Audio(Struct, frozen=True):
    """Sound; `format` is the container or codec name ("wav", "mp3", "pcm16")."""

    source: MediaSource
    format: str | None = None
    cache: Mapping[str, Json] | None = None


class Video(Struct, frozen=True):
    """A video."""

    source: MediaSource
    cache: Mapping[str, Json] | None = None


class File(Struct, frozen=True):
    """A document for the model to read. `title` and `context` are what the client says about it; `citations` asks the model
    to say which of its words come from where in the document (all three: Messages)."""

    source: MediaSource
    filename: str | None = None
    cache: Mapping[str, Json] | None = None
    title: str | None = None
    context: str | None = None
    citations: bool = False


class Reasoning(Struct, frozen=True):
    """The model's reasoning of an earlier turn.

    `seal` is the gateway's own sealed form of it (Responses' encrypted_content, a signature of Messages, Gemini's
    thoughtSignature), as the client sent it back. It is decrypted before the prompt is rendered; until then `text` is what the
    client sent, or "". `visible` False: the client must not be shown the text. `id` is the item's id, `summary` the parts of its
    summary (Responses, Interactions). `carried` is an outside provider's original, which that provider alone can read."""

    text: str
    id: str | None = None
    summary: tuple[str, ...] = ()
    seal: bytes | None = None
    visible: bool = True
    cache: Mapping[str, Json] | None = None
    carried: bytes | None = None


class Opaque(Struct, frozen=True):
    """A block that this gateway cannot read and returns byte for byte: a provider's signed thinking block, its encrypted
    reasoning, or another item of its own.

    `kind` is the wire type ("thinking", "redacted_thinking", "reasoning"); `payload` is the block's JSON as received.
    """

    kind: str
    payload: bytes


class Refusal(Struct, frozen=True):
    """The text with which the model declined in an earlier turn."""

    text: str
    cache: Mapping[str, Json] | None = None


class ToolCall(Struct, frozen=True):
    """A call that the model made in an earlier turn. `arguments` is its JSON text, unchanged; for a `custom` tool it is free
    text.

    `namespace` is the group the tool belongs to (Responses). `kind` is "function" for the client's own tools, custom ones
    included, or the wire type of a built-in tool ("tool_search", "shell", ...). `item_id` is the id of the item that held
    the call, where an API has one beside the call's (Responses)."""

    id: str
    name: str
    arguments: str
    custom: bool = False
    namespace: str | None = None
    kind: str = "function"
    item_id: str | None = None
    cache: Mapping[str, Json] | None = None


class ToolResult(Struct, frozen=True):
    """What a call returned; `content` may hold text and media.

    `call_id` is never empty: when an API lets the client leave it out (Gemini), the decoder finds the call. `name` is the
    tool's name, where the client repeats it; `kind` as on `ToolCall`; `value` is the result as a JSON object, where the
    API sends one (Gemini, Interactions), and `content` then has the same as text.
    """

    call_id: str
    content: tuple["Part", ...]
    is_error: bool = False
    name: str | None = None
    kind: str = "function"
    value: Mapping[str, Json] | None = None
    cache: Mapping[str, Json] | None = None


Part = Text | Image | Audio | Video | File | Reasoning | Opaque | Refusal | ToolCall | ToolResult


class Message(Struct, frozen=True):
    """One turn. `content_is_text`: the client wrote one plain string, which some templates treat differently from a list
    with one text part.

    `id`, `status` and `phase` are the item's own, for the APIs whose clients send items back (Responses): `phase` tells an
    assistant's running commentary from its final answer. `tools` are tools that the model may call from this turn on.
    """

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    content_is_text: bool = False
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    phase: Literal["commentary", "final_answer"] | None = None
    tools: tuple["Tool", ...] = ()

    @property
    def text(self) -> str:
        """All text parts joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


# ------------------------------------------------------------------------------------------------------------ tools


class ToolKey(Struct, frozen=True):
    """Identifies one tool of a request. `kind` is "function", "custom", or the wire type of a hosted tool;
    `namespace` is the tool's group (for a tool of an MCP server: the server's label)."""

    name: str
    namespace: str | None = None
    kind: str = "function"


class FunctionTool(Struct, frozen=True):
    """A function the client will run. `parameters` is a JSON Schema object.

    `strict`: True asks for arguments that conform to the schema, False does not, None means the client did not say (Responses
    then holds the model to the schema where it can; other APIs do not). `namespace` is the tool's group.
    `deferred`: not offered to the model until a tool search finds it. `examples` are arguments of sample calls (Messages).
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Json] | None = None
    strict: bool | None = None
    namespace: str | None = None
    deferred: bool = False
    examples: tuple[Mapping[str, Json], ...] = ()
    cache: Mapping[str, Json] | None = None

    @property
    def key(self) -> ToolKey:
        return ToolKey(self.name, self.namespace)


class CustomTool(Struct, frozen=True):
    """A tool that takes free text, optionally held to a grammar ("lark" or "regex"). The rest is as in `FunctionTool`."""

    name: str
    description: str | None = None
    syntax: Literal["lark", "regex"] | None = None
    grammar: str | None = None
    namespace: str | None = None
    deferred: bool = False
    cache: Mapping[str, Json] | None = None

    @property
    def key(self) -> ToolKey:
        return ToolKey(self.name, self.namespace, "custom")


class HostedTool(Struct, frozen=True):
    """A tool that the server runs: web_search, file_search, code_interpreter, mcp, computer and others.

    `kind` is the wire type; `config` is the rest of the tool's JSON object. That of "mcp", a server of tools, has the fields of
    `pipeline.tools.hosted.ToolServer` in every API; of those that the client gave, the label alone may be told or kept.
    """

    kind: str
    config: Mapping[str, Json] = {}
    cache: Mapping[str, Json] | None = None


Tool = FunctionTool | CustomTool | HostedTool


class AskedCall(Struct, frozen=True):
    """A call that the user was asked about, and has agreed to: in the prompt it has the question's `id` and an empty result."""

    id: str
    label: str
    name: str
    arguments: str


class ToolChoice(Struct, frozen=True):
    """Which tools may or must be called. `names`: with mode "required" one of these must be, with "auto" only these may
    be; empty means all. `parallel` False allows at most one call; None leaves it to the model.

    `hosted` is the wire type of a hosted tool that must be called (Responses: {"type": "web_search"}).
    """

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[ToolKey, ...] = ()
    parallel: bool | None = None
    hosted: str | None = None


# --------------------------------------------------------------------------------------------------- response format


class TextFormat(Struct, frozen=True):
    """No constraint."""


class JsonFormat(Struct, frozen=True):
    """Any JSON object."""


class SchemaFormat(Struct, frozen=True):
    """JSON that conforms to `schema`; `strict` makes the gateway hold the engine to it. `strength` "wished": the client did
    not ask for that, so a schema that cannot be held to is let be; "none": it is such a one, which no engine is sent."""

    schema: Mapping[str, Json]
    name: str = "response"
    description: str | None = None
    strict: bool = True
    strength: Literal["bound", "wished", "none"] = "bound"


class RegexFormat(Struct, frozen=True):
    """Text that matches `pattern` as a whole."""

    pattern: str


class GrammarFormat(Struct, frozen=True):
    """Text of an EBNF (or Lark) grammar, passed to the engine as it is."""

    grammar: str


class ChoiceFormat(Struct, frozen=True):
    """Exactly one of `choices`."""

    choices: tuple[str, ...]


class StructuralTagFormat(Struct, frozen=True):
    """An xgrammar structural tag as JSON text, passed to the engine as it is."""

    tag: str


ResponseFormat = (
    TextFormat | JsonFormat | SchemaFormat | RegexFormat | GrammarFormat | ChoiceFormat | StructuralTagFormat
)


class Sampling(Struct, frozen=True):
    """The parameters of sampling. None: not given. Units: `max_tokens` and `min_tokens` are output tokens of a choice.

    `logprobs` is how many alternatives to report per position (0: the sampled token alone); None reports nothing.
    `stop` strings are not part of the output unless `include_stop`.

    `token_ids`: the answer tells the ids of its tokens.
    Of Completions: `echo` puts the prompt before the text; `suffix` is the text after the completion, for models that fill in
    the middle; `truncate_prompt` keeps that many of the prompt's last tokens (-1: as many as the model takes) instead of refusing
    a longer one.
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
    echo: bool = False
    suffix: str | None = None
    truncate_prompt: int | None = None
    token_ids: bool = False


class ReasoningSettings(Struct, frozen=True):
    """How much the model reasons, and how much of that the client gets.

    `effort` is the API's own word ("none", "minimal", "low", ...). `budget_tokens` is a ceiling in tokens, -1 for "as many as
    the model likes". `enabled` is an explicit switch; `adaptive` leaves it to the model whether to think (Messages);
    `between_tools` has it think after tool results only (Messages). `visible` is what the client is shown: nothing, the text,
    a summary, or the sealed form alone; None: the API's default. `keep` says which earlier reasoning stays in the prompt:
    all, that of the current turn, or that of the last N turns; None: the template decides.
    """

    effort: str | None = None
    budget_tokens: int | None = None
    enabled: bool | None = None
    adaptive: bool = False
    visible: Literal["none", "text", "summary", "sealed"] | None = None
    keep: Literal["all", "current_turn"] | int | None = None
    between_tools: bool = False


EFFORT_TOKENS: Mapping[str, int] = {"minimal": 512, "low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768}
"""About how many tokens of reasoning a level of effort stands for, least first; the highest, "max", has no bound."""


class HistoryRef(Struct, frozen=True):
    """The stored history that the request continues (a previous response or interaction, or a conversation), and whether to
    `store` the answer. None means that the client did not say: each API has its own default."""

    previous_id: str | None = None
    conversation_id: str | None = None
    store: bool | None = None


class ClearReasoning(Struct, frozen=True):
    """Remove the reasoning of all but the last `keep` assistant turns from the prompt (Messages' clear_thinking)."""

    keep: int


class ClearToolUses(Struct, frozen=True):
    """Replace the oldest tool results by one line each when the prompt is long (Messages' clear_tool_uses).

    It happens when the prompt has more than `over_tokens` tokens or `over_uses` tool uses (None: no such bound). The last
    `keep` stay, as do those of the tools named in `exclude`; if fewer than `at_least_tokens` would be freed, nothing is
    changed. `inputs` clears the arguments of the calls too: of all, or of those tools.
    """

    over_tokens: int | None = None
    over_uses: int | None = None
    keep: int | None = None
    at_least_tokens: int | None = None
    exclude: frozenset[str] = frozenset()
    inputs: bool | frozenset[str] = False


ContextEdit = ClearReasoning | ClearToolUses


class CompactRequest(Struct, frozen=True):
    """Have the model summarize the conversation and continue from the summary (Responses, Messages). `over_tokens` None: now,
    instead of a turn; a number: before the turn, if the prompt has more tokens. `instructions` are for the summary."""

    over_tokens: int | None = None
    instructions: str | None = None


def has_trait(request: "GenerationRequest", trait: str) -> bool:
    """Whether the API that the request came through has this trait."""
    return request.origin is not None and trait in request.origin.traits


class Caller(Struct, frozen=True):
    """Who asks: `tenant` owns what is stored, sealed and cached; `principal` is the user or key within it. Both are "" where
    the gateway does not tell callers apart. `grants` is what the caller may do. Made by the server, never from the body."""

    tenant: str = ""
    principal: str = ""
    grants: Grants = Grants()


class GenerationRequest(Struct, frozen=True, eq=False):
    """One request for generation, whatever API it came through.

    Exactly one of `messages` and `prompt` carries input: `prompt` is the Completions API's raw text or token ids, without a
    template; `add_special_tokens` False leaves out what the tokenizer puts around a text. `extra` holds fields by wire name that
    have no place here, `own_fields` those that the API's own provider alone can honour; `headers`, lower-cased, are to route by.

    How the request is run: `background` goes on when the client leaves; `generate` False fills the engine's prefix cache and
    answers nothing; `deadline_s` is how long the client will wait; `session_key` is of a session, for routing, and `home` the
    worker of the one before; `caller` asks, through the API `origin`. What is done to the history: `truncation` "auto" drops the
    oldest turns, `context_edits` and `compact` shorten it. What the answer has: `include` names optional parts, `verbosity` is
    its length, `max_tool_calls` bounds calls of hosted tools, `sources` can be cited. `written` is the body, of `size` bytes (0:
    not known). `transcription`, `speaking`, `imaging`: what becomes of `messages`; `live`: a response that is passed on."""

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
    history: HistoryRef = HistoryRef()
    template: str | None = None
    template_arguments: Mapping[str, Json] = {}
    documents: tuple[Mapping[str, Json], ...] = ()
    add_special_tokens: bool | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    user: str | None = None
    cache_key: str | None = None
    cache_salt: str | None = None
    priority: int = 0
    service_tier: str | None = None
    metadata: Mapping[str, str] = {}
    extra: Mapping[str, Json] = {}
    own_fields: Mapping[str, Json] = {}
    headers: Mapping[str, str] = {}
    background: bool = False
    include: frozenset[str] = frozenset()
    truncation: Literal["disabled", "auto"] | None = None
    generate: bool = True
    max_tool_calls: int | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    context_edits: tuple[ContextEdit, ...] = ()
    compact: CompactRequest | None = None
    origin: Origin | None = None
    session_key: str | None = None
    home: str = ""
    deadline_s: float | None = None
    caller: Caller = Caller()
    transcription: Transcription | None = None
    speaking: Speech | None = None
    imaging: Imaging | None = None
    live: Any = None
    sources: tuple[CitableSource, ...] = ()
    written: bytes = b""
    size: int = 0

    def __eq__(self, other: object) -> bool:
        """Whether both ask for the same. The body that says so is not compared."""
        if not isinstance(other, GenerationRequest):
            return NotImplemented
        asked = (each for each in self.__struct_fields__ if each not in ("size", "written"))
        return all(getattr(self, each) == getattr(other, each) for each in asked)

    __hash__ = None  # type: ignore[assignment]  # a request holds mappings


PoolKind = Literal["embed", "classify", "score", "next_token"]
"""What is made of an input: a vector, shares of classes, how well a pair of texts fits, or how likely tokens are next."""
PoolInput = str | Sequence[int]  # one text, or the token ids of one


class PoolRequest(Struct, frozen=True):
    """One request for pooled work: numbers for each of `inputs`, in order. Of kind "score" each of `pairs` names a query and a
    document among them, in whose order results come; at most `document_tokens` of a document are read, and `instruction` says
    in words what is sought. `label_ids` are those that "next_token" asks about. `activation` False: raw numbers. `dimensions`
    shortens vectors and makes their length 1 again. `truncate` keeps so many tokens of an input (-1: the context; None refuses
    more); `truncate_side` is cut off. `tasks`: what vectors are for ("query", ...), one or one for each. `user` has asked."""

    id: str
    model: str
    kind: PoolKind
    inputs: tuple[PoolInput, ...] = ()
    dimensions: int | None = None
    truncate: int | None = None
    truncate_side: Literal["start", "end"] = "end"
    tasks: tuple[str, ...] = ()
    add_special_tokens: bool = True
    pairs: tuple[tuple[int, int], ...] = ()
    document_tokens: int | None = None
    instruction: str = ""
    label_ids: tuple[int, ...] = ()
    activation: bool | None = None
    headers: Mapping[str, str] = {}
    caller: Caller = Caller()
    user: str = ""

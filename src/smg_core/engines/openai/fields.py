"""The fields of a request for a Chat Completions server, and the refusal of all others.

Decides, for every record of `request.py`, which fields `body` and `messages` write, and which an engine need not know. A field
in neither table that is set to anything but its default is refused by its path. So a field that the vocabulary gains later is
refused until somebody writes it, and never dropped. Pure. Above: body, messages. Below: the vocabulary.
"""

import attrs
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from smg_core.errors import UnsupportedParameter
from smg_core.request import (
    Audio,
    CustomTool,
    File,
    FunctionTool,
    GenerationRequest,
    Image,
    MediaSource,
    Message,
    Opaque,
    Reasoning,
    ReasoningSettings,
    Refusal,
    Sampling,
    SchemaFormat,
    Text,
    ToolCall,
    ToolChoice,
    ToolResult,
    Video,
)

__all__ = [
    "NOT_SENT",
    "REASONING_FIELDS",
    "WRITTEN",
    "ServerFields",
    "ServerWords",
    "Wire",
    "refuse_unwritten",
    "unsupported",
]

Wire = dict[str, object]
"""A JSON object of the body that is being written."""

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""The fields in which servers write reasoning, and read it. Each reads that in which it writes."""

NOT_SENT: dict[type, frozenset[str]] = {
    GenerationRequest: frozenset({"id", "headers", "caller", "origin", "history", "stream", "background", "include"})
    | {"max_tool_calls", "session_key", "home", "deadline_s", "size", "transcription", "speaking", "live", "written"}
    | {"imaging"}
    | {"own_fields"},
    ReasoningSettings: frozenset({"visible", "keep", "adaptive", "between_tools"}),
    Message: frozenset({"id", "status", "phase"}),
    Image: frozenset({"cache"}),
    Audio: frozenset({"cache"}),
    Video: frozenset({"cache"}),
    File: frozenset({"cache"}),
    Reasoning: frozenset({"id", "summary", "seal", "visible", "cache", "carried"}),
    Refusal: frozenset({"cache"}),
    ToolCall: frozenset({"item_id", "cache"}),
    ToolResult: frozenset({"name", "value", "cache", "is_error"}),
    FunctionTool: frozenset({"cache"}),
    CustomTool: frozenset({"cache"}),
    SchemaFormat: frozenset({"strength"}),
}
"""Fields that an engine need not know: those that the gateway acts on itself (history, what the client is shown, streaming),
ids of the client's items, repetitions (the name and value of a tool's result), and marks for caches, which never change what
the model sees and are written where the wire has a place."""

WRITTEN: dict[type, frozenset[str]] = {
    GenerationRequest: frozenset({"model", "messages", "prompt", "tools", "tool_choice", "response_format", "sampling"})
    | {"reasoning", "template", "template_arguments", "documents", "add_generation_prompt", "continue_final_message"}
    | {"user", "cache_key", "cache_salt", "priority", "service_tier", "metadata", "verbosity", "extra"},
    Sampling: frozenset({"max_tokens", "min_tokens", "temperature", "top_p", "top_k", "min_p"})
    | {"frequency_penalty", "presence_penalty"}
    | {"repetition_penalty", "seed", "stop", "stop_token_ids", "include_stop", "ignore_eos", "skip_special_tokens"}
    | {"logit_bias", "n", "logprobs"},
    ReasoningSettings: frozenset({"effort", "budget_tokens", "enabled"}),
    SchemaFormat: frozenset({"schema", "name", "description", "strict"}),
    ToolChoice: frozenset({"mode", "names", "parallel"}),
    FunctionTool: frozenset({"name", "description", "parameters", "strict"}),
    CustomTool: frozenset({"name", "description", "syntax", "grammar"}),
    Message: frozenset({"role", "parts", "name", "content_is_text"}),
    Text: frozenset({"text", "cache"}),
    Image: frozenset({"source", "detail", "cache"}),
    Audio: frozenset({"source", "format", "cache"}),
    Video: frozenset({"source"}),
    File: frozenset({"source", "filename", "cache"}),
    MediaSource: frozenset({"url", "data", "file_id", "text", "media_type"}),
    Reasoning: frozenset({"text"}),
    Opaque: frozenset({"kind", "payload"}),
    Refusal: frozenset({"text"}),
    ToolCall: frozenset({"id", "name", "arguments", "custom"}),
    ToolResult: frozenset({"call_id", "content"}),
}
"""The fields of each record that are written. A test compares both tables with the records."""


def unsupported(param: str) -> UnsupportedParameter:
    """The error for a field that the API cannot carry; `param` is its path in a `GenerationRequest`."""
    return UnsupportedParameter(
        f"'{param}' cannot be honoured by this model's engine: its API has no way to say it.", param=param
    )


def refuse_unwritten(record: object, path: str) -> None:
    """Raise UnsupportedParameter where `record` sets a field that is in neither table. `path` is the record's, "" for the
    request."""
    for name, default in _UNWRITTEN[type(record)]:
        if getattr(record, name) != default:
            raise unsupported(f"{path}.{name}" if path else name)


def _unwritten(kind: type[Struct]) -> tuple[tuple[str, object], ...]:
    """The fields of `kind` that are in neither table, each with its default."""
    known = WRITTEN[kind] | NOT_SENT.get(kind, frozenset())
    return tuple((field.name, _default(field)) for field in fields(kind) if field.name not in known)


def _default(field: FieldInfo) -> object:
    return field.default if field.default is not NODEFAULT else field.default_factory()


_UNWRITTEN = {kind: _unwritten(kind) for kind in WRITTEN}


@attrs.frozen
class ServerWords:
    """The words that a server reads where servers differ: the role of a message of the `developer`, and the fields of an
    assistant's message that its `reasoning` is read from."""

    developer: str = "developer"
    reasoning: tuple[str, ...] = REASONING_FIELDS[:1]


@attrs.frozen
class ServerFields:
    """The fields that a server takes. `extras`: also those that engines (vLLM, SGLang, our own gateway) add to OpenAI's API.
    A server without them may ignore them silently, so they are refused here."""

    extras: bool = True
    words: ServerWords = ServerWords()

    def needs_extras(self, param: str) -> None:
        """Raise UnsupportedParameter where the server takes OpenAI's fields only. Called before any other is written for
        `param`."""
        if not self.extras:
            raise unsupported(param)

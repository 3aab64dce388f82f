"""What the Chat Completions wire has a word for, and how the rest is refused.

Decides, for every record of `request.py`, which fields `body` and `messages` write, and of which an engine need not know. A
field that is in neither table and is set to anything but its default is refused by its path, so that a field which the
vocabulary gains later is refused, not dropped, until somebody writes it. Pure. Above: body, messages. Below: the vocabulary.
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

__all__ = ["GATEWAYS_OWN", "WRITTEN", "ChatWords", "no_word", "refuse_unwritten"]

GATEWAYS_OWN: dict[type, frozenset[str]] = {
    GenerationRequest: frozenset({"id", "headers", "caller", "origin", "history", "stream", "background", "include"})
    | {"max_tool_calls", "session_key", "deadline_s", "size"},
    ReasoningSettings: frozenset({"visible"}),
    Message: frozenset({"id", "status"}),
    Image: frozenset({"cache"}),
    Audio: frozenset({"cache"}),
    Video: frozenset({"cache"}),
    File: frozenset({"cache"}),
    Reasoning: frozenset({"id", "summary", "seal", "visible", "cache"}),
    Refusal: frozenset({"cache"}),
    ToolCall: frozenset({"item_id", "cache"}),
    ToolResult: frozenset({"name", "value", "cache"}),
    FunctionTool: frozenset({"cache"}),
    CustomTool: frozenset({"cache"}),
}
"""Fields that an engine need not be told of: what the gateway does itself (it loads and saves, it decides what the client is
shown, and the answer is always read as a stream), ids of the client's own items, what is said a second time (the name and value
of a result), and marks for caches, which never change what the model sees; they are written where the wire has a place."""

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
"""Which fields of each record are written. A test holds both tables to the records."""


def no_word(param: str) -> UnsupportedParameter:
    """The refusal of what the wire cannot say; `param` is its path in a `GenerationRequest`."""
    return UnsupportedParameter(
        f"'{param}' cannot be honoured by this model's engine: its API has no way to say it.", param=param
    )


def refuse_unwritten(record: object, path: str) -> None:
    """Refuse a record in which a field that nobody writes is set. `path` is the record's own, "" for the request."""
    for name, default in _UNWRITTEN[type(record)]:
        if getattr(record, name) != default:
            raise no_word(f"{path}.{name}" if path else name)


def _unwritten(kind: type[Struct]) -> tuple[tuple[str, object], ...]:
    """The fields of `kind` that are in neither table, each with its default."""
    known = WRITTEN[kind] | GATEWAYS_OWN.get(kind, frozenset())
    return tuple((field.name, _default(field)) for field in fields(kind) if field.name not in known)


def _default(field: FieldInfo) -> object:
    return field.default if field.default is not NODEFAULT else field.default_factory()


_UNWRITTEN = {kind: _unwritten(kind) for kind in WRITTEN}


@attrs.frozen
class ChatWords:
    """Which words the server at hand takes: `extras` says whether it knows those that engines (vLLM, SGLang, our own
    gateway) add to OpenAI's API reference. A server that does not may ignore them in silence, so they are refused here."""

    extras: bool = True

    def needs_extras(self, param: str) -> None:
        """To be called before a word that is not in OpenAI's reference is written for the field at `param`."""
        if not self.extras:
            raise no_word(param)

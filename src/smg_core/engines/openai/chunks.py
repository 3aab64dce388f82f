"""The JSON of a Chat Completions stream, chunk by chunk, and of the model list, as msgspec reads them.

Wire types only, with the fields that are read: OpenAI's, and what vLLM, SGLang, llama.cpp, Ollama and our own gateway add.
Servers write more and may leave out what they do not know, so unknown fields are skipped and nearly everything is optional.
What a field means is decided in `events` and `answers`.
"""

from typing import Any

from msgspec import Struct

__all__ = [
    "CallWire",
    "ChoiceWire",
    "Chunk",
    "DeltaPart",
    "DeltaWire",
    "ErrorWire",
    "LogprobWire",
    "ModelWire",
    "ModelsWire",
    "UsageWire",
]


class TopWire(Struct, gc=False):
    token: str = ""
    logprob: float = 0.0
    bytes: list[int] | None = None


class LogprobWire(Struct, gc=False):
    """One sampled token; `bytes` is null where the server does not know them."""

    token: str = ""
    logprob: float = 0.0
    bytes: list[int] | None = None
    top_logprobs: list[TopWire] | None = None


class LogprobsWire(Struct, gc=False):
    content: list[LogprobWire] | None = None


class FunctionWire(Struct, gc=False):
    """`arguments` are text as OpenAI has them, or the object itself (older Ollama, gateways before it)."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CustomWire(Struct, gc=False):
    name: str | None = None
    input: str | None = None


class CallWire(Struct, gc=False):
    """A piece of a tool call. The first of a call has its id and name; some servers leave out the index."""

    index: int | None = None
    id: str | None = None
    function: FunctionWire | None = None
    custom: CustomWire | None = None


class OpaqueWire(Struct, gc=False):
    """Our own gateway's word for a block that travels byte for byte."""

    type: str
    data: str
    encoding: str | None = None


class InnerPart(Struct, gc=False):
    text: str | None = None


class DeltaPart(Struct, gc=False):
    """A part of a content. `thinking` is text, or (Mistral) a list of parts."""

    type: str | None = None
    text: str | None = None
    thinking: str | list[InnerPart] | None = None
    refusal: str | None = None


class DeltaWire(Struct, gc=False):
    """`reasoning_content` and `reasoning` are two names of one thing, and some servers write both. `content` is text, or a list
    of parts. `function_call` is the older word for one call; pictures and recordings are not read, and refused."""

    content: str | list[DeltaPart] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[CallWire] | None = None
    function_call: FunctionWire | None = None
    images: list[Any] | None = None
    audio: dict[str, Any] | None = None
    opaque_blocks: list[OpaqueWire] | None = None


class ChoiceWire(Struct, gc=False):
    """A choice without an index is the first. `message` is the whole one of an answer that is no stream, `text` that of servers
    that answer in words of Completions. `stop_reason` (vLLM, ours) and `matched_stop` (SGLang) say which stop string or token
    ended the choice."""

    index: int | None = None
    delta: DeltaWire | None = None
    message: DeltaWire | None = None
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    matched_stop: int | str | None = None
    logprobs: LogprobsWire | None = None


class CachedWire(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class ThoughtWire(Struct, gc=False):
    reasoning_tokens: int | None = None


class UsageWire(Struct, gc=False):
    """Counts; `prompt_cache_hit_tokens` is DeepSeek's word."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: CachedWire | None = None
    completion_tokens_details: ThoughtWire | None = None
    reasoning_tokens: int | None = None
    total_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None


class ErrorWire(Struct, gc=False):
    """What went wrong: OpenAI's `error` object, or the whole body of servers that have no envelope."""

    message: str | None = None
    type: str | None = None
    code: int | str | None = None


class GroqWire(Struct, gc=False):
    """Groq's own part of a chunk."""

    usage: UsageWire | None = None


class Chunk(Struct, gc=False):
    """One event of a stream. An error may come in place of choices, in an envelope, as plain text, or (`object` says so) bare."""

    object: str | None = None
    choices: list[ChoiceWire] | None = None
    usage: UsageWire | None = None
    x_groq: GroqWire | None = None
    error: ErrorWire | str | None = None
    message: str | None = None
    type: str | None = None
    code: int | str | None = None


class MetaWire(Struct, gc=False):
    """What llama.cpp's server says of its model: the context of one request, and the size of the vocabulary."""

    n_ctx: int | None = None
    n_vocab: int | None = None


class ModelWire(Struct, gc=False):
    """A model of the list. `parent` names the model that an adapter belongs to, `root` what the model was loaded from."""

    id: str
    root: str | None = None
    max_model_len: int | None = None
    parent: str | None = None
    meta: MetaWire | None = None


class ModelsWire(Struct, gc=False):
    data: list[ModelWire] | None = None

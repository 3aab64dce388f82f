"""Answers of Chat Completions as msgspec types, for `/openapi.json` and tests of real answers.

The encoders write bytes and do not use these types; their output must decode as them, with no field left over. Above:
the server's descriptions of routes. Below: chat_types."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from smg_core.apis.chat.types import CustomCall
from smg_core.json_types import JsonObject

__all__ = ["ChatCompletion", "ChatCompletionChunk", "ErrorBody"]

AnswerFinishReason = Literal["stop", "length", "tool_calls", "function_call", "content_filter", "abort", "error"]


class _Answer(Struct, forbid_unknown_fields=True):
    """Base of the types: other fields are refused."""


class CalledFunction(_Answer):
    """`arguments` is JSON as text, as the model wrote it."""

    name: str
    arguments: str


class AnswerToolCall(_Answer):
    """A call of a function, or of a custom tool."""

    id: str
    type: Literal["function", "custom"]
    function: CalledFunction | UnsetType = UNSET
    custom: CustomCall | UnsetType = UNSET


class AnswerOpaqueBlock(_Answer):
    """A part of the answer that the client returns byte for byte; `index` numbers the blocks of a choice in a stream."""

    type: str
    data: str
    index: int | UnsetType = UNSET


class AnswerMessage(_Answer):
    """The message of one choice. `reasoning_content` is the model's reasoning, if it is shown."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    reasoning_content: str | UnsetType | None = UNSET
    tool_calls: list[AnswerToolCall] | UnsetType = UNSET
    function_call: CalledFunction | UnsetType = UNSET
    opaque_blocks: list[AnswerOpaqueBlock] | UnsetType = UNSET
    annotations: list[JsonObject] | UnsetType = UNSET


class AnswerTopLogprob(_Answer):
    """One alternative of a token; `bytes` are its UTF-8 bytes."""

    token: str
    logprob: float
    bytes: list[int] | None


class AnswerTokenLogprob(AnswerTopLogprob):
    """One token of the answer, with its likeliest alternatives."""

    top_logprobs: list[AnswerTopLogprob]


class ChoiceLogprobs(_Answer):
    """Log probabilities of the tokens of one choice."""

    content: list[AnswerTokenLogprob] | None
    refusal: list[AnswerTokenLogprob] | None


class AnswerChoice(_Answer):
    """One of the `n` answers."""

    index: int
    message: AnswerMessage
    finish_reason: AnswerFinishReason | None
    logprobs: ChoiceLogprobs | None
    stop_reason: str | int | UnsetType | None = UNSET
    token_ids: list[int] | UnsetType = UNSET


class PromptTokensDetails(_Answer):
    """How many of the prompt's tokens the engine had in its cache, and how many it put there, where it says so."""

    cached_tokens: int
    cache_write_tokens: int | UnsetType = UNSET


class CompletionTokensDetails(_Answer):
    """How many tokens of all choices are reasoning."""

    reasoning_tokens: int


class AnswerUsage(_Answer):
    """Counts of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | UnsetType = UNSET
    completion_tokens_details: CompletionTokensDetails | UnsetType = UNSET


class ChatCompletion(_Answer):
    """A whole answer. `created` is seconds since the epoch."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[AnswerChoice]
    usage: AnswerUsage | UnsetType = UNSET
    service_tier: str | UnsetType = UNSET
    system_fingerprint: str | UnsetType = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET


class ChunkToolCall(_Answer):
    """A piece of the call of that index; the first piece has its id, type and name."""

    index: int
    id: str | UnsetType = UNSET
    type: Literal["function", "custom"] | UnsetType = UNSET
    function: dict[str, str] | UnsetType = UNSET
    custom: dict[str, str] | UnsetType = UNSET


class Delta(_Answer):
    """What a chunk adds to the message of its choice."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    refusal: str | UnsetType | None = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ChunkToolCall] | UnsetType = UNSET
    function_call: dict[str, str] | UnsetType = UNSET
    opaque_blocks: list[AnswerOpaqueBlock] | UnsetType = UNSET


class ChunkChoice(_Answer):
    """What a chunk adds to one choice."""

    index: int
    delta: Delta
    logprobs: ChoiceLogprobs | None
    finish_reason: AnswerFinishReason | None
    stop_reason: str | int | UnsetType | None = UNSET
    token_ids: list[int] | UnsetType = UNSET


class ChatCompletionChunk(_Answer):
    """The data of one server-sent event of a stream, which ends with `[DONE]`; an error has `error` instead."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: AnswerUsage | UnsetType | None = UNSET
    service_tier: str | UnsetType = UNSET
    system_fingerprint: str | UnsetType = UNSET
    obfuscation: str | UnsetType = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET


class ErrorDetail(_Answer):
    """`param` is the path of the field at fault, `code` a word for programs."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(_Answer):
    """OpenAI's error envelope."""

    error: ErrorDetail

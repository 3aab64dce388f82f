"""The answers of Messages and count_tokens as types, for the API's description: what the encoders write.

Pure. Above: the descriptions of routes. Below: msgspec.
"""

from typing import Literal

from msgspec import Struct

from smg_core.json_types import JsonObject

__all__ = ["MessageAnswer", "TokenCountAnswer"]

StopReason = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
]


class AnswerText(Struct, tag_field="type", tag="text"):
    text: str
    citations: None = None


class AnswerThinking(Struct, tag_field="type", tag="thinking"):
    thinking: str
    signature: str


class AnswerToolUse(Struct, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: JsonObject


class ThinkingTokens(Struct):
    thinking_tokens: int


class MessageUsage(Struct):
    """The prompt's tokens are the sum of the first three."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens
    service_tier: str


class MessageAnswer(Struct):
    """The answer of the model."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[AnswerText | AnswerThinking | AnswerToolUse]
    stop_reason: StopReason
    stop_sequence: str | None
    usage: MessageUsage
    stop_details: JsonObject | None = None
    container: None = None


class TokenCountAnswer(Struct):
    """How many tokens the prompt has."""

    input_tokens: int

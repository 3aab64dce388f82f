"""The answers of Messages and count_tokens as types, for the API's description: what the encoders write.

Pure. Above: the descriptions of routes. Below: msgspec.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

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
    "compaction",
]


class AnswerText(Struct, tag_field="type", tag="text"):
    text: str
    citations: list[JsonObject] | None = None


class AnswerThinking(Struct, tag_field="type", tag="thinking"):
    thinking: str
    signature: str


class AnswerToolUse(Struct, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: JsonObject


class AnswerCompaction(Struct, tag_field="type", tag="compaction"):
    """What came before, as a summary."""

    content: str | None
    encrypted_content: None = None
    signature: None = None


class Iteration(Struct):
    """The tokens of one turn of an answer whose history was compacted."""

    type: Literal["compaction", "message"]
    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    cache_creation: None = None


class ThinkingTokens(Struct):
    thinking_tokens: int


class ServerToolUses(Struct):
    """Calls of server tools that ran here, without those that failed."""

    web_search_requests: int
    web_fetch_requests: int


class AnswerServerToolUse(Struct, tag_field="type", tag="server_tool_use"):
    """A call of a server tool."""

    id: str
    name: Literal["web_search", "web_fetch"]
    input: JsonObject
    caller: JsonObject


class AnswerWebSearch(Struct, tag_field="type", tag="web_search_tool_result"):
    """What a search of the web has found, or why there is nothing."""

    tool_use_id: str
    content: list[JsonObject] | JsonObject
    caller: JsonObject


class AnswerWebFetch(Struct, tag_field="type", tag="web_fetch_tool_result"):
    """A page of the web, or why there is none."""

    tool_use_id: str
    content: JsonObject
    caller: JsonObject


class MessageUsage(Struct):
    """The prompt's tokens are the sum of the first three."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens
    service_tier: str
    iterations: list[Iteration] | UnsetType = UNSET
    server_tool_use: ServerToolUses | UnsetType = UNSET


class MessageAnswer(Struct):
    """The answer of the model."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[
        AnswerText
        | AnswerThinking
        | AnswerToolUse
        | AnswerCompaction
        | AnswerServerToolUse
        | AnswerWebSearch
        | AnswerWebFetch
    ]
    stop_reason: StopReason
    stop_sequence: str | None
    usage: MessageUsage
    stop_details: JsonObject | None = None
    container: JsonObject | None = None


class TokenCountAnswer(Struct):
    """How many tokens the prompt has."""

    input_tokens: int

"""What the fakes of providers of Chat Completions say: one answer for each case, by the types of OpenAI's own library."""

from collections.abc import Mapping
from typing import Any

import msgspec
from openai.types.chat import ChatCompletionChunk
from tests.providers.answers import KEY, Format
from tests.providers.fake import Said, sse

from smg_core.engines.connections.credential import CredentialSpec

__all__ = ["CHAT_FORMATS", "MORE_CHAT_FORMATS"]

MODEL = "vendor-model"


def chat_stream(*deltas: Mapping[str, Any], stop: str = "stop") -> bytes:
    """A stream of Chat Completions: Azure's chunk without choices first, the deltas, the end, the counts."""
    plain = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    ended = [{"index": 0, "delta": {}, "finish_reason": stop}]
    chunks = [
        {**plain, "choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]},
        {**plain, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
        *({**plain, "choices": [{"index": 0, "delta": each, "finish_reason": None}]} for each in deltas),
        {**plain, "choices": ended},
        {**plain, "choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21}},
    ]
    for each in chunks:
        ChatCompletionChunk.model_validate(each)
    return sse([*((None, each) for each in chunks), (None, "[DONE]")])


def _said(text: str) -> list[Mapping[str, Any]]:
    return [{"content": each} for each in (text[:3], text[3:]) if each]


def _called(index: int, call_id: str, city: str) -> list[Mapping[str, Any]]:
    first = {"index": index, "id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    pieces = ('{"city"', f':"{city}"}}')
    more = [{"index": index, "function": {"arguments": each}} for each in pieces]
    return [{"tool_calls": [each]} for each in (first, *more)]


def _refused(status: int, code: str, text: str, **headers: str) -> Said:
    body = {"error": {"code": code, "message": text, "type": "an_error", "param": None}}
    return Said(msgspec.json.encode(body), status, "application/json", headers)


_STREAMS = {
    "text": chat_stream(*_said("Hello")),
    "tool": chat_stream(*_called(0, "callabc12", "Paris"), stop="tool_calls"),
    "parallel": chat_stream(*_called(0, "callabc12", "Paris"), *_called(1, "callabc13", "Rome"), stop="tool_calls"),
    "json": chat_stream(*_said('{"city":"Paris"}')),
    "length": chat_stream(*_said("Hello"), stop="length"),
    "refusal": chat_stream(*_said("Hello"), stop="content_filter"),
    "thinking": chat_stream({"reasoning_content": "Let me see"}, *_said("Hello")),
    "hidden_tool": chat_stream(*_called(0, "callabc12", "Paris"), stop="tool_calls"),
    "thinking_tool": chat_stream(*_called(0, "callabc12", "Paris"), stop="tool_calls"),
}
_REASONED = {
    "thinking_tool": chat_stream(
        {"reasoning_content": "Let me see"}, *_called(0, "callabc12", "Paris"), stop="tool_calls"
    )
}
_ERRORS = {
    "rejected": _refused(400, "invalid_value", "messages[0]: bad, says https://internal.example/x"),
    "too_long": _refused(400, "context_length_exceeded", "This model's maximum context length is 8192 tokens"),
    "credentials": _refused(401, "invalid_api_key", f"Incorrect API key provided: {KEY}"),
    "unfunded": _refused(429, "insufficient_quota", "no money"),
    "limited": _refused(429, "rate_limit_exceeded", "slow down", **{"retry-after": "7"}),
    "overloaded": _refused(503, "server_is_overloaded", "busy"),
    "late": _refused(504, "timeout", "too slow"),
    "failed": _refused(500, "server_error", "failed"),
    "no_model": _refused(404, "DeploymentNotFound", "The API deployment for this resource does not exist."),
}


def _nothing(path: str) -> Said:
    raise AssertionError(f"nobody asks for {path}")


def _format(kind: str, header: tuple[str, str], returned: str = "") -> Format:
    return Format(
        kind,
        MODEL,
        _STREAMS | _REASONED if kind == "deepseek" else _STREAMS,
        _ERRORS,
        sse([(None, {"error": {"code": "server_is_overloaded", "message": "busy"}})]),
        _nothing,
        header,
        credential=CredentialSpec(key=KEY),
        filters=True,
        signs=False,
        returned=returned,
        documents=kind in ("azure", "openrouter"),
        schemas=kind != "deepseek",
    )


CHAT_FORMATS: Mapping[str, Format] = {
    "azure": _format("azure", ("api-key", KEY)),
    "mistral": _format("mistral", ("authorization", f"Bearer {KEY}")),
    "openrouter": _format("openrouter", ("authorization", f"Bearer {KEY}"), "reasoning"),
    "xai": _format("xai", ("authorization", f"Bearer {KEY}")),
    "deepseek": _format("deepseek", ("authorization", f"Bearer {KEY}"), "reasoning_content"),
    "groq": _format("groq", ("authorization", f"Bearer {KEY}")),
}
"""The formats of six providers of Chat Completions, by their kinds; the rest deviates from one of these by its profile alone."""

MORE_CHAT_FORMATS: Mapping[str, Format] = {
    "openai-chat": _format("openai-chat", ("authorization", f"Bearer {KEY}")),
    "together": _format("together", ("authorization", f"Bearer {KEY}")),
    "fireworks": _format("fireworks", ("authorization", f"Bearer {KEY}"), "reasoning_content"),
    "cohere": _format("cohere", ("authorization", f"Bearer {KEY}")),
    "bedrock-mantle": _format("bedrock-mantle", ("authorization", f"Bearer {KEY}")),
}
"""The rest, which are walked by the official SDKs."""

"""What the fakes say: one answer for each case, in each provider's own format, by the types of its official SDK.

Each `Format` has the same cases, so that a test walks all of them. The events are checked against the SDK's types where they are
made: an answer that the provider could not give is a fault of the test.
"""

from collections.abc import Callable, Mapping
from typing import Any

import anthropic.types as claude
import attrs
import google.genai.types as google
import msgspec
import openai.types.responses as gpt
from pydantic import TypeAdapter
from tests.providers.fake import Heard, Said, sse
from tests.providers.wholes import asks_for_whole, whole_of

from smg_core.engines.connections.credential import CredentialSpec

__all__ = ["CASES", "ERRORS", "FORMATS", "Format", "script"]

CASES = ("text", "tool", "parallel", "json", "length", "refusal", "thinking", "thinking_tool", "hidden_tool")
"""The answers that every format has. `thinking` has the signed reasoning SIGNATURE before a text, `thinking_tool` before a
call; in `hidden_tool` it has no text."""
ERRORS = ("rejected", "too_long", "credentials", "unfunded", "limited", "overloaded", "late", "failed", "no_model")
"""The classes of refusals that every format has."""

MODEL = "claude-opus-5-5"
SIGNATURE = "c2lnbmF0dXJlIG9mIGEgdGVzdA=="
KEY = "secret-key-of-a-test"


@attrs.frozen
class Format:
    """One provider's format: the kind of its worker, its model, where a stream is asked for, and what is said. `filters`: where
    the model declines, the provider's filter has cut the answer off. `cut_at` is where the text is cut, where that is not behind
    an event of text; `signs`: it has reasoning that is signed; `returned` is the field in which it takes plain reasoning back.
    `documents`: it reads PDF itself; `schemas`: it is held to a schema. `wholes` are the streams of which whole answers are made,
    where these are others."""

    kind: str
    model: str
    streams: Mapping[str, bytes]
    errors: Mapping[str, Said]
    error_in_stream: bytes
    about: Callable[[str], Said]
    key: tuple[str, str]
    counted: Said | None = None
    filters: bool = False
    credential: CredentialSpec | None = None
    content_type: str = "text/event-stream"
    cut_at: int | None = None
    signs: bool = True
    returned: str = ""
    documents: bool = True
    schemas: bool = True
    wholes: Mapping[str, bytes] = attrs.field(factory=dict)


def script(form: Format, case: str) -> Callable[[Heard], Said]:
    """Answers each request by `case`, and questions about models as the provider does."""

    def answer(heard: Heard) -> Said:
        if heard.method == "GET":
            return form.about(heard.path)
        if ("count" in heard.path or "input_tokens" in heard.path) and form.counted is not None:
            return form.counted
        if case in form.errors:
            return form.errors[case]
        stream = form.streams.get(case) or form.streams["text"]
        if asks_for_whole(heard.path, heard.body):
            told = form.wholes or form.streams
            whole = whole_of(told.get(case) or told["text"])
            return Said(whole, kind="application/json", cut_at=len(whole) // 2 if case == "cut" else None)
        if case != "cut":
            return Said(stream, kind=form.content_type)
        after = form.cut_at or stream.index(b"\n\n", stream.index(b"Hel")) + 2
        return Said(stream, kind=form.content_type, cut_at=after)

    return answer


def _json(status: int, body: Any, **headers: str) -> Said:
    return Said(msgspec.json.encode(body), status, "application/json", headers)


# --------------------------------------------------------------------------------------------------------- anthropic

_CLAUDE: TypeAdapter[Any] = TypeAdapter(claude.RawMessageStreamEvent)


def claude_stream(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], stop: str = "end_turn", **usage: int) -> bytes:
    """A stream of Messages: blocks with their deltas."""
    counts = {"input_tokens": 7, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [], "usage": counts}
    message |= {"stop_reason": None, "stop_sequence": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": stop, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 9, **usage}})
    events.append({"type": "message_stop"})
    for each in events:
        if each["type"] != "ping":
            _CLAUDE.validate_python(each)
    return sse([(each["type"], each) for each in events])


def _said(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    pieces = [text[:3], text[3:]]
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": each} for each in pieces if each]


def _called(call_id: str, city: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    block = {"type": "tool_use", "id": call_id, "name": "get_weather", "input": {}}
    pieces = ["", '{"city"', f':"{city}"}}']
    return block, [{"type": "input_json_delta", "partial_json": each} for each in pieces]


def _thought(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    deltas = [{"type": "thinking_delta", "thinking": text}, {"type": "signature_delta", "signature": SIGNATURE}]
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


def _claude_error(status: int, kind: str, text: str, **headers: str) -> Said:
    return _json(status, {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}, **headers)


_CLAUDE_FORMAT = Format(
    "anthropic",
    MODEL,
    {
        "text": claude_stream(_said("Hello")),
        "tool": claude_stream(_called("toolu_1", "Paris"), stop="tool_use"),
        "parallel": claude_stream(_called("toolu_1", "Paris"), _called("toolu_2", "Rome"), stop="tool_use"),
        "json": claude_stream(_said('{"city":"Paris"}')),
        "length": claude_stream(_said("Hello"), stop="max_tokens"),
        "refusal": claude_stream(_said("Hello"), stop="refusal"),
        "thinking": claude_stream(_thought("Let me see"), _said("Hello")),
        "thinking_tool": claude_stream(_thought("Let me see"), _called("toolu_1", "Paris"), stop="tool_use"),
        "hidden_tool": claude_stream(
            ({"type": "redacted_thinking", "data": SIGNATURE}, []), _called("toolu_1", "Paris"), stop="tool_use"
        ),
    },
    {
        "rejected": _claude_error(400, "invalid_request_error", "messages.0: bad, says https://internal.example/x"),
        "too_long": _claude_error(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
        "credentials": _claude_error(401, "authentication_error", "invalid x-api-key"),
        "unfunded": _claude_error(402, "billing_error", "no money"),
        "limited": _claude_error(429, "rate_limit_error", "slow down", **{"retry-after": "7"}),
        "overloaded": _claude_error(529, "overloaded_error", "Overloaded"),
        "late": _claude_error(504, "timeout_error", "too slow"),
        "failed": _claude_error(500, "api_error", "Internal server error"),
        "no_model": _claude_error(404, "not_found_error", f"model: {MODEL}"),
    },
    sse([("error", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})]),
    lambda path: _json(
        200,
        {
            "id": path.rpartition("/")[2],
            "type": "model",
            "created_at": "2026-01-01T00:00:00Z",
            "display_name": "A model",
            "lifecycle": "active",
            "max_input_tokens": 200_000,
            "max_tokens": 64_000,
        },
    ),
    ("x-api-key", KEY),
    _json(200, {"input_tokens": 14}),
)

# ------------------------------------------------------------------------------------------------------------ gemini

GEMINI = "gemini-3-pro"


def gemini_stream(*chunks: list[dict[str, Any]], stop: str = "STOP", **usage: int) -> bytes:
    """A stream of generateContent: the parts of each chunk. The reason to end is in every chunk, as it may be."""
    counts = {"promptTokenCount": 12, "cachedContentTokenCount": 3, "candidatesTokenCount": 4, "thoughtsTokenCount": 5}
    events = []
    for parts in chunks:
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": stop}
        events.append({"candidates": [candidate], "usageMetadata": {**counts, "totalTokenCount": 21, **usage}})
    for each in events:
        google.GenerateContentResponse.model_validate(each)
    return sse([(None, each) for each in events])


def _gemini_call(city: str, call_id: str, signature: str | None = None) -> dict[str, Any]:
    call = {"functionCall": {"name": "get_weather", "args": {"city": city}, "id": call_id}}
    return call if signature is None else {**call, "thoughtSignature": signature}


def _gemini_error(status: int, word: str, text: str, *details: Any) -> Said:
    return _json(status, {"error": {"code": status, "message": text, "status": word, "details": list(details)}})


_THOUGHT = {"text": "Let me see", "thought": True}
_DAY = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
}
_MINUTE = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}

_GEMINI_FORMAT = Format(
    "gemini",
    GEMINI,
    {
        "text": gemini_stream([{"text": "Hel"}], [{"text": "lo"}]),
        "tool": gemini_stream([_gemini_call("Paris", "call_1")]),
        "parallel": gemini_stream([_gemini_call("Paris", "call_1", SIGNATURE)], [_gemini_call("Rome", "call_2")]),
        "json": gemini_stream([{"text": '{"city"'}], [{"text": ':"Paris"}'}]),
        "length": gemini_stream([{"text": "Hello"}], stop="MAX_TOKENS"),
        "refusal": gemini_stream([{"text": "Hello"}], stop="SAFETY"),
        "thinking": gemini_stream([_THOUGHT], [{"text": "Hello"}], [{"text": "", "thoughtSignature": SIGNATURE}]),
        "thinking_tool": gemini_stream([_THOUGHT], [_gemini_call("Paris", "call_1", SIGNATURE)]),
        "hidden_tool": gemini_stream([_gemini_call("Paris", "call_1", SIGNATURE)]),
        "cut": gemini_stream([{"text": "Hel"}], stop="FINISH_REASON_UNSPECIFIED"),
    },
    {
        "rejected": _gemini_error(400, "INVALID_ARGUMENT", "bad, says https://internal.example/x"),
        "too_long": _gemini_error(
            400,
            "INVALID_ARGUMENT",
            "The input token count (250000) exceeds the maximum number of tokens allowed (200000).",
        ),
        "credentials": _gemini_error(400, "INVALID_ARGUMENT", "API key not valid.", {"reason": "API_KEY_INVALID"}),
        "unfunded": _gemini_error(429, "RESOURCE_EXHAUSTED", "quota", _DAY),
        "limited": _gemini_error(429, "RESOURCE_EXHAUSTED", "slow down", _MINUTE),
        "overloaded": _gemini_error(503, "UNAVAILABLE", "overloaded"),
        "late": _gemini_error(504, "DEADLINE_EXCEEDED", "too slow"),
        "failed": _gemini_error(500, "INTERNAL", "internal"),
        "no_model": _gemini_error(404, "NOT_FOUND", f"models/{GEMINI} is not found"),
    },
    sse([(None, {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}})]),
    lambda path: _json(
        200,
        {
            "name": f"models/{path.rpartition('/')[2]}",
            "inputTokenLimit": 1_000_000,
            "outputTokenLimit": 64_000,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        },
    ),
    ("x-goog-api-key", KEY),
    _json(200, {"totalTokens": 14}),
    filters=True,
)

# --------------------------------------------------------------------------------------------------------- responses

GPT = "gpt-6-astra"
_EVENT: TypeAdapter[Any] = TypeAdapter(gpt.ResponseStreamEvent)


def responses_stream(*items: tuple[dict[str, Any], list[dict[str, Any]]], end: dict[str, Any] | None = None) -> bytes:
    """A stream of Responses: items with the events between their beginning and their end."""
    usage = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 21,
    }
    shell = {"id": "resp_1", "object": "response", "created_at": 1, "model": GPT, "output": [], "tools": []}
    shell |= {"parallel_tool_calls": True, "tool_choice": "auto", "status": "in_progress", "incomplete_details": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": shell}]
    for place, (item, between) in enumerate(items):
        begun = {**item, **{name: "" for name in ("arguments",) if name in item}}
        if item["type"] == "message":
            begun = {**item, "content": [], "status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": place, "item": begun})
        events += [{"output_index": place, "item_id": item["id"], **each} for each in between]
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    last = {"status": "completed", **(end or {}), "usage": usage, "output": [item for item, _ in items]}
    events.append({"type": f"response.{last['status']}", "response": {**shell, **last}})
    for number, each in enumerate(events):
        each["sequence_number"] = number
        _EVENT.validate_python(each)
    return sse([(each["type"], each) for each in events])


def _gpt_text(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    delta = {"type": "response.output_text.delta", "content_index": 0, "logprobs": []}
    pieces = [{**delta, "delta": text[:3]}, {**delta, "delta": text[3:]}]
    done = {"type": "response.output_text.done", "content_index": 0, "text": text, "logprobs": []}
    return item, _gpt_part(part, {**part, "text": ""}, [*pieces, done])


def _gpt_part(whole: dict[str, Any], begun: dict[str, Any], between: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of the one part of a message: its beginning, those between, and its end."""
    added, done = ({"type": f"response.content_part.{each}", "content_index": 0} for each in ("added", "done"))
    return [{**added, "part": begun}, *between, {**done, "part": whole}]


def _gpt_refusal(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    part = {"type": "refusal", "refusal": text}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    delta = {"type": "response.refusal.delta", "content_index": 0, "delta": text}
    done = {"type": "response.refusal.done", "content_index": 0, "refusal": text}
    return item, _gpt_part(part, {**part, "refusal": ""}, [delta, done])


def _gpt_call(call_id: str, city: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    arguments = f'{{"city":"{city}"}}'
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "get_weather"}
    delta = {"type": "response.function_call_arguments.delta"}
    pieces = [{**delta, "delta": each} for each in (arguments[:5], arguments[5:])]
    return {**item, "arguments": arguments, "status": "completed"}, pieces


def _gpt_thought(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": SIGNATURE}
    delta = {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": text}
    if not text:
        return {**item, "summary": []}, []
    return {**item, "summary": [{"type": "summary_text", "text": text}]}, [delta]


def _gpt_error(status: int, kind: str, code: str | None, text: str, **headers: str) -> Said:
    return _json(status, {"error": {"message": text, "type": kind, "param": None, "code": code}}, **headers)


_RESPONSES_FORMAT = Format(
    "openai-responses",
    GPT,
    {
        "text": responses_stream(_gpt_text("Hello")),
        "tool": responses_stream(_gpt_call("call_1", "Paris")),
        "parallel": responses_stream(_gpt_call("call_1", "Paris"), _gpt_call("call_2", "Rome")),
        "json": responses_stream(_gpt_text('{"city":"Paris"}')),
        "length": responses_stream(
            _gpt_text("Hello"), end={"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        ),
        "refusal": responses_stream(_gpt_refusal("Hello")),
        "thinking": responses_stream(_gpt_thought("Let me see"), _gpt_text("Hello")),
        "thinking_tool": responses_stream(_gpt_thought("Let me see"), _gpt_call("call_1", "Paris")),
        "hidden_tool": responses_stream(_gpt_thought(""), _gpt_call("call_1", "Paris")),
    },
    {
        "rejected": _gpt_error(400, "invalid_request_error", None, "bad, says https://internal.example/x"),
        "too_long": _gpt_error(400, "invalid_request_error", "context_length_exceeded", "Your input exceeds it."),
        "credentials": _gpt_error(401, "invalid_request_error", "invalid_api_key", "Incorrect API key"),
        "unfunded": _gpt_error(429, "insufficient_quota", "insufficient_quota", "You exceeded your quota"),
        "limited": _gpt_error(429, "requests", "rate_limit_exceeded", "slow down", **{"retry-after": "7"}),
        "overloaded": _gpt_error(503, "server_error", "server_is_overloaded", "overloaded"),
        "late": _gpt_error(504, "server_error", None, "too slow"),
        "failed": _gpt_error(500, "server_error", None, "sorry"),
        "no_model": _gpt_error(404, "invalid_request_error", "model_not_found", f"{GPT} does not exist"),
    },
    sse([("error", {"type": "error", "code": "server_is_overloaded", "message": "overloaded", "sequence_number": 1})]),
    lambda path: _json(200, {"id": path.rpartition("/")[2], "object": "model", "created": 1, "owned_by": "openai"}),
    ("authorization", f"Bearer {KEY}"),
    _json(200, {"object": "response.input_tokens", "input_tokens": 14}),
)

FORMATS: Mapping[str, Format] = {each.kind: each for each in (_CLAUDE_FORMAT, _GEMINI_FORMAT, _RESPONSES_FORMAT)}
"""Every provider's format, by the kind of its worker."""

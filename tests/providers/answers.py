"""What the fakes say: one answer for each case, in each provider's own format, by the types of its official SDK.

Each `Format` has the same cases, so that a test walks all of them. The events are checked against the SDK's types where they are
made: an answer that the provider could not give is a fault of the test.
"""

from collections.abc import Callable, Mapping
from typing import Any

import anthropic.types as claude
import attrs
import msgspec
from pydantic import TypeAdapter
from tests.providers.fake import Heard, Said, sse

from smg_core.engines.connections.credential import CredentialSpec

__all__ = ["CASES", "ERRORS", "FORMATS", "Format", "script"]

CASES = ("text", "tool", "parallel", "json", "length", "refusal", "thinking", "thinking_tool")
"""The answers that every format has. `thinking` has the signed reasoning SIGNATURE before a text, `thinking_tool` before a
call."""
ERRORS = ("rejected", "too_long", "credentials", "unfunded", "limited", "overloaded", "late", "failed", "no_model")
"""The classes of refusals that every format has."""

MODEL = "claude-opus-5-5"
SIGNATURE = "c2lnbmF0dXJlIG9mIGEgdGVzdA=="
KEY = "secret-key-of-a-test"


@attrs.frozen
class Format:
    """One provider's format: the kind of its worker, its model, where a stream is asked for, and what is said. `cut_at` is where
    the text is cut, where that is not behind an event of text; `filtered`: what it declines is the word of a filter."""

    kind: str
    model: str
    streams: Mapping[str, bytes]
    errors: Mapping[str, Said]
    error_in_stream: bytes
    about: Callable[[str], Said]
    key: tuple[str, str]
    counted: Said | None = None
    credential: CredentialSpec | None = None
    content_type: str = "text/event-stream"
    cut_at: int | None = None
    filtered: bool = False


def script(form: Format, case: str) -> Callable[[Heard], Said]:
    """Answers each request by `case`, and questions about models as the provider does."""

    def answer(heard: Heard) -> Said:
        if heard.method == "GET":
            return form.about(heard.path)
        if ("count" in heard.path or "input_tokens" in heard.path) and form.counted is not None:
            return form.counted
        if case in form.errors:
            return form.errors[case]
        stream = form.streams["text" if case == "cut" else case]
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

FORMATS: Mapping[str, Format] = {each.kind: each for each in (_CLAUDE_FORMAT,)}
"""Every provider's format, by the kind of its worker."""

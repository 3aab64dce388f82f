"""The contents of an answer, in whatever API: its text, reasoning and calls, how it ended, and its tokens.

Chat Completions, Responses, Messages and generateContent are read, streamed and whole; of any other API the text is the whole
body, without what is another one in every answer. Pure. Above: recording, replaying. Below: secret_names, smg_core.sse.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from smg_core.errors import EngineGarbled
from smg_core.sse import SseReader
from smg_simulator.cassettes.secret_names import without_secrets

__all__ = ["AnswerSummary", "summary_of_answer"]

_MOST = 1 << 20  # characters of a text that are kept
_Json = Mapping[str, Any]
_EACH_ANOTHER = frozenset({"id", "created", "created_at", "completed_at", "expires_at", "request_id", "responseId"})
_EPHEMERAL = "/client_secrets"
"""The end of the path of an API whose answers are keys."""


class AnswerSummary(msgspec.Struct, omit_defaults=True):
    """What one answer says. `calls` are names with arguments as JSON; `characters` is the length of its text, which stays where
    the text itself is left out."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = []
    finish: str = ""
    prompt_tokens: int = 0
    output_tokens: int = 0
    error: str = ""
    characters: int = 0

    def without_words(self) -> "AnswerSummary":
        """The same without what it says: the names of calls, lengths and numbers stay."""
        return AnswerSummary(
            calls=[(name, "") for name, _ in self.calls],
            finish=self.finish,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            error="(left out)" if self.error else "",
            characters=self.characters,
        )


def summary_of_answer(path: str, status: int, content_type: str, body: bytes) -> AnswerSummary:
    """What the whole body of an answer says."""
    if status >= 400:
        return AnswerSummary(error=body[:_MOST].decode(errors="replace"))
    read = next((each for suffix, each in _READERS.items() if path.partition("?")[0].endswith(suffix)), None)
    try:
        if read is None:
            summary = AnswerSummary(text=_other(path, body)[:_MOST])
        elif content_type.startswith("text/event-stream"):
            summary = AnswerSummary()
            for event in _events(body):
                read(summary, event)
        else:
            summary, found = AnswerSummary(), msgspec.json.decode(body)
            for piece in found if isinstance(found, list) else [found]:
                read(summary, _object(piece))
    except (msgspec.DecodeError, EngineGarbled, KeyError, TypeError, IndexError, AttributeError) as error:
        return AnswerSummary(error=f"it cannot be read: {type(error).__name__}", characters=len(body))
    summary.characters = len(summary.text)
    return summary


def _other(path: str, body: bytes) -> str:
    """The body of an answer of an API that is not read."""
    try:
        found = without_secrets(msgspec.json.decode(body))
    except msgspec.DecodeError:
        return body[:_MOST].decode(errors="replace")
    if isinstance(found, dict) and path.partition("?")[0].endswith(_EPHEMERAL):
        found.pop("value", None)
    return msgspec.json.encode(_lasting(found)).decode()


def _lasting(value: Any) -> Any:
    if isinstance(value, list):
        return [_lasting(each) for each in value]
    if isinstance(value, dict):
        return {name: _lasting(each) for name, each in value.items() if name not in _EACH_ANOTHER}
    return value


def _events(body: bytes) -> Iterator[_Json]:
    reader = SseReader(max_event_bytes=max(1, len(body)))
    for event in reader.feed(body):
        if event.data != "[DONE]":
            yield _object(msgspec.json.decode(event.data))


def _object(found: Any) -> _Json:
    return found if isinstance(found, dict) else {}


def _chat(summary: AnswerSummary, piece: _Json) -> None:
    """A chunk of Chat Completions, or a whole answer, whose first choice counts."""
    if piece.get("error"):
        summary.error = str(piece["error"])[:_MOST]
    usage = piece.get("usage") or {}
    summary.prompt_tokens = usage.get("prompt_tokens", summary.prompt_tokens)
    summary.output_tokens = usage.get("completion_tokens", summary.output_tokens)
    for choice in piece.get("choices") or ():
        if choice.get("index", 0):
            continue
        part = choice.get("delta") or choice.get("message") or {}
        summary.text += part.get("content") or choice.get("text") or ""
        summary.reasoning += part.get("reasoning_content") or part.get("reasoning") or ""
        summary.finish = choice.get("finish_reason") or summary.finish
        for at, call in enumerate(part.get("tool_calls") or ()):
            function, index = call.get("function") or {}, call.get("index", at)
            while len(summary.calls) <= index:
                summary.calls.append(("", ""))
            name, arguments = summary.calls[index]
            summary.calls[index] = (name + (function.get("name") or ""), arguments + (function.get("arguments") or ""))


def _responses(summary: AnswerSummary, piece: _Json) -> None:
    """An event of Responses that ends it, or a whole response."""
    if piece.get("type") == "error":
        summary.error = str(piece)[:_MOST]
    whole = piece.get("response") if "response" in piece else piece if piece.get("object") == "response" else None
    if not isinstance(whole, dict) or whole.get("status") in ("in_progress", "queued"):
        return
    usage = whole.get("usage") or {}
    summary.finish = str(whole.get("status", ""))
    summary.prompt_tokens, summary.output_tokens = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    for item in whole.get("output") or ():
        if item["type"] == "message":
            summary.text += "".join(part.get("text", "") for part in item["content"])
        elif item["type"] == "reasoning":
            summary.reasoning += "".join(
                part.get("text", "") for part in item.get("content") or item.get("summary") or ()
            )
        elif "name" in item:
            summary.calls.append((item["name"], item.get("arguments") or item.get("input") or ""))


def _messages(summary: AnswerSummary, piece: _Json) -> None:
    """An event of Messages, or a whole message."""
    if piece.get("type") == "error":
        summary.error = str(piece.get("error"))[:_MOST]
    usage = piece.get("usage") or _object(piece.get("message")).get("usage") or {}
    summary.prompt_tokens = usage.get("input_tokens", summary.prompt_tokens)
    summary.output_tokens = usage.get("output_tokens", summary.output_tokens)
    summary.finish = _object(piece.get("delta")).get("stop_reason") or piece.get("stop_reason") or summary.finish
    for block in piece.get("content") or ():
        _block(summary, block)
    if piece.get("type") == "content_block_start":
        _block(summary, piece["content_block"])
    elif piece.get("type") == "content_block_delta":
        _delta(summary, piece["delta"])


def _block(summary: AnswerSummary, block: _Json) -> None:
    summary.text += block.get("text") or ""
    summary.reasoning += block.get("thinking") or ""
    if block.get("type") == "tool_use":
        arguments = msgspec.json.encode(block["input"]).decode() if block.get("input") else ""
        summary.calls.append((block["name"], arguments))


def _delta(summary: AnswerSummary, delta: _Json) -> None:
    summary.text += delta.get("text") or ""
    summary.reasoning += delta.get("thinking") or ""
    if delta.get("partial_json") and summary.calls:
        name, arguments = summary.calls[-1]
        summary.calls[-1] = (name, arguments + delta["partial_json"])


def _gemini(summary: AnswerSummary, piece: _Json) -> None:
    """A piece of generateContent, whose first candidate counts."""
    if piece.get("error"):
        summary.error = str(piece["error"])[:_MOST]
    usage = piece.get("usageMetadata") or {}
    summary.prompt_tokens = usage.get("promptTokenCount", summary.prompt_tokens)
    summary.output_tokens = usage.get("candidatesTokenCount", summary.output_tokens)
    for candidate in (piece.get("candidates") or ())[:1]:
        summary.finish = candidate.get("finishReason") or summary.finish
        for part in _object(candidate.get("content")).get("parts") or ():
            if part.get("thought"):
                summary.reasoning += part.get("text") or ""
            elif call := part.get("functionCall"):
                summary.calls.append((call["name"], msgspec.json.encode(call.get("args") or {}).decode()))
            else:
                summary.text += part.get("text") or ""


_READERS: Mapping[str, Callable[[AnswerSummary, _Json], None]] = {
    "/completions": _chat,
    "/responses": _responses,
    "/messages": _messages,
    ":generateContent": _gemini,
    ":streamGenerateContent": _gemini,
}

"""What an answer says, in whatever API: its text, reasoning and calls, how it ended, and its tokens.

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
            said = AnswerSummary(text=_other(path, body)[:_MOST])
        elif content_type.startswith("text/event-stream"):
            said = AnswerSummary()
            for event in _events(body):
                read(said, event)
        else:
            said, found = AnswerSummary(), msgspec.json.decode(body)
            for piece in found if isinstance(found, list) else [found]:
                read(said, _object(piece))
    except (msgspec.DecodeError, EngineGarbled, KeyError, TypeError, IndexError, AttributeError) as error:
        return AnswerSummary(error=f"it cannot be read: {type(error).__name__}", characters=len(body))
    said.characters = len(said.text)
    return said


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


def _chat(said: AnswerSummary, piece: _Json) -> None:
    """A chunk of Chat Completions, or a whole answer, whose first choice counts."""
    if piece.get("error"):
        said.error = str(piece["error"])[:_MOST]
    usage = piece.get("usage") or {}
    said.prompt_tokens = usage.get("prompt_tokens", said.prompt_tokens)
    said.output_tokens = usage.get("completion_tokens", said.output_tokens)
    for choice in piece.get("choices") or ():
        if choice.get("index", 0):
            continue
        part = choice.get("delta") or choice.get("message") or {}
        said.text += part.get("content") or choice.get("text") or ""
        said.reasoning += part.get("reasoning_content") or part.get("reasoning") or ""
        said.finish = choice.get("finish_reason") or said.finish
        for at, call in enumerate(part.get("tool_calls") or ()):
            function, index = call.get("function") or {}, call.get("index", at)
            while len(said.calls) <= index:
                said.calls.append(("", ""))
            name, arguments = said.calls[index]
            said.calls[index] = (name + (function.get("name") or ""), arguments + (function.get("arguments") or ""))


def _responses(said: AnswerSummary, piece: _Json) -> None:
    """An event of Responses that ends it, or a whole response."""
    if piece.get("type") == "error":
        said.error = str(piece)[:_MOST]
    whole = piece.get("response") if "response" in piece else piece if piece.get("object") == "response" else None
    if not isinstance(whole, dict) or whole.get("status") in ("in_progress", "queued"):
        return
    usage = whole.get("usage") or {}
    said.finish = str(whole.get("status", ""))
    said.prompt_tokens, said.output_tokens = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    for item in whole.get("output") or ():
        if item["type"] == "message":
            said.text += "".join(part.get("text", "") for part in item["content"])
        elif item["type"] == "reasoning":
            said.reasoning += "".join(part.get("text", "") for part in item.get("content") or item.get("summary") or ())
        elif "name" in item:
            said.calls.append((item["name"], item.get("arguments") or item.get("input") or ""))


def _messages(said: AnswerSummary, piece: _Json) -> None:
    """An event of Messages, or a whole message."""
    if piece.get("type") == "error":
        said.error = str(piece.get("error"))[:_MOST]
    usage = piece.get("usage") or _object(piece.get("message")).get("usage") or {}
    said.prompt_tokens = usage.get("input_tokens", said.prompt_tokens)
    said.output_tokens = usage.get("output_tokens", said.output_tokens)
    said.finish = _object(piece.get("delta")).get("stop_reason") or piece.get("stop_reason") or said.finish
    for block in piece.get("content") or ():
        _block(said, block)
    if piece.get("type") == "content_block_start":
        _block(said, piece["content_block"])
    elif piece.get("type") == "content_block_delta":
        _delta(said, piece["delta"])


def _block(said: AnswerSummary, block: _Json) -> None:
    said.text += block.get("text") or ""
    said.reasoning += block.get("thinking") or ""
    if block.get("type") == "tool_use":
        arguments = msgspec.json.encode(block["input"]).decode() if block.get("input") else ""
        said.calls.append((block["name"], arguments))


def _delta(said: AnswerSummary, delta: _Json) -> None:
    said.text += delta.get("text") or ""
    said.reasoning += delta.get("thinking") or ""
    if delta.get("partial_json") and said.calls:
        name, arguments = said.calls[-1]
        said.calls[-1] = (name, arguments + delta["partial_json"])


def _gemini(said: AnswerSummary, piece: _Json) -> None:
    """A piece of generateContent, whose first candidate counts."""
    if piece.get("error"):
        said.error = str(piece["error"])[:_MOST]
    usage = piece.get("usageMetadata") or {}
    said.prompt_tokens = usage.get("promptTokenCount", said.prompt_tokens)
    said.output_tokens = usage.get("candidatesTokenCount", said.output_tokens)
    for candidate in (piece.get("candidates") or ())[:1]:
        said.finish = candidate.get("finishReason") or said.finish
        for part in _object(candidate.get("content")).get("parts") or ():
            if part.get("thought"):
                said.reasoning += part.get("text") or ""
            elif call := part.get("functionCall"):
                said.calls.append((call["name"], msgspec.json.encode(call.get("args") or {}).decode()))
            else:
                said.text += part.get("text") or ""


_READERS: Mapping[str, Callable[[AnswerSummary, _Json], None]] = {
    "/completions": _chat,
    "/responses": _responses,
    "/messages": _messages,
    ":generateContent": _gemini,
    ":streamGenerateContent": _gemini,
}

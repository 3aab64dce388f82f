"""The order of a Chat Completions stream, as a table, and a checker by it.

A chunk's part for one choice is one or more events (`_events_of`); `NEXT` says in which states of the choice each may come and
which state follows. What is of the whole stream (one id, the usage, `[DONE]`) is checked beside it. Source: OpenAI's API
reference, and what its SDKs do with what differs. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from smg_core.conform.contents import AnswerContents, chat_usage_faults, is_json_object
from smg_core.conform.shapes import shape_faults
from smg_core.json_types import JsonObject
from smg_core.sse import ServerSentEvent

__all__ = ["ChatGrammar"]

NOTHING, OPEN, CALLING, FINISHED = "nothing has come", "text is open", "a call is open", "it is finished"

NEXT: Mapping[str, Mapping[str, str]] = {
    "the role": {NOTHING: OPEN},
    "content": {OPEN: OPEN, CALLING: CALLING},
    "a call's beginning": {OPEN: CALLING, CALLING: CALLING},
    "a call's arguments": {CALLING: CALLING},
    "finish_reason": {OPEN: FINISHED, CALLING: FINISHED},
    "an empty delta": {NOTHING: OPEN, OPEN: OPEN, CALLING: CALLING, FINISHED: FINISHED},
}
"""Event of a choice to what state it leads to, by the state it may come in."""


class _Choice:
    """One choice of a stream."""

    def __init__(self) -> None:
        self.state = NOTHING
        self.calls: list[tuple[str, str]] = []  # id and arguments so far
        self.logprobs = 0
        self.text = ""
        self.cut = False

    def take(self, part: dict[str, Any]) -> Iterator[str]:
        """Take this choice's part of a chunk; the sentences of what is wrong."""
        for event in _events_of(part):
            following = NEXT[event].get(self.state)
            if following is None:
                yield f"{event} came when {self.state}"
            else:
                self.state = following
        delta = part["delta"]
        self.text += delta.get("content") or ""
        for call in delta.get("tool_calls") or []:
            yield from self._call(call)
        self.logprobs += len((part.get("logprobs") or {}).get("content") or [])
        if part.get("finish_reason") is not None:
            self.cut = part["finish_reason"] == "length"
            yield from self._finish(part["finish_reason"])

    def _call(self, call: dict[str, Any]) -> Iterator[str]:
        index, function = call["index"], call.get("function") or {}
        if index == len(self.calls):
            if not call.get("id") or not function.get("name"):
                yield f"call {index} begins without its id or its name"
            self.calls.append((str(call.get("id")), ""))
        elif index < len(self.calls) and function.get("name"):
            yield f"call {index} has its name again"
        elif index > len(self.calls):
            yield f"call {index} came when there were {len(self.calls)} calls"
            return
        name, arguments = self.calls[index]
        if call.get("id") not in (None, "", name):
            yield f"call {index} has another id than at its beginning"
        self.calls[index] = (name, arguments + (function.get("arguments") or ""))

    def _finish(self, reason: str) -> Iterator[str]:
        if reason == "tool_calls" and not self.calls:
            yield "finish_reason is tool_calls without a call"
        if reason != "length":
            for index, (_, arguments) in enumerate(self.calls):
                if not is_json_object(arguments):
                    yield f"the joined arguments of call {index} are no JSON object"


def _events_of(part: dict[str, Any]) -> list[str]:
    delta, found = part["delta"], []
    if delta.get("role") is not None:
        found.append("the role")
    if delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or delta.get("refusal"):
        found.append("content")
    found += [
        "a call's beginning" if call.get("id") else "a call's arguments" for call in delta.get("tool_calls") or []
    ]
    if part.get("finish_reason") is not None:
        found.append("finish_reason")
    return found or ["an empty delta"]


class ChatGrammar:
    """Follows one stream of a request with `stream_options.include_usage`."""

    def __init__(self) -> None:
        self.choices: dict[int, _Choice] = {}
        self._identity: tuple[object, object] | None = None
        self._usage = False
        self._done = False

    def take(self, event: ServerSentEvent) -> list[str]:
        """Take the next event; what is wrong with it, a sentence each."""
        if self._done:
            return ["an event came behind [DONE]"]
        if event.data == "[DONE]":
            self._done = True
            return []
        try:
            chunk = msgspec.json.decode(event.data)
        except msgspec.DecodeError:
            return ["an event's data is no JSON"]
        if isinstance(chunk, dict) and "error" in chunk:
            return [*shape_faults("chat error", chunk), "the stream ended with an error"]
        return shape_faults("chat chunk", chunk) or list(self._chunk(chunk))

    def _chunk(self, chunk: JsonObject) -> Iterator[str]:
        parts: Any = chunk["choices"]
        identity = (chunk["id"], chunk["model"])
        if self._identity not in (None, identity):
            yield "a chunk has another id or model than those before it"
        self._identity = identity
        if self._usage:
            yield "a chunk came behind the usage"
        usage: Any = chunk.get("usage")
        if not parts:
            if usage is None:
                yield "a chunk has neither choices nor usage"
            else:
                self._usage = True
                yield from chat_usage_faults(usage)
        for part in parts:
            yield from self.choices.setdefault(part["index"], _Choice()).take(part)

    def end(self) -> list[str]:
        """The stream has ended; what is missing."""
        unfinished = [index for index, choice in self.choices.items() if choice.state != FINISHED]
        found = [f"the stream ended when choice {index} was not finished" for index in unfinished]
        if not self.choices:
            found.append("the stream ended without a choice")
        if sorted(self.choices) != list(range(len(self.choices))):
            found.append(f"the choices are {sorted(self.choices)}")
        if not self._usage:
            found.append("the stream ended without the usage that was asked for")
        if not self._done:
            found.append("the stream ended without [DONE]")
        return found

    def contents(self, faults: list[str]) -> AnswerContents:
        """The contents of the first choice."""
        choice = self.choices[0]
        return AnswerContents(
            choice.text, tuple(arguments for _, arguments in choice.calls), choice.logprobs, choice.cut
        )

"""The order of a Chat Completions stream, as a table, and a checker by it.

A chunk's part for one choice is one or more events (`_events_of`); `NEXT` says in which states of the choice each may come and
which state follows. What is of the whole stream (one id, the usage, `[DONE]`) is checked beside it. Source: OpenAI's API
reference, and what its SDKs do with what differs. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from smg_simulator.conform.chunk_stream import ChunkGrammar
from smg_simulator.conform.contents import AnswerContents, is_json_object

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


class ChatGrammar(ChunkGrammar[_Choice]):
    """Follows one stream of a request with `stream_options.include_usage`."""

    chunk_shape = "chat chunk"
    error_shape = "chat error"

    def _part(self, part: Any) -> Iterator[str]:
        yield from self.choices.setdefault(part["index"], _Choice()).take(part)

    def _unfinished(self) -> Iterator[str]:
        for index, choice in self.choices.items():
            if choice.state != FINISHED:
                yield f"the stream ended when choice {index} was not finished"
        if not self.choices:
            yield "the stream ended without a choice"
        if sorted(self.choices) != list(range(len(self.choices))):
            yield f"the choices are {sorted(self.choices)}"

    def contents(self, faults: list[str]) -> AnswerContents:
        """The contents of the first choice."""
        choice = self.choices[0]
        return AnswerContents(
            choice.text, tuple(arguments for _, arguments in choice.calls), choice.logprobs, choice.cut
        )

"""The order of a Messages stream, as a table, and a checker by it.

`NEXT` says for every event in which states it may come and which state follows; `DELTAS` which deltas a block of each type may
have. Source: Anthropic's API reference, its SDK's accumulation, and what Claude Code breaks on. Pure.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from smg_core.sse import ServerSentEvent
from smg_simulator.conform.contents import AnswerContents, is_json_object
from smg_simulator.conform.shapes import shape_faults

__all__ = ["MessagesGrammar"]

START, OPEN, BLOCK, ENDING, END = (
    "nothing has come",
    "no block is open",
    "a block is open",
    "message_delta has come",
    "ended",
)

NEXT: Mapping[str, Mapping[str, str]] = {
    "message_start": {START: OPEN},
    "ping": {OPEN: OPEN, BLOCK: BLOCK, ENDING: ENDING},
    "content_block_start": {OPEN: BLOCK},
    "content_block_delta": {BLOCK: BLOCK},
    "content_block_stop": {BLOCK: OPEN},
    "message_delta": {OPEN: ENDING, ENDING: ENDING},
    "message_stop": {ENDING: END},
}
"""Event to what state it leads to, by the state it may come in."""
DELTAS: Mapping[str, frozenset[str]] = {
    "text": frozenset({"text_delta", "citations_delta"}),
    "thinking": frozenset({"thinking_delta", "signature_delta"}),
    "tool_use": frozenset({"input_json_delta"}),
    "server_tool_use": frozenset({"input_json_delta"}),
    "mcp_tool_use": frozenset({"input_json_delta"}),
    "compaction": frozenset({"compaction_delta"}),
}
"""The deltas of each type of block; a type that is not here has none."""


class MessagesGrammar:
    """Follows one stream. `blocks` are the types of the blocks so far, `stop_reason` that of the last message_delta."""

    def __init__(self) -> None:
        self.state = START
        self.blocks: list[str] = []
        self.stop_reason: object = None
        self._input = ""
        self._signatures = 0
        self._text = ""
        self._calls: list[str] = []

    def take(self, event: ServerSentEvent) -> list[str]:
        """Take the next event; what is wrong with it, a sentence each."""
        try:
            fields = msgspec.json.decode(event.data)
        except msgspec.DecodeError:
            return ["an event's data is no JSON"]
        kind = fields.get("type") if isinstance(fields, dict) else None
        found = [] if event.event == kind else [f"{kind} has the event line {event.event}"]
        if kind == "error":
            return [*found, *shape_faults("messages error", fields), "the stream ended with an error"]
        following = NEXT.get(str(kind))
        if following is None:
            return [*found, f"{kind} is no event that is known"]
        if self.state not in following:
            return [*found, f"{kind} came when {self.state}"]
        self.state = following[self.state]
        reader = self._readers().get(str(kind))
        return found if reader is None else [*found, *reader(fields)]

    def _readers(self) -> Mapping[str, Callable[[dict[str, Any]], Iterator[str]]]:
        return {
            "message_start": self._begin,
            "content_block_start": self._open,
            "content_block_delta": self._delta,
            "content_block_stop": self._close,
            "message_delta": self._ending,
        }

    def _begin(self, fields: dict[str, Any]) -> Iterator[str]:
        yield from shape_faults("begun message", fields.get("message"))

    def _open(self, fields: dict[str, Any]) -> Iterator[str]:
        block = fields.get("content_block") or {}
        kind = str(block.get("type"))
        if fields.get("index") != len(self.blocks):
            yield f"a block has the index {fields.get('index')} and not {len(self.blocks)}"
        self.blocks.append(kind)
        self._input, self._signatures = "", 0
        yield from shape_faults(f"messages {kind}", block)

    def _here(self, fields: dict[str, Any]) -> Iterator[str]:
        if fields.get("index") != len(self.blocks) - 1:
            yield f"{fields['type']} has the index {fields.get('index')} and not {len(self.blocks) - 1}"

    def _delta(self, fields: dict[str, Any]) -> Iterator[str]:
        yield from self._here(fields)
        delta = fields.get("delta") or {}
        kind, block = delta.get("type"), self.blocks[-1]
        if kind not in DELTAS.get(block, frozenset()):
            yield f"a {block} block has a {kind}"
        if self._signatures:
            yield f"a {kind} came behind the signature"
        self._signatures += kind == "signature_delta"
        self._text += str(delta.get("text") or "")
        self._input += str(delta.get("partial_json") or "")

    def _close(self, fields: dict[str, Any]) -> Iterator[str]:
        yield from self._here(fields)
        if self.blocks[-1] == "thinking" and not self._signatures:
            yield "a thinking block has no signature"
        if self.blocks[-1] == "tool_use":
            self._calls.append(self._input or "{}")

    def _ending(self, fields: dict[str, Any]) -> Iterator[str]:
        yield from shape_faults("message delta", fields.get("delta"))
        yield from shape_faults("messages usage", fields.get("usage"))
        self.stop_reason = (fields.get("delta") or {}).get("stop_reason")
        if self.stop_reason != "max_tokens" and not all(is_json_object(call) for call in self._calls):
            yield "the joined input of a tool_use block is no JSON object"
        if self.stop_reason == "tool_use" and "tool_use" not in self.blocks:
            yield "stop_reason is tool_use without a tool_use block"
        if self.stop_reason == "end_turn" and "tool_use" in self.blocks:
            yield "stop_reason is end_turn with a tool_use block"

    def end(self) -> list[str]:
        """The stream has ended; what is missing."""
        return [] if self.state == END else [f"the stream ended when {self.state}"]

    def contents(self, faults: list[str]) -> AnswerContents:
        """The contents of the message."""
        return AnswerContents(self._text, tuple(self._calls), cut=self.stop_reason == "max_tokens")

"""The stream of a Converse answer as our events.

Decides what each event means. A block of text or of reasoning begins with its first piece. The answer is whole when its end and
its counts have come; a stream without both was cut off. Pure. Above: converse. Below: answer, converse_wire.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.bedrock.answer import BedrockAnswer
from smg_core.engines.vendors.bedrock.converse_turns import PROVIDER
from smg_core.engines.vendors.bedrock.converse_wire import (
    ConverseBlockWire,
    ConverseDeltaWire,
    ConverseMetadataWire,
    ConverseStopWire,
    ConverseUsageWire,
)
from smg_core.engines.vendors.bedrock.event_stream import EventMessage
from smg_core.engines.vendors.endings import reason_of
from smg_core.engines.vendors.open_block import OpenBlock
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.errors import EngineGarbled
from smg_core.events import Event, Finished, FinishReason, Started, Usage
from smg_core.sealing.carried import Carried, carrying
from smg_core.tokens import reported_count

__all__ = ["ConverseDecoder"]

_REASONS: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "malformed_tool_use": "tool_calls",
    "model_context_window_exceeded": "context",
}
_CUTTING = frozenset({"length", "context", "content_filter", "error"})

S = TypeVar("S", bound=Struct)
_DELTA, _BLOCK = msgspec.json.Decoder(ConverseDeltaWire), msgspec.json.Decoder(ConverseBlockWire)
_STOP, _METADATA = msgspec.json.Decoder(ConverseStopWire), msgspec.json.Decoder(ConverseMetadataWire)


class ConverseDecoder(BedrockAnswer):
    """Reads one answer of `model`. `names` are those of the tools as they were sent."""

    def __init__(self, model: str, names: SentNames, limits: EnginesConfig) -> None:
        super().__init__(limits)
        self._model = model
        self._names = names
        self._block = OpenBlock(0)
        self._thought: list[str] = []
        self._signature = ""
        self._redacted = ""
        self._cited: list[Mapping[str, object]] = []
        self._reason: FinishReason | None = None
        self._stop_reason = ""
        self._counts: ConverseUsageWire | None = None

    @property
    def finished(self) -> bool:
        return self._reason is not None

    def _message(self, message: EventMessage, events: list[Event]) -> None:
        match message.text(":event-type"):
            case "contentBlockDelta":
                self._delta(_read(message, _DELTA), events)
            case "contentBlockStart":
                self._start(_read(message, _BLOCK), events)
            case "contentBlockStop":
                self._end_block(events)
            case "messageStart":
                events.append(Started(0, None, self._model))
            case "messageStop":
                self._stop_reason = _read(message, _STOP).stop_reason
                self._reason = reason_of(self._stop_reason, _REASONS, self._block)
            case "metadata":
                self._counts = _read(message, _METADATA).usage
                self._finish(events)

    def _start(self, block: ConverseBlockWire, events: list[Event]) -> None:
        call = block.start.tool_use
        if call is None:
            return
        if self._block.calls >= self._limits.http_calls:
            raise EngineGarbled(f"The provider made more than {self._limits.http_calls} tool calls.")
        self._block.call(call.tool_use_id, *self._names.own(call.name), events)

    def _delta(self, piece: ConverseDeltaWire, events: list[Event]) -> None:
        delta = piece.delta
        if delta.text is not None:
            self._block.text(delta.text, events)
        elif delta.tool_use is not None:
            self._block.arguments(delta.tool_use.input, events)
        elif delta.reasoning_content is not None:
            thought = delta.reasoning_content
            if thought.text is not None:
                self._thought.append(thought.text)
            self._signature += thought.signature or ""
            self._redacted += thought.redacted_content or ""
            if thought.text or self._block.kind != "reasoning":
                self._block.reasoning(thought.text or "", events)
        elif delta.citation is not None:
            self._cited.append(delta.citation)
        elif delta.image is not None:
            raise EngineGarbled("The provider answered with a block that cannot be passed on.", detail="image")

    def _end_block(self, events: list[Event]) -> None:
        if self._block.kind == "reasoning":
            self._block.end(events, seal=self._seal())
        elif self._block.kind == "text":
            for each in self._cited:
                self._cite(each, events)
            self._block.end(events)
        else:
            self._block.end(events)
        self._cited.clear()

    def _seal(self) -> bytes | None:
        """The block as the service wants it back; None for one that it has not signed."""
        text, self._thought = "".join(self._thought), []
        signature, self._signature = self._signature, ""
        redacted, self._redacted = self._redacted, ""
        if redacted:
            block: dict[str, object] = {"redactedContent": redacted}
        elif signature:
            block = {"reasoningText": {"text": text, "signature": signature}}
        else:
            return None
        return carrying(Carried(PROVIDER, "", self._model, "thought", msgspec.json.encode(block)))

    def _cite(self, citation: Mapping[str, object], events: list[Event]) -> None:
        location = citation.get("location")
        place: object = ""
        if isinstance(location, Mapping):
            inner = next(iter(location.values()), "")
            place = inner.get("url", inner.get("documentIndex", "")) if isinstance(inner, Mapping) else inner
        found = citation.get("sourceContent")
        first = found[0] if isinstance(found, list) and found and isinstance(found[0], Mapping) else {}
        kind = "url" if str(place).startswith("http") else "file"
        self._block.annotate(kind, 0, str(place), str(citation.get("title") or ""), str(first.get("text", "")), events)

    def _finish(self, events: list[Event]) -> None:
        if self._reason is None:
            raise EngineGarbled("The provider ended its answer without a reason.", detail="metadata came first")
        malformed = self._stop_reason == "malformed_tool_use"
        cut = malformed or (
            (self._reason in _CUTTING and self._block.kind != "") or bool(self._block.calls and not self._block.whole)
        )
        self._block.end(events, cut=cut)
        self.done = True
        events.append(Finished(0, self._reason, None, cut))
        events.append(self._usage() or Usage(0, 0))

    def _usage(self) -> Usage | None:
        counts = self._counts
        if counts is None:
            return None
        read, written = reported_count(counts.cache_read_input_tokens), reported_count(counts.cache_write_input_tokens)
        prompt = reported_count(counts.input_tokens) + read + written
        return Usage(prompt, reported_count(counts.output_tokens), read, 0, written)


def _read(message: EventMessage, decoder: msgspec.json.Decoder[S]) -> S:
    try:
        return decoder.decode(message.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineGarbled(
            "The provider sent what is no event of an answer.", detail=str(error), outside_text=str(error)
        ) from None

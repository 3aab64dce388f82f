"""The stream of a Messages answer as our events.

Decides what each event means. Counts are cumulative: the last word on each holds, and nothing is added. A signature ends its
block, and the whole block is what goes back to the provider. A stream without `message_stop` was cut off. Pure. Above: format.
Below: wire, the shared modules of providers.
"""

from collections.abc import Mapping

import msgspec

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.answer_reader import ProviderAnswerReader
from smg_core.engines.vendors.anthropic.body import FORMAT_TOOL
from smg_core.engines.vendors.anthropic.turns import PROVIDER
from smg_core.engines.vendors.anthropic.wire import (
    ClaudeBlockWire,
    ClaudeDeltaWire,
    ClaudeErrorWire,
    ClaudeEventWire,
    ClaudeUsageWire,
)
from smg_core.engines.vendors.client_bytes import with_strings, with_strings_in, without_texts
from smg_core.engines.vendors.endings import reason_of
from smg_core.engines.vendors.open_block import OpenBlock
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.engines.vendors.refusals import ProviderRefusal, RefusalClass, error_of
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.errors import EngineGarbled, SmgError
from smg_core.events import Event, Finished, FinishReason, Started, Usage, Verbatim
from smg_core.sealing.carried import Carried, carrying
from smg_core.tokens import reported_count

__all__ = ["MessagesDecoder", "error_in"]

_REASONS: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context",
}
_CUTTING = frozenset({"length", "context", "malformed_call"})
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
KINDS: Mapping[str, RefusalClass] = {
    "invalid_request_error": "rejected",
    "authentication_error": "credentials",
    "permission_error": "credentials",
    "billing_error": "unfunded",
    "not_found_error": "no_model",
    "request_too_large": "too_large",
    "rate_limit_error": "limited",
    "overloaded_error": "overloaded",
    "timeout_error": "late",
    "api_error": "failed",
}
_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens_details",
)


def error_in(error: ClaudeErrorWire, status: int, wait: float | None = None) -> SmgError:
    """The error for the provider's error object; `status` is that of the answer, 200 in mid-stream."""
    meant = KINDS.get(error.type)
    if (error.details or {}).get("error_code") == "enforced_spend_limit_reached":
        meant = "unfunded"
    return error_of(ProviderRefusal(status, error.message, meant, wait, error.type))


class MessagesDecoder(ProviderAnswerReader[ClaudeEventWire]):
    """Reads one answer of `model`. `names` are those of the tools as they were sent; `format_tool`: the answer is the arguments
    of `FORMAT_TOOL`."""

    _decode = msgspec.json.Decoder(ClaudeEventWire).decode

    def __init__(self, model: str, names: SentNames, limits: EnginesConfig, *, format_tool: bool = False) -> None:
        super().__init__(limits)
        self._model = model
        self._names = names
        self._format_tool = format_tool
        self._block = OpenBlock(0)
        self._kind = ""  # the wire's type of the open block
        self._thought: list[str] = []
        self._signature = ""
        self._data = ""
        self._citations: list[Mapping[str, object]] = []
        self._counts = ClaudeUsageWire()
        self._counted = False
        self._call_ids: list[str] = []  # of a whole answer
        self._reason: str | None = None
        self._matched: str | None = None

    @property
    def finished(self) -> bool:
        return self._reason is not None and not self._kind

    def _event(self, event: ClaudeEventWire, events: list[Event]) -> None:
        match event.type:
            case "content_block_delta":
                if event.delta is not None:
                    self._delta(event.delta, events)
            case "content_block_start":
                if event.content_block is not None:
                    self._start(event.content_block, events)
            case "content_block_stop":
                self._stop(events)
            case "message_start":
                self._count(event.message.usage if event.message is not None else None)
                prompt = self._usage() or Usage(0, 0)
                events.append(Started(prompt.prompt_tokens, prompt.cached_tokens, self._model))
            case "message_delta":
                self._count(event.usage)
                if event.delta is not None and event.delta.stop_reason is not None:
                    self._reason, self._matched = event.delta.stop_reason, event.delta.stop_sequence
            case "message_stop":
                self._finish(events)
            case "error":
                raise error_in(event.error or ClaudeErrorWire(), 200)

    def _verbatim(self, event: ClaudeEventWire, data: bytes, model: str) -> Verbatim:
        if event.type == "message_start" and event.message is not None:
            data = with_strings_in(data, "message", {"model": model})
        block = event.content_block
        if block is not None and block.type == "tool_use" and block.id != self._block.call_id:
            data = with_strings_in(data, "content_block", {"id": self._block.call_id})
        secret, first = "", True
        if event.delta is not None and event.delta.type == "signature_delta" and self._kind in _THOUGHTS:
            secret, first = event.delta.signature, event.delta.signature == self._signature
        elif block is not None and block.type in _THOUGHTS:
            secret = block.data or block.signature
        pieces = without_texts(data, (secret,) if secret else ())
        return Verbatim(0, event.type, pieces if first else (b"".join(pieces),))

    def _whole(self, event: ClaudeEventWire, body: bytes, events: list[Event]) -> None:
        if event.type == "error":
            raise error_in(event.error or ClaudeErrorWire(), 200)
        if event.content is None or event.type != "message":
            super()._whole(event, body, events)
        self._count(event.usage)
        prompt = self._usage() or Usage(0, 0)
        events.append(Started(prompt.prompt_tokens, prompt.cached_tokens, self._model))
        for block in event.content or ():
            self._start(block, events)
            if block.type == "tool_use":
                self._call_ids.append(self._block.call_id)
            self._citations += block.citations or ()
            if block.type == "tool_use":
                self._block.arguments(bytes(block.input).decode("utf-8", "replace"), events)
            self._stop(events)
        self._reason, self._matched = event.stop_reason, event.stop_sequence
        self._finish(events)

    def _verbatim_whole(self, event: ClaudeEventWire, body: bytes, model: str) -> Verbatim:
        calls = [each.id for each in event.content or () if each.type == "tool_use"]
        if calls != self._call_ids:
            body = self._with_ids(body)
        secrets = [each.data or each.signature for each in event.content or () if each.type in _THOUGHTS]
        return Verbatim(0, "", without_texts(with_strings(body, {"model": model}), [each for each in secrets if each]))

    def _with_ids(self, body: bytes) -> bytes:
        """A whole answer, written anew with the ids that its calls have here."""
        message: ProviderJson = msgspec.json.decode(body)
        calls = [each for each in message["content"] if each["type"] == "tool_use"]
        for call, call_id in zip(calls, self._call_ids, strict=True):
            call["id"] = call_id
        return msgspec.json.encode(message)

    # --------------------------------------------------------------------------------------------------------- blocks

    def _start(self, block: ClaudeBlockWire, events: list[Event]) -> None:
        self._kind = block.type
        match block.type:
            case "text":
                self._block.text(block.text, events)
            case "thinking":
                self._thought, self._signature = [block.thinking], block.signature
                self._block.reasoning(block.thinking, events)
            case "redacted_thinking":
                self._data = block.data
                self._block.reasoning("", events)
            case "tool_use":
                if self._block.calls >= self._limits.http_calls:
                    raise EngineGarbled(f"The provider made more than {self._limits.http_calls} tool calls.")
                if not (self._format_tool and block.name == FORMAT_TOOL):
                    self._block.call(block.id, *self._names.own(block.name), events)
            case _ if self.is_verbatim:  # a client of the provider's own API may know it
                self._block.end(events)
            case _:
                kind = repr(block.type[:64])
                raise EngineGarbled(
                    "The provider answered with a block that cannot be passed on.", detail=kind, outside_text=kind
                )

    def _delta(self, delta: ClaudeDeltaWire, events: list[Event]) -> None:
        match delta.type:
            case "text_delta":
                self._block.text(delta.text, events)
            case "input_json_delta":
                if self._format_tool and self._block.kind != "call":
                    self._block.text(delta.partial_json, events)
                else:
                    self._block.arguments(delta.partial_json, events)
            case "thinking_delta":
                self._thought.append(delta.thinking)
                if delta.thinking:
                    self._block.reasoning(delta.thinking, events)
            case "signature_delta":
                self._signature += delta.signature
            case "citations_delta":
                if delta.citation is not None:
                    self._citations.append(delta.citation)

    def _stop(self, events: list[Event]) -> None:
        kind, self._kind = self._kind, ""
        if kind == "thinking":
            block = {"type": "thinking", "thinking": "".join(self._thought), "signature": self._signature}
            self._block.end(events, seal=self._sealed(block) if self._signature else None)
        elif kind == "redacted_thinking":
            self._block.end(events, seal=self._sealed({"type": kind, "data": self._data}) if self._data else None)
        elif kind == "text":
            self._cite(events)
            self._block.end(events)
        elif kind == "tool_use" and not self._block.whole and self._block.kind == "call":
            self._block.end(events, cut=True)
        else:
            self._block.end(events)

    def _sealed(self, block: Mapping[str, str]) -> bytes:
        return carrying(Carried(PROVIDER, "", self._model, "thought", msgspec.json.encode(block)))

    def _cite(self, events: list[Event]) -> None:
        for each in self._citations:
            url = each.get("url")
            source = url if isinstance(url, str) else each.get("file_id") or each.get("document_index", "")
            title, quote = each.get("title") or each.get("document_title") or "", each.get("cited_text") or ""
            kind = "url" if isinstance(url, str) else "file"
            self._block.annotate(kind, 0, str(source), str(title), str(quote), events)
        self._citations.clear()

    # ------------------------------------------------------------------------------------------------------------ end

    def _finish(self, events: list[Event]) -> None:
        if self._reason is None:
            raise EngineGarbled("The provider ended its answer without a reason.", detail="message_stop came first")
        reason = reason_of(self._reason, _REASONS, self._block)
        if self._format_tool and reason == "tool_calls":
            reason = "stop"
        cut = reason in _CUTTING and self._block.incomplete
        self._block.end(events, cut=cut)
        self.done = True
        events.append(Finished(0, reason, self._matched, cut))
        events.append(self._usage() or Usage(0, 0))

    def _count(self, usage: ClaudeUsageWire | None) -> None:
        """Take in the counts that an event has; it says nothing of those that it lacks."""
        if usage is None:
            return
        self._counted = True
        for name in _COUNTS:
            if (value := getattr(usage, name)) is not None:
                setattr(self._counts, name, value)

    def _usage(self) -> Usage | None:
        if not self._counted:
            return None
        counts = self._counts
        read, written = (
            reported_count(counts.cache_read_input_tokens),
            reported_count(counts.cache_creation_input_tokens),
        )
        completion = reported_count(counts.output_tokens)
        thought = reported_count(counts.output_tokens_details.thinking_tokens if counts.output_tokens_details else None)
        prompt = reported_count(counts.input_tokens) + read + written
        return Usage(prompt, completion, read, min(thought, completion), written)

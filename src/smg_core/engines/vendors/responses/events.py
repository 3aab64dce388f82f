"""The stream of a Responses answer as our events.

Decides what each event means. The encrypted form of reasoning is that of the item when it is done; counts are those of the last
event, whichever way the response ends. A stream without such an event was cut off. Pure. Above: format. Below: wire, the shared
modules of providers.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.answer_reader import ProviderAnswerReader
from smg_core.engines.vendors.client_bytes import with_strings, with_strings_in, without_texts
from smg_core.engines.vendors.open_block import OpenBlock
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.engines.vendors.refusals import ProviderRefusal, RefusalClass, error_of
from smg_core.engines.vendors.responses.items import PROVIDER
from smg_core.engines.vendors.responses.wire import (
    ResponsesError,
    ResponsesEventWire,
    ResponsesItemWire,
    ResponsesLogprob,
    ResponsesPart,
    ResponsesResult,
)
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.errors import EngineGarbled, SmgError
from smg_core.events import (
    Event,
    Finished,
    FinishReason,
    Started,
    TextDelta,
    TokenLogprob,
    TopLogprob,
    Usage,
    Verbatim,
)
from smg_core.sealing.carried import Carried, carrying
from smg_core.tokens import reported_count

__all__ = ["ResponsesDecoder", "responses_error_in"]

_INCOMPLETE: Mapping[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}
CODES: Mapping[str, RefusalClass] = {
    "invalid_request_error": "rejected",
    "invalid_prompt": "rejected",
    "invalid_encrypted_content": "rejected",
    "context_length_exceeded": "too_long",
    "string_above_max_length": "too_long",
    "invalid_api_key": "credentials",
    "insufficient_quota": "unfunded",
    "rate_limit_exceeded": "limited",
    "slow_down": "limited",
    "server_is_overloaded": "overloaded",
    "server_error": "failed",
    "model_not_found": "no_model",
    "DeploymentNotFound": "no_model",
    "content_filter": "filtered",
    "content_policy_violation": "filtered",
}


def responses_error_in(error: ResponsesError, status: int, wait: float | None = None) -> SmgError:
    """The error for the provider's error object; `status` is that of the answer, 200 in mid-stream."""
    meant = CODES.get(error.code or "") or (CODES.get(error.type or "") if status == 200 else None)
    words = " ".join(each for each in (error.type, error.code) if each)
    return error_of(ProviderRefusal(status, error.message or "", meant, wait, words))


_RESULT = msgspec.json.Decoder(ResponsesResult)
_PARTS = msgspec.json.Decoder(list[ResponsesPart])


class ResponsesDecoder(ProviderAnswerReader[ResponsesEventWire]):
    """Reads one answer of `model`. `names` are those of the tools as they were sent, `account` whose reasoning it is."""

    _decode = msgspec.json.Decoder(ResponsesEventWire).decode

    def __init__(self, model: str, names: SentNames, limits: EnginesConfig, *, account: str) -> None:
        super().__init__(limits)
        self._model = model
        self._names = names
        self._account = account
        self._block = OpenBlock(0)
        self._item: ResponsesItemWire | None = None  # the one that is open
        self._place = -1  # its place in the output
        self._in_pieces = False  # of the open call: its arguments have come in pieces
        self._refused = False
        self._renamed: dict[int, str] = {}  # ids of calls that are not the provider's, by their places
        self._result: ResponsesResult | None = None

    def _event(self, event: ResponsesEventWire, events: list[Event]) -> None:
        match event.type:
            case "response.output_text.delta":
                self._block.text(event.delta, events)
                if event.logprobs:
                    _attach(event.logprobs, events)
            case "response.refusal.delta":
                self._refused = True
                self._block.refusal(event.delta, events)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._block.reasoning(event.delta, events)
            case "response.reasoning_summary_part.added" if event.summary_index:
                self._block.reasoning("\n\n", events)
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                self._arguments(event, events)
            case _:
                self._other(event, events)

    def _other(self, event: ResponsesEventWire, events: list[Event]) -> None:
        """An event that brings no piece of a text."""
        match event.type:
            case "response.output_item.added":
                if event.item is not None:
                    self._begin(event.item, event.output_index, events)
            case "response.output_item.done":
                if event.item is not None:
                    self._end_item(event.item, event.output_index, events)
            case "response.output_text.annotation.added":
                self._annotate(event.annotation or {}, events)
            case "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled":
                self._result = event.response or ResponsesResult()
                self._finish(self._result, events)
            case "error":
                raise responses_error_in(event.error or ResponsesError(event.message, None, event.code), 200)
            case "" if event.error is not None:
                raise responses_error_in(event.error, 200)

    def _whole(self, event: ResponsesEventWire, body: bytes, events: list[Event]) -> None:
        """A whole response, or an error in its place."""
        if event.object != "response":
            if event.error is None and event.type != "error":
                super()._whole(event, body, events)
            self._event(event, events)
            return
        self._result = result = _RESULT.decode(body)
        events.append(Started(0, 0, self._model))
        for place, item in enumerate(result.output):
            self._begin(item, place, events)
            for part in item.content if item.type == "message" else ():
                self._part(part, events)
            if item.type == "reasoning":
                parts = [*_PARTS.decode(item.summary), *item.content]
                if outside_text := "\n\n".join(part.text for part in parts):
                    self._block.reasoning(outside_text, events)
            self._end_item(item, place, events)
        self._finish(result, events)

    def _part(self, part: ResponsesPart, events: list[Event]) -> None:
        """A part of a message that is whole."""
        self._refused = self._refused or part.type == "refusal"
        self._block.text(part.text, events)
        self._block.refusal(part.refusal, events)
        if part.logprobs:
            _attach(part.logprobs, events)
        for each in part.annotations or ():
            self._annotate(each, events)

    # -------------------------------------------------------------------------------------------- the provider's words

    def _verbatim(self, event: ResponsesEventWire, data: bytes, model: str) -> Verbatim:
        if event.response is not None:
            if self._renamed:
                data = self._with_ids(data, "response")
            data = with_strings_in(data, "response", {"model": model})
            secrets = [each.encrypted_content for each in event.response.output if each.encrypted_content]
            return Verbatim(0, event.type, without_texts(data, secrets), again=True)
        item = event.item
        if item is not None and event.output_index in self._renamed:
            data = with_strings_in(data, "item", {"call_id": self._renamed[event.output_index]})
        if item is None or not item.encrypted_content:
            return Verbatim(0, event.type, (data,))
        pieces = without_texts(data, (item.encrypted_content,))
        if event.type != "response.output_item.done":  # that of an item which has just begun may not be whole
            pieces = (b"".join(pieces),)
        return Verbatim(0, event.type, pieces)

    def _verbatim_whole(self, event: ResponsesEventWire, body: bytes, model: str) -> Verbatim:
        if self._renamed:
            body = self._with_ids(body, "")
        output = self._result.output if self._result is not None else ()
        secrets = [each.encrypted_content for each in output if each.encrypted_content]
        return Verbatim(0, "", without_texts(with_strings(body, {"model": model}), secrets))

    def _with_ids(self, data: bytes, name: str) -> bytes:
        """A response, in the field `name` or by itself, written anew with the ids that its calls have here. An item whose own id
        was repeated too is called by its call's: a client sends both back."""
        whole: ProviderJson = msgspec.json.decode(data)
        output = (whole[name] if name else whole).get("output") or ()
        repeated = Counter(str(item.get("id")) for item in output)
        for place, call_id in self._renamed.items():
            if place < len(output):
                output[place]["call_id"] = call_id
                if repeated[str(output[place].get("id"))] > 1:
                    output[place]["id"] = f"fc_{call_id}"
        return msgspec.json.encode(whole)

    # ---------------------------------------------------------------------------------------------------------- items

    def _begin(self, item: ResponsesItemWire, place: int, events: list[Event]) -> None:
        if item.type in ("message", "reasoning"):
            self._block.end(events)
        elif item.type in ("function_call", "custom_tool_call"):
            if self._item is not None and self._block.kind == "call":
                return  # the one before is not complete: this one is told when it is done
            self._call(item, place, events)
        elif self.is_verbatim:  # a client of the provider's own API may know it
            self._block.end(events)
        else:
            kind = repr(item.type[:64])
            raise EngineGarbled(
                "The provider answered with an item that cannot be passed on.", detail=kind, outside_text=kind
            )
        self._item, self._place, self._in_pieces = item, place, False

    def _call(self, item: ResponsesItemWire, place: int, events: list[Event]) -> None:
        if self._block.calls >= self._limits.http_calls:
            raise EngineGarbled(f"The provider made more than {self._limits.http_calls} tool calls.")
        custom = item.type == "custom_tool_call"
        name = (item.name, None) if custom else self._names.own(item.name)
        self._block.call(item.call_id or item.id, *name, events, custom=custom)
        if self._block.call_id != item.call_id:
            self._renamed[place] = self._block.call_id

    def _arguments(self, event: ResponsesEventWire, events: list[Event]) -> None:
        if event.output_index == self._place and self._item is not None:
            self._in_pieces = True
            self._block.arguments(event.delta, events, custom=self._item.type == "custom_tool_call")

    def _end_item(self, item: ResponsesItemWire, place: int, events: list[Event]) -> None:
        if item.type in ("function_call", "custom_tool_call"):
            custom = item.type == "custom_tool_call"
            if place != self._place or self._item is None:
                self._call(item, place, events)
                self._in_pieces = False
            if not self._in_pieces:
                self._block.arguments(item.input if custom else item.arguments, events, custom=custom)
            self._block.end(events)
        elif item.type == "reasoning" and item.encrypted_content:
            if self._block.kind != "reasoning":
                self._block.reasoning("", events)
            self._block.end(events, seal=self._sealed(item))
        else:
            self._block.end(events)
        self._item, self._place = None, -1

    def _sealed(self, item: ResponsesItemWire) -> bytes:
        whole = {
            "type": "reasoning",
            "id": item.id,
            "summary": item.summary,
            "encrypted_content": item.encrypted_content,
        }
        return carrying(Carried(PROVIDER, self._account, self._model, "thought", msgspec.json.encode(whole)))

    def _annotate(self, annotation: Mapping[str, object], events: list[Event]) -> None:
        url = annotation.get("url")
        source = url if isinstance(url, str) else str(annotation.get("file_id", ""))
        start, end = annotation.get("start_index"), annotation.get("end_index")
        title = str(annotation.get("title") or annotation.get("filename") or "")
        kind = "url" if isinstance(url, str) else "file"
        begun, ended = start if isinstance(start, int) else 0, end if isinstance(end, int) else None
        self._block.annotate(kind, begun, source, title, "", events, ended)

    # ------------------------------------------------------------------------------------------------------------ end

    def _finish(self, result: ResponsesResult, events: list[Event]) -> None:
        if result.status == "failed" or result.error is not None:
            raise responses_error_in(result.error or ResponsesError("the response failed"), 200)
        if result.status == "incomplete":
            cause = result.incomplete_details.reason if result.incomplete_details is not None else None
            reason: FinishReason = _INCOMPLETE.get(cause or "", "length")  # whatever the word: there would be more
        elif result.status == "cancelled":
            reason = "abort"
        else:
            reason = "tool_calls" if self._block.calls else "refusal" if self._refused else "stop"
        cut = reason in ("length", "content_filter", "abort") and self._block.incomplete
        self._block.end(events, cut=cut)
        self.done = True
        events.append(Finished(0, reason, None, cut))
        events.append(self._usage() or Usage(0, 0))

    def _usage(self) -> Usage | None:
        counts = self._result.usage if self._result is not None else None
        if counts is None:
            return None
        read, made = counts.input_tokens_details, counts.output_tokens_details
        completion = reported_count(counts.output_tokens)
        thought = reported_count(made.reasoning_tokens if made is not None else None)
        return Usage(
            reported_count(counts.input_tokens),
            completion,
            reported_count(read.cached_tokens if read is not None else None),
            min(completion, thought),
            reported_count(read.cache_write_tokens if read is not None else None),
        )


def _attach(logprobs: list[ResponsesLogprob], events: list[Event]) -> None:
    """Put the tokens on the text that has come with them."""
    last = events[-1] if events else None
    if isinstance(last, TextDelta):
        events[-1] = TextDelta(last.index, last.text, tuple(_logprob(each) for each in logprobs))


def _logprob(each: ResponsesLogprob) -> TokenLogprob:
    top = tuple(
        TopLogprob(other.token, _raw(other.token, other.bytes), other.logprob) for other in each.top_logprobs or ()
    )
    return TokenLogprob(each.token, _raw(each.token, each.bytes), each.logprob, top)


def _raw(token: str, values: list[int] | None) -> bytes:
    try:
        return token.encode() if values is None else bytes(values)
    except ValueError:
        raise EngineGarbled("The provider sent bytes of a token that are no bytes.") from None

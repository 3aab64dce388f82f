"""The stream of a generateContent answer as our events.

Decides what each part means. Calls come whole, and are numbered in the order in which they come; a signature ends the reasoning
before its part, or stands alone behind it. Why an answer ended is decided at its end, since the word may come in every chunk. A
stream without such a word was cut off. Pure. Above: format. Below: wire, the shared modules of providers.
"""

from collections.abc import Mapping

import msgspec

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.answer_reader import ProviderAnswerReader
from smg_core.engines.vendors.client_bytes import with_strings, without_texts
from smg_core.engines.vendors.endings import GAVE_UP, gave_up, reason_of
from smg_core.engines.vendors.gemini.contents import PROVIDER
from smg_core.engines.vendors.gemini.wire import (
    GeminiCandidate,
    GeminiChunk,
    GeminiErrorWire,
    GeminiPartWire,
    GeminiUsage,
)
from smg_core.engines.vendors.open_block import OpenBlock
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.engines.vendors.refusals import ProviderRefusal, RefusalClass, error_of, span_seconds
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

__all__ = ["GeminiDecoder", "gemini_error_in"]

_REASONS: Mapping[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",  # of one answer: nobody here goes on with it by the token that comes beside it
    "MALFORMED_FUNCTION_CALL": "malformed_call",
    "UNEXPECTED_TOOL_CALL": "malformed_call",
    "TOO_MANY_TOOL_CALLS": "malformed_call",
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR"),
            *("ESCALATION", "PUP_LIMITED_DISABLED"),
            *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER"),
        ),
        "content_filter",
    ),
}
_CUTTING = frozenset({"length", "content_filter", "malformed_call"})
KINDS: Mapping[str, RefusalClass] = {
    "INVALID_ARGUMENT": "rejected",
    "OUT_OF_RANGE": "rejected",
    "FAILED_PRECONDITION": "credentials",
    "UNAUTHENTICATED": "credentials",
    "PERMISSION_DENIED": "credentials",
    "NOT_FOUND": "no_model",
    "RESOURCE_EXHAUSTED": "limited",
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "late",
    "INTERNAL": "failed",
}
_BAD_KEYS = frozenset({"API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED", "API_KEY_EXPIRED"})


def gemini_error_in(error: GeminiErrorWire, status: int) -> SmgError:
    """The error for the provider's error object; `status` is that of the answer, or of the object in mid-stream."""
    meant, wait = KINDS.get(error.status), None
    for each in error.details:
        wait = span_seconds(str(each.get("retryDelay", ""))) or wait
        if each.get("reason") in _BAD_KEYS:
            meant = "credentials"
        for violated in each.get("violations", ()) if isinstance(each.get("violations"), list) else ():
            quota = str(violated.get("quotaId", "")) if isinstance(violated, dict) else ""
            if "PerDay" in quota or (quota and violated.get("quotaValue") == "0"):
                meant = "unfunded"
    return error_of(ProviderRefusal(status, error.message, meant, wait, error.status))


class _Choice:
    """One candidate: its open block, and the last word on why it ended."""

    __slots__ = ("block", "message", "reason")

    def __init__(self, index: int) -> None:
        self.block = OpenBlock(index)
        self.reason: str | None = None
        self.message = ""


_KNOWN = frozenset({"text", "thought", "thoughtSignature", "partMetadata"})
"""Fields of a part that says nothing where they are empty."""


def _parts_of(event: ProviderJson) -> list[ProviderJson]:
    return [part for each in event.get("candidates") or () for part in (each.get("content") or {}).get("parts") or ()]


def _parts_in(data: bytes) -> list[ProviderJson]:
    """The parts in an event, none of which is a call or has a text where they are asked for."""
    return [each for each in _parts_of(msgspec.json.decode(data)) if "functionCall" not in each]


class GeminiDecoder(ProviderAnswerReader[GeminiChunk]):
    """Reads one answer of `model` with so many `choices`. `names` are those of the tools as they were sent, and `made_up` is how
    the ids of calls begin that the provider gives none."""

    _decode = msgspec.json.Decoder(GeminiChunk).decode

    def __init__(self, model: str, names: SentNames, limits: EnginesConfig, *, made_up: str, choices: int = 1) -> None:
        super().__init__(limits)
        self._model = model
        self._names = names
        self._made_up = made_up
        self._choices = [_Choice(index) for index in range(choices)]
        self._counts: GeminiUsage | None = None
        self._blocked = False
        self._started = False
        self._piece = b""  # the event that is read
        self._call_ids: list[str] = []  # of the calls in the event that was read last

    @property
    def _may_end(self) -> bool:
        """Whether the stream may end here. More may come all the same: so nothing says that its end alone is due."""
        return self._blocked or all(choice.reason is not None for choice in self._choices)

    def _decoded(self, data: bytes) -> GeminiChunk:
        self._piece = data
        return super()._decoded(data)

    def _event(self, event: GeminiChunk, events: list[Event]) -> None:
        if event.error is not None:
            raise gemini_error_in(event.error, event.error.code or 200)
        self._call_ids = []
        if event.usage_metadata is not None:
            self._counts = event.usage_metadata
        if not self._started:
            self._started = True
            prompt = self._usage() or Usage(0, 0)
            events.append(Started(prompt.prompt_tokens, prompt.cached_tokens, self._model))
        if event.prompt_feedback is not None and event.prompt_feedback.block_reason:
            self._blocked = True
        for candidate in event.candidates or ():
            if not 0 <= candidate.index < len(self._choices):
                raise EngineGarbled("The provider answered with a choice nobody asked for.")
            self._candidate(candidate, self._choices[candidate.index], events)

    def _verbatim(self, event: GeminiChunk, data: bytes, model: str) -> Verbatim:
        parts = [part for each in event.candidates or () if each.content for part in each.content.parts or ()]
        if [part.function_call.id for part in parts if part.function_call is not None] != self._call_ids:
            data = self._with_ids(data)
        secrets = [part.thought_signature for part in parts if part.thought_signature is not None]
        return Verbatim(0, "", without_texts(with_strings(data, {"modelVersion": model}), secrets))

    def _with_ids(self, data: bytes) -> bytes:
        """The event, written anew with the ids that its calls have here: a signature goes back on the call of its id."""
        event: ProviderJson = msgspec.json.decode(data)
        parts = _parts_of(event)
        for call_id, part in zip(self._call_ids, [each for each in parts if each.get("functionCall")], strict=False):
            part["functionCall"]["id"] = call_id
        return msgspec.json.encode(event)

    def _object(self, body: bytes, events: list[Event]) -> None:
        """An answer that is no stream. An error may be a list of one."""
        super()._object(body.strip()[1:-1] if body.lstrip()[:1] == b"[" else body, events)

    def _whole(self, event: GeminiChunk, body: bytes, events: list[Event]) -> None:
        if event.error is None and event.candidates is None and event.prompt_feedback is None:
            super()._whole(event, body, events)
        self._event(event, events)
        self._over(events)

    def _candidate(self, candidate: GeminiCandidate, choice: _Choice, events: list[Event]) -> None:
        parts = (candidate.content.parts if candidate.content is not None else None) or ()
        for part in parts:
            self._part(part, choice.block, candidate.index, events)
        if candidate.logprobs_result is not None:
            self._logprobs(candidate, events)
        if candidate.citation_metadata is not None:
            for each in candidate.citation_metadata.citation_sources or ():
                choice.block.annotate("url", each.start_index, each.uri, each.title, "", events, each.end_index or None)
        if candidate.finish_reason and candidate.finish_reason != "FINISH_REASON_UNSPECIFIED":
            choice.reason, choice.message = candidate.finish_reason, candidate.finish_message or ""

    def _part(self, part: GeminiPartWire, block: OpenBlock, index: int, events: list[Event]) -> None:
        signature = part.thought_signature
        if part.thought:
            if part.text or signature is not None:
                block.reasoning(part.text or "", events)
            if signature is not None:
                payload = msgspec.json.encode({"text": part.text or "", "thoughtSignature": signature})
                block.end(events, seal=self._sealed("thought", payload))
        elif part.function_call is not None:
            self._call(part, block, index, events)
        elif part.inline_data is not None or part.executable_code is not None or part.code_execution_result is not None:
            self._cannot_pass_on()
        elif part.text is not None or signature is not None:
            block.text(part.text or "", events)
            if signature is not None:
                block.reasoning("", events)
                block.end(events, seal=self._sealed("text", signature.encode()))
        elif any(not _KNOWN.issuperset(each) for each in _parts_in(self._piece)):
            self._cannot_pass_on()

    def _cannot_pass_on(self) -> None:
        """A part of another kind, which a client of the provider's own API alone may know."""
        if not self.is_verbatim:
            raise EngineGarbled("The provider answered with a part that cannot be passed on.")

    def _call(self, part: GeminiPartWire, block: OpenBlock, index: int, events: list[Event]) -> None:
        call = part.function_call
        if call is None or not call.name:
            raise EngineGarbled("The provider began a tool call without the tool's name.")
        if block.calls >= self._limits.http_calls:
            raise EngineGarbled(f"The provider made more than {self._limits.http_calls} tool calls.")
        call_id = block.own_id(call.id or f"{self._made_up}_{index}_{block.calls}")
        self._call_ids.append(call_id)
        if part.thought_signature is not None:
            if block.kind != "reasoning":
                block.reasoning("", events)
            block.end(events, seal=self._sealed(f"call:{call_id}", part.thought_signature.encode()))
        block.call(call_id, *self._names.own(call.name), events)
        arguments = bytes(call.args).decode("utf-8", "replace")
        block.arguments("{}" if arguments in ("", "null") else arguments, events)
        block.end(events)

    def _sealed(self, part: str, payload: bytes) -> bytes:
        return carrying(Carried(PROVIDER, "", self._model, part, payload))

    def _logprobs(self, candidate: GeminiCandidate, events: list[Event]) -> None:
        """Put the tokens on the text that has come with them."""
        found = candidate.logprobs_result
        chosen = (found.chosen_candidates if found is not None else None) or ()
        tops = (found.top_candidates if found is not None else None) or ()
        texts = [at for at, each in enumerate(events) if isinstance(each, TextDelta) and each.index == candidate.index]
        if not chosen or not texts:
            return
        tokens = tuple(
            TokenLogprob(
                each.token,
                each.token.encode(),
                each.log_probability,
                tuple(
                    TopLogprob(other.token, other.token.encode(), other.log_probability)
                    for other in (tops[at].candidates if at < len(tops) else None) or ()
                ),
            )
            for at, each in enumerate(chosen)
        )
        events[texts[-1]] = TextDelta(candidate.index, events[texts[-1]].text, tokens)  # type: ignore[union-attr]

    # ------------------------------------------------------------------------------------------------------------ end

    def _over(self, events: list[Event]) -> None:
        if not self._may_end:
            super()._over(events)
        for index, choice in enumerate(self._choices):
            events += self._finished(index, choice)
        self.done = True
        events.append(self._usage() or Usage(0, 0))

    def _finished(self, index: int, choice: _Choice) -> list[Event]:
        events: list[Event] = []
        if choice.reason is None:
            reason: FinishReason = "content_filter"  # the prompt was not answered
        else:
            sentence = f"{choice.reason}: {choice.message}"
            if choice.reason in GAVE_UP:
                raise gave_up(sentence)
            found = reason_of(choice.reason, _REASONS, choice.block)
            reason = "tool_calls" if found == "stop" and choice.block.calls else found
        cut = reason in _CUTTING and choice.block.incomplete
        choice.block.end(events, cut=cut)
        events.append(Finished(index, reason, None, cut))
        return events

    def _usage(self) -> Usage | None:
        counts = self._counts
        if counts is None:
            return None
        prompt = reported_count(counts.prompt_token_count)
        candidates, thoughts = (
            reported_count(counts.candidates_token_count),
            reported_count(counts.thoughts_token_count),
        )
        inclusive = thoughts and prompt + candidates == reported_count(counts.total_token_count)
        completion = candidates if inclusive else candidates + thoughts
        cached = reported_count(counts.cached_content_token_count)
        return Usage(prompt + reported_count(counts.tool_use_prompt_token_count), completion, cached, thoughts)

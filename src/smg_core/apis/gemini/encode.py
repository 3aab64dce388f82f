"""Encodes the answer to a generateContent request: from events to server-sent events, one JSON array, or one object.

Every chunk of a stream is an object like the whole answer, and clients join the texts of like parts. What the API and its SDK ask
for is kept so:

- A stream of events has `data:` lines and nothing else: no names, no comments, no end mark.
- A function call is one part with all its arguments, so it is written when it is complete.
- The chunk with a candidate's finish reason comes last and has at least one part; it is held until the token counts are known.
- Thoughts are shown only where the request includes them. Their seal (`thoughtSignature`) stands on the first call after them,
else on the candidate's last part.
- Calls of tools that run here are parts (`toolCall`, `toolResponse`) where the request includes such invocations.
- `candidatesTokenCount` is without the tokens of thoughts.

What the API cannot express is left out: refusals are text with the finish reason SAFETY, annotations and opaque blocks are
skipped. Pure. Above: the server. Below: events, gemini, errors, json_text.
"""

import base64
import copy
from collections.abc import Sequence

import msgspec

from smg_core.apis.gemini.decode import GeminiRequest
from smg_core.apis.google.built_in import CODE, Grounding, built_in_parts
from smg_core.apis.google.mcp import MCP, call_part, response_part
from smg_core.errors import ClientGone, GuardrailBlocked, SmgError
from smg_core.events import (
    Annotation,
    Cancelled,
    Done,
    Event,
    Failed,
    Finished,
    FinishReason,
    HostedEnd,
    HostedStart,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    Started,
    TextDelta,
    TextEnd,
    TokenLogprob,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    TopLogprob,
    Usage,
    Verbatim,
)
from smg_core.json_types import Json, JsonObject
from smg_core.wire.base import Locate, VerbatimBody, VerbatimStream
from smg_core.wire.errors import gemini_error
from smg_core.wire.json_text import encode_body, encode_object, encode_text
from smg_core.wire.logprobs import finite

__all__ = ["GeminiStreamEncoder", "GeminiWholeEncoder", "blocked_or_error", "is_blocked_prompt", "usage_metadata"]

_REASONS: dict[FinishReason, str] = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "pause": "TOO_MANY_TOOL_CALLS",
    "length": "MAX_TOKENS",
    "context": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "refusal": "SAFETY",
    "malformed_call": "MALFORMED_FUNCTION_CALL",
    "abort": "OTHER",
    "error": "OTHER",
}
_MALFORMED = "The arguments of a function call are no JSON object."


class _Candidate:
    """One candidate: the call that is open, and what is to stand on a later part."""

    __slots__ = (
        "arguments",
        "call",
        "finished",
        "grounding",
        "logprobs",
        "malformed",
        "running",
        "running_kind",
        "seal",
    )

    def __init__(self) -> None:
        self.call: ToolCallStart | None = None
        self.arguments: list[str] = []
        self.seal: bytes | None = None
        self.malformed = False
        self.finished: Finished | None = None
        self.logprobs = _Logprobs()
        self.running = self.running_kind = ""  # the id of the call that runs here, and of which tool it is
        self.grounding = Grounding()

    def parts(self, event: Event, request: GeminiRequest) -> list[JsonObject]:
        """The parts that an event makes. A seal that still waits when the model begins to reason again has one of its own."""
        sealed: list[JsonObject] = []
        if self.seal is not None and isinstance(event, ReasoningDelta) and event.text:
            sealed = [self.signed({"text": ""})]
        part = self._part(event, request)
        return sealed if part is None else [*sealed, part]

    def _part(self, event: Event, request: GeminiRequest) -> JsonObject | None:
        match event:
            case HostedStart() | HostedEnd():
                return self._hosted(event, shows=request.shows_tools)
            case Annotation() | TextEnd():
                self.grounding.note(event)
            case TextDelta():
                self.logprobs.add(event.logprobs)
                if request.grounds:
                    self.grounding.text(event.text)
                return {"text": event.text} if event.text else None
            case RefusalDelta():
                return {"text": event.text} if event.text else None
            case ReasoningDelta():
                return {"text": event.text, "thought": True} if request.shows_thoughts and event.text else None
            case ReasoningEnd():
                self.seal = event.seal or self.seal
            case ToolCallStart():
                self.call, self.arguments = event, []
            case ToolCallDelta():
                self.arguments.append(event.arguments)
            case ToolCallEnd():
                return self._call(event)
            case Finished():
                self.finished = event
        return None

    def _hosted(self, event: HostedStart | HostedEnd, *, shows: bool) -> JsonObject | None:
        """The part of a call that runs here, or of its result, where the answer `shows` them."""
        if isinstance(event, HostedStart):
            self.running, self.running_kind = event.id, event.kind
            self.grounding.call(event)
            known = call_part(event) if event.kind == MCP else built_in_parts(event, event.kind, event.id)
            return known if shows or event.kind == CODE else None
        call_id, kind, self.running_kind = self.running, self.running_kind, ""
        self.grounding.result(event)
        known = response_part(event, call_id) if kind == MCP else built_in_parts(event, kind, call_id)
        return known if shows or kind == CODE else None

    def _call(self, event: ToolCallEnd) -> JsonObject | None:
        call, self.call = self.call, None
        arguments = _object("".join(self.arguments)) if event.valid else None
        if call is None or arguments is None:
            self.malformed = True
            return None
        return self.signed({"functionCall": {"id": call.id, "name": call.name, "args": arguments}})

    def signed(self, part: JsonObject) -> JsonObject:
        """The part, with the seal that waits for one."""
        seal, self.seal = self.seal, None
        return part if seal is None else {**part, "thoughtSignature": base64.b64encode(seal).decode()}

    def ending(self, request: GeminiRequest) -> JsonObject:
        """The fields of a candidate that has finished. A call that a stop string has cut is not malformed."""
        reason = "stop" if self.finished is None else self.finished.reason
        stopped = self.finished is not None and self.finished.stopped_by(request.generation.sampling.stop)
        if self.malformed and reason in ("tool_calls", "stop") and not stopped:
            reason = "malformed_call"
        found: JsonObject = {"finishReason": _REASONS[reason]}
        found |= self.grounding.wire() if request.grounds else {}
        return found | {"finishMessage": _MALFORMED} if reason == "malformed_call" else found

    def fork(self) -> "_Candidate":
        """An independent copy."""
        other = copy.copy(self)
        other.arguments, other.logprobs = self.arguments.copy(), self.logprobs.fork()
        other.grounding = self.grounding.fork()
        return other


_BLOCKED: JsonObject = {"promptFeedback": {"blockReason": "SAFETY"}}
"""The answer to a prompt that is not answered."""


def is_blocked_prompt(error: SmgError) -> bool:
    """Whether it says that a guardrail holds the prompt back, for which this API has an answer."""
    return isinstance(error, GuardrailBlocked) and not error.ends_the_answer


def blocked_or_error(error: SmgError, request_id: str = "", locate: Locate | None = None) -> bytes:
    """The body of an error; of a prompt that is held back, the answer that says so."""
    if is_blocked_prompt(error):
        return encode_object({**_BLOCKED, "responseId": request_id})
    return gemini_error(error, request_id, locate)


def _object(text: str) -> JsonObject | None:
    """The JSON object that `text` is; None for anything else."""
    try:
        found: object = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return found if type(found) is dict else None


# ------------------------------------------------------------------------------------------------------------ streams


class GeminiStreamEncoder:
    """One streamed response."""

    def __init__(self, request: GeminiRequest, created: int) -> None:
        self._request = request
        self._array = request.array
        self._fast = not request.array and not request.grounds
        self.content_type = "application/json" if request.array else "text/event-stream; charset=utf-8"
        self._prompt_tokens = 0
        self._tail = self._make_tail()
        self._candidates: dict[int, _Candidate] = {}
        self._text_prefix: dict[int, bytes] = {}
        self._begun = False
        self._ended = False
        self._has_left = False  # something has left in the gateway's words
        self._verbatim: VerbatimStream | None = None
        self.verbatim = "" if request.array else "gemini"

    def start(self) -> bytes:
        """Nothing: the response stays uncommitted until the first event."""
        return b""

    def keep_alive(self) -> bytes:
        """A chunk without candidates, since SDKs read nothing else; white space in an array."""
        return b"" if self._ended else b"\n" if self._array and self._begun else self._frame(b"{" + self._tail[1:])

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of `events`, in order; nothing after the end."""
        frames: list[bytes] = []
        for event in events:
            if self._ended:
                break
            if type(event) is TextDelta and not event.logprobs and self._fast:
                if event.text:  # the fast path: one more token
                    prefix = self._text_prefix.get(event.index) or self._prefix(event.index)
                    frames += (prefix, encode_text(event.text), self._text_suffix)
            else:
                self._add(event, frames)
        if self._verbatim is None:
            self._has_left = self._has_left or bool(frames)
            return b"".join(frames)
        failure = frames[-1:] if events and type(events[-1]) is Failed else ()
        return b"".join((self._verbatim.encode(events), *failure))

    def _prefix(self, index: int) -> bytes:
        prefix = b'data: {"candidates":[{"index":%d,"content":{"role":"model","parts":[{"text":' % index
        self._text_prefix[index] = prefix
        return prefix

    def _add(self, event: Event, frames: list[bytes]) -> None:
        match event:
            case Started():
                self._prompt_tokens = event.prompt_tokens
                self._tail = self._make_tail()
            case Usage():
                self._finish(event, frames)
            case Done():
                self._ended = True
                if self._array:
                    frames.append(b"]" if self._begun else b"[]")
            case Failed():
                self._ended = True
                if is_blocked_prompt(event.error) and not self._begun:
                    blocked = encode_object({**_BLOCKED, **self._names()})
                else:
                    blocked = gemini_error(event.error, locate=self._request.locate)
                frames.append(self._frame(blocked))
                if self._array:
                    frames.append(b"]")
            case Cancelled():
                self._ended = True
            case Verbatim():  # the answer is told in the provider's words, unless something of it has left in others
                if not self._has_left and self._verbatim is None:
                    self._verbatim = VerbatimStream(base64.b64encode)
            case _ if hasattr(event, "index"):
                self._of_candidate(event, event.index, frames)

    def _of_candidate(self, event: Event, index: int, frames: list[bytes]) -> None:
        candidate = self._candidates.get(index)
        if candidate is None:
            candidate = self._candidates[index] = _Candidate()
        parts = candidate.parts(event, self._request)
        if not parts and not candidate.logprobs.count:
            return
        wire: JsonObject = {"index": index, "content": _content(parts or [{"text": ""}])}
        if candidate.logprobs.count:
            wire |= candidate.logprobs.wire()
            candidate.logprobs = _Logprobs()
        frames.append(self._frame(b'{"candidates":[%b]%b' % (encode_object(wire), self._tail)))

    def _finish(self, usage: Usage, frames: list[bytes]) -> None:
        """The chunk with the finish reasons of all candidates, and the token counts."""
        ended = sorted((index, each) for index, each in self._candidates.items() if each.finished is not None)
        if not ended:
            return
        candidates: list[JsonObject] = [
            {"index": index, "content": _content([each.signed({"text": ""})]), **each.ending(self._request)}
            for index, each in ended
        ]
        frames.append(
            self._frame(
                encode_object({"candidates": candidates, "usageMetadata": usage_metadata(usage), **self._names()})
            )
        )

    def _frame(self, chunk: bytes) -> bytes:
        """A chunk as it stands in the stream."""
        if not self._array:
            return b"data: " + chunk + b"\n\n"
        opening = b",\n" if self._begun else b"["
        self._begun = True
        return opening + chunk

    def _names(self) -> JsonObject:
        generation = self._request.generation
        return {"modelVersion": generation.model, "responseId": generation.id}

    def _make_tail(self) -> bytes:
        """What every chunk ends with; counts are in it once they are known: servers that read prompts tell them last."""
        counts: JsonObject = {}
        if self._prompt_tokens:
            counts = {"promptTokenCount": self._prompt_tokens, "totalTokenCount": self._prompt_tokens}
        tail = b"," + encode_object({"usageMetadata": counts, **self._names()})[1:]
        self._text_suffix = b"}]}}]" + tail + b"\n\n"
        return tail


# -------------------------------------------------------------------------------------------------------- whole bodies


class _WholeCandidate:
    """One candidate of a whole answer: its parts so far, in order; the texts of one kind that follow each other are one part."""

    def __init__(self) -> None:
        self.state = _Candidate()
        self.parts: list[JsonObject] = []
        self.texts: list[str] = []

    def add(self, event: Event, request: GeminiRequest) -> None:
        for part in self.state.parts(event, request):
            self._take(part)

    def _take(self, part: JsonObject) -> None:
        text, signed = part.get("text"), "thoughtSignature" in part
        goes_on = isinstance(text, str) and bool(self.texts) and self.parts[-1].get("thought") == part.get("thought")
        if goes_on and not signed:
            self.texts.append(str(text))
            return
        self._close()
        if goes_on:
            self.parts[-1] = {**self.parts[-1], "thoughtSignature": part["thoughtSignature"]}
            return
        self.parts.append(part)
        if isinstance(text, str) and not signed:
            self.texts.append(text)

    def _close(self) -> None:
        """Finish the open text."""
        if self.texts:
            self.parts[-1] = {**self.parts[-1], "text": "".join(self.texts)}
            self.texts = []

    def fork(self) -> "_WholeCandidate":
        """An independent copy."""
        other = _WholeCandidate()
        other.state, other.parts, other.texts = self.state.fork(), self.parts.copy(), self.texts.copy()
        return other

    def wire(self, index: int, request: GeminiRequest) -> JsonObject:
        """The candidate as the answer has it."""
        self._close()
        parts = self.parts or [{"text": ""}]
        if self.state.seal is not None:
            if parts[-1].get("thought") or "thoughtSignature" in parts[-1]:
                parts = [*parts, {"text": ""}]
            parts = [*parts[:-1], self.state.signed(parts[-1])]
        found: JsonObject = {"index": index, "content": _content(parts), **self.state.ending(request)}
        return found | self.state.logprobs.wire() if self.state.logprobs.count else found


class GeminiWholeEncoder:
    """One whole response."""

    content_type = "application/json"
    verbatim = "gemini"

    def __init__(self, request: GeminiRequest, created: int) -> None:
        self._request = request
        self._candidates = [_WholeCandidate() for _ in range(request.generation.sampling.n)]
        self._usage: Usage | None = None
        self._error: SmgError | None = None
        self._at_once: VerbatimBody | None = None  # the answer in a provider's words

    def add(self, events: Sequence[Event]) -> None:
        """Take in events."""
        for event in events:
            match event:
                case Usage():
                    self._usage = event
                case Failed():
                    self._error = event.error
                case Cancelled():
                    self._error = ClientGone("The request was cancelled.")
                case Verbatim():
                    self._at_once = VerbatimBody(event, base64.b64encode)
                case _ if hasattr(event, "index"):
                    self._candidates[event.index].add(event, self._request)
                    if self._at_once is not None and isinstance(event, ReasoningEnd):
                        self._at_once.seal(event)

    def fork(self) -> "GeminiWholeEncoder":
        """An independent copy with the same events so far."""
        other = copy.copy(self)
        other._candidates = [each.fork() for each in self._candidates]
        other._at_once = None if self._at_once is None else self._at_once.fork()
        return other

    def body(self) -> bytes:
        """The GenerateContentResponse. Raises the error of a `Failed` event, and `ClientGone` after a `Cancelled`."""
        if self._error is not None:
            raise self._error
        if self._at_once is not None:
            return self._at_once.body()
        generation = self._request.generation
        found: JsonObject = {
            "candidates": [each.wire(index, self._request) for index, each in enumerate(self._candidates)]
        }
        if self._usage is not None:
            found["usageMetadata"] = usage_metadata(self._usage)
        return encode_body({**found, "modelVersion": generation.model, "responseId": generation.id})


# ------------------------------------------------------------------------------------------------ parts of all wires


def _content(parts: Sequence[JsonObject]) -> JsonObject:
    return {"role": "model", "parts": list(parts)}


def usage_metadata(usage: Usage) -> JsonObject:
    """The token counts of an answer. The prompts of the turns after results of tools that ran here stand apart."""
    prompt, cached = usage.prompt_tokens - usage.hosted_prompt_tokens, usage.cached_tokens - usage.hosted_cached_tokens
    found: JsonObject = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": usage.completion_tokens - usage.reasoning_tokens,
        "totalTokenCount": usage.total_tokens,
    }
    if not usage.unsplit_prompt_tokens:
        media = {"IMAGE": usage.image_tokens, "AUDIO": usage.audio_tokens, "VIDEO": usage.video_tokens}
        shares = {"TEXT": prompt - sum(media.values()), **media}
        details: list[Json] = [{"modality": kind, "tokenCount": count} for kind, count in shares.items() if count]
        found["promptTokensDetails"] = details
    if usage.reasoning_tokens:
        found["thoughtsTokenCount"] = usage.reasoning_tokens
    if cached:
        found["cachedContentTokenCount"] = cached
    if usage.hosted_prompt_tokens:
        found["toolUsePromptTokenCount"] = usage.hosted_prompt_tokens
    return found


class _Logprobs:
    """The logprobs of `count` tokens, as JSON that grows: a whole answer may have thousands, which are not encoded at its end."""

    __slots__ = ("_chosen", "_tops", "_total", "count")

    def __init__(self) -> None:
        self._chosen, self._tops = bytearray(), bytearray()
        self._total, self.count = 0.0, 0

    def fork(self) -> "_Logprobs":
        """An independent copy."""
        other = copy.copy(self)
        other._chosen, other._tops = self._chosen[:], self._tops[:]
        return other

    def add(self, logprobs: Sequence[TokenLogprob]) -> None:
        """Append tokens."""
        if not logprobs:
            return
        comma = b"," if self.count else b""
        self._chosen += comma + encode_object([_candidate(each) for each in logprobs])[1:-1]
        tops: list[JsonObject] = [{"candidates": [_candidate(top) for top in each.top]} for each in logprobs]
        self._tops += comma + encode_object(tops)[1:-1]
        self._total += sum([finite(each.logprob) for each in logprobs])
        self.count += len(logprobs)

    def wire(self) -> JsonObject:
        """The fields of a candidate; called when there are any."""
        lists = b'{"chosenCandidates":[%b],"topCandidates":[%b]}' % (bytes(self._chosen), bytes(self._tops))
        return {"avgLogprobs": self._total / self.count, "logprobsResult": msgspec.Raw(lists)}


def _candidate(token: TokenLogprob | TopLogprob) -> JsonObject:
    """A token of `logprobsResult`; it has an id where the engine answers in ids."""
    found: JsonObject = {"token": token.token, "logProbability": finite(token.logprob)}
    return found if token.id is None else {**found, "tokenId": token.id}

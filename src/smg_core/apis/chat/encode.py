"""Encodes the answer to a Chat Completions request: from events to server-sent events or one JSON object.

What repeats in every chunk (id, model, time, keys) is encoded once per response, so a text delta costs one string encoding and
one join. Every chunk is what a plain JSON encoder would write for the same object, except for the escapes of `json_text`.

What the API leaves open is decided so:

- The first chunk of a choice carries its role and an empty content. Those of all choices go out in order with the first event,
  since clients append choices as they come; not earlier, since the first byte commits the response.
- Reasoning is `reasoning_content`, in deltas and in messages, unless the server sets another name. Blocks that must be returned
  byte for byte are `opaque_blocks`: objects with `type` and `data`, where `data` is the block's text, and in deltas `index`.
- A stream that fails ends with one event `{"error": {...}}` and no `[DONE]`; one that is cancelled just ends.
- Calls of tools that run here are `mcp_calls` and `mcp_approval_requests` (`chat_mcp`).
- What the API cannot express is left out: begin and end of blocks, progress of hosted tools, annotations, namespaces.
- `stop_reason` is the stop string or token id that ended a choice, if one did.
- With `return_token_ids` the answer has `prompt_token_ids`, in a stream its first chunk, and each choice `token_ids`, those of a
  chunk being the new ones (vLLM's fields).

Pure. Above: the server. Below: events, chat, errors, json_text. It knows no engine.
"""

import copy
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from smg_core.apis.chat.blocks import (
    finish_word_of,
    logprobs_json,
    logprobs_list,
    logprobs_of,
    opaque_object,
    own_words_of,
    usage_object,
)
from smg_core.apis.chat.built_in import Cited
from smg_core.apis.chat.decode import ChatRequest
from smg_core.apis.chat.mcp import HostedCalls
from smg_core.errors import ClientGone, SmgError
from smg_core.events import (
    NO_USAGE,
    Annotation,
    Cancelled,
    Done,
    Event,
    Failed,
    Finished,
    HostedEnd,
    HostedProgress,
    HostedStart,
    OpaqueBlock,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    SampledIds,
    Started,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    Verbatim,
)
from smg_core.json_types import JsonObject
from smg_core.sse import COMMENT
from smg_core.wire.errors import openai_error
from smg_core.wire.json_text import encode_ascii, encode_body, encode_object, encode_text

__all__ = ["ChatStreamEncoder", "ChatWholeEncoder"]

_DONE = b"data: [DONE]\n\n"
_OBFUSCATION_BLOCK = 32


class _Head(Struct, frozen=True):
    """The fields that are the same in every chunk of a response."""

    response_id: str
    created: int
    model: str
    service_tier: str | None
    system_fingerprint: str | None

    def fields(self, kind: str) -> JsonObject:
        """The first fields of a chunk or body; `kind` is its `object`."""
        return {"id": self.response_id, "object": kind, "created": self.created, "model": self.model}

    def trailing(self) -> JsonObject:
        """The optional fields that follow the choices."""
        found: JsonObject = {}
        if self.service_tier is not None:
            found["service_tier"] = self.service_tier
        if self.system_fingerprint is not None:
            found["system_fingerprint"] = self.system_fingerprint
        return found


def _head(request: ChatRequest, created: int, response_id: str, system_fingerprint: str | None) -> _Head:
    # The API reports the tier that served the request if the client asked for one; there is only one here.
    tier = None if request.generation.service_tier is None else "default"
    return _Head(response_id, created, request.generation.model, tier, system_fingerprint)


# ------------------------------------------------------------------------------------------------------------ streams


class ChatStreamEncoder:
    """One streamed response. `created` is seconds since the epoch; `reasoning_field` names the field of reasoning."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(
        self,
        request: ChatRequest,
        created: int,
        response_id: str,
        system_fingerprint: str | None = None,
        *,
        reasoning_field: str = "reasoning_content",
    ) -> None:
        self._request = request
        self._reasoning_key = encode_text(reasoning_field)
        head = _head(request, created, response_id, system_fingerprint)
        self._open = b"data: " + encode_object(head.fields("chat.completion.chunk"))[:-1] + b',"choices":['
        trailing = head.trailing()
        tail = b"," + encode_object(trailing)[1:-1] if trailing else b""
        self._usage_close = b"]" + tail
        self._close = b"]" + tail + (b',"usage":null}\n\n' if request.include_usage else b"}\n\n")
        self._text_suffix = b'},"logprobs":null,"finish_reason":null}' + self._close
        self._text_prefix: dict[int, bytes] = {}
        self._plain = not request.obfuscate
        self._tells_ids = request.generation.sampling.token_ids and not request.hides_ids
        self._fast = self._plain and not self._tells_ids and not request.counts and not request.cites
        self._usage_so_far = NO_USAGE
        self._prompt_ids = b""
        self._ids: dict[int, list[int]] = {}  # sampled, and not told yet
        self._custom_calls: set[tuple[int, int]] = set()
        self._opaque_count: dict[int, int] = {}
        self._hosted = HostedCalls(response_id)
        self._cited = Cited() if request.cites else None
        self._called = False
        self._ended = False
        self._writers = _STREAM_WRITERS

    @property
    def verbatim(self) -> str:
        """The API in whose own words a provider may be heard, "" for none."""
        return own_words_of(self._request)

    def start(self) -> bytes:
        """Nothing: the response stays uncommitted until the first event."""
        return b""

    def keep_alive(self) -> bytes:
        """A comment, which clients of server-sent events pass over."""
        return COMMENT

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of `events`, in order; nothing after a `Done`, `Failed` or `Cancelled`."""
        if self._ended:
            return b""
        if len(events) == 1 and type(event := events[0]) is TextDelta and self._fast and not event.logprobs:
            prefix = self._text_prefix.get(event.index)
            if prefix is not None:  # the fast path: one more token
                text = event.text
                encoded = encode_ascii(text) if text.isascii() else encode_text(text)
                return prefix + encoded + self._text_suffix if text else b""
        if self._writers is _THEIR_WRITERS and len(events) == 2 and type(events[1]) is TextDelta:
            theirs = events[0]  # one more token in their words
            if type(theirs) is Verbatim and b"\n" not in theirs.pieces[0]:
                return b"data: %b\n\n" % theirs.pieces[0]
        frames: list[bytes] = []
        theirs_alone = self._writers is _THEIR_WRITERS
        for event in events:
            if theirs_alone and type(event) is TextDelta:  # they have said it in their words
                continue
            if type(event) is TextDelta and self._fast and not event.logprobs:
                if not event.text:
                    continue
                prefix = self._text_prefix.get(event.index) or self._first(event.index, frames)
                frames += (prefix, encode_text(event.text), self._text_suffix)
            else:
                self._writers[type(event)](self, event, frames)
                if self._ended:
                    break
        return b"".join(frames)

    # Each writer appends the frames of one event.

    def _first(self, index: int, frames: list[bytes]) -> bytes:
        """The first chunk of every choice, in order, since clients append choices as they come; returns the text prefix
        of choice `index`."""
        for one in range(len(self._text_prefix), max(self._request.generation.sampling.n, index + 1)):
            opening = b'{"index":%d,"delta":{' % one
            close = self._text_suffix if one else self._first_close()
            frames += (self._open, opening, b'"role":"assistant","content":"","refusal":null', close)
            self._text_prefix[one] = self._open + opening + b'"content":'
        return self._text_prefix[index]

    def _first_close(self) -> bytes:
        """The end of the first chunk of all, which tells the prompt's ids where they are asked for."""
        at = len(self._text_suffix) - len(self._close) + 1
        return self._text_suffix[:at] + self._prompt_ids + self._text_suffix[at:]

    def _ids_of(self, index: int) -> bytes:
        """The field of the ids of choice `index` that were not told yet."""
        ids = self._ids.pop(index, None)
        return b"" if ids is None else b',"token_ids":' + msgspec.json.encode(ids)

    def _started(self, event: Started, frames: list[bytes]) -> None:
        if self._request.counts:
            self._usage_so_far = Usage(event.prompt_tokens, 0, event.cached_tokens or 0)
            self._count(0)
        if self._tells_ids:
            self._prompt_ids = b',"prompt_token_ids":' + msgspec.json.encode(event.prompt_ids)

    def _count(self, tokens: int) -> None:
        """Have the chunks that follow tell the usage so far, with so many tokens more."""
        so_far = self._usage_so_far
        self._usage_so_far = so_far = replace(so_far, completion_tokens=so_far.completion_tokens + tokens)
        self._close = b'%b,"usage":%b}\n\n' % (self._usage_close, encode_object(usage_object(so_far)))
        self._text_suffix = b'},"logprobs":null,"finish_reason":null}' + self._close

    def _note(self, index: int, ids: Sequence[int]) -> None:
        """Take in the ids of tokens of choice `index`."""
        if self._request.counts:
            self._count(len(ids))
        if self._tells_ids:
            self._ids.setdefault(index, []).extend(ids)

    def _sampled(self, event: SampledIds, frames: list[bytes]) -> None:
        self._note(event.index, event.ids)

    def _chunk(self, index: int, delta: bytes, frames: list[bytes], logprobs: bytes = b"null") -> None:
        if index not in self._text_prefix:
            self._first(index, frames)
        frames += (
            self._open,
            b'{"index":%d,"delta":{' % index,
            delta,
            b'},"logprobs":',
            logprobs,
            b',"finish_reason":null',
            self._ids_of(index) if self._ids else b"",
            b"}",
            self._padded(delta),
        )

    def _padded(self, delta: bytes) -> bytes:
        """The end of a chunk; with `obfuscate`, padded to a multiple of `_OBFUSCATION_BLOCK`."""
        if self._plain:
            return self._close
        filler = b"x" * (-len(delta) % _OBFUSCATION_BLOCK)
        return self._close[:-3] + b',"obfuscation":"' + filler + b'"}\n\n'

    def _text(self, event: TextDelta, frames: list[bytes]) -> None:
        if event.ids:
            self._note(event.index, event.ids)
        if not event.text and not event.logprobs:
            return
        if self._cited is not None:
            self._cited.text(event.text)
        logprobs = logprobs_json(event.logprobs) if event.logprobs else b"null"
        self._chunk(event.index, b'"content":' + encode_text(event.text), frames, logprobs)

    def _text_end(self, event: TextEnd, frames: list[bytes]) -> None:
        if self._cited is not None:
            self._cited.text_end()

    def _annotation(self, event: Annotation, frames: list[bytes]) -> None:
        if self._cited is not None and (made := self._cited.cite(event)) is not None:
            self._chunk(event.index, b'"annotations":[%b]' % encode_object(made), frames)

    def _reasoning(self, event: ReasoningDelta, frames: list[bytes]) -> None:
        if event.text and self._request.include_reasoning:
            self._chunk(event.index, self._reasoning_key + b":" + encode_text(event.text), frames)

    def _refusal(self, event: RefusalDelta, frames: list[bytes]) -> None:
        if event.text:
            self._chunk(event.index, b'"refusal":' + encode_text(event.text), frames)

    def _hosted_call(self, event: HostedStart | HostedEnd, frames: list[bytes]) -> None:
        if (found := self._hosted.take(event)) is not None:
            field, delta = found
            self._chunk(event.index, b'"%b":[%b]' % (field.encode(), encode_object(delta)), frames)

    def _call_start(self, event: ToolCallStart, frames: list[bytes]) -> None:
        self._called = True
        if self._request.legacy_functions:
            if event.call == 0:
                call = b'"function_call":{"name":%b,"arguments":""}' % encode_text(event.name)
                self._chunk(event.index, call, frames)
            return
        if event.custom:
            self._custom_calls.add((event.index, event.call))
        shape = (
            b'"tool_calls":[{"index":%d,"id":%b,"type":"custom","custom":{"name":%b,"input":""}}]'
            if event.custom
            else b'"tool_calls":[{"index":%d,"id":%b,"type":"function","function":{"name":%b,"arguments":""}}]'
        )
        self._chunk(event.index, shape % (event.call, encode_text(event.id), encode_text(event.name)), frames)

    def _call_delta(self, event: ToolCallDelta, frames: list[bytes]) -> None:
        if not event.arguments:
            return
        text = encode_text(event.arguments)
        if self._request.legacy_functions:
            if event.call == 0:
                self._chunk(event.index, b'"function_call":{"arguments":%b}' % text, frames)
        elif (event.index, event.call) in self._custom_calls:
            self._chunk(event.index, b'"tool_calls":[{"index":%d,"custom":{"input":%b}}]' % (event.call, text), frames)
        else:
            call = b'"tool_calls":[{"index":%d,"function":{"arguments":%b}}]' % (event.call, text)
            self._chunk(event.index, call, frames)

    def _skip(self, event: Event, frames: list[bytes]) -> None:
        """For events that this API cannot express."""

    def _opaque(self, event: OpaqueBlock, frames: list[bytes]) -> None:
        order = self._opaque_count.get(event.index, 0)
        self._opaque_count[event.index] = order + 1
        block = encode_object({"index": order, **opaque_object(event)})
        self._chunk(event.index, b'"opaque_blocks":[%b]' % block, frames)

    def _tell(self, event: Verbatim, frames: list[bytes]) -> None:
        """A provider's own words, unless something of the answer has left in others. From here on nothing is told but them,
        without a count that was not asked for, and the end of the answer."""
        if self._text_prefix:
            return
        self._fast, self._writers = False, _THEIR_WRITERS
        if self._request.include_usage or not event.counts:
            frames += (b"data: ", event.pieces[0].replace(b"\n", b"\ndata: "), b"\n\n")

    def _finished(self, event: Finished, frames: list[bytes]) -> None:
        if event.index not in self._text_prefix:
            self._first(event.index, frames)
        reason = encode_text(finish_word_of(event, self._request, asks=bool(self._hosted.asked) and not self._called))
        matched = b"" if event.matched is None else b',"stop_reason":' + msgspec.json.encode(event.matched)
        matched += self._ids_of(event.index)
        choice = b'{"index":%d,"delta":{},"logprobs":null,"finish_reason":%b%b}' % (event.index, reason, matched)
        frames += (self._open, choice, self._close)

    def _usage(self, event: Usage, frames: list[bytes]) -> None:
        if self._request.include_usage:
            frames += (self._open, self._usage_close, b',"usage":', encode_object(usage_object(event)), b"}\n\n")

    def _done(self, event: Done, frames: list[bytes]) -> None:
        self._ended = True
        frames.append(_DONE)

    def _failed(self, event: Failed, frames: list[bytes]) -> None:
        self._ended = True
        frames += (b"data: ", openai_error(event.error, locate=self._request.locate), b"\n\n")

    def _cancelled(self, event: Cancelled, frames: list[bytes]) -> None:
        self._ended = True


_STREAM_WRITERS: dict[type, Callable[[ChatStreamEncoder, Any, list[bytes]], None]] = {
    Started: ChatStreamEncoder._started,
    SampledIds: ChatStreamEncoder._sampled,
    TextDelta: ChatStreamEncoder._text,
    TextEnd: ChatStreamEncoder._text_end,
    RefusalDelta: ChatStreamEncoder._refusal,
    Annotation: ChatStreamEncoder._annotation,
    ReasoningDelta: ChatStreamEncoder._reasoning,
    ReasoningEnd: ChatStreamEncoder._skip,
    ToolCallStart: ChatStreamEncoder._call_start,
    ToolCallDelta: ChatStreamEncoder._call_delta,
    ToolCallEnd: ChatStreamEncoder._skip,
    HostedStart: ChatStreamEncoder._hosted_call,
    HostedProgress: ChatStreamEncoder._skip,
    HostedEnd: ChatStreamEncoder._hosted_call,
    OpaqueBlock: ChatStreamEncoder._opaque,
    Verbatim: ChatStreamEncoder._tell,
    Finished: ChatStreamEncoder._finished,
    Usage: ChatStreamEncoder._usage,
    Done: ChatStreamEncoder._done,
    Failed: ChatStreamEncoder._failed,
    Cancelled: ChatStreamEncoder._cancelled,
}
_ENDS = frozenset({Verbatim, Done, Failed, Cancelled})
_THEIR_WRITERS = {kind: write if kind in _ENDS else ChatStreamEncoder._skip for kind, write in _STREAM_WRITERS.items()}
"""The writers of an answer in a provider's words."""


# -------------------------------------------------------------------------------------------------------- whole bodies


_OF_THE_RESPONSE = frozenset({Started, Verbatim, Failed, Cancelled})


class _Choice:
    """The events of one choice so far, by kind."""

    __slots__ = ("calls", "cited", "finished", "hosted", "ids", "logprobs", "opaque", "reasoning", "refusal", "text")

    def __init__(self, hosted: HostedCalls, cited: Cited | None) -> None:
        self.hosted = hosted
        self.cited = cited
        self.text: list[str] = []
        self.refusal: list[str] = []
        self.reasoning: list[str] = []
        self.logprobs: list[bytes] = []  # as the wire has them, which takes an eighth of what the events do
        self.calls: dict[int, tuple[ToolCallStart, list[str]]] = {}
        self.opaque: list[OpaqueBlock] = []
        self.finished: Finished | None = None
        self.ids = array("Q")  # of its tokens, where they are asked for

    def fork(self) -> "_Choice":
        """An independent copy."""
        other = _Choice(self.hosted.fork(), None if self.cited is None else self.cited.fork())
        other.ids = self.ids[:]
        other.text, other.refusal, other.reasoning = self.text.copy(), self.refusal.copy(), self.reasoning.copy()
        other.logprobs, other.opaque, other.finished = self.logprobs.copy(), self.opaque.copy(), self.finished
        other.calls = {index: (call, arguments.copy()) for index, (call, arguments) in self.calls.items()}
        return other

    def add(self, event: Event) -> None:
        """Take in one event of this choice but its text and its end. What this API cannot express is ignored."""
        match event:
            case SampledIds():
                self.ids.extend(event.ids)
            case ReasoningDelta():
                self.reasoning.append(event.text)
            case RefusalDelta():
                self.refusal.append(event.text)
            case ToolCallStart():
                self.calls[event.call] = (event, [])
            case ToolCallDelta():
                self.calls[event.call][1].append(event.arguments)
            case HostedStart() | HostedEnd():
                self.hosted.take(event)
            case TextEnd() if self.cited is not None:
                self.cited.text_end(sum(map(len, self.text)))
            case Annotation() if self.cited is not None:
                self.cited.cite(event)
            case OpaqueBlock():
                self.opaque.append(event)


class ChatWholeEncoder:
    """One whole response. Arguments as for `ChatStreamEncoder`."""

    content_type = "application/json"

    def __init__(
        self,
        request: ChatRequest,
        created: int,
        response_id: str,
        system_fingerprint: str | None = None,
        *,
        reasoning_field: str = "reasoning_content",
    ) -> None:
        self._request = request
        self._reasoning_field = reasoning_field
        self._head = _head(request, created, response_id, system_fingerprint)
        cites, most = request.cites, request.generation.sampling.n
        self._choices: dict[int, _Choice] = {
            index: _Choice(HostedCalls(response_id), Cited() if cites else None) for index in range(most)
        }
        self._prompt_ids: tuple[int, ...] = ()
        self._usage: Usage | None = None
        self._error: SmgError | None = None
        self._ended = False
        self._verbatim: Verbatim | None = None  # the answer in a provider's words

    @property
    def verbatim(self) -> str:
        """The API in whose own words a provider may be heard, "" for none."""
        return own_words_of(self._request)

    def add(self, events: Sequence[Event]) -> None:
        """Take in events; those after a `Done`, `Failed` or `Cancelled` are ignored."""
        if self._ended:
            return
        for event in events:
            if type(event) is TextDelta:
                choice = self._choices[event.index]
                choice.text.append(event.text)
                if event.logprobs:
                    choice.logprobs.append(logprobs_list(event.logprobs))
                if event.ids:
                    choice.ids.extend(event.ids)
            elif type(event) is Usage:
                self._usage = event
            elif type(event) is Done:
                self._ended = True
                return
            elif type(event) is Finished:
                self._choices[event.index].finished = event
            elif type(event) in _OF_THE_RESPONSE:
                self._add_to_response(event)
                if self._ended:
                    return
            elif type(event) is not TextEnd or self._request.cites:
                self._choices[event.index].add(event)  # type: ignore[union-attr]  # all others are of a choice

    def fork(self) -> "ChatWholeEncoder":
        """An independent copy with the same events so far."""
        other = copy.copy(self)
        other._choices = {index: choice.fork() for index, choice in self._choices.items()}
        return other

    def _add_to_response(self, event: Event) -> None:
        """Take in an event of the whole response that says more than that it goes on or ends well."""
        match event:
            case Started():
                self._prompt_ids = event.prompt_ids
            case Verbatim():
                self._verbatim = event
            case Failed():
                self._ended, self._error = True, event.error
            case Cancelled():
                self._ended, self._error = True, ClientGone("The request was cancelled.")

    def body(self) -> bytes:
        """The `chat.completion` object. Raises the error of a `Failed` event, and `ClientGone` after a `Cancelled`."""
        if self._error is not None:
            raise self._error
        if self._verbatim is not None:
            return self._verbatim.pieces[0]
        found = self._head.fields("chat.completion")
        found["choices"] = [self._choice(index, choice) for index, choice in self._choices.items()]
        if self._usage is not None:
            found["usage"] = usage_object(self._usage)
        found.update(self._head.trailing())
        if self._request.generation.sampling.token_ids:
            found["prompt_token_ids"] = self._prompt_ids
        if self._request.generation.metadata:
            found["metadata"] = self._request.generation.metadata
        return encode_body(found)

    def _choice(self, index: int, choice: _Choice) -> JsonObject:
        wants_logprobs = self._request.generation.sampling.logprobs is not None
        found: JsonObject = {
            "index": index,
            "message": self._message(choice),
            "logprobs": msgspec.Raw(logprobs_of(choice.logprobs)) if wants_logprobs else None,
            "finish_reason": None
            if choice.finished is None
            else finish_word_of(choice.finished, self._request, asks=bool(choice.hosted.asked) and not choice.calls),
        }
        if choice.finished is not None and choice.finished.matched is not None:
            found["stop_reason"] = choice.finished.matched
        if self._request.generation.sampling.token_ids:
            found["token_ids"] = choice.ids.tolist()
        return found

    def _message(self, choice: _Choice) -> JsonObject:
        text = "".join(choice.text)
        refusal = "".join(choice.refusal) or None
        reasoning = "".join(choice.reasoning) if self._request.include_reasoning else ""
        hosted = choice.hosted.calls or choice.hosted.asked
        has_more = choice.calls or reasoning or refusal or hosted or choice.opaque
        message: JsonObject = {
            "role": "assistant",
            "content": text if text.strip() or not has_more else None,
            "refusal": refusal,
        }
        if reasoning:
            message[self._reasoning_field] = reasoning
        if choice.cited is not None:
            message["annotations"] = choice.cited.made
        if choice.opaque:
            message["opaque_blocks"] = [opaque_object(block) for block in choice.opaque]
        if choice.hosted.calls:
            message["mcp_calls"] = choice.hosted.calls
        if choice.hosted.asked:
            message["mcp_approval_requests"] = choice.hosted.asked
        if choice.calls and self._request.legacy_functions:
            call, arguments = next(iter(choice.calls.values()))
            message["function_call"] = {"name": call.name, "arguments": "".join(arguments)}
        elif choice.calls:
            message["tool_calls"] = [self._call(*call) for call in choice.calls.values()]
        return message

    def _call(self, call: ToolCallStart, arguments: list[str]) -> JsonObject:
        text = "".join(arguments)
        if call.custom:
            return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": text}}
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}

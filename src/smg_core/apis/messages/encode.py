"""Encodes the answer to a Messages request: from events to server-sent events or one JSON object.

The grammar of the stream is a table of states (START, OPEN, BLOCK, END): one `message_start`, then blocks with indexes from 0
without gaps, one open at a time, each closed before the next; one `message_delta` with the final counts; `message_stop`. An error
is the last event.

What the API leaves open is decided so:

- `message_start` has the prompt's tokens as far as they are known; `message_delta` has the final split into new and cached ones.
- A thinking block ends with one `signature_delta`, which holds the block's seal. Where the client asked not to be shown the text,
  the block has a signature only.
- Arguments of a tool that are no JSON object are {"INVALID_JSON": text}, which is how this API's documentation wraps them; in a
  stream those alone that do not begin as one, so that what a client reads of it is an object, as its requests need it.
- With `max_tokens` 0 the request fills the engine's cache and has no answer: no content, no tokens of output, and that bound
  as the reason to stop. Engines make one token, which is left out.
- The text with which a model declines is text, and the reason to stop is `refusal`.
- An answer that the engine has ended before it was whole is an error: the API has no reason to stop for that.
- A summary that the flow has made of the history is a block, and the reason to stop where the answer ends with it; its tokens
  are listed apart from the answer's (`usage.iterations`), as the API does.
- A text that cites something ends there: what follows is another block, so that a block's citations are of the whole of it.
- What the API cannot express is left out: annotations of other sources, other hosted tools and opaque blocks.

Pure. Above: the server. Below: events, messages, errors, json_text. It knows no engine.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from operator import sub
from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from smg_core.apis.messages.built_in import HostedBlocks
from smg_core.apis.messages.compaction import COMPACTED, Compacted, read_compacted
from smg_core.apis.messages.decode import MessagesRequest
from smg_core.errors import ClientGone, SmgError
from smg_core.events import (
    Annotation,
    Cancelled,
    Done,
    EditedContext,
    Event,
    Failed,
    Finished,
    FinishReason,
    HostedEnd,
    HostedStart,
    OpaqueBlock,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
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
from smg_core.wire.base import VerbatimBody, VerbatimStream
from smg_core.wire.endings import broken_off
from smg_core.wire.errors import anthropic_error
from smg_core.wire.json_text import encode_ascii, encode_body, encode_object, encode_text

__all__ = ["MessagesStreamEncoder", "MessagesWholeEncoder", "stop_reason"]

_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_BLOCK_END = b"}}\n\n"
_WRAPPED = encode_text('{"INVALID_JSON": "')
_UNWRAPPED = encode_text('"}')
_REASONS: Mapping[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "malformed_call": "tool_use",
    "length": "max_tokens",
    "context": "model_context_window_exceeded",
    "content_filter": "refusal",
    "refusal": "refusal",
    "pause": "pause_turn",
}
"""The reasons of answers that are whole; what an engine has broken off is an error."""


def _frame(kind: str, body: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)


def stop_reason(event: Finished, request: MessagesRequest) -> tuple[str, str | None]:
    """The API's reason to stop, and the stop sequence that matched."""
    if event.stopped_by(request.generation.sampling.stop):
        return "stop_sequence", str(event.matched)
    return _REASONS[event.reason], None


def _ending(event: Finished | None, request: MessagesRequest, paused: bool, container: JsonObject | None) -> JsonObject:
    reason, sequence = stop_reason(event, request) if event is not None else ("end_turn", None)
    if paused:
        reason, sequence = "compaction", None
    details: JsonObject | None = None
    if reason == "refusal":
        details = {"type": "refusal", "category": None, "explanation": None}
    return {"stop_reason": reason, "stop_sequence": sequence, "stop_details": details, "container": container}


def _usage(usage: Usage) -> JsonObject:
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    written = min(usage.cache_write_tokens, usage.prompt_tokens - cached)
    return {
        "input_tokens": usage.prompt_tokens - cached - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        "service_tier": "standard",
    }


def _split_usage(usage: Usage, compacted: Compacted | None, paused: bool) -> JsonObject:
    """The counts of an answer; without those of the turn that compacted its history, which are listed beside them."""
    if compacted is None:
        return _usage(usage)
    rest = Usage(*map(sub, astuple(usage), astuple(compacted.usage)))
    listed = [("compaction", compacted.usage)] + ([] if paused else [("message", rest)])
    iterations = []
    for kind, each in listed:
        counts = _usage(each)
        iterations.append({"type": kind, "cache_creation": None, **{name: counts[name] for name in _COUNTED}})
    return {**_usage(rest), "iterations": iterations}


_COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def _applied(edits: Sequence[EditedContext]) -> JsonObject:
    """What the edits of the context changed."""
    return {"applied_edits": [_applied_edit(edit) for edit in edits]}


def _applied_edit(edit: EditedContext) -> JsonObject:
    if edit.kind == "reasoning":
        applied: JsonObject = {"type": "clear_thinking_20251015", "cleared_thinking_turns": edit.changed}
    else:
        applied = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": edit.changed}
    return {**applied, "cleared_input_tokens": edit.tokens}


def _message(request: MessagesRequest) -> JsonObject:
    """The fields that every message begins with."""
    generation = request.generation
    id = generation.id.replace("req_", "msg_", 1)  # the message's own id: that of the request is in its head
    return {"id": id, "type": "message", "role": "assistant", "model": generation.model}


# ------------------------------------------------------------------------------------------------------------- streams


class MessagesStreamEncoder:
    """One streamed response."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: MessagesRequest) -> None:
        self._request = request
        self._hidden = request.generation.reasoning.visible == "sealed"
        self._started = self._ended = False
        self._next = 0  # the index of the next block
        self._open = ""  # the type of the open block
        self._kind = ""  # that of the last one
        self._wraps: bool | None = None  # whether the open call's arguments are wrapped, None before they begin
        self._delta = b""  # what a delta of the open block begins with
        self._hosted = HostedBlocks(request.generation.id, request.generation.sources)
        self._finished: Finished | None = None
        self._edits: tuple[EditedContext, ...] = ()
        self._compacted: Compacted | None = None
        self._verbatim: VerbatimStream | None = None
        self._has_left = False  # something has left in the gateway's words

    @property
    def verbatim(self) -> str:
        """The API in whose own words a provider may be heard, "" for none."""
        return _verbatim(self._request)

    @property
    def _paused(self) -> bool:
        return self._request.pauses and self._compacted is not None

    def start(self) -> bytes:
        """Nothing: the response stays uncommitted until the first event."""
        return b""

    def keep_alive(self) -> bytes:
        """A ping; before the message has begun a comment, since nothing may come before `message_start`."""
        return _PING if self._started else COMMENT

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of `events`, in order; nothing after a `Done`, `Failed` or `Cancelled`."""
        if self._ended:
            return b""
        verbatim = self._verbatim
        if len(events) == 1 and verbatim is None and type(event := events[0]) is TextDelta and self._open == "text":
            # one more token
            text = event.text
            encoded = encode_ascii(text) if text.isascii() else encode_text(text)
            return self._delta + encoded + _BLOCK_END if text else b""
        frames: list[bytes] = []
        for event in events:
            writer = _WRITERS.get(type(event))
            if writer is not None and not self._ended:
                writer(self, event, frames)
        if self._verbatim is None:
            self._has_left = self._has_left or bool(frames)
            return b"".join(frames)
        failure = frames[-1:] if events and type(events[-1]) is Failed else ()
        return b"".join((self._verbatim.encode(events), *failure))

    # Each writer appends the frames of one event.

    def _begin(self, event: Started, frames: list[bytes]) -> None:
        self._started = True
        self._edits = event.edits
        usage = _usage(Usage(event.prompt_tokens, 1, event.cached_tokens or 0))
        message = {**_message(self._request), "content": [], "stop_reason": None, "stop_sequence": None}
        message |= {"stop_details": None, "container": None, "usage": usage}
        frames += (_frame("message_start", encode_object({"type": "message_start", "message": message})), _PING)

    def _tell(self, event: Verbatim, frames: list[bytes]) -> None:
        """The answer is told in the provider's words, unless something of it has left in others."""
        if self._verbatim is None and not self._has_left:
            self._verbatim = VerbatimStream(bytes)

    def _start_block(self, kind: str, block: bytes, delta: bytes, frames: list[bytes]) -> None:
        self._end_block(frames)
        index, self._next, self._open, self._kind = self._next, self._next + 1, kind, kind
        self._delta = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{%b' % (
            index,
            delta,
        )
        frames.append(
            b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
            % (index, block)
        )

    def _end_block(self, frames: list[bytes]) -> None:
        if self._open:
            self._open = ""
            stop = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % (self._next - 1)
            frames.append(stop)

    def _text(self, event: TextDelta | RefusalDelta, frames: list[bytes]) -> None:
        text = event.text
        if self._open != "text" and self._kind == "thinking":
            text = text.lstrip("\n")  # models write blank lines behind a thought, which a client would show
        if not text:
            return
        if self._open != "text":
            self._start_block("text", b'{"type":"text","text":""}', b'"type":"text_delta","text":', frames)
        frames += (self._delta, encode_text(text), _BLOCK_END)

    def _close(self, event: Event, frames: list[bytes]) -> None:
        if self._wraps and self._open == "tool_use":
            frames += (self._delta, _UNWRAPPED, _BLOCK_END)
        self._end_block(frames)

    def _think(self, event: ReasoningDelta, frames: list[bytes]) -> None:
        if self._open != "thinking":
            block = b'{"type":"thinking","thinking":"","signature":""}'
            self._start_block("thinking", block, b'"type":"thinking_delta","thinking":', frames)
        if event.text and not self._hidden:
            frames += (self._delta, encode_text(event.text), _BLOCK_END)

    def _sign(self, event: ReasoningEnd, frames: list[bytes]) -> None:
        if self._open == "thinking":
            signature = encode_text((event.seal or b"").decode())
            delta = b'{"type":"content_block_delta","index":%d,"delta":{"type":"signature_delta","signature":%b}}'
            frames.append(_frame("content_block_delta", delta % (self._next - 1, signature)))
            self._end_block(frames)

    def _call(self, event: ToolCallStart, frames: list[bytes]) -> None:
        block: JsonObject = {"type": "tool_use", "id": event.id, "name": event.name, "input": {}}
        delta = b'"type":"input_json_delta","partial_json":'
        self._start_block("tool_use", encode_object(block), delta, frames)
        self._wraps = None

    def _arguments(self, event: ToolCallDelta, frames: list[bytes]) -> None:
        text = event.arguments
        if text and self._open == "tool_use":
            if self._wraps is None and not text.isspace():
                self._wraps = not text.lstrip().startswith("{")
                if self._wraps:
                    frames += (self._delta, _WRAPPED, _BLOCK_END)
            if self._wraps:
                text = encode_text(text)[1:-1].decode()
            frames += (self._delta, encode_text(text), _BLOCK_END)

    def _run(self, event: HostedStart, frames: list[bytes]) -> None:
        """A call of a tool that runs here; of what else the server does with tools the API tells nothing."""
        made = self._hosted.use(event, self._next)
        if made is None:
            return
        block, arguments = made
        delta = b'"type":"input_json_delta","partial_json":'
        self._start_block(str(block["type"]), encode_object(block), delta, frames)
        frames += (self._delta, encode_text(arguments), _BLOCK_END)
        self._end_block(frames)

    def _returned(self, event: HostedEnd, frames: list[bytes]) -> None:
        if (block := self._hosted.result(event)) is not None:
            self._start_block(str(block["type"]), encode_object(block), b"", frames)
            self._end_block(frames)

    def _cite(self, event: Annotation, frames: list[bytes]) -> None:
        """A source of the open text, which ends with its sources: more text is another block."""
        if self._open in ("text", "cited") and (citation := self._hosted.citation(event)) is not None:
            self._open = "cited"
            delta: JsonObject = {"type": "citations_delta", "citation": citation}
            body = {"type": "content_block_delta", "index": self._next - 1, "delta": delta}
            frames.append(_frame("content_block_delta", encode_object(body)))

    def _summarized(self, event: OpaqueBlock, frames: list[bytes]) -> None:
        if event.kind != COMPACTED:
            return
        self._compacted = read_compacted(event.payload)
        self._start_block("compaction", encode_object(_compaction(None)), b"", frames)
        delta = {"type": "compaction_delta", "content": self._compacted.summary, "encrypted_content": None}
        body = encode_object({"type": "content_block_delta", "index": self._next - 1, "delta": delta})
        frames.append(_frame("content_block_delta", body))
        self._end_block(frames)

    def _finish(self, event: Finished, frames: list[bytes]) -> None:
        self._end_block(frames)
        self._finished = event

    def _count(self, event: Usage, frames: list[bytes]) -> None:
        if self._finished is not None and broken_off(self._finished) is None:
            delta = _ending(self._finished, self._request, self._paused, self._hosted.container)
            body: JsonObject = {"type": "message_delta", "delta": delta}
            body["usage"] = _split_usage(event, self._compacted, self._paused) | self._hosted.usage
            if self._request.edited:
                body["context_management"] = _applied(self._edits)
            frames.append(_frame("message_delta", encode_object(body)))

    def _done(self, event: Done, frames: list[bytes]) -> None:
        if (error := broken_off(self._finished)) is not None:
            self._fail(Failed(error), frames)
            return
        self._ended = True
        frames.append(_STOP)

    def _fail(self, event: Failed, frames: list[bytes]) -> None:
        self._ended = True
        error = anthropic_error(event.error, self._request.generation.id, self._request.locate)
        frames.append(_frame("error", error))

    def _cancel(self, event: Cancelled, frames: list[bytes]) -> None:
        self._ended = True


_WRITERS: dict[type, Callable[[MessagesStreamEncoder, Any, list[bytes]], None]] = {
    Started: MessagesStreamEncoder._begin,
    TextDelta: MessagesStreamEncoder._text,
    RefusalDelta: MessagesStreamEncoder._text,
    TextEnd: MessagesStreamEncoder._close,
    Annotation: MessagesStreamEncoder._cite,
    ReasoningDelta: MessagesStreamEncoder._think,
    ReasoningEnd: MessagesStreamEncoder._sign,
    Verbatim: MessagesStreamEncoder._tell,
    ToolCallStart: MessagesStreamEncoder._call,
    ToolCallDelta: MessagesStreamEncoder._arguments,
    ToolCallEnd: MessagesStreamEncoder._close,
    HostedStart: MessagesStreamEncoder._run,
    HostedEnd: MessagesStreamEncoder._returned,
    OpaqueBlock: MessagesStreamEncoder._summarized,
    Finished: MessagesStreamEncoder._finish,
    Usage: MessagesStreamEncoder._count,
    Done: MessagesStreamEncoder._done,
    Failed: MessagesStreamEncoder._fail,
    Cancelled: MessagesStreamEncoder._cancel,
}


# -------------------------------------------------------------------------------------------------------- whole bodies


class MessagesWholeEncoder:
    """One whole response."""

    content_type = "application/json"

    def __init__(self, request: MessagesRequest) -> None:
        self._request = request
        self._hidden = request.generation.reasoning.visible == "sealed"
        self._blocks: list[JsonObject] = []
        self._texts: list[str] = []  # of the open block
        self._citations: list[JsonObject] = []  # of the open text
        self._hosted = HostedBlocks(request.generation.id, request.generation.sources)
        self._finished: Finished | None = None
        self._usage = Usage(0, 0)
        self._error: SmgError | None = None
        self._edits: tuple[EditedContext, ...] = ()
        self._compacted: Compacted | None = None
        self._at_once: VerbatimBody | None = None  # the answer in a provider's words

    @property
    def verbatim(self) -> str:
        """The API in whose own words a provider may be heard, "" for none."""
        return _verbatim(self._request)

    def fork(self) -> "MessagesWholeEncoder":
        """An independent copy with the same events so far."""
        other = copy.copy(self)
        other._blocks = [dict(block) for block in self._blocks]
        other._texts, other._citations = self._texts.copy(), self._citations.copy()
        other._hosted = self._hosted.fork()
        other._at_once = None if self._at_once is None else self._at_once.fork()
        return other

    def add(self, events: Sequence[Event]) -> None:
        """Take in events. `Failed` is kept and raised by `body`."""
        for event in events:
            match event:
                case Started():
                    self._edits = event.edits
                case TextDelta() | RefusalDelta() | ReasoningDelta() | Annotation():
                    self._more(event)
                case TextEnd():
                    self._text()
                case ReasoningEnd():
                    self._thought(event)
                case ToolCallStart():
                    self._blocks.append({"type": "tool_use", "id": event.id, "name": event.name, "input": {}})
                case ToolCallDelta():
                    self._texts.append(event.arguments)
                case ToolCallEnd():
                    self._blocks[-1]["input"] = _input("".join(self._texts))
                    self._texts.clear()
                case HostedStart() | HostedEnd():
                    self._run(event)
                case OpaqueBlock():
                    self._summarized(event)
                case Verbatim() | Finished() | Usage() | Failed() | Cancelled():
                    self._ended(event)

    def _more(self, event: TextDelta | RefusalDelta | ReasoningDelta | Annotation) -> None:
        """More of the open block, or a source of it, behind which more text is another block."""
        if not isinstance(event, Annotation):
            if self._citations and event.text:
                self._text()
            self._texts.append(event.text)
        elif "".join(self._texts) and (citation := self._hosted.citation(event)) is not None:
            self._citations.append(citation)

    def _run(self, event: HostedStart | HostedEnd) -> None:
        """A call of a tool that runs here, or its result."""
        if isinstance(event, HostedEnd):
            if (block := self._hosted.result(event)) is not None:
                self._blocks.append(block)
        elif (made := self._hosted.use(event, len(self._blocks))) is not None:
            self._blocks.append(made[0] | {"input": _input(made[1])})

    def _ended(self, event: Verbatim | Finished | Usage | Failed | Cancelled) -> None:
        match event:
            case Verbatim():
                self._at_once = VerbatimBody(event, bytes)
            case Finished():
                self._finished = event
                if event.cut and self._blocks and event.stopped_by(self._request.generation.sampling.stop):
                    self._blocks.pop()  # the call that was cut: clients run what they find
            case Usage():
                self._usage = event
            case Failed() | Cancelled():
                self._error = self._error or _failure(event)

    def _summarized(self, event: OpaqueBlock) -> None:
        if event.kind == COMPACTED:
            self._compacted = read_compacted(event.payload)
            self._blocks.append(_compaction(self._compacted.summary))

    def _text(self) -> None:
        text = "".join(self._texts)
        self._texts.clear()
        if self._blocks and self._blocks[-1]["type"] == "thinking":
            text = text.lstrip("\n")  # as in a stream
        if text:
            self._blocks.append({"type": "text", "text": text, "citations": self._citations or None})
        self._citations = []

    def _thought(self, event: ReasoningEnd) -> None:
        thinking = "" if self._hidden else "".join(self._texts)
        self._texts.clear()
        signature = (event.seal or b"").decode()
        self._blocks.append({"type": "thinking", "thinking": thinking, "signature": signature})
        if self._at_once is not None:
            self._at_once.seal(event)

    def body(self) -> bytes:
        """The finished object. Raises the error of a `Failed` event, and EngineFailed for an answer that is not whole."""
        if (error := self._error or broken_off(self._finished)) is not None:
            raise error
        if self._at_once is not None:
            return self._at_once.body()
        paused = self._request.pauses and self._compacted is not None
        message = {**_message(self._request), "content": self._blocks}
        message |= _ending(self._finished, self._request, paused, self._hosted.container)
        message["usage"] = _split_usage(self._usage, self._compacted, paused) | self._hosted.usage
        if not self._request.generation.generate:
            message |= {"content": [], "stop_reason": "max_tokens", "stop_sequence": None, "stop_details": None}
            message["usage"] = _usage(replace(self._usage, completion_tokens=0, reasoning_tokens=0))
        if self._request.edited:
            message["context_management"] = _applied(self._edits)
        return encode_body(message)


def _verbatim(request: MessagesRequest) -> str:
    """The API in whose words a provider may be heard: none where the gateway has something to say of its own."""
    own = request.pauses or request.edited or not request.generation.generate
    return "" if own else "messages"


def _compaction(summary: str | None) -> JsonObject:
    return {"type": "compaction", "content": summary, "encrypted_content": None, "signature": None}


def _failure(event: Failed | Cancelled) -> SmgError:
    return event.error if isinstance(event, Failed) else ClientGone(f"The response was cancelled: {event.reason}.")


def _input(arguments: str) -> JsonObject:
    """A call's arguments as an object, which is what the API has."""
    if not arguments.strip():
        return {}
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return {"INVALID_JSON": arguments}
    return value if isinstance(value, dict) else {"INVALID_JSON": arguments}

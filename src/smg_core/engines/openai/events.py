"""The stream of a Chat Completions answer as our events: bytes in any pieces in, events out.

Decides what each chunk means, and the order of what comes of it. The wire lets pieces of several tool calls, and text between
them, alternate; our events have one open block a choice. So a piece that comes while the arguments of another call are not
complete yet is held back until they are (JSON says where it ends; of free text nothing does before the choice is finished).
What is held is bounded. Pure. Above: engine. Below: chunks, answers, sse, the events.

A decoder does not raise: what it could make of the bytes before something went wrong is not lost, and `error` says what did.
`Usage` comes last, once, if the server said it. `Started`, `Done` and `Failed` are made by whoever makes the whole response.
"""

import base64
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from smg_core.engines.openai.answers import error_from_event
from smg_core.engines.openai.chunks import (
    CachedWire,
    CallWire,
    ChoiceWire,
    Chunk,
    DeltaPart,
    DeltaWire,
    ErrorWire,
    LogprobWire,
    UsageWire,
)
from smg_core.engines.openai.fields import REASONING_FIELDS
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineFailed, EngineGarbled, SmgError
from smg_core.events import (
    Event,
    Finished,
    FinishReason,
    OpaqueBlock,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    TextDelta,
    TextEnd,
    TokenLogprob,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    TopLogprob,
    Usage,
)
from smg_core.origin import Origin
from smg_core.sse import DONE, DataReader
from smg_core.tokens import reported_count
from smg_parsers.json_text.partial_json import JsonScanner

__all__ = ["ChatDecoder", "parts_of"]

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "abort": "abort",
    "error": "error",
    "eos_token": "stop",  # TGI
    "stop_sequence": "stop",
    "eos": "stop",
    "end_turn": "stop",  # servers that pass on words of Messages
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",  # Mistral
}
_SAYING_NOTHING = frozenset({None, "text", "thinking", "refusal", "reference"})
"""Types of parts that may be empty; a reference is a mark of Mistral's beside the text that it is of."""
_CUTTING = frozenset({"length", "abort", "error", "content_filter"})
_PIECE_COST = 100  # what holding one piece costs besides its text, in bytes, roughly

BlockKind = Literal["text", "refusal", "reasoning", "opaque"]
_ENDS: dict[str, Callable[[int], Event]] = {"text": TextEnd, "refusal": TextEnd, "reasoning": ReasoningEnd}

_DEFAULTS = EnginesConfig()


class _HeldBudget:
    """Bytes that may be held back, over all choices of one answer."""

    __slots__ = ("left",)

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise EngineGarbled("The engine mixed up its tool calls by more than can be held back.")


class _Call:
    """A tool call. `number` is -1 until the call starts, `order` how many began before it; `waiting` what is held back of it,
    with sizes. `named`: the id is the server's own."""

    __slots__ = ("_follow", "closed", "custom", "id", "name", "named", "number", "order", "silent", "valid", "waiting")

    def __init__(self, call_id: str, name: str, order: int, *, custom: bool, named: bool) -> None:
        self.id = call_id
        self.order = order
        self.named = named
        self.name = name
        self.custom = custom
        self.number = -1
        self.closed = False
        self.silent = True
        self.waiting: list[tuple[Fragment, int]] | None = None
        self.valid = custom
        self._follow = None if custom else JsonScanner()

    def follow(self, arguments: str) -> None:
        """Scan arguments that have come, to know whether they are complete."""
        self.silent = False
        if self._follow is None:
            return
        end = self._follow.scan(arguments, 0)
        self.valid = self._follow.done and not arguments[end:].strip()

    @property
    def complete(self) -> bool:
        """Whether its arguments can have no more pieces."""
        return self._follow is not None and self._follow.done


class _Calls:
    """The calls of one choice, and which of them a piece belongs to. Most servers number their calls. Some give all of them the
    same number, or none; then ids tell them apart, or a name where the call before it is complete. `made_up` is the beginning of
    ids for calls to which the server gave none."""

    __slots__ = ("_by_id", "_last", "_latest", "_made_up", "_numbers", "count")

    def __init__(self, made_up: str) -> None:
        self.count = 0
        self._made_up = made_up
        self._latest: dict[int, _Call] = {}  # the last one of each of the server's numbers
        self._by_id: dict[tuple[int | None, str], _Call] = {}  # of each of the numbers, and of all
        self._last: _Call | None = None  # the one that the last piece was of
        self._numbers: set[int] = set()  # in ids that were made up

    def of(self, wire: CallWire, name: str | None, arguments: str) -> _Call | None:
        """The call that a piece belongs to; None where it begins one."""
        known = self._by_id.get((wire.index, wire.id)) if wire.id else None
        if known is None:
            last = self._last if wire.index is None else self._latest.get(wire.index)
            known = last if last is not None and not self._begins(last, wire, name, arguments) else None
        if known is not None:
            self._last = known
        return known

    def _begins(self, last: _Call, wire: CallWire, name: str | None, arguments: str) -> bool:
        """Whether a piece with an unknown id, or none, is of another call than `last`. Servers repeat the name with each piece,
        and some make a new id for each: neither alone says so."""
        if not name:
            return False
        if wire.id and last.named:
            return True
        if last.complete:
            return bool(arguments.strip()) or name != last.name
        return wire.index is None and name != last.name and (last.silent or last.custom)

    def begin(self, wire: CallWire, name: str, custom: bool) -> _Call:
        """A new call, which the piece begins."""
        number = self.count if wire.index is None else wire.index
        while number in self._numbers:
            number += 1
        self._numbers.add(number)
        order, self.count = self.count, self.count + 1
        # A server that gives two calls one id gets the second one back by another: clients need them to differ.
        own = wire.id if wire.id and (None, wire.id) not in self._by_id else None
        call = self._last = _Call(own or f"{self._made_up}{number}", name, order, custom=custom, named=bool(wire.id))
        if wire.index is not None:
            self._latest[wire.index] = call
        if wire.id:
            self._by_id[wire.index, wire.id] = self._by_id[None, wire.id] = call
        return call


Block = BlockKind | _Call
Fragment = Event | str  # an event of a block without beginning, or more arguments of a call


class _Choice:
    """One choice: the block that is open, those that wait behind it, and its calls. Where `pieces` is a list, the call of each
    piece of one goes there, in their order."""

    __slots__ = (
        "_calls",
        "_held",
        "_in_deltas",
        "_index",
        "_learnt",
        "_most_calls",
        "_open",
        "_refused",
        "_room",
        "_started",
        "finished",
        "pieces",
    )

    def __init__(self, index: int, call_id: str, room: _HeldBudget, most_calls: int, learnt: set[str]) -> None:
        self.finished = False
        self.pieces: list[_Call] | None = None
        self._learnt = learnt
        self._refused = False
        self._in_deltas = False
        self._index = index
        self._room = room
        self._most_calls = most_calls
        self._open: Block | None = None
        self._held: deque[tuple[Block, list[tuple[Fragment, int]]]] = deque()
        self._calls = _Calls(f"{call_id}_{index}_")
        self._started = 0

    def feed(self, wire: ChoiceWire, events: list[Event]) -> None:
        """Take in one chunk of this choice. Raises `EngineGarbled`."""
        delta = self._piece_of(wire)
        if delta is not None:
            if delta.images or delta.audio:
                raise EngineGarbled("The engine answered with a picture or a recording, which cannot be passed on.")
            self._delta(delta, wire, events)
        if wire.finish_reason and not self.finished:
            self._finish(wire, events)

    def _piece_of(self, wire: ChoiceWire) -> DeltaWire | None:
        """The piece that the chunk brings. Some servers say the whole message again at the end of a stream: it is read where no
        delta has said anything."""
        delta = wire.delta
        if not self._in_deltas and delta is not None:
            self._in_deltas = _says_something(delta)
        if wire.message is not None and not self._in_deltas:
            return wire.message
        if delta is None and wire.message is None and wire.text:
            return DeltaWire(content=wire.text)
        return delta

    def _delta(self, delta: DeltaWire, wire: ChoiceWire, events: list[Event]) -> None:
        index = self._index
        text, thinking, refused = parts_of(delta.content)
        thought = delta.reasoning_content or delta.reasoning or thinking
        refusal = delta.refusal or refused
        if thought:
            self._learnt.update(name for name in REASONING_FIELDS if getattr(delta, name))
            self._take("reasoning", ReasoningDelta(index, thought), len(thought), events)
        logprobs: tuple[TokenLogprob, ...] = ()
        if wire.logprobs is not None and wire.logprobs.content and not thought and not delta.tool_calls:
            logprobs = tuple([_logprob(each) for each in wire.logprobs.content])
        if text or logprobs:
            self._take("text", TextDelta(index, text, logprobs), len(text) + _PIECE_COST * len(logprobs), events)
        if refusal:
            self._refused = True
            self._take("refusal", RefusalDelta(index, refusal), len(refusal), events)
        for call in delta.tool_calls or ():
            self._call(call, events)
        if delta.function_call is not None:
            self._call(CallWire(function=delta.function_call), events)
        for block in delta.opaque_blocks or ():
            payload = _payload(block.data, block.encoding)
            self._take("opaque", OpaqueBlock(index, block.type, payload), len(payload), events)

    # ---------------------------------------------------------------------------------------------------------- calls

    def _call(self, wire: CallWire, events: list[Event]) -> None:
        name, arguments, custom = _call_fields(wire)
        call = self._calls.of(wire, name, arguments or "")
        if call is None:
            if not name:
                raise EngineGarbled("The engine began a tool call without the tool's name.")
            if self._calls.count >= self._most_calls:
                raise EngineGarbled(f"The engine made more than {self._most_calls} tool calls.")
            call = self._calls.begin(wire, name, custom)
            self._take(call, "", 0, events)
        if self.pieces is not None:
            self.pieces.append(call)
        if arguments:
            call.follow(arguments)
            self._take(call, arguments, len(arguments), events)

    # --------------------------------------------------------------------------------------------------------- blocks

    def _take(self, block: Block, piece: Fragment, size: int, events: list[Event]) -> None:
        """Pass a piece on, or hold it back where another block is open and not complete."""
        if self.finished:
            raise EngineGarbled("The engine went on after a choice was finished.")
        if isinstance(block, _Call) and block.closed:
            if str(piece).strip():
                raise EngineGarbled("The engine went on with a tool call that was complete.")
            return
        if block != self._open and not self._closable:
            self._room.take(size + _PIECE_COST)
            self._hold(block, piece, size + _PIECE_COST)
            return
        self._pass(block, piece, events)
        while self._held and self._closable:
            self._release(events)

    @property
    def _closable(self) -> bool:
        return not isinstance(self._open, _Call) or self._open.complete

    def _hold(self, block: Block, piece: Fragment, size: int) -> None:
        """Append a piece to the blocks that wait; more of a call joins the waiting pieces of that call."""
        if isinstance(block, _Call):
            if block.waiting is None:
                block.waiting = []
                self._held.append((block, block.waiting))
            block.waiting.append((piece, size))
        elif self._held and self._held[-1][0] == block:
            self._held[-1][1].append((piece, size))
        else:
            self._held.append((block, [(piece, size)]))

    def _release(self, events: list[Event]) -> None:
        """Pass on the first block that waits."""
        block, pieces = self._held.popleft()
        for piece, size in pieces:
            self._room.left += size
            self._pass(block, piece, events)

    def _pass(self, block: Block, piece: Fragment, events: list[Event]) -> None:
        if block != self._open:
            self._close(events)
            self._open = block
            if isinstance(block, _Call):
                block.number = self._started
                self._started += 1
                events.append(ToolCallStart(self._index, block.number, block.id, block.name, custom=block.custom))
        if not isinstance(piece, str):
            events.append(piece)
        elif piece and isinstance(block, _Call):
            events.append(ToolCallDelta(self._index, block.number, piece))

    def _close(self, events: list[Event], *, cut: bool = False) -> None:
        """End the open block, if there is one."""
        block, self._open = self._open, None
        if isinstance(block, _Call):
            block.closed = True
            if block.silent and not cut and not block.custom:
                block.follow("{}")  # what servers mean that send no arguments at all
                events.append(ToolCallDelta(self._index, block.number, "{}"))
            events.append(ToolCallEnd(self._index, block.number, block.valid and not (cut and block.custom)))
        elif block is not None and block in _ENDS:
            events.append(_ENDS[block](self._index))

    def _finish(self, wire: ChoiceWire, events: list[Event]) -> None:
        reason = _REASONS.get(wire.finish_reason or "", "stop")  # servers make new words for a proper end
        while self._held:
            self._release(events)
        matched = wire.stop_reason if wire.stop_reason is not None else wire.matched_stop
        stopped = isinstance(matched, str)  # by a stop string, which may stand in a call
        cuts = reason in _CUTTING or (stopped and isinstance(self._open, _Call))
        cut = cuts and self._open is not None and not (self._open_call_is_whole)
        self._close(events, cut=cut)
        self.finished = True
        if reason == "stop" and self._started and not stopped:
            reason = "tool_calls"  # where one tool was demanded, OpenAI says "stop"
        elif reason == "stop" and self._refused:
            reason = "refusal"
        events.append(Finished(self._index, reason, matched, cut))

    @property
    def _open_call_is_whole(self) -> bool:
        return isinstance(self._open, _Call) and self._open.complete


class ChatDecoder:
    """Reads one answer of `choices` choices. `done` is True once the server has said that all is said; `error` is what went
    wrong, after which nothing more is read.

    The ids of calls to which the server gave none are made of `calls` and `request_id`. `limits` bounds one event of the stream,
    what is held back of calls that alternate (about, in bytes) and the calls of a choice. `learnt` is told the fields in which
    the server writes reasoning. `error_of` makes the error of an error object, `gave_up` that of an answer which ends with one of
    the words of `failures`.
    """

    def __init__(
        self,
        request_id: str,
        choices: int = 1,
        limits: EnginesConfig = _DEFAULTS,
        learnt: set[str] | None = None,
        *,
        calls: str = Origin("").calls,
        error_of: Callable[[ErrorWire | str], SmgError] = error_from_event,
        failures: frozenset[str] = frozenset(),
        gave_up: Callable[[str], SmgError] = EngineFailed,
    ) -> None:
        self._error_of = error_of
        self._failures, self._gave_up = failures, gave_up
        unknown_fields = set[str]() if learnt is None else learnt
        self.done = False
        self.error: SmgError | None = None
        self._reader = DataReader(max_event_bytes=limits.http_event_bytes)
        self._decode = _CHUNKS.decode
        room = _HeldBudget(limits.http_held_bytes)
        call_id = calls + request_id
        self._choices = [_Choice(index, call_id, room, limits.http_calls, unknown_fields) for index in range(choices)]
        self._usage: UsageWire | None = None
        self._read: Chunk | None = None  # the last chunk

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data`, the next bytes of the stream, brings."""
        events: list[Event] = []
        if self.done or self.error is not None:
            return events
        try:
            for event in self._reader.feed(data):
                self._event(event, events)
                if self.done:
                    break
        except SmgError as error:
            events += self.fail(error)
        return events

    def end(self) -> list[Event]:
        """The events that the end of the stream brings; an error, unless all is said by then. Some servers leave out [DONE], or
        the line end behind it; but a choice that nobody finished is cut off."""
        events: list[Event] = []
        if self.done or self.error is not None:
            return events
        rest = self._reader.rest()
        try:
            if rest is not None:
                self._event(rest, events)
            if not self.done:
                self._done(events, "the stream ended without [DONE]")
        except SmgError as error:
            events += self.fail(error)
        return events

    def whole(self, body: bytes) -> list[Event]:
        """The events of an answer that is no stream: of one object, which some servers send where a stream was asked for, or of
        an error that came with status 200."""
        events: list[Event] = []
        try:
            self._event(body, events)
            if not self.done:
                self._done(events, "the answer is one object")
        except SmgError as error:
            events += self.fail(error)
        return events

    def fail(self, error: SmgError) -> list[Event]:
        """Give up because of `error`, with the events that can still be given."""
        self.error = error
        return self._final_usage()

    @property
    def finished(self) -> bool:
        """Whether all choices are, so that nothing but the usage and the end of the stream is due."""
        return all(choice.finished for choice in self._choices)

    def _done(self, events: list[Event], how: str) -> None:
        """All is said, as `how` shows."""
        if not self.finished:
            raise EngineGarbled("The engine ended its answer before all choices were finished.", detail=how)
        self.done = True
        events += self._final_usage()

    def _event(self, data: bytes, events: list[Event]) -> None:
        if data[:1] != b"{":  # else it is a chunk, as nearly all are
            data = data.strip()
            if not data:
                return
            if data == DONE:
                self._done(events, "[DONE]")
                return
        self._read = chunk = self._chunk(data)
        if chunk.error is not None or chunk.object == "error" or (chunk.choices is None and chunk.message is not None):
            raise self._error_of(chunk.error or ErrorWire(chunk.message, chunk.type, chunk.code))
        if chunk.usage is not None:
            self._usage = chunk.usage
        elif chunk.x_groq is not None and chunk.x_groq.usage is not None:
            self._usage = chunk.x_groq.usage
        for choice in chunk.choices or ():
            index = choice.index or 0
            if not 0 <= index < len(self._choices):
                raise EngineGarbled("The engine answered with a choice nobody asked for.")
            if choice.finish_reason in self._failures:
                raise self._gave_up(choice.finish_reason or "")
            self._choices[index].feed(choice, events)

    def _chunk(self, data: bytes) -> Chunk:
        try:
            try:
                return self._decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError):  # perhaps a character that the server cut in two
                return self._decode(data.decode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError) as error:
            raise EngineGarbled(
                "The engine sent what is no chunk of an answer.", detail=str(error), outside_text=str(error)
            ) from None

    def _final_usage(self) -> list[Event]:
        usage, self._usage = self._usage, None
        return [] if usage is None else [_usage(usage)]


_CHUNKS = msgspec.json.Decoder(Chunk)
_SAYING = tuple(field.name for field in msgspec.structs.fields(DeltaWire))


# --------------------------------------------------------------------------------------------------------- small parts


def _call_fields(wire: CallWire) -> tuple[str | None, str | None, bool]:
    """Name and arguments of a piece of a call, and whether the tool is one that takes free text."""
    if wire.custom is not None:
        return wire.custom.name, wire.custom.input, True
    if wire.function is not None:
        arguments = wire.function.arguments
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        return wire.function.name, arguments, False
    return None, None, False


def _says_something(delta: DeltaWire) -> bool:
    """Whether a piece has more than the role of who speaks."""
    return any(getattr(delta, name) for name in _SAYING)


def parts_of(content: str | list[DeltaPart] | None) -> tuple[str, str, str]:
    """The text, the reasoning and the refusal of a content. Raises EngineGarbled for a part that is none of these."""
    if not isinstance(content, list):
        return content or "", "", ""
    texts, thoughts, refusals = [], [], []
    for part in content:
        if part.text is not None:
            texts.append(part.text)
        elif part.refusal is not None:
            refusals.append(part.refusal)
        elif part.thinking is not None:
            inner = part.thinking
            thoughts.append(inner if isinstance(inner, str) else "".join([each.text or "" for each in inner]))
        elif part.type not in _SAYING_NOTHING:
            outside_text = repr(str(part.type)[:64])
            raise EngineGarbled(
                "The engine answered with a part that cannot be passed on.",
                detail=outside_text,
                outside_text=outside_text,
            )
    return "".join(texts), "".join(thoughts), "".join(refusals)


def _payload(data: str, encoding: str | None) -> bytes:
    if encoding is None:
        return data.encode()
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        raise EngineGarbled("The engine sent a block that is not the base64 it is said to be.") from None


def _logprob(wire: LogprobWire) -> TokenLogprob:
    top = tuple(
        [TopLogprob(each.token, _raw(each.token, each.bytes), each.logprob) for each in wire.top_logprobs or ()]
    )
    return TokenLogprob(wire.token, _raw(wire.token, wire.bytes), wire.logprob, top)


def _raw(token: str, values: Sequence[int] | None) -> bytes:
    if values is None:
        return token.encode()
    try:
        return bytes(values)
    except ValueError:
        raise EngineGarbled("The engine sent bytes of a token that are no bytes.") from None


def _usage(wire: UsageWire) -> Usage:
    prompt = wire.prompt_tokens_details or CachedWire()
    thought = wire.completion_tokens_details.reasoning_tokens if wire.completion_tokens_details is not None else None
    completion, thoughts = reported_count(wire.completion_tokens), reported_count(thought or wire.reasoning_tokens)
    if thoughts and wire.total_tokens == reported_count(wire.prompt_tokens) + completion + thoughts:
        completion += thoughts  # a server that counts them beside the completion
    return Usage(
        reported_count(wire.prompt_tokens),
        completion,
        reported_count(prompt.cached_tokens or wire.prompt_cache_hit_tokens),
        min(completion, thoughts),
        reported_count(prompt.cache_write_tokens),
    )

"""Encodes the answer to an Interactions request: from events to server-sent events or one JSON object.

One builder makes the steps for both, so that what was streamed and what is stored or sent whole are the same steps. The order
of the streamed events is that of `interactions_grammar`, which every test holds them to; the two wire revisions have other
names for them.

What the API leaves open is decided so:

- `interaction.created` goes out with the first event, not earlier: the first byte commits the answer.
- A thought is a step of its own, always: its signature has what a later interaction needs. Its summary, which is the thought's
  text, is shown only where the request asks for it.
- The arguments of a call are sent when they are complete, as one delta: its pieces are to join to one JSON object, and what the
  model breaks off is none. A call whose arguments are none makes the interaction fail.
- A call of a tool that runs here is a step, and its result another; each is told in one delta.
- An interaction that fails while it is streamed ends with the event `error`; every other end is an `interaction.completed`.
- Refusals are text. Annotations and opaque blocks are left out.

Pure. Above: the server. Below: events, interactions, interactions_object, json_text. It knows no engine and no store.
"""

import base64
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from smg_core.apis.google.mcp import MCP, call_step, result_step
from smg_core.apis.interactions.decode import InteractionRequest
from smg_core.apis.interactions.grammar import EVENTS
from smg_core.apis.interactions.object import (
    effective_config,
    interaction_error,
    interaction_fields,
    interaction_usage,
    legacy_usage,
    rendered_interaction,
    stream_fields,
    time_text,
)
from smg_core.errors import EngineFailed, SmgError
from smg_core.events import (
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
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.json_types import JsonObject
from smg_core.sse import COMMENT
from smg_core.wire.json_text import encode_body, encode_object, encode_text

__all__ = ["CLOSING", "InteractionStreamEncoder", "InteractionWholeEncoder"]

CLOSING = b"event: done\ndata: [DONE]\n\n"
"""What stands behind the last event of a stream."""
_STATUSES: Mapping[FinishReason, str] = {
    "stop": "completed",
    "refusal": "completed",
    "pause": "incomplete",
    "tool_calls": "requires_action",
    "length": "incomplete",
    "context": "incomplete",
    "abort": "incomplete",
    "content_filter": "failed",
    "malformed_call": "failed",
    "error": "failed",
}
_FAULTS: Mapping[str, tuple[str, str]] = {
    "content_filter": ("SAFETY", "The answer was held back by a filter."),
    "malformed_call": ("MALFORMED_FUNCTION_CALL", "The arguments of a function call are no JSON object."),
}
"""Code and message of what failed, by the reason of the end."""


class _Builder:
    """The steps of one interaction, and the frames of its stream where `streams`. One step is open at most."""

    def __init__(self, request: InteractionRequest, created: int, now: Callable[[], float], *, streams: bool) -> None:
        self._request = request
        self._streams = streams
        self._now = now
        self._legacy = request.revision == "legacy"
        self._names = {kind: name.encode() for kind, name in EVENTS[request.revision].items()}
        self.fields = interaction_fields(request, created)
        self._id = encode_text(request.generation.id)[1:-1]
        self._frames: list[bytes] = []
        self._number = 0
        self.begun = False
        self.ended = False
        self.steps: list[JsonObject] = []
        self.error: SmgError | None = None
        self._kind = ""  # of the open step, "" where none is
        self._texts: list[str] = []
        self._signature: str | None = None
        self._text_head = b""  # of a frame with more text
        self._call: ToolCallStart | None = None
        self._arguments: list[str] = []
        self._malformed = False
        self._running: JsonObject | None = None  # the step of the call that runs here
        self._reason: FinishReason = "stop"

    # ---------------------------------------------------------------------------------------------------------- frames

    def take_frames(self) -> bytes:
        """The frames since the last call."""
        data = b"".join(self._frames)
        self._frames.clear()
        return data

    def _event(self, kind: str, **fields: object) -> None:
        if not self._streams:
            return
        body = b"," + encode_object(fields)[1:-1] if fields else b""
        name = self._names[kind]
        self._frames.append(
            b'event: %b\ndata: {"event_type":"%b"%b,"event_id":"%b.%d"}\n\n'
            % (name, name, body, self._id, self._number)
        )
        self._number += 1

    def _as_streamed(self) -> JsonObject:
        fields = stream_fields(self.fields)
        if self._legacy and "usage" in fields:
            fields["usage"] = legacy_usage(fields["usage"])
        return fields

    def begin(self, status: str = "in_progress") -> None:
        """Add the event that opens the stream; a second call adds nothing."""
        if self.begun:
            return
        self.begun = True
        self.fields["status"] = status
        if self._streams:
            self._event("created", interaction=self._as_streamed())

    def _tell_status(self) -> None:
        self._event("status", interaction_id=self._request.generation.id, status=self.fields["status"])

    def go_on(self, number: int, steps: Sequence[JsonObject]) -> None:
        """Go on with a stream whose opening was sent: `number` is that of its next event, `steps` are done."""
        self.begun, self._number, self.steps = True, number, list(steps)
        self._tell_status()

    def keep_alive(self) -> bytes:
        """What keeps a silent stream alive: what opens it, a status between two steps, and a comment within one."""
        if self.ended:
            return b""
        if not self.begun:
            self.begin()
        elif self._kind:
            return COMMENT
        else:
            self._tell_status()
        return self.take_frames()

    # ------------------------------------------------------------------------------------------------------------ steps

    def _open(self, kind: str, **shell: object) -> None:
        self._close()
        self._kind, self._texts, self._signature = kind, [], None
        step: dict[str, object] = {"type": "text" if self._legacy and kind == "model_output" else kind, **shell}
        index = len(self.steps)
        if self._legacy:
            self._event("start", index=index, content=step)
        else:
            self._event("start", index=index, step=step)
        if kind == "model_output":
            name = self._names["delta"]
            self._text_head = b'event: %b\ndata: {"event_type":"%b","index":%d,"delta":{"type":"text","text":' % (
                name,
                name,
                index,
            )

    def _delta(self, **delta: object) -> None:
        self._event("delta", index=len(self.steps), delta=delta)

    def _close(self) -> None:
        """The open step is complete."""
        kind, self._kind = self._kind, ""
        if not kind:
            return
        self._text_head = b""
        self._event("stop", index=len(self.steps))
        self.steps.append(self._step(kind))

    def _step(self, kind: str) -> JsonObject:
        text = "".join(self._texts)
        step: JsonObject = {"type": kind}
        if kind == "thought":
            if text:
                step["summary"] = [{"type": "text", "text": text}]
            if self._signature is not None:
                step["signature"] = self._signature
        else:
            step["content"] = [{"type": "text", "text": text}]
        return step

    def text(self, event: TextDelta | RefusalDelta) -> None:
        if not event.text:
            return
        if self._kind != "model_output":
            self._open("model_output")
        self._texts.append(event.text)
        if self._streams:
            self._frames.append(self._text_frame(event.text))

    def _text_frame(self, text: str) -> bytes:
        number = self._number
        self._number = number + 1
        return b'%b%b},"event_id":"%b.%d"}\n\n' % (self._text_head, encode_text(text), self._id, number)

    def more_text(self, event: TextDelta) -> bytes | None:
        """The frame of `event` in an open text, the short way; None where it takes the long one. Both write the same."""
        if not self._text_head or not event.text:
            return None
        self._texts.append(event.text)
        return self._text_frame(event.text)

    def text_end(self, event: TextEnd) -> None:
        self._close()

    def thought(self, event: ReasoningDelta) -> None:
        if self._kind != "thought":
            self._open("thought")
        if self._request.shows_thoughts and event.text:
            self._texts.append(event.text)
            self._delta(type="thought_summary", content={"type": "text", "text": event.text})

    def thought_end(self, event: ReasoningEnd) -> None:
        if event.seal is not None and self._kind == "thought":
            self._signature = base64.b64encode(event.seal).decode()
            self._delta(type="thought_signature", signature=self._signature)
        self._close()

    def call(self, event: ToolCallStart) -> None:
        self._call, self._arguments = event, []

    def call_delta(self, event: ToolCallDelta) -> None:
        self._arguments.append(event.arguments)

    def call_end(self, event: ToolCallEnd) -> None:
        call, self._call = self._call, None
        text = "".join(self._arguments) or "{}"
        arguments = _object(text) if event.valid else None
        if call is None or arguments is None:
            self._malformed = True
            return
        step: JsonObject = {"type": "function_call", "id": call.id, "name": call.name, "arguments": arguments}
        if self._legacy:
            self._open("function_call", id=call.id, name=call.name)
            self._delta(**step)
        else:
            self._open("function_call", id=call.id, name=call.name, arguments={})
            self._delta(type="arguments_delta", arguments=text)
        self._kind = ""
        self._event("stop", index=len(self.steps))
        self.steps.append(step)

    def hosted(self, event: HostedStart) -> None:
        if event.kind == MCP:
            self._running = call_step(event, f"mcp_{self._request.generation.id.rpartition('_')[2]}{len(self.steps)}")
            self._whole_step(self._running, {"arguments": {}}, ("id",))

    def hosted_end(self, event: HostedEnd) -> None:
        call, self._running = self._running, None
        if call is not None:
            self._whole_step(result_step(event, call), {"result": ""}, ("call_id",))

    def _whole_step(self, step: JsonObject, empty: JsonObject, shell_only: Sequence[str]) -> None:
        """A step that is told in one delta: its shell has `empty` in place of what the delta brings, and `shell_only` alone."""
        visible = {name: value for name, value in step.items() if name not in ("type", "is_error")}
        self._open(str(step["type"]), **(visible | empty))
        self._delta(**{name: value for name, value in step.items() if name not in shell_only})
        self._kind = ""
        self._event("stop", index=len(self.steps))
        self.steps.append(step)

    # ------------------------------------------------------------------------------------------------------------- ends

    def started(self, event: Started) -> None:
        """An engine has taken the request: the settings that the client has sent are echoed as they are in effect."""
        sent = self.fields.get("generation_config")
        if isinstance(sent, dict):
            self.fields["generation_config"] = effective_config(sent, event.effective)

    def finished(self, event: Finished) -> None:
        self._close()
        self._reason = event.reason
        stopped = event.stopped_by(self._request.generation.sampling.stop)  # a call that was cut so is not malformed
        if self._malformed and event.reason in ("stop", "tool_calls") and not stopped:
            self._reason = "malformed_call"

    def usage(self, event: Usage) -> None:
        self.fields["usage"] = interaction_usage(event)

    def done(self, event: Done) -> None:
        if self._reason == "error":
            self.fail(EngineFailed("The model's engine gave up on this answer."))
            return
        fault = _FAULTS.get(self._reason)
        if fault is not None:
            self.fields["errors"] = [{"code": fault[0], "message": fault[1]}]
        self.end(_STATUSES[self._reason])

    def failed(self, event: Failed) -> None:
        self.fail(event.error)

    def fail(self, error: SmgError) -> None:
        """End with an error. A step that was open stays so in the stream."""
        self.error = error
        error_body = interaction_error(error, self._request.locate)
        self._event("error", error=error_body)
        self._streams = False
        self.fields["errors"] = [error_body]
        self.end("failed")

    def cancelled(self, event: Cancelled) -> None:
        self.end("cancelled")

    def end(self, status: str) -> None:
        """The interaction has this status, and its stream is over."""
        if self.ended:
            return
        self.begin()
        self._close()
        self.ended = True
        self.fields["status"] = status
        self.fields["updated"] = time_text(self._now())
        if self._streams:
            self._event("completed", interaction=self._as_streamed())

    def add(self, events: Sequence[Event]) -> None:
        """Take in events; nothing after the end."""
        for event in events:
            if self.ended:
                return
            write = _WRITERS.get(type(event))
            if write is not None:
                if not self.begun and type(event) is not Failed and type(event) is not Started:
                    self.begin()
                write(self, event)

    def fork(self) -> "_Builder":
        """An independent copy."""
        other = copy.copy(self)
        other.fields, other.steps = dict(self.fields), list(self.steps)
        other._frames, other._texts, other._arguments = list(self._frames), list(self._texts), list(self._arguments)
        return other


_WRITERS: dict[type, Callable[[_Builder, Any], None]] = {
    Started: _Builder.started,
    TextDelta: _Builder.text,
    TextEnd: _Builder.text_end,
    RefusalDelta: _Builder.text,
    ReasoningDelta: _Builder.thought,
    ReasoningEnd: _Builder.thought_end,
    ToolCallStart: _Builder.call,
    ToolCallDelta: _Builder.call_delta,
    ToolCallEnd: _Builder.call_end,
    HostedStart: _Builder.hosted,
    HostedEnd: _Builder.hosted_end,
    Finished: _Builder.finished,
    Usage: _Builder.usage,
    Done: _Builder.done,
    Failed: _Builder.failed,
    Cancelled: _Builder.cancelled,
}


def _object(text: str) -> JsonObject | None:
    """The JSON object that `text` is; None for anything else."""
    try:
        found: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return found if type(found) is dict else None


class InteractionStreamEncoder:
    """One streamed interaction. `created` is seconds since the epoch, `now` tells the time when it is complete. Up to `keeps`
    bytes of its frames are kept, for the store; a stream over that is not kept."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: InteractionRequest, created: int, now: Callable[[], float], *, keeps: int = 0) -> None:
        self._builder = _Builder(request, created, now, streams=True)
        self._left = keeps
        self._kept: list[bytes] = []

    def start(self) -> bytes:
        """Nothing, so that the answer stays uncommitted until the first event. For an interaction that is continued, the event
        that says so."""
        return self._builder.take_frames()

    def queued(self) -> bytes:
        """The frame that opens the stream of an interaction that waits for its turn."""
        self._builder.begin("queued")
        return self._builder.take_frames()

    def go_on(self, number: int, items: Sequence[JsonObject]) -> None:
        """Go on with a stream that was opened before: `number` is that of its next event, `items` are the steps that are done.
        Called before `start`."""
        self._builder.go_on(number, items)

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of `events`, in order; nothing after the end."""
        builder = self._builder
        quick = None
        if len(events) == 1 and type(event := events[0]) is TextDelta:
            quick = builder.more_text(event)
        if quick is None:
            ended = builder.ended
            builder.add(events)
            quick = builder.take_frames()
            if builder.ended and not ended:
                self._keep(quick)
                return quick + CLOSING
        self._keep(quick)
        return quick

    def _keep(self, frames: bytes) -> None:
        if self._left <= 0:
            return
        self._left -= len(frames)
        self._kept.append(frames)
        if self._left <= 0:
            self._kept.clear()

    def keep_alive(self) -> bytes:
        """A frame for a stream on which nothing happens."""
        frames = self._builder.keep_alive()
        if frames != COMMENT:
            self._keep(frames)
        return frames

    def frames(self) -> bytes:
        """The frames that are kept; none where they were too many, or none were to be kept."""
        return b"".join(self._kept)

    @property
    def begun(self) -> bool:
        """Whether the event that tells the id was made."""
        return self._builder.begun

    @property
    def ended(self) -> bool:
        """Whether the interaction is complete, one way or another."""
        return self._builder.ended

    def interrupt(self) -> bytes:
        """End the interaction as incomplete, and the frames of that."""
        if self._builder.ended:
            return b""
        self._builder.end("incomplete")
        frames = self._builder.take_frames()
        self._keep(frames)
        return frames

    def response(self) -> JsonObject:
        """The object as it is now, as it is stored."""
        return {**self._builder.fields, "steps": list(self._builder.steps)}


class InteractionWholeEncoder:
    """One whole interaction. Arguments as for `InteractionStreamEncoder`."""

    content_type = "application/json"

    def __init__(self, request: InteractionRequest, created: int, now: Callable[[], float]) -> None:
        self._request = request
        self._builder = _Builder(request, created, now, streams=False)

    def add(self, events: Sequence[Event]) -> None:
        self._builder.add(events)

    def body(self) -> bytes:
        """The finished object in the words of the request's revision. Raises the error of a `Failed` event."""
        if self._builder.error is not None:
            raise self._builder.error
        return encode_body(rendered_interaction(self.response(), self._request.revision))

    @property
    def ended(self) -> bool:
        """Whether the interaction is complete, one way or another."""
        return self._builder.ended

    def fail(self, error: SmgError) -> None:
        """End the interaction with an error, which the object then tells."""
        if not self._builder.ended:
            self._builder.fail(error)

    def interrupt(self) -> bytes:
        """End the interaction as incomplete."""
        if not self._builder.ended:
            self._builder.end("incomplete")
        return b""

    def fork(self) -> "InteractionWholeEncoder":
        other = copy.copy(self)
        other._builder = self._builder.fork()
        return other

    def response(self) -> JsonObject:
        """The object as it is now, as it is stored."""
        return {**self._builder.fields, "steps": list(self._builder.steps)}

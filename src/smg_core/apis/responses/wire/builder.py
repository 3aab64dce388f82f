"""Builds the answer to a Responses request from events: its output items, and the frames of its stream.

One builder serves both encoders, so that what was streamed and what is stored or sent whole have the same items with the same
ids. The order of the streamed events is that of `grammar`, which every test holds them to.

What the API leaves open is decided so:

- `response.created` and `response.in_progress` go out with the first event, not earlier: the first byte commits the response.
- An item is done when the next event shows whether it was cut off: its status says that, and clients keep what is done.
- Reasoning is `reasoning_text`; where the client asked for a summary, the same text is one summary part instead.
- A call of a tool of a namespace has its own name and the namespace, whatever name the model knew it by.
- A response that is cancelled ends with `response.incomplete` and the status cancelled: the API has no event of its own for it.

Pure. Above: encode. Below: events, responses, object, json_text. It knows no engine and no store.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from smg_core.apis.responses.wire.client_tools import CLIENT_ITEMS, client_call, client_commands
from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.apis.responses.wire.mcp import (
    CLOSES,
    OPENS,
    WITHOUT_STATUS,
    closed_item,
    hosted_item,
    progress_of,
    written_of,
)
from smg_core.apis.responses.wire.object import (
    END_EVENTS,
    INCOMPLETE,
    error_object,
    in_effect,
    response_fields,
    usage_object,
)
from smg_core.apis.responses.wire.parts import (
    annotation_object,
    object_of,
    reasoning_part,
    summary_part,
    transformation_object,
)
from smg_core.apis.responses.wire.pictures import state_of_picture
from smg_core.apis.responses.wire.summaries import COMPACTION, summary_of
from smg_core.errors import EngineFailed, SmgError
from smg_core.events import (
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
    TokenLogprob,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    Verbatim,
)
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_object, encode_text
from smg_core.wire.logprobs import logprob_object

__all__ = ["ResponseBuilder", "SealSummary"]

SealSummary = Callable[[ResponsesRequest, bytes], str]
"""Seals what a compaction of this request says (`responses_summaries`); returns its encrypted_content."""

_BLOCK = 32
"""Bytes to whose multiples obfuscated deltas are padded."""
_TEXT_HEAD = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta"'
EndStatus = Literal["completed", "incomplete"]


class ResponseBuilder:
    """The output items of one response, and the frames of its stream where `streams`.

    One item is open at most. `_pending` is an item whose block has ended and that is done with the next event.
    """

    def __init__(
        self, request: ResponsesRequest, created: int, now: Callable[[], float], seal: SealSummary, *, streams: bool
    ) -> None:
        self._seal = seal
        self._summary: list[str] = []  # of a compaction
        self._request = request
        self._streams = streams
        self._now = now
        self.fields = response_fields(request, created)
        self._suffix = request.generation.id.partition("_")[2] or request.generation.id
        self._silent = not request.generation.generate or request.compacts
        self._frames: list[bytes] = []
        self._number = 0
        self.begun = False
        self.ended = False
        self.items: list[JsonObject] = []
        self.error: SmgError | None = None
        self._open: JsonObject | None = None
        self._kind = ""  # of the open item
        self._client = ""  # the type of the tool whose call is open, where it is a built-in one of the client's
        self._texts: list[str] = []
        self._logprobs: list[JsonObject] = []
        self._pending: JsonObject | None = None
        self._finished: Finished | None = None
        self._part: JsonObject = {}
        self._annotations: list[JsonObject] = []
        self._prefix = b""  # of the deltas of the open item
        self._text_head = b""  # of a frame with more text, where that can be written the short way

    # ---------------------------------------------------------------------------------------------------------- frames

    def take_frames(self) -> bytes:
        """The frames since the last call."""
        data = b"".join(self._frames)
        self._frames.clear()
        return data

    def _frame(self, kind: str, body: bytes) -> None:
        """One event. `body` has its fields but `type` and `sequence_number`, each with a comma before it."""
        name = kind.encode()
        self._frames.append(
            b'event: %b\ndata: {"type":"%b"%b,"sequence_number":%d}\n\n' % (name, name, body, self._number)
        )
        self._number += 1

    def _event(self, kind: str, **fields: object) -> None:
        if self._streams:
            self._frame(kind, b"," + encode_object(fields)[1:-1] if fields else b"")

    def _lifecycle(self, kind: str) -> None:
        if self._streams:
            self._frame(kind, b',"response":' + encode_object(self.fields))

    def begin(self) -> None:
        """What opens the stream, once."""
        if self.begun:
            return
        self.begun = True
        if self._streams:
            response = encode_object(self.fields)
            self._frame("response.created", b',"response":' + response)
            self._frame("response.in_progress", b',"response":' + response)

    def queue(self) -> None:
        """Open the stream of a response that waits for its turn."""
        self.begun = True
        self.fields["status"] = "queued"
        response = encode_object(self.fields)
        self._frame("response.created", b',"response":' + response)
        self._frame("response.queued", b',"response":' + response)

    def go_on(self, number: int, items: Sequence[JsonObject]) -> None:
        """Go on with a stream whose opening was sent: `number` is that of its next event, `items` are done."""
        self.begun, self._number, self.items = True, number, list(items)
        self._lifecycle("response.in_progress")

    def keep_alive(self) -> bytes:
        """What keeps a silent stream alive: of all frames, every client's timer is reset by this one alone. Before the first
        event it is what opens the stream."""
        if not self.begun:
            self.begin()
        elif not self.ended:
            self._lifecycle("response.in_progress")
        return self.take_frames()

    # ------------------------------------------------------------------------------------------------------------ items

    def _add(self, kind: str, prefix: str, **fields: Any) -> JsonObject:
        """Open an item."""
        self._settle("completed")
        item: JsonObject = {"id": f"{prefix}{self._suffix}o{len(self.items)}", "type": kind, **fields}
        if kind not in WITHOUT_STATUS:
            item["status"] = "in_progress"
        self._open, self._kind = item, kind
        self._texts, self._logprobs = [], []
        if self._streams:
            self._event("response.output_item.added", output_index=len(self.items), item=item)
        return item

    def _settle(self, status: EndStatus) -> None:
        """The item whose block has ended is done."""
        item = self._pending
        if item is None:
            return
        self._pending = None
        if item.get("status") == "in_progress":
            item["status"] = status
        if self._streams:
            self._event("response.output_item.done", output_index=len(self.items), item=item)
        self.items.append(item)

    def _at(self, **fields: object) -> dict[str, object]:
        """The fields that say where an event within the open item belongs."""
        item = self._open or {}
        return {"item_id": item.get("id"), "output_index": len(self.items), **fields}

    def _delta(self, kind: str, text: str, fields: bytes, logprobs: Sequence[TokenLogprob] | None = None) -> None:
        """A delta of the open item, whose prefix is made once."""
        self._texts.append(text)
        if not self._streams:
            return
        data = encode_text(text)
        logprobs_field = b""
        if logprobs is not None:
            logprobs_field = b',"logprobs":' + (
                encode_object([logprob_object(each) for each in logprobs]) if logprobs else b"[]"
            )
        padding = b""
        if self._request.obfuscate:
            padding = b',"obfuscation":"%b"' % (b"x" * (-len(data) % _BLOCK))
        self._frame(kind, fields + b',"delta":' + data + logprobs_field + padding)

    # ------------------------------------------------------------------------------------------------------------- text

    def text(self, event: TextDelta) -> None:
        if not event.text and not event.logprobs:
            return
        if self._open is None:
            self._add("message", "msg_", role="assistant", content=[])
            self._open_part({"type": "output_text", "text": "", "annotations": [], "logprobs": []})
        logprobs = event.logprobs if event.logprobs and self._request.logprobs else ()
        if logprobs:
            self._logprobs += [logprob_object(each) for each in logprobs]
        self._delta("response.output_text.delta", event.text, self._prefix, logprobs)

    def more_text(self, event: TextDelta) -> bytes | None:
        """The frame of `event` in an open text, the short way; None where it takes the long one. Both write the same."""
        if not self._text_head or event.logprobs or not event.text:
            return None
        self._texts.append(event.text)
        number = self._number
        self._number = number + 1
        return b'%b%b,"logprobs":[],"sequence_number":%d}\n\n' % (self._text_head, encode_text(event.text), number)

    def refusal(self, event: RefusalDelta) -> None:
        if not event.text:
            return
        if self._open is None:
            self._add("message", "msg_", role="assistant", content=[])
            self._open_part({"type": "refusal", "refusal": ""})
        self._delta("response.refusal.delta", event.text, self._prefix)

    def _open_part(self, part: JsonObject) -> None:
        self._annotations = []
        self._part = part
        if not self._streams:
            return
        where = self._at(content_index=0)
        self._prefix = b"," + encode_object(where)[1:-1]
        if part["type"] == "output_text" and not self._request.obfuscate:
            self._text_head = _TEXT_HEAD + self._prefix + b',"delta":'
        self._event("response.content_part.added", **where, part=part)

    def annotation(self, event: Annotation) -> None:
        if self._kind != "message" or self._open is None:
            return
        made = annotation_object(event)
        self._event(
            "response.output_text.annotation.added",
            **self._at(content_index=0, annotation_index=len(self._annotations), annotation=made),
        )
        self._annotations.append(made)

    def text_end(self, event: TextEnd) -> None:
        if self._open is not None and self._kind == "message":
            self._close()

    def _close_message(self, item: JsonObject) -> None:
        text, refused = "".join(self._texts), self._part["type"] == "refusal"
        part: JsonObject = {"type": "refusal", "refusal": text}
        if not refused:
            part = {
                "type": "output_text",
                "text": text,
                "annotations": self._annotations,
                "logprobs": self._logprobs,
            }
        item["content"] = [part]
        if not self._streams:
            return
        where = self._at(content_index=0)
        if refused:
            self._event("response.refusal.done", **where, refusal=text)
        else:
            self._event("response.output_text.done", **where, text=text, logprobs=self._logprobs)
        self._event("response.content_part.done", **where, part=part)

    # -------------------------------------------------------------------------------------------------------- reasoning

    def reasoning(self, event: ReasoningDelta) -> None:
        if not event.text:
            return
        summarized = self._request.summarized
        if self._open is None:
            self._add("reasoning", "rs_", summary=[], encrypted_content=None)
            if summarized:
                where = self._at(summary_index=0)
                self._event("response.reasoning_summary_part.added", **where, part=summary_part(""))
            else:
                where = self._at(content_index=0)
                self._event("response.content_part.added", **where, part=reasoning_part(""))
            self._prefix = b"," + encode_object(where)[1:-1]
        kind = "response.reasoning_summary_text.delta" if summarized else "response.reasoning_text.delta"
        self._delta(kind, event.text, self._prefix)

    def reasoning_end(self, event: ReasoningEnd) -> None:
        # What a provider wants back is told whether the client has asked for seals or not: it is of no use without.
        seal = event.seal if self._request.seals or event.carried else None
        if self._open is None and seal is not None:
            self._add("reasoning", "rs_", summary=[], encrypted_content=None)  # of which there is no text
        if self._open is None or self._kind != "reasoning":
            return
        if seal is not None:
            self._open["encrypted_content"] = seal.decode()
        self._close()

    def _close_reasoning(self, item: JsonObject) -> None:
        text = "".join(self._texts)
        if not text:
            return
        if self._request.summarized:
            where = self._at(summary_index=0)
            self._event("response.reasoning_summary_text.done", **where, text=text)
            self._event("response.reasoning_summary_part.done", **where, part=summary_part(text))
            item["summary"] = [summary_part(text)]
        else:
            where = self._at(content_index=0)
            self._event("response.reasoning_text.done", **where, text=text)
            self._event("response.content_part.done", **where, part=reasoning_part(text))
            item["content"] = [reasoning_part(text)]

    # ------------------------------------------------------------------------------------------------------------ calls

    def call(self, event: ToolCallStart) -> None:
        tool = self._request.names.of(event.name)
        if tool.kind == "tool_search":
            self._add("tool_search_call", "tsc_", call_id=event.id, execution="client", arguments={})
            return
        if (own := CLIENT_ITEMS.get(tool.kind)) is not None:
            self._add(own.type, own.prefix, call_id=event.id, **client_call(tool.kind, ""))
            self._client = tool.kind
            return
        named: JsonObject = {"call_id": event.id, "name": tool.name}
        if tool.namespace is not None:
            named["namespace"] = tool.namespace
        if event.custom:
            self._add("custom_tool_call", "ctc_", **named, input="")
        else:
            self._add("function_call", "fc_", **named, arguments="")
        self._prefix = b"," + encode_object(self._at())[1:-1]

    def call_delta(self, event: ToolCallDelta) -> None:
        if not event.arguments or self._open is None:
            return
        if self._kind == "tool_search_call" or self._client:
            self._texts.append(event.arguments)
        elif self._kind == "custom_tool_call":
            self._delta("response.custom_tool_call_input.delta", event.arguments, self._prefix)
        else:
            self._delta("response.function_call_arguments.delta", event.arguments, self._prefix)

    def call_end(self, event: ToolCallEnd) -> None:
        if self._open is not None:
            self._close()

    def _close_call(self, item: JsonObject) -> None:
        text = "".join(self._texts)
        if self._client:
            item |= client_call(self._client, text)
            self._client = ""
            for order, command in enumerate(client_commands(item)):
                where = {"output_index": len(self.items), "command_index": order}
                self._event("response.shell_call_command.added", **where, command="")
                self._event("response.shell_call_command.delta", **where, delta=command)
                self._event("response.shell_call_command.done", **where, command=command)
        elif self._kind == "tool_search_call":
            item["arguments"] = object_of(text)
        elif self._kind == "custom_tool_call":
            self._event("response.custom_tool_call_input.done", **self._at(input=text))
            item["input"] = text
        else:
            self._event("response.function_call_arguments.done", **self._at(arguments=text, name=item["name"]))
            item["arguments"] = text

    # -------------------------------------------------------------------------------------------- tools that run here

    def hosted(self, event: HostedStart) -> None:
        """A list of tools, a call of one, or a call that has to be approved. Of others the API knows nothing."""
        made = hosted_item(event)
        if made is None:
            return
        prefix, fields = made
        item = self._add(str(fields.pop("type")), prefix, **fields)
        for kind in OPENS[self._kind]:
            self._event(kind, **self._at())
        if (written := written_of(event)) is not None:
            field, name, text = written
            self._prefix = b"," + encode_object(self._at())[1:-1]
            self._delta(f"{name}.delta", text, self._prefix)
            self._event(f"{name}.done", **self._at(**{field: text}))
            item[field] = text

    def hosted_progress(self, event: HostedProgress) -> None:
        """How far a call is: the event for one that runs, with what its server tells."""
        if self._open is not None and self._kind == "mcp_call" and event.phase == "progress":
            self._event("response.mcp_call.in_progress", **self._at(**progress_of(event)))
        elif self._open is not None and event.phase == "partial_image":
            self._event(f"response.{self._kind}.partial_image", **self._at(**state_of_picture(event)))
        elif self._open is not None and event.phase in ("searching", "interpreting", "generating"):
            self._event(f"response.{self._kind}.{event.phase}", **self._at())

    def hosted_end(self, event: HostedEnd) -> None:
        item = self._open
        if item is None or self._kind not in OPENS:
            return
        item.update(closed_item(item, event, self._request.generation.include))
        for kind in CLOSES.get((self._kind, event.failed), ()):
            self._event(kind, **self._at())
        self._open, self._pending = None, item

    # ------------------------------------------------------------------------------------------------------------- ends

    def _close(self) -> None:
        """The open item's block has ended."""
        item = self._open
        if item is None:
            return
        closers: Mapping[str, Callable[[JsonObject], None]] = {
            "message": self._close_message,
            "reasoning": self._close_reasoning,
        }
        if self._kind not in OPENS:  # what runs here and was interrupted stays as it is
            closers.get(self._kind, self._close_call)(item)
        self._open, self._pending = None, item
        self._text_head = b""

    def fork(self) -> "ResponseBuilder":
        """An independent copy."""
        other = copy.copy(self)
        other.fields, other.items = dict(self.fields), list(self.items)
        other._frames, other._texts = list(self._frames), list(self._texts)
        other._summary = list(self._summary)
        other._logprobs, other._annotations = list(self._logprobs), list(self._annotations)
        other._open = None if self._open is None else dict(self._open)
        other._pending = None if self._pending is None else dict(self._pending)
        return other

    def sampled(self, event: SampledIds) -> None:
        """The API has no field for token ids."""

    def started(self, event: Started) -> None:
        """An engine has taken the request. What it says of reasoning that was left out is in every object from now on."""
        if event.dropped:
            self.fields["input_transformations"] = [transformation_object(each) for each in event.dropped]
        self.fields |= in_effect(self.fields, event)

    def finished(self, event: Finished) -> None:
        self._finished = event
        self._settle("incomplete" if event.cut or event.reason == "abort" else "completed")

    def usage(self, event: Usage) -> None:
        """The tokens. Engines make one even where the prompt alone is asked for, and that is no output."""
        counted = (
            event if self._request.generation.generate else replace(event, completion_tokens=0, reasoning_tokens=0)
        )
        self.fields["usage"] = usage_object(counted)

    def done(self, event: Done) -> None:
        reason = self._finished.reason if self._finished is not None else "stop"
        if reason == "error":
            self.fail(EngineFailed("The model's engine gave up on this response."))
        elif reason == "abort":
            self._end("incomplete", None)  # of the API's reasons none is this one
        elif not self._request.generation.generate:
            self._end("completed", None)
        elif self._finished is not None and self._finished.cut and reason == "stop":
            self._end("incomplete", None)  # a stop string has cut a call
        elif reason in INCOMPLETE:
            self._end("incomplete", {"reason": INCOMPLETE[reason]})
        else:
            if self._request.compacts:
                self._summarized("".join(self._summary))
            self._end("completed", None)

    def _summarized(self, summary: str) -> None:
        """The one item of a response that compacts: what was said before, sealed."""
        if not summary.strip():
            self.fail(EngineFailed("The model wrote no summary."))
        else:
            self._compaction(summary_of(summary))

    def _compaction(self, summary: bytes) -> None:
        item = self._add("compaction", "cmp_", encrypted_content="")
        item["encrypted_content"] = self._seal(self._request, summary)
        self._open, self._pending = None, item

    def verbatim(self, event: Verbatim) -> None:
        """Nothing: the encoder tells them, and what follows says the same."""

    def opaque(self, event: OpaqueBlock) -> None:
        """A compaction that the flow has made before its turn. What engines send by this way the API cannot express."""
        if event.kind == COMPACTION:
            self._compaction(event.payload)

    def failed(self, event: Failed) -> None:
        self.fail(event.error)

    def fail(self, error: SmgError) -> None:
        self.error = error
        self.fields["error"] = error_object(error, self._request.locate)
        self._end("failed", None)

    def cancelled(self, event: Cancelled) -> None:
        self._end("cancelled", None)

    def interrupt(self, reason: str | None = None) -> None:
        """End the response as incomplete: its client has left, or its process has."""
        self._end("incomplete", None if reason is None else {"reason": reason})

    def _end(self, status: str, details: JsonObject | None) -> None:
        """The terminal event. Of a response that failed, what was open is told in its output alone: clients take an item that is
        done as said, run it if it is a call, and have half a sentence before the model when they try again."""
        if self.ended:
            return
        streams = self._streams
        self._streams = streams and status != "failed"
        self._close()
        self._settle("completed" if status == "completed" else "incomplete")
        self._streams = streams
        self.ended = True
        self.fields["status"] = status
        self.fields["incomplete_details"] = details
        self.fields["output"] = self.items
        if status == "completed":
            self.fields["completed_at"] = int(self._now())
        self._lifecycle(END_EVENTS[status])

    def skip(self, event: Event) -> None:
        """For events that this API cannot express yet."""

    def add(self, events: Sequence[Event]) -> None:
        """Take in events; nothing after the end."""
        for event in events:
            if self.ended:
                return
            if not self.begun and type(event) is not Started:
                self.begin()
            if self._silent and type(event) in _CONTENT:
                if type(event) is TextDelta:
                    self._summary.append(event.text)
                elif type(event) is Finished:
                    self._finished = event
                continue
            _WRITERS[type(event)](self, event)


_WRITERS: dict[type, Callable[[ResponseBuilder, Any], None]] = {
    Started: ResponseBuilder.started,
    SampledIds: ResponseBuilder.sampled,
    TextDelta: ResponseBuilder.text,
    TextEnd: ResponseBuilder.text_end,
    RefusalDelta: ResponseBuilder.refusal,
    Annotation: ResponseBuilder.annotation,
    ReasoningDelta: ResponseBuilder.reasoning,
    ReasoningEnd: ResponseBuilder.reasoning_end,
    ToolCallStart: ResponseBuilder.call,
    ToolCallDelta: ResponseBuilder.call_delta,
    ToolCallEnd: ResponseBuilder.call_end,
    HostedStart: ResponseBuilder.hosted,
    HostedProgress: ResponseBuilder.hosted_progress,
    HostedEnd: ResponseBuilder.hosted_end,
    OpaqueBlock: ResponseBuilder.opaque,
    Verbatim: ResponseBuilder.verbatim,
    Finished: ResponseBuilder.finished,
    Usage: ResponseBuilder.usage,
    Done: ResponseBuilder.done,
    Failed: ResponseBuilder.failed,
    Cancelled: ResponseBuilder.cancelled,
}
_CONTENT = frozenset(_WRITERS) - {Started, Usage, Done, Failed, Cancelled}

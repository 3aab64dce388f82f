"""Encodes the answer to one response of a session: events of the pipeline to events of the API, one a line.

The order of the events is that of the table `states.STREAM`, which the encoder itself goes by. `response.created` is the
session's, who begins the response; the encoder writes all behind it. The events of the conversation are written without their
`previous_item_id`, which the session fills in when they leave, and not at all for a response outside of the conversation. The
model's reasoning is not shown: it is kept for the item behind it. Of a response that is cut off the open item is told as
incomplete. Pure. Above: the connection. Below: events, states, the MCP items of Responses.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import attrs

from smg_core.apis.realtime.wire.events import written
from smg_core.apis.realtime.wire.states import StreamState, following
from smg_core.apis.responses.wire.mcp import arguments_of, closed_item, hosted_item
from smg_core.errors import EngineFailed, SmgError
from smg_core.events import (
    Cancelled,
    Done,
    Event,
    Failed,
    Finished,
    HostedEnd,
    HostedStart,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_object, encode_text

__all__ = [
    "CONVERSATION_EVENT",
    "END_EVENT",
    "RealtimeEncoder",
    "Voiced",
    "ended_response",
    "error_object",
    "usage_object",
]

END_EVENT = b'{"type":"response.done"'
CONVERSATION_EVENT = b'{"type":"conversation.item.'
"""How the lines begin into which the session puts the place in the conversation."""
Status = Literal["completed", "incomplete", "cancelled", "failed"]
_REASONS: Mapping[str, str] = {
    "length": "max_output_tokens",
    "context": "max_output_tokens",
    "pause": "max_output_tokens",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
"""Why a response is incomplete, by how its choice has ended."""


@attrs.frozen
class Voiced:
    """One response as its session has begun it: the object that was told, the maker of ids, whether it is in the conversation,
    and whether what it says is spoken, so that its text is the transcript of sound."""

    response: JsonObject
    names: Callable[[str], str]
    in_conversation: bool = True
    spoken: bool = False


def usage_object(usage: Usage) -> JsonObject:
    """The tokens of a response; reasoning counts as text."""
    text = usage.prompt_tokens - usage.image_tokens - usage.audio_tokens
    return {
        "total_tokens": usage.total_tokens,
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "input_token_details": {
            "text_tokens": max(text, 0),
            "audio_tokens": usage.audio_tokens,
            "image_tokens": usage.image_tokens,
            "cached_tokens": usage.cached_tokens,
            "cached_tokens_details": {"text_tokens": usage.cached_tokens, "audio_tokens": 0, "image_tokens": 0},
        },
        "output_token_details": {"text_tokens": usage.completion_tokens, "audio_tokens": 0},
    }


def error_object(error: SmgError) -> JsonObject:
    """An error as the end of a response tells it."""
    return {"type": error.openai_type, "code": error.code or error.in_stream_code, "message": error.message}


def ended_response(
    response: JsonObject,
    status: Status,
    output: Sequence[JsonObject],
    *,
    reason: str | None = None,
    error: JsonObject | None = None,
    usage: Usage | None = None,
) -> JsonObject:
    """The object of a response that has ended so."""
    details: JsonObject = {"type": status}
    if reason is not None:
        details["reason"] = reason
    if error is not None:
        details["error"] = error
    return {
        **response,
        "status": status,
        "status_details": details,
        "output": list(output),
        "usage": None if usage is None else usage_object(usage),
    }


class RealtimeEncoder:
    """The events of one response. `hidden` is the reasoning before each item, by the item's id; `output` the items that are
    done."""

    content_type = "application/x-ndjson"

    def __init__(self, voiced: Voiced) -> None:
        self._voiced = voiced
        self._id = voiced.response["id"]
        self._state: StreamState = "response"
        self._lines: list[bytes] = []
        self.output: list[JsonObject] = []
        self.hidden: dict[str, str] = {}
        self._item: JsonObject | None = None
        self._pending: JsonObject | None = None  # its block has ended; done with the next event
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._delta = b""  # what every delta of the open block begins with, but for its event id
        self._finished: Finished | None = None
        self._usage: Usage | None = None
        self._listing: JsonObject | None = None
        self._unsent = bytearray()  # lines that were encoded and have not left
        self.ended = False

    # ---------------------------------------------------------------------------------------------------------- stream

    def start(self) -> bytes:
        """Nothing: the session has told that the response begins."""
        return b""

    def keep_alive(self) -> bytes:
        """Nothing: a connection is kept alive by pings."""
        return b""

    def encode(self, events: Sequence[Event]) -> bytes:
        """The lines of `events`, in order; nothing after the end."""
        for event in events:
            if self.ended:
                break
            writer = _WRITERS.get(type(event))
            if writer is not None:
                writer(self, event)
        return self._taken()

    def cut(self) -> bytes:
        """Close what is open, since the response ends here; the session tells its end. What was encoded and has not left comes
        first."""
        if not self.ended:
            self._close(complete=False)
            self.ended = True
            self._taken()
        return bytes(self._unsent)

    def _taken(self) -> bytes:
        lines = b"".join(self._lines)
        self._lines.clear()
        self._unsent += lines
        return lines

    def sent(self, lines: bytes) -> None:
        """These lines leave, in the order in which they were encoded."""
        del self._unsent[: len(lines)]

    # ----------------------------------------------------------------------------------------------------------- lines

    def _event(self, kind: str, **fields: object) -> None:
        """An event of the response, at its place in the order of the table."""
        part = fields.get("part")
        sound = isinstance(part, dict) and part["type"] == "audio"
        self._state = following(self._state, kind, sound=sound)
        self._lines.append(written(kind, self._voiced.names("event_"), response_id=self._id, **fields) + b"\n")

    def _of_conversation(self, kind: str, item: JsonObject) -> None:
        if self._voiced.in_conversation:
            self._lines.append(written(kind, self._voiced.names("event_"), item=item) + b"\n")

    def _place(self, **fields: object) -> dict[str, object]:
        item = self._item or {}
        return {"item_id": item.get("id"), "output_index": len(self.output), **fields}

    def _begins_with(self, kind: str, **fields: object) -> bytes:
        """The fields of the deltas that follow, made once for all of them."""
        made = encode_object({"type": kind, "response_id": self._id, **self._place(**fields)})
        return made[:-1]

    def _more(self, kind: str, text: str) -> None:
        self._texts.append(text)
        self._state = following(self._state, kind)
        id = self._voiced.names("event_").encode()
        self._lines.append(b'%b,"event_id":"%b","delta":%b}\n' % (self._delta, id, encode_text(text)))

    # ----------------------------------------------------------------------------------------------------------- items

    def _add(self, kind: str, **fields: Any) -> JsonObject:
        """Begin an item."""
        self._settle("completed")
        item: JsonObject = {"id": self._voiced.names("item_"), "type": kind, **fields}
        if kind in ("message", "function_call"):
            item |= {"object": "realtime.item", "status": "in_progress"}
        self._item, self._texts = item, []
        if self._thoughts:
            self.hidden[str(item["id"])] = "".join(self._thoughts)
            self._thoughts = []
        self._event("response.output_item.added", output_index=len(self.output), item=item)
        self._of_conversation("conversation.item.added", item)
        return item

    def _settle(self, status: Literal["completed", "incomplete"]) -> None:
        """The item whose block has ended is done."""
        item, self._pending = self._pending, None
        if item is None:
            return
        if "status" in item:
            item["status"] = status
        self._event("response.output_item.done", output_index=len(self.output), item=item)
        self._of_conversation("conversation.item.done", item)
        self.output.append(item)

    def text(self, event: TextDelta | RefusalDelta) -> None:
        """What the model says to the user; the API has no refusals apart from that."""
        if not event.text:
            return
        spoken = self._voiced.spoken
        if self._item is None:
            self._add("message", role="assistant", content=[])
            part = {"type": "audio", "transcript": ""} if spoken else {"type": "text", "text": ""}
            self._event("response.content_part.added", **self._place(content_index=0), part=part)
            kind = "response.output_audio_transcript.delta" if spoken else "response.output_text.delta"
            self._delta = self._begins_with(kind, content_index=0)
        self._more("response.output_audio_transcript.delta" if spoken else "response.output_text.delta", event.text)

    def text_end(self, event: TextEnd) -> None:
        self._close_message()

    def _close_message(self) -> None:
        item = self._item
        if item is None or item["type"] != "message":
            return
        text, where = "".join(self._texts), self._place(content_index=0)
        if self._voiced.spoken:
            self._event("response.output_audio.done", **where)
            self._event("response.output_audio_transcript.done", **where, transcript=text)
            self._event("response.content_part.done", **where, part={"type": "audio", "transcript": text})
            item["content"] = [{"type": "output_audio", "transcript": text}]
        else:
            self._event("response.output_text.done", **where, text=text)
            self._event("response.content_part.done", **where, part={"type": "text", "text": text})
            item["content"] = [{"type": "output_text", "text": text}]
        self._item, self._pending = None, item

    def reasoning(self, event: ReasoningDelta) -> None:
        self._thoughts.append(event.text)

    # ----------------------------------------------------------------------------------------------------------- calls

    def call(self, event: ToolCallStart) -> None:
        self._add("function_call", call_id=event.id, name=event.name, arguments="")
        self._delta = self._begins_with("response.function_call_arguments.delta", call_id=event.id)

    def call_delta(self, event: ToolCallDelta) -> None:
        if event.arguments and self._item is not None:
            self._more("response.function_call_arguments.delta", event.arguments)

    def call_end(self, event: ToolCallEnd) -> None:
        self._close_call()

    def _close_call(self) -> None:
        item = self._item
        if item is None or item["type"] != "function_call":
            return
        arguments = item["arguments"] = "".join(self._texts)
        fields = self._place(call_id=item["call_id"], name=item["name"], arguments=arguments)
        self._event("response.function_call_arguments.done", **fields)
        self._item, self._pending = None, item

    # -------------------------------------------------------------------------------------------- tools that run here

    def hosted(self, event: HostedStart) -> None:
        """A list of tools, a call of one, or a call that has to be approved."""
        made = hosted_item(event)
        if made is None:
            return
        _, fields = made
        kind = str(fields.pop("type"))
        if kind == "mcp_list_tools":
            self._settle("completed")
            self._list_begins(fields)
            return
        item = self._add(kind, **fields)
        if kind != "mcp_call":
            return
        self._delta = self._begins_with("response.mcp_call_arguments.delta")
        arguments = arguments_of(event) or "{}"
        self._more("response.mcp_call_arguments.delta", arguments)
        self._event("response.mcp_call_arguments.done", **self._place(arguments=arguments))
        self._event("response.mcp_call.in_progress", **self._place())
        item["arguments"] = arguments

    def _list_begins(self, fields: JsonObject) -> None:
        """The list of a server's tools, which is of the session and not of the response."""
        fields.pop("error", None)
        item: JsonObject = {"id": self._voiced.names("item_"), "type": "mcp_list_tools", **fields}
        self._listing = item
        self._of_conversation("conversation.item.added", item)
        self._lines.append(self._named("mcp_list_tools.in_progress", item))

    def _named(self, kind: str, item: JsonObject) -> bytes:
        return written(kind, self._voiced.names("event_"), item_id=item["id"]) + b"\n"

    def hosted_end(self, event: HostedEnd) -> None:
        if self._listing is not None:
            listed, self._listing = self._listing, None
            listed["tools"] = closed_item(listed, event)["tools"]
            self._of_conversation("conversation.item.done", listed)
            self._lines.append(
                self._named("mcp_list_tools.failed" if event.failed else "mcp_list_tools.completed", listed)
            )
            return
        item = self._item
        if item is None:
            return
        if item["type"] == "mcp_call":
            closed = closed_item(item, event)
            closed.pop("status", None)
            if event.failed:
                closed["error"] = {"type": "tool_execution_error", "message": _words(closed.get("error"))}
            item.update(closed)
            self._event("response.mcp_call.failed" if event.failed else "response.mcp_call.completed", **self._place())
        self._item, self._pending = None, item

    # ------------------------------------------------------------------------------------------------------------ ends

    def _close(self, *, complete: bool) -> None:
        """End the open item, whole or cut off."""
        item = self._item
        if item is not None:
            self._close_message()
            self._close_call()
            if self._item is not None:  # of a tool that runs here: it stays as it is
                self._item, self._pending = None, item
        self._settle("completed" if complete else "incomplete")

    def finished(self, event: Finished) -> None:
        self._finished = event
        self._close(complete=not (event.cut or event.reason == "abort"))

    def usage(self, event: Usage) -> None:
        self._usage = event

    def done(self, event: Done) -> None:
        reason = self._finished.reason if self._finished is not None else "stop"
        if reason == "error":
            self._end("failed", error=EngineFailed("The model's engine gave up on this response."))
        elif reason in _REASONS:
            self._end("incomplete", reason=_REASONS[reason])
        elif reason == "abort":
            self._end("incomplete")
        else:
            self._end("completed")

    def failed(self, event: Failed) -> None:
        self._end("failed", error=event.error)

    def cancelled(self, event: Cancelled) -> None:
        self._end("cancelled")

    def _end(self, status: Status, *, reason: str | None = None, error: SmgError | None = None) -> None:
        self._close(complete=status == "completed")
        error_body = None if error is None else error_object(error)
        response = ended_response(
            self._voiced.response, status, self.output, reason=reason, error=error_body, usage=self._usage
        )
        self._state = following(self._state, "response.done")
        self._lines.append(written("response.done", self._voiced.names("event_"), response=response) + b"\n")
        self.ended = True


def _words(error: object) -> str:
    """The text of a failed call's error."""
    content = error.get("content") if isinstance(error, dict) else None
    texts = [str(part.get("text") or "") for part in content or () if isinstance(part, dict)]
    return "\n".join(texts) or "The tool failed."


_WRITERS: dict[type, Callable[[RealtimeEncoder, Any], None]] = {
    TextDelta: RealtimeEncoder.text,
    TextEnd: RealtimeEncoder.text_end,
    RefusalDelta: RealtimeEncoder.text,
    ReasoningDelta: RealtimeEncoder.reasoning,
    ToolCallStart: RealtimeEncoder.call,
    ToolCallDelta: RealtimeEncoder.call_delta,
    ToolCallEnd: RealtimeEncoder.call_end,
    HostedStart: RealtimeEncoder.hosted,
    HostedEnd: RealtimeEncoder.hosted_end,
    Finished: RealtimeEncoder.finished,
    Usage: RealtimeEncoder.usage,
    Done: RealtimeEncoder.done,
    Failed: RealtimeEncoder.failed,
    Cancelled: RealtimeEncoder.cancelled,
}
"""What is not here this API cannot express: ids of tokens, sources, progress of tools, blocks of providers."""

"""The stored events of a background response: made of a stream's frames, sent again as frames, and gone on from.

A response whose process has died is run again. Events that clients may have been sent stay valid: numbers go on after the last
stored event, the item that was open is closed as incomplete, and the items of the new run follow it. `CLOSING` is the table of
what an open item still needs, by the state of `grammar` that the log ends in. Pure. Above: the server. Below: the
grammar.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from smg_core.apis.responses.wire.grammar import (
    CALL,
    CALL_DONE,
    CODE_DONE,
    CODE_WRITTEN,
    CODING,
    COMPACTION,
    CUSTOM,
    CUSTOM_DONE,
    END,
    IMAGE_DONE,
    ITEM,
    LISTING,
    LISTING_DONE,
    MESSAGE,
    PAINTING,
    PART_DONE,
    REASONING,
    REFUSAL,
    RUN,
    RUN_ASKED,
    RUN_DONE,
    SEARCH,
    SEARCH_DONE,
    START,
    SUMMARY,
    SUMMARY_DONE,
    TERMINAL,
    TEXT,
    THOUGHT,
    THOUGHT_DONE,
    ResponsesGrammar,
)
from smg_core.errors import SmgError
from smg_core.json_types import JsonObject
from smg_core.wire.errors import responses_error
from smg_core.wire.json_text import encode_object

__all__ = ["CLOSING", "EventLog", "frame_of", "is_terminal", "response_gone", "split_frames", "terminal_event"]

_DATA = b"\ndata: "
_TYPE = b'{"type":"'


def split_frames(frames: bytes) -> list[bytes]:
    """The data of each frame of a stream, as it is stored."""
    return [frame.partition(_DATA)[2] for frame in frames.split(b"\n\n") if frame]


def _type_of(data: bytes) -> bytes:
    return data[len(_TYPE) : data.index(b'"', len(_TYPE))]


def frame_of(data: bytes) -> bytes:
    """The frame of a stored event."""
    return b"event: %b%b%b\n\n" % (_type_of(data), _DATA, data)


def terminal_event(kind: str, response: JsonObject, number: int) -> bytes:
    """The event that ends a stream with `response`, the finished object."""
    return encode_object({"type": kind, "response": response, "sequence_number": number})


def response_gone(error: SmgError, number: int) -> bytes:
    """The event that ends a stream whose response is there no more, so that no event can have it."""
    error_body: JsonObject = msgspec.json.decode(responses_error(error))["error"]
    fields: JsonObject = {name: error_body.get(name) for name in ("code", "message", "param")}
    return encode_object({"type": "error", **fields, "sequence_number": number})


def is_terminal(data: bytes) -> bool:
    """Whether the stored event ends its stream."""
    return _type_of(data).decode() in TERMINAL


class EventLog:
    """What the stored events of one response say, taken in their order.

    `following` is the number of the next event, `items` are those that are done. `close` makes the events that the open item
    lacks, and takes them in.
    """

    def __init__(self, events: Iterable[bytes] = ()) -> None:
        self.following = 0
        self._grammar = ResponsesGrammar()
        self._item: JsonObject = {}
        self._part: JsonObject = {}
        self._texts: list[str] = []
        self._parts: list[JsonObject] = []
        self._annotations: list[JsonObject] = []
        self._logprobs: list[JsonObject] = []
        for data in events:
            self.take(data)

    @property
    def begun(self) -> bool:
        """Whether the event that opens the stream is there."""
        return self._grammar.state != START

    @property
    def ended(self) -> bool:
        """Whether the terminal event is there."""
        return self._grammar.state == END

    @property
    def items(self) -> list[JsonObject]:
        return self._grammar.items

    def take(self, data: bytes) -> None:
        """The next stored event. Raises ValueError where it cannot follow the one before it."""
        event: JsonObject = msgspec.json.decode(data)
        fault = self._grammar.take(event)
        if fault is not None:
            raise ValueError(fault)
        self.following += 1
        kind = str(event["type"])
        item, part = event.get("item"), event.get("part")
        if kind == "response.output_item.added" and isinstance(item, dict):
            self._item, self._parts, self._texts = item, [], []
        elif kind.endswith("part.added") and isinstance(part, dict):
            self._part, self._texts, self._annotations, self._logprobs = part, [], [], []
        elif kind.endswith("part.done") and isinstance(part, dict):
            self._parts.append(part)
        elif isinstance(delta := event.get("delta"), str):
            self._texts.append(delta)
            self._logprobs += _objects(event.get("logprobs"))
        elif isinstance(annotation := event.get("annotation"), dict):
            self._annotations.append(annotation)

    def close(self) -> list[bytes]:
        """The events that close the open item as incomplete; none where no item is open."""
        made: list[bytes] = []
        while (step := CLOSING.get(self._grammar.state)) is not None:
            made.append(self._event(*step(self)))
            self.take(made[-1])
        return made

    def ending(self, status: str, response: JsonObject) -> bytes:
        """The event that ends the stream with `response`, the finished object of this status."""
        kind = "response.failed" if status == "failed" else "response.incomplete"
        return terminal_event(kind, response, self.following)

    def _event(self, kind: str, fields: JsonObject) -> bytes:
        return encode_object({"type": kind, **fields, "sequence_number": self.following})

    # ------------------------------------------------------------------------------------- what an open item still needs

    def _at(self, index: str, **fields: object) -> JsonObject:
        where: JsonObject = {"item_id": self._item["id"], "output_index": len(self.items)}
        place: JsonObject = {index: len(self._parts)} if index else {}
        return {**where, **place, **fields}  # type: ignore[dict-item]  # JSON values all

    @property
    def _text(self) -> str:
        return "".join(self._texts)

    def _whole_part(self) -> JsonObject:
        kind = self._part["type"]
        if kind == "refusal":
            return {"type": kind, "refusal": self._text}
        if kind != "output_text":
            return {"type": kind, "text": self._text}
        return {"type": kind, "text": self._text, "annotations": [*self._annotations], "logprobs": [*self._logprobs]}

    def _text_done(self) -> tuple[str, JsonObject]:
        if self._part["type"] == "refusal":
            return "response.refusal.done", self._at("content_index", refusal=self._text)
        fields = self._at("content_index", text=self._text, logprobs=[*self._logprobs])
        return "response.output_text.done", fields

    def _part_done(self) -> tuple[str, JsonObject]:
        return "response.content_part.done", self._at("content_index", part=self._whole_part())

    def _thought_done(self) -> tuple[str, JsonObject]:
        return "response.reasoning_text.done", self._at("content_index", text=self._text)

    def _summary_text_done(self) -> tuple[str, JsonObject]:
        return "response.reasoning_summary_text.done", self._at("summary_index", text=self._text)

    def _summary_done(self) -> tuple[str, JsonObject]:
        return "response.reasoning_summary_part.done", self._at("summary_index", part=self._whole_part())

    def _arguments_done(self) -> tuple[str, JsonObject]:
        fields = self._at("", arguments=self._text, name=self._item.get("name"))
        return "response.function_call_arguments.done", fields

    def _input_done(self) -> tuple[str, JsonObject]:
        return "response.custom_tool_call_input.done", self._at("", input=self._text)

    def _item_done(self) -> tuple[str, JsonObject]:
        item = dict(self._item)
        kind = item["type"]
        if kind == "function_call":
            item["arguments"] = self._text
        elif kind == "custom_tool_call":
            item["input"] = self._text
        elif kind == "mcp_call":
            item["arguments"] = self._text
        elif self._parts:
            summarized = self._parts[0]["type"] == "summary_text"
            item["summary" if summarized else "content"] = [*self._parts]
        if "status" in item:
            item["status"] = "incomplete"
        return "response.output_item.done", {"output_index": len(self.items), "item": item}


CLOSING: Mapping[str, Callable[[EventLog], tuple[str, JsonObject]]] = {
    TEXT: EventLog._text_done,
    REFUSAL: EventLog._text_done,
    PART_DONE: EventLog._part_done,
    THOUGHT: EventLog._thought_done,
    THOUGHT_DONE: EventLog._part_done,
    SUMMARY: EventLog._summary_text_done,
    SUMMARY_DONE: EventLog._summary_done,
    CALL: EventLog._arguments_done,
    CUSTOM: EventLog._input_done,
    **dict.fromkeys((ITEM, MESSAGE, REASONING, CALL_DONE, CUSTOM_DONE, COMPACTION), EventLog._item_done),
    **dict.fromkeys((RUN, RUN_ASKED, RUN_DONE, LISTING, LISTING_DONE), EventLog._item_done),
    **dict.fromkeys((SEARCH, SEARCH_DONE, CODING, CODE_WRITTEN, CODE_DONE, PAINTING, IMAGE_DONE), EventLog._item_done),
}
"""The event that an open item needs next, by the state that the log is in."""


def _objects(values: object) -> Sequence[JsonObject]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []

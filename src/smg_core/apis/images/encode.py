"""The answers of requests for pictures: one object, or events with earlier states of each picture.

A picture is base64 as its engine wrote it, and is put between its facts without being read. Usage is told with the last picture
of a stream, so that one waits for it. Pure. Above: the routes. Below: events, the wire's errors.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from smg_core.apis.images.wire import ImagesRequest
from smg_core.errors import ClientGone, SmgError
from smg_core.events import Cancelled, Done, Event, Failed, Finished, OpaqueBlock, Usage
from smg_core.imaging import PICTURE, MadePicture, picture_of
from smg_core.json_types import JsonObject
from smg_core.sse import COMMENT
from smg_core.wire.endings import broken_off
from smg_core.wire.errors import openai_error
from smg_core.wire.json_text import encode_object

__all__ = ["ImagesObject", "ImagesStreamEncoder", "ImagesWholeEncoder"]

_FACTS = ("background", "output_format", "quality", "size")


class _ImageObject(Struct):
    b64_json: str
    revised_prompt: str | None = None


class ImagesObject(Struct, kw_only=True):
    """The whole answer."""

    created: int
    data: list[_ImageObject]
    background: str | None = None
    output_format: str | None = None
    quality: str | None = None
    size: str | None = None
    usage: JsonObject | None = None


def _usage_object(usage: Usage | None) -> JsonObject:
    if usage is None or not usage.total_tokens:
        return {}
    details: JsonObject = {
        "image_tokens": usage.image_tokens,
        "text_tokens": usage.prompt_tokens - usage.image_tokens,
    }
    counts: JsonObject = {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": details,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    return {"usage": counts}


class ImagesWholeEncoder:
    """One whole answer."""

    content_type = "application/json"

    def __init__(self, request: ImagesRequest, created: int) -> None:
        del request
        self._created = created
        self._pictures: list[MadePicture] = []
        self._usage: Usage | None = None
        self._error: SmgError | None = None

    def add(self, events: Sequence[Event]) -> None:
        """Take in events."""
        for event in events:
            match event:
                case OpaqueBlock(kind=kind) if kind == PICTURE:
                    made = picture_of(event.payload)
                    if made.partial is None:
                        self._pictures.append(made)
                case Usage():
                    self._usage = event
                case Finished():
                    self._error = self._error or broken_off(event)
                case Failed():
                    self._error = event.error
                case Cancelled():
                    self._error = ClientGone("The request was cancelled.")

    def fork(self) -> "ImagesWholeEncoder":
        """An independent copy with the same events so far."""
        other = ImagesWholeEncoder.__new__(ImagesWholeEncoder)
        other.__dict__ |= self.__dict__
        other._pictures = self._pictures[:]
        return other

    def body(self) -> bytes:
        """The answer. Raises the error of a `Failed` event, and `ClientGone` after a `Cancelled`."""
        if self._error is not None:
            raise self._error
        about = self._pictures[0].about if self._pictures else {}
        facts = {name: about[name] for name in _FACTS if about.get(name) is not None}
        behind = encode_object({**facts, **_usage_object(self._usage)})[1:-1]
        pieces = [b'{"created":%d,"data":[' % self._created]
        for order, each in enumerate(self._pictures):
            revised = each.about.get("revised_prompt")
            pieces += [b"," if order else b"", b'{"b64_json":"', each.data, b'"']
            pieces += [b"}" if revised is None else b"," + encode_object({"revised_prompt": revised})[1:]]
        pieces += [b"]", b"," if behind else b"", behind, b"}"]
        return b"".join(pieces)


class ImagesStreamEncoder:
    """One streamed answer."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: ImagesRequest, created: int) -> None:
        self._request, self._created = request, created
        self._kind = "image_edit" if request.edits else "image_generation"
        self._last: MadePicture | None = None  # waits for what follows it
        self._usage: Usage | None = None
        self._finished: Finished | None = None
        self._ended = False

    def start(self) -> bytes:
        """Nothing: the response stays uncommitted until the first picture."""
        return b""

    def keep_alive(self) -> bytes:
        """A comment, which clients of server-sent events pass over."""
        return COMMENT

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of `events`, in order; nothing after the end."""
        frames: list[bytes] = []
        for event in events:
            if self._ended:
                break
            match event:
                case OpaqueBlock(kind=kind) if kind == PICTURE:
                    frames.append(self._picture(picture_of(event.payload)))
                case Usage():
                    self._usage = event
                case Finished():
                    self._finished = event
                case Done() | Failed() | Cancelled():
                    self._ended = True
                    frames.append(self._end(event))
        return b"".join(frames)

    def _picture(self, made: MadePicture) -> bytes:
        if made.partial is not None:
            return self._frame("partial_image", made, {"partial_image_index": made.partial})
        before, self._last = self._last, made
        return b"" if before is None else self._frame("completed", before, {})

    def _end(self, event: Done | Failed | Cancelled) -> bytes:
        error = event.error if isinstance(event, Failed) else broken_off(self._finished)
        last = b""
        if self._last is not None:
            last = self._frame("completed", self._last, _usage_object(self._usage))
        if error is not None:
            return last + b"data: " + openai_error(error, locate=self._request.locate) + b"\n\n"
        return last if isinstance(event, Done) else b""

    def _frame(self, moment: str, made: MadePicture, more: JsonObject) -> bytes:
        name, wishes = f"{self._kind}.{moment}", self._request.asked.wishes
        usual: JsonObject = {**dict.fromkeys(_FACTS, "auto"), "output_format": "png"}
        facts = {fact: made.about.get(fact) or wishes.get(fact) or usual[fact] for fact in _FACTS}
        fields = msgspec.json.encode({"type": name, "created_at": self._created, **facts, **more})
        return b'event: %b\ndata: %b,"b64_json":"%b"}\n\n' % (name.encode(), fields[:-1], made.data)

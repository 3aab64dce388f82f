"""Encodes the answer to a Responses request: from events to server-sent events or one JSON object.

`builder` makes the output items for both. Pure. Above: the server. Below: events, builder, json_text. It
knows no engine and no store.
"""

import copy
from collections.abc import Callable, Sequence

from smg_core.apis.responses.wire.builder import ResponseBuilder, SealSummary
from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.errors import SmgError
from smg_core.events import Event, Failed, ReasoningEnd, TextDelta, Verbatim
from smg_core.json_types import JsonObject
from smg_core.sse import COMMENT
from smg_core.wire.base import VerbatimBody, VerbatimStream
from smg_core.wire.json_text import encode_body

__all__ = ["ResponsesStreamEncoder", "ResponsesWholeEncoder"]


class ResponsesStreamEncoder:
    """One streamed response. `created` is seconds since the epoch, `now` tells the time when it completes, `seal` seals the
    summary of a compaction."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: ResponsesRequest, created: int, now: Callable[[], float], seal: SealSummary) -> None:
        self._builder = ResponseBuilder(request, created, now, seal, streams=True)
        self._request = request
        self._words: VerbatimStream | None = None  # a provider's, where the answer is told in these
        self._alive = COMMENT  # what such a stream is kept alive with

    @property
    def verbatim(self) -> str:
        """The API in whose own words a provider may be heard, "" for none."""
        return self._request.verbatim

    def start(self) -> bytes:
        """Nothing: the response stays uncommitted until the first event. Of a response that goes on, that it does."""
        return self._builder.take_frames()

    def queued(self) -> bytes:
        """The frames that open the stream of a response that waits for its turn."""
        self._builder.queue()
        return self._builder.take_frames()

    def go_on(self, number: int, items: Sequence[JsonObject]) -> None:
        """Go on with a stream that was opened before: `number` is that of its next event, `items` are done. Called before
        `start`."""
        self._builder.go_on(number, items)

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of `events`, in order; nothing after the end."""
        if len(events) == 1 and type(event := events[0]) is TextDelta and self._words is None:
            quick = self._builder.more_text(event)
            if quick is not None:
                return quick
        if self._words is not None or (not self._builder.begun and Verbatim in map(type, events)):
            return self._in_their_words(events)
        self._builder.add(events)
        return self._builder.take_frames()

    def _in_their_words(self, events: Sequence[Event]) -> bytes:
        """The provider's frames; where it has failed, the event of the API for that."""
        words = self._words = self._words or VerbatimStream(bytes)
        failed = events[-1:] if type(events[-1]) is Failed else ()
        self._builder.add(events[: len(events) - len(failed)])
        self._builder.take_frames()
        for event in events:
            if (
                type(event) is Verbatim and event.name == "response.in_progress"
            ):  # of all, every client's timer is reset by it
                self._alive = b"event: %b\ndata: %b\n\n" % (event.name.encode(), event.pieces[0])
        frames = words.encode(events)
        self._builder.add(failed)
        return frames + self._builder.take_frames()

    def keep_alive(self) -> bytes:
        """A frame for a stream on which nothing happens."""
        if self._words is not None:
            return b"" if self._builder.ended else self._alive
        return self._builder.keep_alive()

    @property
    def begun(self) -> bool:
        """Whether the event that tells the id was made."""
        return self._builder.begun

    @property
    def ended(self) -> bool:
        """Whether the response is complete, one way or another."""
        return self._builder.ended

    def interrupt(self) -> bytes:
        """End the response as incomplete, and the frames of that."""
        self._builder.interrupt()
        return self._builder.take_frames()

    def response(self) -> JsonObject:
        """The object as it is now."""
        return self._builder.fields | {"output": list(self._builder.items)}


class ResponsesWholeEncoder:
    """One whole response. Arguments as for `ResponsesStreamEncoder`."""

    content_type = "application/json"

    def __init__(self, request: ResponsesRequest, created: int, now: Callable[[], float], seal: SealSummary) -> None:
        self._builder = ResponseBuilder(request, created, now, seal, streams=False)
        self._request = request
        self._verbatim: VerbatimBody | None = None  # the answer in a provider's words

    @property
    def verbatim(self) -> str:
        """The API in whose own words a provider may be heard, "" for none."""
        return self._request.verbatim

    def add(self, events: Sequence[Event]) -> None:
        self._builder.add(events)
        if self._verbatim is not None or Verbatim in map(type, events):
            self._take_words(events)

    def _take_words(self, events: Sequence[Event]) -> None:
        for event in events:
            if type(event) is Verbatim:
                self._verbatim = VerbatimBody(event, bytes)
            elif type(event) is ReasoningEnd and self._verbatim is not None:
                self._verbatim.seal(event)

    def body(self) -> bytes:
        """The finished object. Raises the error of a `Failed` event."""
        self.raise_failure()
        return encode_body(self.response()) if self._verbatim is None else self._verbatim.body()

    def raise_failure(self) -> None:
        """Raise the error that the response has failed with."""
        if self._builder.error is not None:
            raise self._builder.error

    @property
    def output(self) -> list[JsonObject]:
        """The items that are done."""
        return self._builder.items

    @property
    def ended(self) -> bool:
        """Whether the response is complete, one way or another."""
        return self._builder.ended

    def fail(self, error: SmgError) -> None:
        """End the response with an error, which the object then tells."""
        if not self._builder.ended:
            self._builder.fail(error)

    def interrupt(self) -> bytes:
        """End the response as incomplete."""
        self._builder.interrupt()
        return b""

    def fork(self) -> "ResponsesWholeEncoder":
        other = copy.copy(self)
        other._builder = self._builder.fork()
        other._verbatim = None if self._verbatim is None else self._verbatim.fork()
        return other

    def response(self) -> JsonObject:
        """The object as it is now."""
        return self._builder.fields | {"output": list(self._builder.items)}

"""Encodes the answer to a Responses request: from events to server-sent events or one JSON object.

`builder` makes the output items for both. Pure. Above: the server. Below: events, builder, json_text. It
knows no engine and no store.
"""

import copy
from collections.abc import Callable, Sequence

from smg_core.apis.responses.wire.builder import ResponseBuilder, SealSummary
from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.errors import SmgError
from smg_core.events import Event, Failed, TextDelta, Verbatim
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
        self.verbatim = request.verbatim
        self._told = False  # something has left in the gateway's words
        self._words: VerbatimStream | None = None
        self._alive = COMMENT  # what a provider's stream is kept alive with

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
        if len(events) == 1 and type(event := events[0]) is TextDelta:
            quick = self._builder.more_text(event)
            if quick is not None and self._words is None:
                return quick
        failed = events[-1:] if events and type(events[-1]) is Failed else ()
        self._builder.add(events[: len(events) - len(failed)])
        frames = self._builder.take_frames()
        if self._words is None and not self._told and any(type(event) is Verbatim for event in events):
            self._words = VerbatimStream(bytes)
        if self._words is not None:
            frames = self._words.encode(events)
            self._note(events)
        self._builder.add(failed)
        self._told = self._told or bool(frames)
        return frames + self._builder.take_frames()

    def _note(self, events: Sequence[Event]) -> None:
        """Remember the provider's own event for a response that is under way: of all, every client's timer is reset by this."""
        for event in events:
            if type(event) is Verbatim and event.name == "response.in_progress":
                self._alive = b"event: %b\ndata: %b\n\n" % (event.name.encode(), event.pieces[0])

    def keep_alive(self) -> bytes:
        """A frame for a stream on which nothing happens."""
        if self._words is not None:
            return b"" if self._builder.ended else self._alive
        frames = self._builder.keep_alive()
        self._told = self._told or bool(frames)
        return frames

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
        self.verbatim = request.verbatim
        self._said = VerbatimBody(bytes)

    def add(self, events: Sequence[Event]) -> None:
        self._builder.add(events)
        if self.verbatim:
            for event in events:
                self._said.add(event)

    def body(self) -> bytes:
        """The finished object. Raises the error of a `Failed` event."""
        self.raise_failure()
        return self._said.body() or encode_body(self.response())

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
        other._builder, other._said = self._builder.fork(), self._said.fork()
        return other

    def response(self) -> JsonObject:
        """The object as it is now."""
        return self._builder.fields | {"output": list(self._builder.items)}

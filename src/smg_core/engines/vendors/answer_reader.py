"""The common part of the readers of all providers' streams: events of a stream in, our events out, and no error raised.

Pure. Above: the decoders of answers. Below: sse, events.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineGarbled, SmgError
from smg_core.events import Event, Started, Usage, Verbatim
from smg_core.sse import DataReader

__all__ = ["ProviderAnswerReader", "StreamReader"]

E = TypeVar("E")
P = TypeVar("P")


class StreamReader(ABC, Generic[P]):
    """Reads one answer that is a stream of pieces, as `engines.openai.asking.AnswerDecoder` has it. `pieces` cuts the bytes into
    them; a subclass reads one in `_read`, and says in `_over` whether the stream may end here."""

    def __init__(self, pieces: Callable[[bytes], Iterable[P]]) -> None:
        self.done = False
        self.error: SmgError | None = None
        self._pieces = pieces

    @property
    def finished(self) -> bool:
        """Whether nothing but the end of the stream is due."""
        return False

    def feed(self, data: bytes) -> list[Event]:
        """The events that the next bytes bring."""
        events: list[Event] = []
        if self.done or self.error is not None:
            return events
        try:
            for each in self._pieces(data):
                self._read(each, events)
                if self.done:
                    break
        except SmgError as error:
            events += self.fail(error)
        return events

    def end(self) -> list[Event]:
        """The events that the end of the stream brings: an error, unless all is said by then."""
        events: list[Event] = []
        if self.done or self.error is not None:
            return events
        try:
            if (rest := self._rest()) is not None:
                self._read(rest, events)
            if not self.done:
                self._over(events)
        except SmgError as error:
            events += self.fail(error)
        return events

    def whole(self, body: bytes) -> list[Event]:
        """The events of an answer that is no stream: an error that came with status 200."""
        events: list[Event] = []
        try:
            self._object(body, events)
        except SmgError as error:
            events += self.fail(error)
        return events

    def fail(self, error: SmgError) -> list[Event]:
        """Give up because of `error`, with the tokens that were counted so far."""
        self.error = error
        usage = self._usage()
        return [] if usage is None else [usage]

    @abstractmethod
    def _read(self, piece: P, events: list[Event]) -> None:
        """Append the events of one piece. Raises SmgError."""

    def _rest(self) -> P | None:
        """What the stream has left behind its last whole piece, where that may be one."""
        return None

    def _object(self, body: bytes, events: list[Event]) -> None:
        raise EngineGarbled("The provider answered with one object where a stream was asked for.")

    def _over(self, events: list[Event]) -> None:
        raise EngineGarbled("The provider's answer was cut off.", detail="the stream ended early")

    def _usage(self) -> Usage | None:
        return None


class ProviderAnswerReader(StreamReader[bytes], Generic[E]):
    """Reads one answer whose pieces are events in JSON. A subclass reads one in `_event`; `_decode` reads its JSON."""

    _decode: Callable[[bytes], E]

    def __init__(self, limits: EnginesConfig) -> None:
        self._limits = limits
        self._model_named: str | None = None  # the client's name of the model, where the provider's words are passed on
        self._at_once = False  # where they come as one object
        self._held_back: list[Verbatim] = []  # what says nothing yet that a client would miss
        self._held_back_bytes = 0  # of it, as many at most as one event may have
        self._reader = DataReader(max_event_bytes=limits.http_event_bytes)
        super().__init__(self._reader.feed)

    def pass_on(self, model: str, *, at_once: bool) -> None:
        """Tell the answer in the provider's words too, with `model` as the name of the model. `at_once`: it was asked for whole;
        one that comes in another way is told in the gateway's words."""
        self._model_named, self._at_once = model, at_once

    @property
    def is_verbatim(self) -> bool:
        """Whether the answer is told in the provider's words too."""
        return self._model_named is not None

    def _rest(self) -> bytes | None:
        return self._reader.rest()

    def _read(self, piece: bytes, events: list[Event]) -> None:
        if not piece.strip():
            return
        event, begun = self._decoded(piece), len(events)
        self._event(event, events)
        if self._model_named is not None and not self._at_once:
            self._held_back.append(self._verbatim(event, piece, self._model_named))
            self._held_back_bytes += len(piece)
            if any(not isinstance(each, Started) for each in events[begun:]):  # else another worker may still answer
                events[begun:begun] = self._held_back
                self._held_back, self._held_back_bytes = [], 0
            elif self._held_back_bytes > self._limits.http_event_bytes:
                raise EngineGarbled("The provider sent much that says nothing of an answer.")

    event = _read
    """The same, for providers that do not send their events as a stream of text."""

    def _object(self, body: bytes, events: list[Event]) -> None:
        """An answer that is one object: where it was asked for whole that is all of it, told in the provider's words too."""
        event, begun = self._decoded(body), len(events)
        self._whole(event, body, events)
        if self._model_named is not None and self._at_once:
            events[begun:begun] = [self._verbatim_whole(event, body, self._model_named)]

    def _whole(self, event: E, body: bytes, events: list[Event]) -> None:
        """Append the events of a whole answer, or raise the error that it is."""
        super()._object(body, events)

    def _verbatim_whole(self, event: E, body: bytes, model: str) -> Verbatim:
        """What a whole answer says, as of `_verbatim`."""
        return self._verbatim(event, body, model)

    def _verbatim(self, event: E, data: bytes, model: str) -> Verbatim:
        """What one event says, in the provider's words but for the name of the model, with room for its seals."""
        return Verbatim(0, "", (data,))

    def _decoded(self, data: bytes) -> E:
        try:
            try:
                return type(self)._decode(data)
            except msgspec.ValidationError:  # a null where there is nothing is no field
                return type(self)._decode(msgspec.json.encode(_without_nulls(msgspec.json.decode(data))))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise EngineGarbled(
                "The provider sent what is no event of an answer.", detail=str(error), outside_text=str(error)
            ) from None

    @abstractmethod
    def _event(self, event: E, events: list[Event]) -> None:
        """Append our events of one event. Raises SmgError."""


def _without_nulls(value: object) -> object:
    """JSON without the members of objects that are null."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value

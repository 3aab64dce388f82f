"""What the readers of all providers' streams have alike: events of a stream in, our events out, and no error raised.

Pure. Above: the decoders of answers. Below: sse, events.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from smg_core.engines.settings import EnginesConfig
from smg_core.errors import EngineGarbled, SmgError
from smg_core.events import Event, Usage
from smg_core.sse import DataReader

__all__ = ["ProviderAnswerReader"]

E = TypeVar("E")


class ProviderAnswerReader(Generic[E]):
    """Reads one answer, as `engines.openai.asking.AnswerDecoder` has it. A subclass reads one event in `_event`, and says in
    `_over` whether the stream may end here; `_decode` reads the JSON of an event."""

    _decode: Callable[[bytes], E]

    def __init__(self, limits: EnginesConfig) -> None:
        self.done = False
        self.error: SmgError | None = None
        self._limits = limits
        self._reader = DataReader(max_event_bytes=limits.http_event_bytes)

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
            for each in self._reader.feed(data):
                self._read(each, events)
                if self.done:
                    break
        except SmgError as error:
            events += self.fail(error)
        return events

    def event(self, data: bytes) -> list[Event]:
        """The events of one event's data, of a provider that does not send them as a stream of text."""
        events: list[Event] = []
        if self.done or self.error is not None:
            return events
        try:
            self._read(data, events)
        except SmgError as error:
            events += self.fail(error)
        return events

    def end(self) -> list[Event]:
        """The events that the end of the stream brings: an error, unless all is said by then."""
        events: list[Event] = []
        if self.done or self.error is not None:
            return events
        try:
            rest = self._reader.rest()
            if rest is not None:
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

    def _read(self, data: bytes, events: list[Event]) -> None:
        if data.strip():
            self._event(self._decoded(data), events)

    def _decoded(self, data: bytes) -> E:
        try:
            return type(self)._decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise EngineGarbled(
                "The provider sent what is no event of an answer.", detail=str(error), said=str(error)
            ) from None

    def _event(self, event: E, events: list[Event]) -> None:
        raise NotImplementedError("a subclass reads events")

    def _object(self, body: bytes, events: list[Event]) -> None:
        raise EngineGarbled("The provider answered with one object where a stream was asked for.")

    def _over(self, events: list[Event]) -> None:
        raise EngineGarbled("The provider's answer was cut off.", detail="the stream ended early")

    def _usage(self) -> Usage | None:
        return None

"""The common part of the readers of Bedrock's streams: messages of AWS's event stream in, our events out, and no error raised.

A message that is an exception is an error inside an answer of status 200. Pure. Above: converse_events, invoke. Below:
event_stream, refusals.
"""

from abc import abstractmethod

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.answer_reader import StreamReader
from smg_core.engines.vendors.bedrock.event_stream import EventMessage, EventStreamReader
from smg_core.engines.vendors.bedrock.refusals import error_in_stream
from smg_core.errors import EngineGarbled
from smg_core.events import Event

__all__ = ["BEDROCK_STREAM", "BedrockAnswer"]

BEDROCK_STREAM = "application/vnd.amazon.eventstream"
_EXCEPTIONS = frozenset({"exception", "error"})


class BedrockAnswer(StreamReader[EventMessage]):
    """Reads one answer. A subclass reads one message in `_message`."""

    def __init__(self, limits: EnginesConfig) -> None:
        self._limits = limits
        self._reader = EventStreamReader(limits.http_event_bytes)
        super().__init__(self._reader.feed)

    def _read(self, piece: EventMessage, events: list[Event]) -> None:
        if piece.headers.get(":message-type") in _EXCEPTIONS:  # no call: this runs for every token
            raise error_in_stream(piece)
        self._message(piece, events)

    def _over(self, events: list[Event]) -> None:
        where = "within a message" if self._reader.within else "between two messages"
        raise EngineGarbled("The provider's answer was cut off.", detail=f"the stream ended {where}")

    @abstractmethod
    def _message(self, message: EventMessage, events: list[Event]) -> None:
        """Append the events of one message. Raises SmgError."""

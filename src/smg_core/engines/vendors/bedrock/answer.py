"""What the readers of Bedrock's streams have alike: messages of AWS's event stream in, our events out, and no error raised.

A message that is an exception is an error inside an answer of status 200. Pure. Above: converse_events, invoke. Below:
event_stream, refusals.
"""

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.bedrock.event_stream import EventMessage, EventStreamReader
from smg_core.engines.vendors.bedrock.refusals import error_in_stream
from smg_core.errors import EngineGarbled, SmgError
from smg_core.events import Event, Usage

__all__ = ["BEDROCK_STREAM", "BedrockAnswer"]

BEDROCK_STREAM = "application/vnd.amazon.eventstream"
_EXCEPTIONS = frozenset({"exception", "error"})


class BedrockAnswer:
    """Reads one answer, as `engines.openai.asking.AnswerDecoder` has it. A subclass reads one message in `_message`."""

    def __init__(self, limits: EnginesConfig) -> None:
        self.done = False
        self.error: SmgError | None = None
        self._limits = limits
        self._reader = EventStreamReader(limits.http_event_bytes)

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
            for message in self._reader.feed(data):
                if message.text(":message-type") in _EXCEPTIONS:
                    raise error_in_stream(message)
                self._message(message, events)
                if self.done:
                    break
        except SmgError as error:
            events += self.fail(error)
        return events

    def end(self) -> list[Event]:
        """The end of the stream, which may come only when all is said."""
        if self.done or self.error is not None:
            return []
        where = "within a message" if self._reader.within else "between two messages"
        return self.fail(EngineGarbled("The provider's answer was cut off.", detail=f"the stream ended {where}"))

    def whole(self, body: bytes) -> list[Event]:
        """An answer that is no stream, which is none."""
        return self.fail(EngineGarbled("The provider answered with one object where a stream was asked for."))

    def fail(self, error: SmgError) -> list[Event]:
        """Give up because of `error`, with the tokens that were counted so far."""
        self.error = error
        usage = self._usage()
        return [] if usage is None else [usage]

    def _message(self, message: EventMessage, events: list[Event]) -> None:
        raise NotImplementedError("a subclass reads messages")

    def _usage(self) -> Usage | None:
        return None

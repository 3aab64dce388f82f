"""`OwnNames`: the answer of a server of Chat Completions, with the client's names of tools that were sent by others.

Pure. Above: format. Below: the decoder of Chat Completions.
"""

from msgspec.structs import replace

from smg_core.engines.openai.asking import AnswerDecoder
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.errors import SmgError
from smg_core.events import Event, ToolCallStart

__all__ = ["OwnNames"]


class OwnNames:
    """Reads by `inner`, and maps the names that calls begin with back by `names`."""

    def __init__(self, inner: AnswerDecoder, names: SentNames) -> None:
        self._inner = inner
        self._names = names
        self.done = False
        self.error: SmgError | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing but the end of the stream is due."""
        return self._inner.finished

    def feed(self, data: bytes) -> list[Event]:
        """The events that the next bytes bring."""
        return self._named(self._inner.feed(data))

    def end(self) -> list[Event]:
        """The events that the end of a stream brings."""
        return self._named(self._inner.end())

    def whole(self, body: bytes) -> list[Event]:
        """The events of an answer that is no stream."""
        return self._named(self._inner.whole(body))

    def fail(self, error: SmgError) -> list[Event]:
        """Give up because of `error`, with the events that can still be given."""
        return self._named(self._inner.fail(error))

    def _named(self, events: list[Event]) -> list[Event]:
        self.done, self.error = self._inner.done, self._inner.error
        return [self._own(each) if isinstance(each, ToolCallStart) else each for each in events]

    def _own(self, start: ToolCallStart) -> ToolCallStart:
        name, namespace = self._names.own(start.name)
        return replace(start, name=name, namespace=namespace)

"""`DetailedReasoning`: an answer of OpenRouter's, with the details of its reasoning that it wants back unchanged.

Decides how the pieces of a stream are put together, and that the whole is told where the choice ends. Pure. Above: format, body.
Below: the decoder of Chat Completions.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from smg_core.engines.openai.asking import AnswerDecoder
from smg_core.errors import SmgError
from smg_core.events import Event, Finished, ReasoningDelta, ReasoningEnd
from smg_core.request import Message, Reasoning
from smg_core.sealing.carried import Carried, carried_in, carrying
from smg_core.sse import DataReader

__all__ = ["DETAILS", "DetailedReasoning", "details_of"]

DETAILS = "reasoning_details"
_JOINED = ("text", "summary", "data")
"""The texts of which pieces follow each other; every other field is said once, by the piece that comes last."""


class _Delta(Struct):
    reasoning_details: list[dict[str, Any]] | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    message: _Delta | None = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None


_CHUNK = msgspec.json.Decoder(_Chunk)


class DetailedReasoning:
    """Reads by `inner`, and tells what `provider` wants back for `model`. An event is of `most` bytes."""

    def __init__(self, inner: AnswerDecoder, provider: str, model: str, most: int) -> None:
        self._inner = inner
        self._provider, self._model = provider, model
        self._events = DataReader(max_event_bytes=most)
        self._details: list[dict[str, Any]] = []
        self.done = False
        self.error: SmgError | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing but the end of the stream is due."""
        return self._inner.finished

    def feed(self, data: bytes) -> list[Event]:
        """The events that the next bytes bring."""
        events = self._inner.feed(data)
        if self._inner.error is None:
            for each in self._events.feed(data):
                self._take(each)
        return self._with_reasoning(events)

    def end(self) -> list[Event]:
        """The events that the end of a stream brings."""
        return self._with_reasoning(self._inner.end())

    def whole(self, body: bytes) -> list[Event]:
        """The events of an answer that is no stream."""
        events = self._inner.whole(body)
        self._take(body)
        return self._with_reasoning(events)

    def fail(self, error: SmgError) -> list[Event]:
        """Give up because of `error`, with the events that can still be given."""
        return self._with_reasoning(self._inner.fail(error))

    def _take(self, data: bytes) -> None:
        if DETAILS.encode() not in data:
            return
        try:
            choices = _CHUNK.decode(data).choices or ()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # the other reader says what is wrong with it, where that matters
        for choice in choices:
            delta = choice.delta or choice.message
            for each in (delta.reasoning_details if delta is not None else None) or ():
                self._join(each)

    def _join(self, piece: dict[str, Any]) -> None:
        last = self._details[-1] if self._details else None
        if last is None or any(last.get(name) != piece.get(name) for name in ("type", "index")):
            self._details.append(dict(piece))
            return
        for name, value in piece.items():
            before = last.get(name)
            joins = name in _JOINED and isinstance(before, str) and isinstance(value, str)
            if value is not None:
                last[name] = before + value if joins else value

    def _with_reasoning(self, events: list[Event]) -> list[Event]:
        self.done, self.error = self._inner.done, self._inner.error
        ends = [at for at, each in enumerate(events) if isinstance(each, Finished)]
        if not ends or not self._details:
            return events
        original = Carried(self._provider, "", self._model, "thought", msgspec.json.encode(self._details))
        self._details = []
        reasoning_events: list[Event] = [ReasoningDelta(0, ""), ReasoningEnd(0, carrying(original))]
        return [*events[: ends[0]], *reasoning_events, *events[ends[0] :]]


def details_of(message: Message, provider: str, model: str) -> list[Mapping[str, Any]]:
    """The details that an earlier answer of the model came with, in their order."""
    found: list[Mapping[str, Any]] = []
    for part in message.parts:
        original = carried_in(part) if isinstance(part, Reasoning) else None
        if original is not None and (original.provider, original.model) == (provider, model):
            found += msgspec.json.decode(original.payload)
    return found

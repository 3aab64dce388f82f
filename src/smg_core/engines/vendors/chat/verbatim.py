"""`VerbatimChat`: an answer of Chat Completions that is told in the provider's words too, chunk by chunk.

Decides what of a chunk is not passed on as it is: the model has the client's name; each call has an index and an id of its own,
also where the provider gives none, or one to several; and a content that is a list is text, with reasoning beside it. Pure.
Above: format. Below: the decoder of Chat Completions.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from smg_core.engines.openai.chunks import ChoiceWire, Chunk, ErrorWire
from smg_core.engines.openai.events import ChatDecoder, parts_of
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.client_bytes import with_strings
from smg_core.errors import EngineGarbled, SmgError
from smg_core.events import Event, Verbatim

__all__ = ["VerbatimChat"]

Json = dict[str, Any]
_VALUES = msgspec.json.Decoder(dict[str, msgspec.Raw])


class VerbatimChat(ChatDecoder):
    """Reads one answer, whose model clients call `model`; the other arguments are those of `ChatDecoder`. `at_once`: it was asked
    for whole; one that comes in another way is told in the gateway's words."""

    def __init__(
        self,
        model: str,
        at_once: bool,
        request_id: str,
        choices: int,
        limits: EnginesConfig,
        learnt: set[str],
        *,
        calls: str,
        error_of: Callable[[ErrorWire | str], SmgError],
        failures: frozenset[str],
        gave_up: Callable[[str], SmgError],
    ) -> None:
        super().__init__(
            request_id, choices, limits, learnt, calls=calls, error_of=error_of, failures=failures, gave_up=gave_up
        )
        self._model = model
        self._named = b'"model":' + msgspec.json.encode(model)  # what a chunk has that names it already
        self._theirs = b""  # what a chunk has where it names another one
        self._tells = not at_once
        self._at_once = at_once
        self._most = limits.http_event_bytes
        self._begun: set[tuple[int, int]] = set()  # the calls of which something was told
        self._held_back: list[Verbatim] = []  # what says nothing yet that a client would miss
        self._held_back_bytes = 0
        for choice in self._choices:
            choice.pieces = []

    def whole(self, body: bytes) -> list[Event]:
        self._tells = self._at_once
        return super().whole(body)

    def _event(self, data: bytes, events: list[Event]) -> None:
        self._read, begun = None, len(events)
        super()._event(data, events)
        words, chunk = None, self._read
        if chunk is not None and self._tells:
            choice = chunk.choices[0] if chunk.choices and len(chunk.choices) == 1 else None
            delta = None if choice is None else choice.delta
            if delta is not None and type(delta.content) is str and not delta.tool_calls and self._named in data:
                words = Verbatim(0, "", (data,))  # a piece of text, as it stands
            else:
                words = self._words(chunk, data)
        if len(events) > begun and not self._held_back:  # nearly always
            if words is not None:
                events.insert(begun, words)
            return
        self._hold_back(words, events, begun)

    def _hold_back(self, words: Verbatim | None, events: list[Event], begun: int) -> None:
        """Keep the words of a chunk that says nothing yet; with the first that says something all are told before it."""
        if words is not None:
            self._held_back.append(words)
            self._held_back_bytes += sum(map(len, words.pieces))
        if len(events) > begun or self.done:
            events[begun:begun] = self._held_back
            self._held_back, self._held_back_bytes = [], 0
        elif self._held_back_bytes > self._most:
            raise EngineGarbled("The provider sent much that says nothing of an answer.")

    def _words(self, chunk: Chunk, data: bytes) -> Verbatim:
        """One chunk in the provider's words."""
        choices = chunk.choices
        for choice in choices or ():
            delta = choice.delta if choice.message is None else choice.message
            if delta is not None and (delta.tool_calls or isinstance(delta.content, list)):
                changes = {at: found for at, each in enumerate(choices or ()) if (found := self._changes(each))}
                data = _changed(data, changes) if changes else data
                break
        if self._named not in data:
            data = self._renamed(data)
        return Verbatim(0, "", (data,), False, not choices and chunk.usage is not None)

    def _renamed(self, data: bytes) -> bytes:
        """A chunk with the client's name of the model, before its choices, where providers have theirs."""
        at = data.find(self._theirs) if self._theirs else -1
        if 0 < at < data.find(b'"choices"'):
            return data[:at] + self._named + data[at + len(self._theirs) :]
        made = with_strings(data, {"model": self._model})
        if at < 0 and made is not data:
            self._theirs = b'"model":' + bytes(_VALUES.decode(data)["model"])
        return made

    def _changes(self, wire: ChoiceWire) -> Json:
        """The fields of a choice's delta, or message, that are told otherwise."""
        delta = wire.delta if wire.message is None else wire.message
        if delta is None:
            return {}
        found: Json = {}
        if isinstance(delta.content, list):
            text, thought, _ = parts_of(delta.content)
            found["content"] = text
            if thought:
                found["reasoning_content"] = thought
        if delta.tool_calls:
            index = wire.index or 0
            pieces = self._choices[index].pieces or []
            changes = []
            for piece, call in zip(delta.tool_calls, pieces, strict=False):
                first = (index, call.order) not in self._begun
                self._begun.add((index, call.order))
                named = {"id": call.id} if piece.id != call.id and (first or piece.id is not None) else {}
                placed = {"index": call.order} if wire.message is None and piece.index != call.order else {}
                changes.append(named | placed)
            if any(changes):
                found["tool_calls"] = changes
            pieces.clear()
        return found


def _changed(data: bytes, changes: dict[int, Json]) -> bytes:
    """The chunk, written anew with these fields in its choices."""
    chunk: Json = msgspec.json.decode(data.decode("utf-8", "replace"))
    for at, fields in changes.items():
        choice = chunk["choices"][at]
        delta = choice.get("message") or choice.get("delta")
        for call, own in zip(delta.get("tool_calls") or (), fields.pop("tool_calls", ()), strict=False):
            call |= own
        delta |= fields
    return msgspec.json.encode(chunk)

"""The common checks of the streams of Chat Completions and of Completions: one id and model in all chunks, the usage behind the
last choice, and `[DONE]` at the end. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from smg_core.json_types import JsonObject
from smg_core.sse import ServerSentEvent
from smg_simulator.conform.contents import chat_usage_faults
from smg_simulator.conform.shapes import shape_faults

__all__ = ["ChunkGrammar"]

C = TypeVar("C")


class ChunkGrammar(ABC, Generic[C]):
    """Follows one stream of a request with `stream_options.include_usage`. A subclass follows each choice."""

    chunk_shape: ClassVar[str]
    error_shape: ClassVar[str]

    def __init__(self) -> None:
        self.choices: dict[int, C] = {}
        self._identity: tuple[object, object] | None = None
        self._usage = False
        self._done = False

    def take(self, event: ServerSentEvent) -> list[str]:
        """Take the next event; what is wrong with it, a sentence each."""
        if self._done:
            return ["an event came behind [DONE]"]
        if event.data == "[DONE]":
            self._done = True
            return []
        try:
            chunk = msgspec.json.decode(event.data)
        except msgspec.DecodeError:
            return ["an event's data is no JSON"]
        if isinstance(chunk, dict) and "error" in chunk:
            return [*shape_faults(self.error_shape, chunk), "the stream ended with an error"]
        return shape_faults(self.chunk_shape, chunk) or list(self._chunk(chunk))

    def _chunk(self, chunk: JsonObject) -> Iterator[str]:
        parts: Any = chunk["choices"]
        identity = (chunk["id"], chunk["model"])
        if self._identity not in (None, identity):
            yield "a chunk has another id or model than those before it"
        self._identity = identity
        if self._usage:
            yield "a chunk came behind the usage"
        usage: Any = chunk.get("usage")
        if not parts:
            if usage is None:
                yield "a chunk has neither choices nor usage"
            else:
                self._usage = True
                yield from chat_usage_faults(usage)
        for part in parts:
            yield from self._part(part)

    @abstractmethod
    def _part(self, part: Any) -> Iterator[str]:
        """Take a chunk's part for one choice; what is wrong with it."""

    def end(self) -> list[str]:
        """The stream has ended; what is missing."""
        found = list(self._unfinished())
        if not self._usage:
            found.append("the stream ended without the usage that was asked for")
        if not self._done:
            found.append("the stream ended without [DONE]")
        return found

    @abstractmethod
    def _unfinished(self) -> Iterator[str]:
        """What is missing of the choices at the end of the stream."""

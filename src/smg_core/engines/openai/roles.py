"""What the chat door implements and speaks of, in the words of `engines.base`, which takes this module's place."""

from collections.abc import Sequence
from typing import Literal, Protocol

import attrs

from smg_core.engines.base import Call, Loads, ModelInfo
from smg_core.errors import SmgError
from smg_core.events import Event
from smg_core.request import GenerationRequest

__all__ = ["Call", "ChatEngine", "Engine", "EngineFacts", "EventSink", "Loads", "ModelInfo"]

_KINDS = frozenset({"image", "video", "audio"})


@attrs.frozen
class EngineFacts:
    """What one engine can be asked, from its own words or its dialect's table."""

    dialect: str
    door: Literal["ids", "chat"] = "ids"
    n: bool = True
    greedy_n: bool = True
    stop_strings: bool = True
    constraints: frozenset[str] = frozenset()
    max_logprobs: int | None = 20
    prompt_logprobs: bool = True
    cache_salt: bool = True
    media: frozenset[str] | None = None
    media_together: frozenset[str] = _KINDS
    normalizes: bool = False
    shared_memory: str = ""
    context_length: int = 0
    block_size: int = 0
    ranks: int = 1
    loads: bool = True
    kv_events: bool = True
    embed: bool = True


class EventSink(Protocol):
    """Where the events of a call are pushed. Plain calls on the event loop's thread that must not block or raise."""

    def events(self, events: Sequence[Event]) -> None: ...

    def closed(self, error: SmgError | None) -> None:
        """Called exactly once, after the last events; nothing after it."""
        ...


class Engine(Protocol):
    """One engine, whatever it speaks."""

    async def describe(self) -> tuple[ModelInfo, EngineFacts]: ...

    async def health(self, timeout: float | None = None) -> bool: ...

    async def loads(self) -> Loads | None: ...

    async def abort(self, request_id: str) -> None: ...

    async def tokenizer(self, *, timeout: float = ..., limit: int = ...) -> tuple[bytes, str] | None: ...

    async def close(self) -> None: ...


class ChatEngine(Engine, Protocol):
    """An engine that takes messages and gives events."""

    async def chat(
        self,
        request: GenerationRequest,
        sink: EventSink,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
    ) -> Call: ...

"""A session with one engine for programs: its outputs by `async for`, instead of pushed into a sink (edge).

Waits for the network. Above: programs of users; the gateway itself takes what is pushed. Below: opening, token_ids.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeVar, runtime_checkable
from uuid import uuid4

from smg_core.engines.base import Engine, EngineFacts, EngineOutput, EngineRequest, EngineSink, ModelInfo
from smg_core.engines.calls import AnswerCall
from smg_core.engines.connections.target import Tls
from smg_core.engines.kinds.kind import AUTO, EnginePlace
from smg_core.engines.kinds.opening import open_engine
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import SmgError, UnsupportedParameter
from smg_core.events import Event
from smg_core.request import GenerationRequest, Sampling
from smg_core.tokens import TokenIds

__all__ = ["EngineSession"]

T = TypeVar("T")
_DEFAULTS = EnginesConfig()
_ANY_SAMPLING = Sampling()


@runtime_checkable
class _Generates(Protocol):
    """An engine that takes token ids."""

    async def generate(
        self,
        request: EngineRequest,
        sink: EngineSink[EngineOutput],
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
    ) -> AnswerCall: ...


@runtime_checkable
class _Chats(Protocol):
    """An engine that takes the request itself."""

    async def chat(
        self,
        request: GenerationRequest,
        sink: EngineSink[Event],
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
    ) -> AnswerCall: ...


class EngineSession:
    """One engine, opened by `async with`. Outputs that the program has not taken wait here: at `held` of them the engine is read
    no more until half are taken.

    The arguments are those of `EnginePlace`; `channel` (a `grpc.aio.Channel`, which stays open) and `interceptors` (of
    grpc.aio) are used as they are, and have the call carried by grpcio.
    """

    def __init__(
        self,
        url: str,
        *,
        kind: str = AUTO,
        model: str = "",
        headers: Sequence[tuple[str, str]] = (),
        tls: Tls | None = None,
        limits: EnginesConfig = _DEFAULTS,
        connect_timeout: float = 5.0,
        library: Literal["h2", "grpcio"] = "h2",
        channel: Any = None,
        interceptors: Sequence[Any] = (),
        held: int = 1024,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        if channel is not None or interceptors:
            library = "grpcio"
        self.place = EnginePlace(
            url=url,
            kind=kind,
            model=model,
            headers=headers,
            tls=tls,
            limits=limits,
            connect_timeout=connect_timeout,
            library=library,
            channel=channel,
            interceptors=tuple(interceptors),
        )
        self._held, self._new_id = held, new_id
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine's client, for everything else that can be asked of it. Raises RuntimeError before it is opened."""
        if self._engine is None:
            raise RuntimeError("open the session first: async with EngineSession(url) as session")
        return self._engine

    async def __aenter__(self) -> Self:
        self._engine = await open_engine(self.place)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    async def describe(self) -> tuple[ModelInfo, EngineFacts]:
        """The engine's model, and what it can be asked."""
        return await self.engine.describe()

    def generate(
        self,
        asked: EngineRequest | Sequence[int],
        sampling: Sampling = _ANY_SAMPLING,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
    ) -> AsyncIterator[EngineOutput]:
        """The outputs of one generation, of a request or of the token ids of a prompt. Leaving the loop ends the call, at the
        engine too. `timeout` in seconds covers the whole call. Raises SmgError."""
        engine = self.engine
        if not isinstance(engine, _Generates):
            raise UnsupportedParameter("This engine takes chats, not token ids: use chat().", param="input_ids")
        request = asked if isinstance(asked, EngineRequest) else EngineRequest(self._new_id(), _ids(asked), sampling)
        return self._pull(request.id, lambda sink: engine.generate(request, sink, metadata=metadata, timeout=timeout))

    def chat(
        self,
        request: GenerationRequest,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        """The events of one answer of a server of chat completions; else as `generate`."""
        engine = self.engine
        if not isinstance(engine, _Chats):
            raise UnsupportedParameter("This engine takes token ids: use generate().", param="messages")
        return self._pull(request.id, lambda sink: engine.chat(request, sink, metadata=metadata, timeout=timeout))

    async def _pull(self, request_id: str, start: Callable[["_Pulled[T]"], Awaitable[AnswerCall]]) -> AsyncIterator[T]:
        engine, pulled = self.engine, _Pulled[T](self._held)
        pulled.attach(await start(pulled))
        try:
            while (found := await pulled.next()) is not None:
                yield found
        finally:
            if pulled.cancel():
                await engine.abort(request_id)


class _Pulled(Generic[T]):
    """An `EngineSink` that keeps what is pushed until it is taken; the call is paused while `most` wait."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[T] = deque()
        self._call: AnswerCall | None = None
        self._paused = self._over = False
        self._error: SmgError | None = None
        self._changed = asyncio.Event()

    def attach(self, call: AnswerCall) -> None:
        self._call = call
        self._hold()

    def push(self, pushed: Sequence[T]) -> None:
        self._waiting.extend(pushed)
        self._changed.set()
        self._hold()

    def closed(self, error: SmgError | None) -> None:
        self._over, self._error = True, error
        self._changed.set()

    def cancel(self) -> bool:
        """End the call; whether it had not ended yet."""
        if self._over or self._call is None:
            return False
        self._over = True
        self._call.cancel()
        return True

    async def next(self) -> T | None:
        """What was pushed first of what is not taken, None at the end. Raises the error that the call ended with."""
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._over:
                return None
            self._changed.clear()
            await self._changed.wait()
        found = self._waiting.popleft()
        if self._paused and self._call is not None and len(self._waiting) * 2 <= self._most:
            self._paused = False
            self._call.resume()
        return found

    def _hold(self) -> None:
        if not self._paused and self._call is not None and not self._over and len(self._waiting) >= self._most:
            self._paused = True
            self._call.pause()


def _ids(ids: Sequence[int]) -> TokenIds:
    return ids if isinstance(ids, TokenIds) else TokenIds(ids)

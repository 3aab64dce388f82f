"""Calls of engines that take the request itself (edge).

Decides where the request is written for such an engine: a long one in a thread. Above: engine_call. Below: weight, prepare,
the executor, the engines that take requests.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from smg_core.engines.base import ChatEngine, EngineSink
from smg_core.engines.calls import AnswerCall
from smg_core.engines.elsewhere import Elsewhere
from smg_core.events import Event
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.prompt.inline_cost import quickly_written
from smg_core.pipeline.prompt.prepare import characters_of
from smg_core.request import GenerationRequest

__all__ = ["ChatCalls"]

T = TypeVar("T")

_WRITTEN_INLINE = 16 * 1024
"""Bodies and messages of up to so many bytes or characters are written on the event loop: less than a millisecond, whatever they
hold."""


class ChatCalls:
    """Begins the calls. Long requests are written in the threads of `executor`; without one, on the event loop."""

    def __init__(self, executor: FairExecutor | None = None) -> None:
        self._executor = executor

    async def begin(
        self,
        engine: ChatEngine,
        request: GenerationRequest,
        sink: EngineSink[Event],
        *,
        metadata: Sequence[tuple[str, str]],
        connect_timeout: float | None,
        lora: str | None,
    ) -> AnswerCall:
        """Start one generation; arguments and errors are those of `ChatEngine.chat`."""
        return await engine.chat(
            request,
            sink,
            metadata=metadata,
            connect_timeout=connect_timeout,
            lora=lora,
            elsewhere=self._elsewhere(request),
        )

    def _elsewhere(self, request: GenerationRequest) -> Elsewhere | None:
        executor = self._executor
        if executor is None or quickly_written(request, _WRITTEN_INLINE):
            return None

        async def run(work: Callable[[], T]) -> T:
            # A flow may have added messages to those of the body: large work must not pass for small.
            size = max(request.size, characters_of(request))
            return await executor.run(lambda _: work(), size=size, caller=request.caller.tenant)

        return run

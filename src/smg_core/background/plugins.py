"""The plugins of an answer in the background, by order and failure as for a waiting client (edge).

They are shown the decoded request and what the model says. Heads and bodies were shown when the request came, and are when its
answer is read. Above: `background_run`. Below: the rooms `middleware` and `pipeline`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from smg_core.middleware.answer_watchers import AnswerWatchers
from smg_core.middleware.base import About
from smg_core.pipeline.answer.answer import StreamedAnswer, WholeAnswer, Write
from smg_core.pipeline.answer.keep_alive import StreamKeepAlive
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.answer.transformed_answer import Show, streamed_answer, whole_answer
from smg_core.plugins.registry import Plugins
from smg_core.request import GenerationRequest
from smg_core.serving.answering import with_generations
from smg_core.wire.base import Decoded, StreamEncoder, WholeEncoder

if TYPE_CHECKING:
    from smg_core.guardrails.guards import Guards

__all__ = ["RunPlugins"]

D = TypeVar("D", bound=Decoded)


class RunPlugins:
    """The plugins of one run, and the guardrails. `path` is the route by which the request came."""

    def __init__(
        self, plugins: Plugins, generation: GenerationRequest, path: str, guarding: "Guards | None" = None
    ) -> None:
        self._guarding = guarding
        caller = generation.caller
        about = About(generation.id, "POST", path, path, caller.tenant, caller.principal, generation.model)
        self._about, self._model = about, generation.model
        self._chain = plugins.plan.chain(about, plugins.report, lambda name: plugins.names_of(name, caller))

    async def left_of(self, decoded: D) -> D:
        """The decoded request as the plugins leave it. Raises SmgError."""
        if self._chain is None:
            return decoded
        self._chain.join_all(self._about)
        return await with_generations(decoded, self._request)

    async def _request(self, request: GenerationRequest) -> GenerationRequest:
        if self._chain is not None:
            request, _ = await self._chain.request(request, None)
        return request

    def streamed(
        self,
        make_encoder: Callable[[], StreamEncoder],
        write: Write,
        high_water: int,
        keep_alive: StreamKeepAlive,
        show: Show | None,
    ) -> StreamedAnswer:
        """A streamed answer whose events are shown to `show`."""
        return streamed_answer(
            make_encoder, write, model=self._model, high_water=high_water, show=show, keep_alive=keep_alive
        )

    def whole(self, make_encoder: Callable[[], WholeEncoder], write: Write, show: Show | None) -> WholeAnswer:
        """An answer that leaves whole, whose events are shown to `show`."""
        return whole_answer(make_encoder, write, model=self._model, show=show)

    def shows(self, generation: GenerationRequest, trace: Trace) -> Show | None:
        """Who is shown the events of the answer: the plugins, then guardrails."""
        chain = self._chain
        watching = AnswerWatchers(chain) if chain is not None and chain.watches_answers else None
        return watching if self._guarding is None else self._guarding.answer(generation, trace.report, watching)

    def close(self) -> None:
        """The run is over."""
        if self._chain is not None:
            self._chain.close()

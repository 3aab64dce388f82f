"""Asks an engine that writes text how likely some tokens are to come next, as pooled work (edge).

Each prompt is a generation of one token with logprobs, so every engine that takes ids and gives logprobs can do it. Waits for the
engine. Above: pool_gathering. Below: the engine's Generate call.
"""

import asyncio
from array import array
from collections.abc import Sequence

from smg_core.engines.base import EngineOutput, EngineRequest, IdsEngine
from smg_core.engines.calls import Call
from smg_core.engines.pooling import PoolCall, PoolingEngine, Vector
from smg_core.errors import EngineGarbled, InvalidRequest, SmgError
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.pipeline.settings import PoolingConfig
from smg_core.request import PoolRequest, Sampling
from smg_core.workers.worker import Worker

__all__ = ["NextTokens", "pooling_engine"]


def pooling_engine(worker: Worker, request: PoolRequest, model: ServedModel, settings: PoolingConfig) -> PoolingEngine:
    """What does the work of `request` at this worker: its engine, or where it is asked for next tokens this module's way of
    asking."""
    engine = worker.engine
    if request.kind != "next_token":
        return engine  # type: ignore[return-value]  # its facts say that it pools
    facts, tenant, salts = worker.facts, request.caller.tenant, model.salts
    most = settings.label_alternatives
    most = most if facts.max_logprobs is None else min(facts.max_logprobs, most)
    salt = salts.of(tenant, None) if salts is not None and tenant and facts.cache_salt else None
    return NextTokens(engine, request.label_ids, most, salt)  # type: ignore[arg-type]  # it takes ids


class NextTokens:
    """Pooled work of `engine`: for each prompt the logprobs of the tokens `labels`, in their order. At most `most` alternatives
    are asked for; a label that is not among them makes the request fail. `salt` parts the engine's cache."""

    def __init__(self, engine: IdsEngine, labels: Sequence[int], most: int, salt: str | None) -> None:
        self._engine, self._labels, self._salt = engine, labels, salt
        self._sampling = Sampling(
            max_tokens=1, temperature=0.0, top_p=1.0, repetition_penalty=1.0, ignore_eos=True, logprobs=most
        )

    async def pool(
        self, call: PoolCall, *, metadata: Sequence[tuple[str, str]] = (), timeout: float | None = None
    ) -> Sequence[Vector]:
        """The logprobs after each prompt. A call that is cancelled is ended at the engine. Raises InvalidRequest that says
        which label is not among the alternatives."""
        return [await self._one(call.id, ids, metadata, timeout) for ids in call.ids]

    async def _one(
        self, id: str, ids: Sequence[int], metadata: Sequence[tuple[str, str]], timeout: float | None
    ) -> Vector:
        first = _First()
        request = EngineRequest(id, ids, self._sampling, stream=False, cache_salt=self._salt)  # type: ignore[arg-type]
        first.call = await self._engine.generate(request, first, metadata=metadata, timeout=timeout)
        try:
            output = await first.found
        finally:
            first.call.cancel()
        if not output.logprobs:
            raise EngineGarbled("The engine sent no logprobs for the token that it was asked for.")
        row = output.logprobs[0]
        known = {row.token_id: row.logprob, **dict(row.top)}
        for label in self._labels:
            if label not in known:
                raise InvalidRequest(
                    f"The token {label} is not among the {len(known)} likeliest ones after this input, which are all that "
                    "the engine tells.",
                    code="label_not_found",
                )
        return Vector(array("f", [known[each] for each in self._labels]), output.prompt_tokens or len(ids))


class _First:
    """Where the engine's output goes: waits for that which has the first token."""

    def __init__(self) -> None:
        self.call: Call | None = None
        self.found: asyncio.Future[EngineOutput] = asyncio.get_running_loop().create_future()
        self._tokens = 0
        self._kept: EngineOutput | None = None

    def push(self, pushed: Sequence[EngineOutput], /) -> None:
        for output in pushed:
            self._tokens = output.prompt_tokens or self._tokens
            if self._kept is None and output.ids:
                self._kept = output

    def closed(self, error: SmgError | None) -> None:
        if self.found.done():
            return
        if error is not None:
            self.found.set_exception(error)
        elif self._kept is None:
            self.found.set_exception(EngineGarbled("The engine wrote no token."))
        else:
            kept = self._kept
            kept.prompt_tokens = kept.prompt_tokens or self._tokens
            self.found.set_result(kept)

"""Makes of a pooled request what engines are asked about, long work off the event loop (edge).

What an input or a pair becomes is decided by `pool_inputs` and `pair_inputs`. Above: pooling. Below: these, the executor.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from smg_core.clock import Clock
from smg_core.hooks import EncodeDone
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.pooled.gathering import PoolItem
from smg_core.pipeline.pooled.inputs import given_inputs, ids_of, input_characters, reckoned
from smg_core.pipeline.pooled.pair_inputs import PairIds, pair_ids, question_ids
from smg_core.pipeline.pooled.scoring import Method
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.pipeline.settings import PoolingConfig
from smg_core.request import PoolRequest
from smg_core.tokenizer.base import GivenUp
from smg_core.tokens import TokenIds

__all__ = ["PoolEncoding"]

Encoded = TypeVar("Encoded", TokenIds, PairIds)


class PoolEncoding:
    """Encodes inputs and pairs, in the threads of `executor` where they are long."""

    def __init__(self, clock: Clock, executor: FairExecutor) -> None:
        self._clock, self._executor = clock, executor

    async def items(
        self, request: PoolRequest, model: ServedModel, settings: PoolingConfig, trace: Trace, method: Method
    ) -> list[PoolItem]:
        """What engines are asked about, one by one: inputs, or pairs where these are judged at once. Raises what is wrong with
        them."""
        given = given_inputs(request, model, settings)
        if method in ("", "cosine"):
            if model.tokenizer is None:
                return [PoolItem(each, None, reckoned(each), at) for at, each in enumerate(given)]
            ids = await self._encoded(request, model, trace, lambda stop: ids_of(request, model, settings, stop))
            return [PoolItem(each, own, len(own), at) for at, (each, own) in enumerate(zip(given, ids, strict=True))]
        if model.tokenizer is None:
            return [
                PoolItem(given[at], None, reckoned(given[query]) + reckoned(given[at]), at, given[query])
                for query, at in request.pairs
            ]
        make = pair_ids if method == "cross_encoder" else question_ids
        made = await self._encoded(request, model, trace, lambda stop: make(request, model, settings, stop))
        return [
            PoolItem(given[at], own.ids, len(own.ids), at, given[query], own.types)
            for (query, at), own in zip(request.pairs, made, strict=True)
        ]

    async def _encoded(
        self,
        request: PoolRequest,
        model: ServedModel,
        trace: Trace,
        make: Callable[[GivenUp | None], Sequence[Encoded]],
    ) -> Sequence[Encoded]:
        """What `make` makes of the inputs, in a thread where they are long."""
        began, size = self._clock.monotonic(), input_characters(request)
        if size <= model.encode_inline:
            found = make(None)
        else:
            found = await self._executor.run(make, size=size, caller=request.caller.tenant)
        now = self._clock.monotonic()
        tokens = sum(len(each.ids if isinstance(each, PairIds) else each) for each in found)
        trace.report(EncodeDone(request.id, size, 0, tokens, now - began, now))
        return found

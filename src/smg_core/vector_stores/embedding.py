"""Vectors of texts, by a model that a worker or a provider serves (edge).

They are asked for as any request for embeddings is: counted, charged, queued and reported as such. Above: indexing, searches.
Below: pooled work of the pipeline.
"""

from collections.abc import Sequence

from smg_core.errors import SmgError
from smg_core.hooks import RequestStarted
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.pooled.gathering import Pooled, PoolTerms
from smg_core.request import Caller, GenerationRequest, PoolRequest
from smg_core.serving.request_traces import account_of_run, how_it_ended, observer_of
from smg_core.serving.services import Services
from smg_core.serving.timeouts import CurrentTimeouts

__all__ = ["API", "TextEmbedding"]

API = "vector_stores"
"""What these requests are called in logs and metrics."""

_NUMBER_BYTES = 2  # of a vector, as it is kept


class TextEmbedding:
    """Makes vectors for one gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._timeouts = CurrentTimeouts(services.live, services.models)
        self._observer = observer_of(services)

    async def vectors(self, caller: Caller, model: str, texts: Sequence[str], task: str) -> list[Sequence[float]]:
        """The vectors of these texts, which are for `task`: "document" or "query". A text that is too long is cut. Raises
        ModelNotFound, and what engines and limits refuse."""
        services = self._services
        owner = Caller(caller.tenant, caller.principal)  # the operator has chosen the model: no grant is needed for it
        request = PoolRequest(
            id=services.ids("embd-"),
            model=model,
            kind="embed",
            inputs=tuple(texts),
            truncate=-1,
            tasks=(task,),
            caller=owner,
        )
        generation = GenerationRequest(id=request.id, model=model, caller=owner)
        trace, traced = account_of_run(generation, API, services.clock.time(), services, self._observer)
        trace.report(RequestStarted(request.id, API, model, False, trace.started, trace.started))
        lease = services.admission.readmit(owner, "pooled")
        if services.live.accounting is not None:
            lease.entry = services.live.accounting.entry(lease, trace, API, model, owner)
        pooled: Pooled | None = None
        failure: SmgError | None = None
        try:
            if services.live.limiting is not None:
                waiting = services.live.limiting.begin_pooled(request, lease, trace, [])
                if waiting is not None:
                    await waiting
            if services.live.queueing is not None:
                unattended = task == "document"
                waiting = services.live.queueing.begin_pooled(request, lease, trace, {}, [], unattended=unattended)
                if waiting is not None:
                    await waiting
            pooled = await self._pooled(request, generation, trace)
        except SmgError as error:
            failure = error
            raise
        finally:
            usage = None if pooled is None else pooled.usage
            lease.settle(usage, failure)
            lease.release()
            trace.report(
                how_it_ended(
                    request.id,
                    API,
                    model,
                    trace,
                    seconds=services.clock.monotonic() - trace.started,
                    usage=usage,
                    over=pooled is not None,
                    failure=failure,
                    served=services.lookup.served_name(model, owner),
                    tenant=owner.tenant,
                    trace_id="" if traced is None else traced.trace_id,
                )
            )
            if services.tracing is not None and traced is not None:
                services.tracing.tracer.end(traced)
        return [each.values for each in pooled.vectors]

    async def _pooled(self, request: PoolRequest, generation: GenerationRequest, trace: Trace) -> Pooled:
        services, config = self._services, self._services.live.config
        model = services.lookup.served_or_refused(request.model, request.caller)
        terms = PoolTerms(
            settings=config.pooling,
            timeouts=self._timeouts.of(generation, {}),
            retries=config.routing.retries,
            budgets=services.admission.retry_budgets,
            number_bytes=_NUMBER_BYTES,
            answer_bytes=config.limits.answer_bytes,
            api=API,
        )
        return await services.running.performers.pooling(request, model, terms, trace)

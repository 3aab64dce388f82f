"""Makes the account of a request (`pipeline.answer.trace.Trace`) with its place in a trace (edge).

Decides how a request that has no HTTP exchange of its own begins its trace: a frame of a WebSocket, a request of a batch, a run
in the background. Above: the handlers. Below: the tracer, the exchange.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from smg_core.errors import InternalError, ReadingFailed, SmgError
from smg_core.events import Usage
from smg_core.hooks import Observer, Observers, RequestFinished
from smg_core.http.exchange import Exchange
from smg_core.observability.trace_context import passed_on
from smg_core.observability.tracing.requests import RequestKind, TracedRequest
from smg_core.pipeline.answer.trace import Trace
from smg_core.request import GenerationRequest
from smg_core.serving.services import Services

__all__ = ["account_of", "account_of_run", "how_it_ended", "observer_of", "traced"]


def observer_of(services: Services) -> Observer:
    """The observer of requests to models: that of the gateway, and the log of failures."""
    return Observers(services.failures, services.observer)


def account_of(exchange: Exchange, services: Services, observer: Observer) -> Trace:
    """The account of a request that begins now."""
    request, started = exchange.traced, services.clock.monotonic()
    if request is None:
        named = "traceparent" in exchange.headers
        return Trace(started, observer, exchange.client_id, passed_on(exchange.headers) if named else None)
    trace = Trace(started, observer, exchange.client_id, request, request.content)
    request.moments = trace.moments
    return trace


@asynccontextmanager
async def traced(exchange: Exchange, services: Services) -> AsyncIterator[None]:
    """A context in which an exchange has a trace, where the app has not begun one for it and there are traces."""
    if services.tracing is None or exchange.traced is not None:
        yield
        return
    tracer = services.tracing.tracer
    kind: RequestKind = "server" if exchange.peer else "consumer"
    exchange.traced = tracer.begin(
        exchange.headers, services.clock.monotonic(), kind, f"{exchange.method} {exchange.path}"
    )
    try:
        yield
    finally:
        tracer.end(exchange.traced)


def account_of_run(
    generation: GenerationRequest, api: str, created_at: float, services: Services, observer: Observer
) -> tuple[Trace, TracedRequest | None]:
    """The account of a run in the background that begins now, and its trace: that of the request that asked for it at
    `created_at`, in seconds since the epoch."""
    now = services.clock.monotonic()
    if services.tracing is None:
        return Trace(now, observer), None
    waited = max(0.0, services.clock.time() - created_at)
    begun = services.tracing.tracer.begin(generation.headers, now - waited, "consumer", f"background {api}", ours=True)
    begun.asks(generation)
    trace = Trace(now, observer, propagation=begun, content=begun.content)
    begun.moments = trace.moments
    return trace, begun


def how_it_ended(
    request_id: str,
    api: str,
    model: str,
    trace: Trace,
    *,
    seconds: float,
    usage: Usage | None,
    over: bool,
    failure: SmgError | None,
    client_id: str = "",
    served: str = "",
    tenant: str = "",
    trace_id: str = "",
    sampled: bool = True,
) -> RequestFinished:
    """The moment. `over`: its answer is complete; without that and without a `failure` it ended in a way that nobody had
    foreseen. `model` is "" for one that was not admitted; `served` is what the gateway serves by that name; where an engine was
    called, its model counts."""
    ended, first = trace.ended, trace.first
    outcome, status = "ok", 200
    if failure is not None:
        outcome, status = failure.outcome, failure.status
    elif not over:
        outcome, status = "error", InternalError.status
    return RequestFinished(
        request_id=request_id,
        api=api,
        model=model,
        outcome=outcome,
        status=status,
        prompt_tokens=usage.prompt_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
        cached_tokens=usage.cached_tokens if usage else 0,
        seconds=seconds,
        worker=ended.worker if ended is not None else "",
        attempts=trace.attempts,
        first_seconds=first.seconds if first is not None else None,
        finish=ended.finish if ended is not None else (),
        detail=failure.detail or "" if failure is not None else "",
        outside_text=failure.outside_text if failure is not None else "",
        client_id=client_id,
        violations=trace.violations,
        served=ended.model if ended is not None and ended.model else served,
        transport=ended.transport if ended is not None else "",
        stream=trace.stream,
        reasoning_tokens=usage.reasoning_tokens if usage else 0,
        tenant=tenant,
        trace_id=trace_id,
        sampled=sampled,
        reported=trace.attempts > 0
        and not (isinstance(failure, ReadingFailed) and ended is not None and ended.outcome == "ok"),
    )

"""How a request ended, as the moments that observers are told: one of an exchange, and one of a request to a model.

Above: the app, the handlers, and the runs in the background. Below: pipeline.trace, hooks.
"""

from smg_core.errors import ClientGone, InternalError, SmgError
from smg_core.events import Usage
from smg_core.hooks import ExchangeEnded, RequestFinished
from smg_core.pipeline.trace import Trace
from smg_core.server.exchange import Exchange

__all__ = ["exchange_ended", "how_it_ended", "outcome_of"]


def outcome_of(error: SmgError) -> str:
    """The outcome of what ended with this error."""
    return "client_gone" if isinstance(error, ClientGone) else type(error).__name__


def exchange_ended(exchange: Exchange, outcome: str, seconds: float) -> ExchangeEnded:
    """The moment of an exchange that has ended after so many seconds, with `outcome` where it was no request to a model."""
    finished = exchange.finished
    return ExchangeEnded(
        peer=exchange.peer,
        method=exchange.method,
        path=exchange.path,
        status=exchange.status or (finished.status if finished is not None else InternalError.status),
        sent=exchange.sent,
        seconds=seconds,
        outcome=finished.outcome if finished is not None else outcome,
        request_id=exchange.request_id,
        client_id=exchange.client_id,
        finished=finished,
        tenant=exchange.caller.tenant,
        principal=exchange.caller.principal,
        route=exchange.route,
        trace_id=exchange.trace_id if finished is None else finished.trace_id,
        sampled=exchange.sampled,
    )


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
        outcome, status = outcome_of(failure), failure.status
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
        said=failure.said if failure is not None else "",
        client_id=client_id,
        violations=trace.violations,
        served=ended.model if ended is not None and ended.model else served,
        transport=ended.transport if ended is not None else "",
        stream=trace.stream,
        reasoning_tokens=usage.reasoning_tokens if usage else 0,
        tenant=tenant,
        trace_id=trace_id,
        sampled=sampled,
    )

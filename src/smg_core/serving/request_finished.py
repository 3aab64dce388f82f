"""How a request to a model ended, as the one moment that observers are told.

Pure. Above: the handler in `serving.inference`, and the runs in the background. Below: pipeline.answer.trace, hooks.
"""

from smg_core.errors import InternalError, ReadingFailed, SmgError
from smg_core.events import Usage
from smg_core.hooks import RequestFinished
from smg_core.pipeline.answer.trace import Trace

__all__ = ["how_it_ended"]


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
        told=trace.attempts > 0
        and not (isinstance(failure, ReadingFailed) and ended is not None and ended.outcome == "ok"),
    )

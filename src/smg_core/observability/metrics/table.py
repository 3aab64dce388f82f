"""The table of metrics: every one that a gateway has under its own names.

A row says everything of its metric: what records it, the exposition, the dashboard, the alerts and the documentation are made of
the table. A metric is recorded from one kind of moment, so nothing is recorded twice. Values of labels are few whoever sends
requests: models are those that are served, routes are patterns, and what only a stranger names is "other". Pure. Above:
server.metrics, tools. Below: `metric`, hooks.
"""

from operator import sub

from smg_core.hooks import (
    AttemptEnded,
    BreakerChanged,
    ConceptsLost,
    EncodeDone,
    ExchangeEnded,
    FellBack,
    FormatViolation,
    MediaLoaded,
    Migrating,
    ProcessSampled,
    ReasoningLeftOut,
    RequestFinished,
    RequestStarted,
    Retrying,
    StoreCalled,
    ToolCalled,
    WorkerStateChanged,
)
from smg_core.observability.metrics.choices import CHOICES
from smg_core.observability.metrics.guardrails import GUARDED
from smg_core.observability.metrics.joining import DISCOVERY
from smg_core.observability.metrics.kept_answers import KEPT_ANSWERS
from smg_core.observability.metrics.lost import LOST
from smg_core.observability.metrics.meshed_gateways import MESH_METRICS
from smg_core.observability.metrics.metric import DURATIONS, OTHER, Metric, Readings, from_fields, label, method_label
from smg_core.observability.metrics.objectives_kept import OBJECTIVES_KEPT
from smg_core.observability.metrics.plugins import PLUGINS
from smg_core.observability.metrics.pools import POOLS
from smg_core.observability.metrics.queued import QUEUED
from smg_core.observability.metrics.second_calls import SECOND_CALLS

__all__ = ["METRICS", "is_one_answer", "refused_by_a_limit", "seconds_per_token", "workers_in_flight", "workers_ready"]

_SWITCHED = 101
_LIMITS = frozenset({408, 413, 414, 429, 431, 503})


def refused_by_a_limit(status: int) -> bool:
    """Whether an answer of this status says that a bound was met: of time, size, number or capacity."""
    return status in _LIMITS


def is_one_answer(ended: ExchangeEnded) -> bool:
    """Whether this was one request with one answer: not the life of a WebSocket, whose responses are told one by one."""
    return ended.status != _SWITCHED


def _exchange(ended: ExchangeEnded) -> tuple[str, str, str]:
    return method_label(ended.method), label(ended.route), str(ended.status)


def _route(ended: ExchangeEnded) -> tuple[str]:
    return (label(ended.route),)


def _called(done: RequestFinished) -> tuple[str, str, str]:
    return label(done.served), done.api, done.transport or "none"


def seconds_per_token(seconds: float, first_seconds: float | None, tokens: int) -> float | None:
    """The mean time between two of an answer's tokens; None where there were not two."""
    if first_seconds is None or tokens < 2:
        return None
    return max(0.0, seconds - first_seconds) / (tokens - 1)


def _worker(ended: AttemptEnded) -> tuple[str]:
    return (ended.worker,)


def _server(called: ToolCalled) -> str:
    return called.server if called.configured else OTHER


def _collections(sampled: ProcessSampled) -> Readings:
    return tuple([((str(generation),), count) for generation, count in enumerate(sampled.collections)])


def workers_ready(sampled: ProcessSampled) -> Readings:
    """For each worker 1 if it is ready, else 0."""
    return tuple([((each.name,), each.state == "ready") for each in sampled.workers])


def workers_in_flight(sampled: ProcessSampled) -> Readings:
    """For each worker the requests in flight to it."""
    return tuple([((each.name,), each.in_flight) for each in sampled.workers])


HTTP = (
    Metric(
        "smg_http_requests",
        "counter",
        "HTTP requests that were answered or given up, on any route.",
        "http",
        ExchangeEnded,
        ("method", "route", "status"),
        labels_of=_exchange,
    ),
    Metric(
        "smg_http_request_duration_seconds",
        "histogram",
        "Time from a request's head to the end of its answer.",
        "http",
        ExchangeEnded,
        ("route",),
        "seconds",
        DURATIONS,
        exemplars=True,
        labels_of=_route,
        when=is_one_answer,
        amount=from_fields("seconds"),
    ),
    Metric(
        "smg_http_response_body_bytes",
        "counter",
        "Bytes of bodies of answers.",
        "http",
        ExchangeEnded,
        ("route",),
        "bytes",
        labels_of=_route,
        amount=from_fields("sent"),
    ),
    Metric(
        "smg_http_clients_gone",
        "counter",
        "Requests whose client left before the end of the answer.",
        "http",
        ExchangeEnded,
        ("route",),
        labels_of=_route,
        when=lambda ended: ended.outcome == "client_gone" and is_one_answer(ended),
    ),
    Metric(
        "smg_http_connections",
        "gauge",
        "Open connections.",
        "http",
        ProcessSampled,
        amount=from_fields("connections"),
    ),
    Metric(
        "smg_http_requests_in_flight",
        "gauge",
        "Requests to models that are being answered now.",
        "http",
        ProcessSampled,
        amount=from_fields("in_flight"),
    ),
)

ROUTER = (
    Metric(
        "smg_router_requests_started",
        "counter",
        "Requests to models that were decoded and admitted.",
        "router",
        RequestStarted,
        ("api", "stream"),
        labels_of=lambda began: (began.api, "true" if began.stream else "false"),
    ),
    Metric(
        "smg_router_requests",
        "counter",
        "Requests to models that ended, by how they ended.",
        "router",
        RequestFinished,
        ("model", "api", "outcome"),
        by_tenant=True,
        labels_of=lambda done: (label(done.served), done.api, done.outcome),
    ),
    *CHOICES,
    Metric(
        "smg_router_retries",
        "counter",
        "Requests that were given to another worker after an error.",
        "router",
        Retrying,
        ("error",),
        labels_of=lambda retry: (retry.error,),
    ),
    Metric(
        "smg_router_migrations",
        "counter",
        "Answers that had begun and went on with another worker, by the error of the first.",
        "router",
        Migrating,
        ("error",),
        labels_of=lambda moved: (moved.error,),
    ),
    Metric(
        "smg_router_fallbacks",
        "counter",
        "Requests that another model was asked for, by why the first could not answer.",
        "router",
        FellBack,
        ("model", "to", "reason"),
        labels_of=lambda fell: (label(fell.model), label(fell.to), fell.reason),
    ),
    Metric(
        "smg_router_encode_duration_seconds",
        "histogram",
        "Time from a rendered prompt to its token ids.",
        "router",
        EncodeDone,
        (),
        "seconds",
        DURATIONS,
        amount=from_fields("seconds"),
    ),
    Metric(
        "smg_router_prompt_characters",
        "counter",
        "Characters of prompts, those from the tokenizer's cache apart.",
        "router",
        EncodeDone,
        ("source",),
        parts=(
            ("cache", from_fields("cached_characters")),
            ("tokenizer", from_fields("characters", "cached_characters", function=sub)),
        ),
    ),
    Metric(
        "smg_router_media",
        "counter",
        "Pictures, clips and recordings that were placed in prompts.",
        "router",
        MediaLoaded,
        amount=from_fields("count"),
    ),
    Metric(
        "smg_router_format_violations",
        "counter",
        "Choices whose text broke the format that was asked for.",
        "router",
        FormatViolation,
        ("mended",),
        labels_of=lambda broken: ("true" if broken.mended else "false",),
    ),
    Metric(
        "smg_router_reasoning_left_out",
        "counter",
        "Pieces of sealed reasoning that could not be opened.",
        "router",
        ReasoningLeftOut,
        ("reason",),
        any_number=lambda left: tuple([((reason,), 1) for reason in left.reasons]),
    ),
    Metric(
        "smg_router_told_otherwise",
        "counter",
        "Calls in which an outside provider was not told something of the request, or in another way, by what that was.",
        "router",
        ConceptsLost,
        ("concept",),
        any_number=lambda record: tuple([((concept,), 1) for concept in record.concepts]),
    ),
)

WORKERS = (
    Metric(
        "smg_worker_calls",
        "counter",
        "Calls of engines that ended, by how they ended.",
        "worker",
        AttemptEnded,
        ("worker", "model", "role", "outcome"),
        labels_of=lambda ended: (ended.worker, label(ended.model), ended.role, ended.outcome),
    ),
    Metric(
        "smg_worker_call_duration_seconds",
        "histogram",
        "Time of calls of engines.",
        "worker",
        AttemptEnded,
        ("worker", "role"),
        "seconds",
        DURATIONS,
        labels_of=lambda ended: (ended.worker, ended.role),
        amount=from_fields("seconds"),
    ),
    Metric(
        "smg_worker_time_to_first_token_seconds",
        "histogram",
        "Time from an engine's call to its first output, of calls whose output comes in pieces.",
        "worker",
        AttemptEnded,
        ("worker",),
        "seconds",
        DURATIONS,
        labels_of=_worker,
        amount=from_fields("first_seconds"),
    ),
    Metric(
        "smg_worker_output_tokens",
        "counter",
        "Tokens that engines gave.",
        "worker",
        AttemptEnded,
        ("worker",),
        labels_of=_worker,
        amount=from_fields("completion_tokens"),
    ),
    Metric(
        "smg_worker_state_changes",
        "counter",
        "Changes of a worker's state, by the new one.",
        "worker",
        WorkerStateChanged,
        ("worker", "state"),
        labels_of=lambda changed: (changed.worker, changed.after),
    ),
    Metric(
        "smg_worker_breaker_changes",
        "counter",
        "Changes of a worker's breaker, or of those of its engine's ranks, by the new state.",
        "worker",
        BreakerChanged,
        ("worker", "state"),
        labels_of=lambda changed: (changed.worker, changed.state),
    ),
    Metric(
        "smg_worker_ready",
        "gauge",
        "1 where every process may send the worker requests.",
        "worker",
        ProcessSampled,
        ("worker",),
        merge="min",
        any_number=workers_ready,
    ),
    Metric(
        "smg_worker_requests_in_flight",
        "gauge",
        "Requests in flight to a worker, of all processes.",
        "worker",
        ProcessSampled,
        ("worker",),
        merge="max",
        any_number=workers_in_flight,
    ),
    Metric(
        "smg_worker_requests_waiting",
        "gauge",
        "Requests that wait at the engine, as it says itself.",
        "worker",
        ProcessSampled,
        ("worker",),
        merge="max",
        any_number=lambda sampled: tuple([((each.name,), each.waiting) for each in sampled.workers]),
    ),
)

_CALLED = ("model", "api", "transport")
INFERENCE = (
    Metric(
        "smg_inference_time_to_first_token_seconds",
        "histogram",
        "Time from a request to its first output, of requests whose output comes from the engine in pieces.",
        "inference",
        RequestFinished,
        _CALLED,
        "seconds",
        DURATIONS,
        exemplars=True,
        labels_of=_called,
        amount=from_fields("first_seconds"),
    ),
    Metric(
        "smg_inference_time_per_output_token_seconds",
        "histogram",
        "Mean time between two tokens of a request's output, where it comes from the engine in pieces.",
        "inference",
        RequestFinished,
        _CALLED,
        "seconds",
        (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
        labels_of=_called,
        amount=from_fields("seconds", "first_seconds", "completion_tokens", function=seconds_per_token),
    ),
    Metric(
        "smg_inference_request_duration_seconds",
        "histogram",
        "Time of requests that an engine was called for, from the head to the last byte.",
        "inference",
        RequestFinished,
        _CALLED,
        "seconds",
        DURATIONS,
        exemplars=True,
        labels_of=_called,
        when=lambda done: done.attempts > 0,
        amount=from_fields("seconds"),
    ),
    Metric(
        "smg_inference_tokens",
        "counter",
        "Tokens: input (cached is a part of it) and output (reasoning is a part of it).",
        "inference",
        RequestFinished,
        (*_CALLED, "type"),
        by_tenant=True,
        skips_zero=True,
        labels_of=_called,
        parts=(
            ("input", from_fields("prompt_tokens")),
            ("output", from_fields("completion_tokens")),
            ("cached", from_fields("cached_tokens")),
            ("reasoning", from_fields("reasoning_tokens")),
        ),
    ),
)

STORAGE = (
    Metric(
        "smg_storage_calls",
        "counter",
        "Calls of the history, by how they ended.",
        "storage",
        StoreCalled,
        ("method", "outcome"),
        labels_of=lambda called: (called.method, called.outcome),
    ),
    Metric(
        "smg_storage_call_duration_seconds",
        "histogram",
        "Time of calls of the history.",
        "storage",
        StoreCalled,
        ("method",),
        "seconds",
        DURATIONS,
        labels_of=lambda called: (called.method,),
        amount=from_fields("seconds"),
    ),
)

LIMITS = (
    Metric(
        "smg_limits_refusals",
        "counter",
        "Requests that were refused since a bound was met, by the error.",
        "limits",
        ExchangeEnded,
        ("route", "reason"),
        labels_of=lambda ended: (label(ended.route), ended.outcome),
        when=lambda ended: refused_by_a_limit(ended.status),
    ),
)

MCP = (
    Metric(
        "smg_mcp_calls",
        "counter",
        "Calls of tools that run in the gateway; server: of the configuration.",
        "mcp",
        ToolCalled,
        ("server", "outcome"),
        labels_of=lambda called: (_server(called), called.outcome),
    ),
    Metric(
        "smg_mcp_call_duration_seconds",
        "histogram",
        "Time of such calls.",
        "mcp",
        ToolCalled,
        ("server",),
        "seconds",
        DURATIONS,
        labels_of=lambda called: (_server(called),),
        amount=from_fields("seconds"),
    ),
)

PROCESS = (
    Metric(
        "smg_process_work_waiting",
        "gauge",
        "Pieces of work that wait for a thread.",
        "process",
        ProcessSampled,
        amount=from_fields("waiting"),
    ),
    Metric(
        "smg_process_event_loop_lag_seconds",
        "gauge",
        "Most seconds by which the event loop was late, lately.",
        "process",
        ProcessSampled,
        (),
        "seconds",
        merge="max",
        amount=from_fields("lag"),
    ),
    Metric(
        "smg_process_event_loop_blocks",
        "counter",
        "Blocks of the event loop longer than watchdog_s.",
        "process",
        ProcessSampled,
        amount=from_fields("blocked"),
    ),
    Metric(
        "smg_process_gc_collections",
        "counter",
        "Runs of the garbage collector.",
        "process",
        ProcessSampled,
        ("generation",),
        any_number=_collections,
    ),
    Metric(
        "smg_process_gc_seconds",
        "counter",
        "Seconds that the garbage collector took.",
        "process",
        ProcessSampled,
        (),
        "seconds",
        amount=from_fields("collecting_s"),
    ),
)

METRICS = (
    *HTTP,
    *ROUTER,
    *SECOND_CALLS,
    *WORKERS,
    *POOLS,
    *INFERENCE,
    *DISCOVERY,
    *MESH_METRICS,
    *STORAGE,
    *LIMITS,
    *QUEUED,
    *KEPT_ANSWERS,
    *OBJECTIVES_KEPT,
    *GUARDED,
    *MCP,
    *PLUGINS,
    *LOST,
    *PROCESS,
)
"""All of them, in the order in which they are written out."""

"""The same metrics under SMG's names and labels, for dashboards made for it (`metrics.names: smg`).

A row is recorded from a moment as those of `table`, and there is one only where the gateway knows the fact. Labels have SMG's
words: a request by gRPC is of the backend "regular" in the connection mode "grpc". Pure. Above: server.metrics. Below:
`metric`, `table`, hooks.
"""

from smg_core.errors import SmgError
from smg_core.hooks import (
    AttemptEnded,
    ExchangeEnded,
    JoinEnded,
    ProcessSampled,
    RequestFinished,
    Retrying,
    StoreCalled,
    ToolCalled,
    WorkerPicked,
)
from smg_core.observability.metrics.metric import OTHER, Metric, from_fields, label, method_label
from smg_core.observability.metrics.table import (
    is_one_answer,
    refused_by_a_limit,
    seconds_per_token,
    workers_in_flight,
    workers_ready,
)

__all__ = ["SMG_METRICS"]

BUCKETS = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 90.0, 120.0),
    *(180.0, 240.0, 300.0, 480.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0, 5400.0, 7200.0),
)
"""SMG's buckets for every duration."""


def _where(done: RequestFinished) -> tuple[str, str]:
    """The labels router_type and backend_type of a request: by whom it is routed, and to what."""
    return done.transport or "grpc", "regular"


def _endpoint(done: RequestFinished) -> str:
    return done.api


def _routed(done: RequestFinished) -> tuple[str, ...]:
    router, backend = _where(done)
    return router, backend, router, label(done.served), _endpoint(done)


def _error_type(done: RequestFinished) -> str:
    if done.outcome in ("NoWorker", "ModelNotFound"):
        return "no_workers"
    if done.status in (408, 504):
        return "timeout"
    if done.status < 500:
        return "validation_error"
    return "backend_error" if done.attempts else "internal_error"


def _is_streamed(done: RequestFinished) -> bool:
    return done.stream


def _streamed(done: RequestFinished) -> tuple[str, ...]:
    return (*_where(done), label(done.served), _endpoint(done))


def _generation(seconds: float, first_seconds: float | None) -> float | None:
    return None if first_seconds is None else seconds


def _statuses(error: type[SmgError]) -> dict[str, str]:
    """The status of each kind of error, by its name."""
    found = {error.__name__: str(error.status)}
    for each in error.__subclasses__():
        found |= _statuses(each)
    return found


_ANSWERED = {**_statuses(SmgError), "WorkerBusy": "429", "ok": "200", "abandoned": "499", "outrun": "499"}
"""What an engine has answered, as a status of HTTP, by the outcome of a call."""


def _upstream(ended: AttemptEnded) -> tuple[str, ...]:
    ok = ended.outcome == "ok"
    return ended.transport or "grpc", _ANSWERED.get(ended.outcome, "500"), "" if ok else ended.outcome


def _tool(called: ToolCalled) -> str:
    """The name of a tool, where a server of the operator's has it: a model may make one up."""
    return called.tool if called.configured and called.outcome == "ok" else OTHER


def _path(ended: ExchangeEnded) -> str:
    return label(ended.route)


def _asked(ended: ExchangeEnded) -> tuple[str, str]:
    return method_label(ended.method), _path(ended)


_ROUTED = ("router_type", "backend_type", "connection_mode", "model", "endpoint")
_STREAMED = ("router_type", "backend_type", "model", "endpoint")

SMG_METRICS = (
    Metric(
        "smg_http_requests",
        "counter",
        "HTTP requests.",
        "http",
        ExchangeEnded,
        ("method", "path"),
        labels_of=_asked,
    ),
    Metric(
        "smg_http_request_duration_seconds",
        "histogram",
        "Time of HTTP requests, to the end of the answer.",
        "http",
        ExchangeEnded,
        ("method", "path"),
        "seconds",
        BUCKETS,
        exemplars=True,
        labels_of=_asked,
        when=is_one_answer,
        amount=from_fields("seconds"),
    ),
    Metric(
        "smg_http_responses",
        "counter",
        "HTTP answers.",
        "http",
        ExchangeEnded,
        ("path", "status_code", "error_code"),
        labels_of=lambda ended: (_path(ended), str(ended.status), "" if ended.outcome == "ok" else ended.outcome),
    ),
    Metric(
        "smg_http_connections_active",
        "gauge",
        "Open connections.",
        "http",
        ProcessSampled,
        amount=from_fields("connections"),
    ),
    Metric(
        "smg_http_rate_limit",
        "counter",
        "Requests that a bound let in or kept out.",
        "limits",
        ExchangeEnded,
        ("result",),
        labels_of=lambda ended: ("rejected" if refused_by_a_limit(ended.status) else "allowed",),
    ),
    Metric(
        "smg_router_requests",
        "counter",
        "Requests to models.",
        "router",
        RequestFinished,
        (*_ROUTED, "streaming"),
        by_tenant=True,
        labels_of=lambda done: (*_routed(done), "true" if done.stream else "false"),
    ),
    Metric(
        "smg_router_request_duration_seconds",
        "histogram",
        "Time of requests to models.",
        "router",
        RequestFinished,
        _ROUTED,
        "seconds",
        BUCKETS,
        exemplars=True,
        labels_of=_routed,
        amount=from_fields("seconds"),
    ),
    Metric(
        "smg_router_request_errors",
        "counter",
        "Requests to models that failed.",
        "router",
        RequestFinished,
        (*_ROUTED, "error_type"),
        labels_of=lambda done: (*_routed(done), _error_type(done)),
        when=lambda done: done.outcome not in ("ok", "client_gone"),
    ),
    Metric(
        "smg_router_upstream_responses",
        "counter",
        "Calls of engines.",
        "router",
        AttemptEnded,
        ("router_type", "status_code", "error_code"),
        labels_of=_upstream,
    ),
    Metric(
        "smg_router_ttft_seconds",
        "histogram",
        "Time to the first output of streamed requests.",
        "inference",
        RequestFinished,
        _STREAMED,
        "seconds",
        BUCKETS,
        exemplars=True,
        labels_of=_streamed,
        when=_is_streamed,
        amount=from_fields("first_seconds"),
    ),
    Metric(
        "smg_router_tpot_seconds",
        "histogram",
        "Mean time between two tokens of streamed requests.",
        "inference",
        RequestFinished,
        _STREAMED,
        "seconds",
        BUCKETS,
        labels_of=_streamed,
        when=_is_streamed,
        amount=from_fields("seconds", "first_seconds", "completion_tokens", function=seconds_per_token),
    ),
    Metric(
        "smg_router_generation_duration_seconds",
        "histogram",
        "Time of streamed requests.",
        "inference",
        RequestFinished,
        _STREAMED,
        "seconds",
        BUCKETS,
        labels_of=_streamed,
        when=_is_streamed,
        amount=from_fields("seconds", "first_seconds", function=_generation),
    ),
    Metric(
        "smg_router_tokens",
        "counter",
        "Tokens.",
        "inference",
        RequestFinished,
        (*_STREAMED, "token_type"),
        by_tenant=True,
        skips_zero=True,
        labels_of=_streamed,
        parts=(("input", from_fields("prompt_tokens")), ("output", from_fields("completion_tokens"))),
    ),
    Metric(
        "smg_worker_requests_active",
        "gauge",
        "Requests in flight to a worker.",
        "worker",
        ProcessSampled,
        ("worker",),
        merge="max",
        any_number=workers_in_flight,
    ),
    Metric(
        "smg_worker_health",
        "gauge",
        "1 for a worker that is ready.",
        "worker",
        ProcessSampled,
        ("worker",),
        merge="min",
        any_number=workers_ready,
    ),
    Metric(
        "smg_worker_selection",
        "counter",
        "Choices of a worker.",
        "worker",
        WorkerPicked,
        ("worker_type", "connection_mode", "model", "policy"),
        labels_of=lambda picked: (picked.role, picked.transport or "grpc", label(picked.model), picked.policy),
    ),
    Metric(
        "smg_worker_errors",
        "counter",
        "Calls of engines that failed.",
        "worker",
        AttemptEnded,
        ("worker_type", "connection_mode", "model", "error_type"),
        labels_of=lambda ended: (ended.role, ended.transport or "grpc", label(ended.model), ended.outcome),
        when=lambda ended: ended.outcome not in ("ok", "abandoned", "outrun"),
    ),
    Metric(
        "smg_worker_retries",
        "counter",
        "Requests that were given to another worker.",
        "worker",
        Retrying,
        ("worker_type", "endpoint"),
        labels_of=lambda retry: ("regular", OTHER),
    ),
    Metric(
        "smg_discovery_registrations",
        "counter",
        "Attempts of workers to join.",
        "discovery",
        JoinEnded,
        ("source", "result"),
        labels_of=lambda joined: ("config", "success" if joined.outcome == "ok" else "failure"),
    ),
    Metric(
        "smg_discovery_workers_discovered",
        "gauge",
        "Workers that are known.",
        "discovery",
        ProcessSampled,
        ("source",),
        merge="max",
        labels_of=lambda sampled: ("config",),
        amount=lambda sampled: len(sampled.workers),
    ),
    Metric(
        "smg_mcp_tool_calls",
        "counter",
        "Calls of tools.",
        "mcp",
        ToolCalled,
        ("model", "tool_name", "result"),
        labels_of=lambda called: (OTHER, _tool(called), _result(called.outcome)),
    ),
    Metric(
        "smg_mcp_tool_duration_seconds",
        "histogram",
        "Time of calls of tools.",
        "mcp",
        ToolCalled,
        ("model", "tool_name"),
        "seconds",
        BUCKETS,
        labels_of=lambda called: (OTHER, _tool(called)),
        amount=from_fields("seconds"),
    ),
    Metric(
        "smg_db_operations",
        "counter",
        "Calls of the history.",
        "storage",
        StoreCalled,
        ("storage_type", "operation", "result"),
        labels_of=lambda called: ("history", called.method, _result(called.outcome)),
    ),
    Metric(
        "smg_db_operation_duration_seconds",
        "histogram",
        "Time of calls of the history.",
        "storage",
        StoreCalled,
        ("storage_type", "operation"),
        "seconds",
        BUCKETS,
        labels_of=lambda called: ("history", called.method),
        amount=from_fields("seconds"),
    ),
)
"""The table under SMG's names."""


def _result(outcome: str) -> str:
    return "success" if outcome == "ok" else "error"

"""The figures from two readings of a gateway's metrics: rates, times and errors in between, by worker and by model.

Pure: texts and seconds are arguments. Reads the text format of Prometheus, of the names that `observability.metrics.table` has.
A counter that went down belongs to a gateway that has started anew, and counts from nothing. Above: `command`, `screen`. Below:
nothing.
"""

import re
from collections.abc import Mapping
from itertools import pairwise

import attrs

__all__ = ["GatewayFigures", "MetricsReading", "ModelFigures", "WorkerFigures", "figures_between", "read_metrics"]

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_NO_ERRORS = frozenset({"ok", "client_gone", "abandoned", "outrun"})

SampleLabels = tuple[tuple[str, str], ...]


@attrs.frozen
class MetricsReading:
    """The samples of one text, by name and labels, and when it was read (seconds of a clock that never goes back)."""

    samples: Mapping[str, Mapping[SampleLabels, float]]
    at: float

    def of(self, name: str) -> Mapping[SampleLabels, float]:
        """The samples of one name."""
        return self.samples.get(name, {})

    def by(self, name: str, label: str) -> dict[str, float]:
        """The samples of one name, added up by the value of a label."""
        found: dict[str, float] = {}
        for labels, value in self.of(name).items():
            key = dict(labels).get(label, "")
            found[key] = found.get(key, 0.0) + value
        return found

    def total(self, name: str) -> float:
        """All samples of one name together."""
        return sum(self.of(name).values())


@attrs.frozen
class WorkerFigures:
    """One worker: whether it is ready, requests in flight and waiting at its engine, calls and output tokens a second, mean
    seconds to the first token (None without a call), and the share of calls that failed."""

    name: str
    ready: bool
    in_flight: int
    waiting: int
    calls: float
    output_tokens: float
    first_token: float | None
    errors: float


@attrs.frozen
class ModelFigures:
    """One model: requests, input and output tokens a second, seconds to the first token that half and 95 of 100 requests had
    (None without requests), and the share of requests that failed."""

    name: str
    requests: float
    input_tokens: float
    output_tokens: float
    median: float | None
    high: float | None
    errors: float


@attrs.frozen
class GatewayFigures:
    """A gateway between two readings that are `seconds` apart. `lag` is how late its event loop was, in seconds."""

    seconds: float
    in_flight: int
    connections: int
    lag: float
    workers: tuple[WorkerFigures, ...]
    models: tuple[ModelFigures, ...]


def read_metrics(text: str, at: float) -> MetricsReading:
    """The samples in a text that was read `at`. Raises ValueError for a text that is none of metrics."""
    found: dict[str, dict[SampleLabels, float]] = {}
    for line in text.split("\n"):
        if not line or line.startswith("#"):
            continue
        sample = _SAMPLE.match(line)
        if sample is None:
            raise ValueError(f"no line of metrics: {line[:80]}")
        labels = tuple([(name, _ESCAPED.sub(_plain, value)) for name, value in _LABEL.findall(sample[2] or "")])
        found.setdefault(sample[1], {})[labels] = float(sample[3])
    return MetricsReading(found, at)


def _plain(escaped: "re.Match[str]") -> str:
    return "\n" if escaped[1] == "n" else escaped[1]


def figures_between(before: MetricsReading, now: MetricsReading) -> GatewayFigures:
    """What has happened from one reading to the next one."""
    seconds = max(now.at - before.at, 1e-6)
    change = _Change(before, now)
    return GatewayFigures(
        seconds,
        int(now.total("smg_http_requests_in_flight")),
        int(now.total("smg_http_connections")),
        now.total("smg_process_event_loop_lag_seconds"),
        tuple([_worker(name, change, seconds) for name in sorted(now.by("smg_worker_ready", "worker"))]),
        tuple([_model(name, change, seconds) for name in _models(now)]),
    )


class _Change:
    """How much the samples of one reading are over those of the reading before."""

    def __init__(self, before: MetricsReading, now: MetricsReading) -> None:
        self.before, self.now = before, now

    def by(self, name: str, **wanted: str) -> dict[SampleLabels, float]:
        """The change of each sample of this name whose labels are these."""
        earlier = self.before.of(name)
        changes = {}
        for labels, value in self.now.of(name).items():
            if wanted.items() <= dict(labels).items():
                since = earlier.get(labels, 0.0)
                changes[labels] = value - since if value >= since else value
        return changes

    def total(self, name: str, **wanted: str) -> float:
        return sum(self.by(name, **wanted).values())


def _worker(name: str, change: _Change, seconds: float) -> WorkerFigures:
    calls = change.by("smg_worker_calls_total", worker=name)
    first = "smg_worker_time_to_first_token_seconds"
    count = change.total(f"{first}_count", worker=name)
    return WorkerFigures(
        name,
        change.now.by("smg_worker_ready", "worker").get(name) == 1,
        int(change.now.by("smg_worker_requests_in_flight", "worker").get(name, 0)),
        int(change.now.by("smg_worker_requests_waiting", "worker").get(name, 0)),
        sum(calls.values()) / seconds,
        change.total("smg_worker_output_tokens_total", worker=name) / seconds,
        change.total(f"{first}_sum", worker=name) / count if count else None,
        _failed(calls),
    )


def _models(now: MetricsReading) -> list[str]:
    return sorted(now.by("smg_router_requests_total", "model"))


def _model(name: str, change: _Change, seconds: float) -> ModelFigures:
    requests = change.by("smg_router_requests_total", model=name)
    buckets: dict[float, float] = {}
    for labels, count in change.by("smg_inference_time_to_first_token_seconds_bucket", model=name).items():
        bound = float(dict(labels)["le"])
        buckets[bound] = buckets.get(bound, 0.0) + count
    tokens = "smg_inference_tokens_total"
    return ModelFigures(
        name,
        sum(requests.values()) / seconds,
        change.total(tokens, model=name, type="input") / seconds,
        change.total(tokens, model=name, type="output") / seconds,
        _quantile(buckets, 0.5),
        _quantile(buckets, 0.95),
        _failed(requests),
    )


def _failed(ended: Mapping[SampleLabels, float]) -> float:
    """The share of what ended that failed, from 0 to 1."""
    bad = sum(count for labels, count in ended.items() if dict(labels).get("outcome") not in _NO_ERRORS)
    return bad / sum(ended.values()) if bad else 0.0


def _quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """The value that a share of all is at most, by the buckets of a histogram (upper bound to how many are at most that). Within
    a bucket all values are taken to be spread evenly. None for an empty one."""
    bounds = sorted(buckets)
    if not bounds or not buckets[bounds[-1]]:
        return None
    wanted = share * buckets[bounds[-1]]
    for lower, upper in pairwise([0.0, *bounds]):
        below = buckets.get(lower, 0.0)
        if buckets[upper] >= wanted:
            if upper == float("inf"):
                return lower
            return lower + (upper - lower) * (wanted - below) / max(buckets[upper] - below, 1e-9)
    return bounds[-1]

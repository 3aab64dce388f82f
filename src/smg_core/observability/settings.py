"""The settings of logs, traces and the watch on the loop.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import re
from typing import Literal

import attrs

from smg_core.settings import ConfigError, bound, option

__all__ = ["AuditConfig", "MetricsConfig", "ObservabilityConfig", "TracesConfig"]

_PATH = re.compile(r"/[^\s?#]*")


@attrs.frozen
class ObservabilityConfig:
    """The gateway's reports of itself."""

    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info", "Least severity that is logged.", flag="--log-level"
    )
    log_format: Literal["text", "json"] = option("text", "Log lines for people or for machines.", flag="--log-format")
    request_id_header: str = option("x-request-id", "Header that carries a request's id, in and out.")
    request_id_characters: int = bound(
        128, "Longest id that a client may give its request; a longer one is not taken.", at_least=1, at_most=8192
    )
    repeat_s: float = bound(
        60.0,
        "Seconds for which the same failure is only counted in the log after it was written.",
        at_least=0,
        at_most=86400,
    )
    repeats: int = bound(
        1024,
        "Failures that are remembered so that the same one is only counted for observability.repeat_s.",
        at_least=1,
        at_most=1 << 20,
    )
    fault_words: bool = option(
        False,
        "Write what engines, stores and exceptions say as they say it: it may repeat what a client sent.",
    )
    author_words: bool = bound(
        False,
        "Write what exceptions of policies and plugins say, for their author: on in simulated gateways, notebooks and tests.",
    )
    access_flush_s: float = bound(
        0.1,
        "Seconds for which lines of the access log are gathered, to be written together; a killed process loses them.",
        at_least=0,
        at_most=60,
    )
    access_bytes: int = bound(
        1 << 20,
        "Bytes of the log that may wait to be written, a quarter of them kept for lines outside the access log; further ones are "
        "dropped, and counted.",
        at_least=65536,
        at_most=1 << 30,
    )
    watchdog_s: float = bound(
        5.0,
        "Seconds for which the event loop may be blocked before the log says where; 0 does not look.",
        at_least=0,
        at_most=3600,
    )
    loop_tick_s: float = bound(
        0.1, "Seconds between two looks at how late the event loop runs.", at_least=0.01, at_most=60
    )
    explain: bool = option(
        False,
        "Answer a request's x-smg-explain header with what was done for it: worker, policy, tokens, times. For trusted clients.",
    )
    explain_characters: int = bound(
        2048, "Longest x-smg-explain header that an answer has, in characters.", at_least=256, at_most=65536
    )


@attrs.frozen
class AuditConfig:
    """The audit log: a file with a line for each step of every action at the admin door; off unless a file is named."""

    file: str | None = option(
        None, "File that the audit log is appended to; beside it is FILE.head, its last line's hash."
    )
    fsync: Literal["always", "never"] = bound(
        "always", "Whether a line of the audit log is on the disk before the action goes on, or left to the system."
    )
    file_bytes: int = bound(
        64 << 20,
        "Bytes from which the file of the audit log is set aside, as FILE and the number of its last line, and the next "
        "one is begun.",
        at_least=65536,
        at_most=1 << 40,
    )
    files: int = bound(
        0,
        "Files of the audit log set aside that are kept, the newest ones; 0: none is ever removed.",
        at_least=0,
        at_most=1 << 20,
    )


@attrs.frozen
class MetricsConfig:
    """Metrics for Prometheus, at a port of their own or at the admin door; off unless one is set (docs/observability.md)."""

    port: int | None = option(
        None,
        "Port that metrics are read from; 0 takes a free one. Without it, none is opened.",
        at_least=0,
        at_most=65535,
    )
    host: str = option(
        "127.0.0.1", "Address that metrics.port is on. Who reaches it may read: it asks for no credential."
    )
    path: str = bound("/metrics", "Path of the metrics at metrics.port.")
    allowed_hosts: tuple[str, ...] = option(
        (),
        'Hosts that requests at metrics.port may name, a name or .suffix; "*" allows all. Without any: the loopback and '
        "metrics.host.",
    )
    admin: bool = option(False, "Metrics at the admin door: /admin/metrics, with the permission admin.metrics.")
    names: Literal["own", "smg"] = option(
        "own", "Names and labels of the metrics: those of docs/observability.md, or those of SMG, for its dashboards."
    )
    tenants: int = option(
        0,
        "Tenants that have series of their own, the first ones that come; the others share one. 0: no label says the tenant.",
        at_least=0,
        at_most=100_000,
    )
    series: int = bound(
        16384,
        "Series of metrics that one process has; recordings of further ones are dropped, and counted.",
        at_least=256,
        at_most=1 << 20,
    )
    sample_s: float = bound(
        1.0,
        "Seconds between two looks at what gauges show: requests in flight, workers, connections.",
        at_least=0.05,
        at_most=300,
    )
    gather_s: float = bound(
        1.0,
        "Seconds for which moments are gathered before the metrics add them up together, which costs less than one by "
        "one.",
        at_least=0.01,
        at_most=60,
    )
    batch: int = bound(
        256, "Most moments of one kind that are gathered before the metrics add them up.", at_least=1, at_most=1024
    )

    def __attrs_post_init__(self) -> None:
        if _PATH.fullmatch(self.path) is None:
            raise ConfigError("metrics.path: expected a path that begins with / and has no spaces, ? or #")

    @property
    def on(self) -> bool:
        """Whether metrics are recorded."""
        return self.port is not None or self.admin


@attrs.frozen
class TracesConfig:
    """Traces for OpenTelemetry, sent by OTLP over gRPC; off unless switched on (docs/observability.md)."""

    enabled: bool = option(
        False,
        "Make spans and send them to a collector, by default that of the OTEL_EXPORTER_OTLP_* variables; needs the extra traces.",
        flag="--traces",
    )
    endpoint: str | None = option(
        None,
        "URL of the collector of traces, http://host:4317 or https://host:4317; switches traces on. Without it, the "
        "OTEL_EXPORTER_OTLP_* variables say.",
    )
    headers: tuple[str, ...] = bound(
        (),
        "Headers that the collector of traces is sent, NAME=VALUE; without any, those of the OTEL_EXPORTER_OTLP_* "
        "variables.",
        secret=True,
    )
    ca: str | None = bound(
        None, "PEM file of the authorities that the certificate of the collector of traces may be of (https)."
    )
    cert: str | None = bound(None, "PEM file of the certificate that the collector of traces is shown.")
    key: str | None = bound(None, "PEM file of the private key of traces.cert.")
    compression: Literal["none", "gzip"] = bound(
        "none", "Compression of the spans that are sent; with none, OTEL_EXPORTER_OTLP_COMPRESSION may say another."
    )
    timeout_s: float | None = bound(
        None,
        "Seconds for one sending of spans, tries included; without it, the OTEL_EXPORTER_OTLP_* variables say, else 10.",
        at_least=0.1,
        at_most=300,
    )
    ratio: float | None = option(
        None,
        "Share of the traces begun in the gateway that is recorded, 0 to 1; without it, OTEL_TRACES_SAMPLER says, else "
        "all.",
        at_least=0,
        at_most=1,
    )
    trust_clients: bool = option(
        True,
        "A client's traceparent says which trace its request belongs to, and whether that is recorded. False: only a link.",
    )
    service_name: str | None = bound(
        None, "Name of the service in the traces; without it, OTEL_SERVICE_NAME, else smg-gateway."
    )
    content: bool = option(
        False, "Prompts and answers in the spans. They leave the gateway in plain text: mind who reads the traces."
    )
    content_characters: int = bound(
        4096, "Most characters of a prompt, and of an answer, in a span.", at_least=1, at_most=65536
    )
    spans: int = bound(256, "Most spans of one request.", at_least=8, at_most=65536)
    queue: int = bound(
        2048,
        "Requests whose spans wait to be sent; more are dropped, and counted.",
        at_least=1,
        at_most=1 << 20,
    )
    batch: int = bound(512, "Spans that are sent together, as soon as so many wait.", at_least=1, at_most=65536)
    delay_s: float = bound(
        2.0,
        "Longest time in seconds that spans wait to be sent while there are fewer than traces.batch.",
        at_least=0.01,
        at_most=300,
    )
    stop_s: float = bound(
        5.0,
        "Seconds that the gateway waits at its end, at most, for the spans that are not sent yet.",
        at_least=0,
        at_most=300,
    )

    @property
    def on(self) -> bool:
        """Whether spans are made."""
        return self.enabled or self.endpoint is not None

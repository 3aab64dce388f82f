"""Sends spans to a collector, by the OpenTelemetry SDK's exporter (edge): OTLP over gRPC.

A thread makes the spans of requests that have ended, and sends them: in batches, when there are many or some time has passed.
The event loop never waits for it. A collector that is gone costs the spans of requests, which are counted, and one line in the
log. This module loads the SDK, so it is imported only where traces are on. Above: serving.tracing. Below: `spans`.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import grpc
from opentelemetry.exporter.otlp.proto.grpc import exporter as sdk_exporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from smg_core.clock import Clock
from smg_core.observability.repeats import Repeats
from smg_core.observability.settings import TracesConfig
from smg_core.observability.tracing.encoding import encoded_request, encoded_span
from smg_core.observability.tracing.requests import SpanQueue
from smg_core.observability.tracing.spans import Attribute, spans_of
from smg_core.outside_words import Outside
from smg_core.settings import ConfigError

__all__ = ["SpanSending", "exporter_of", "resource_of"]

log = logging.getLogger("smg.traces")

_SCOPE = "smg-sdk"
_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HEADER = re.compile(r"([0-9a-z_.-]+)=([\x20-\x7e]*)")
_HEADER_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
_VARIABLE_HEADER = re.compile(r"([0-9A-Za-z_.-]+\s*)=([\x20-\x7e]*)")
_UNSENDABLE = (ValueError, TypeError, grpc.RpcError)
_LEFT_S = 1.0  # seconds that a sending which was cancelled may still take, of those that a stop may take
_REJECTED = "the collector has taken a part alone, and rejected %d spans: %s"
_NAMED = 3  # things that are logged once in a while


class _ByteStub:
    """The collector's service, for requests that are bytes already. `answered` is called with each answer."""

    def __init__(self, answered: Callable[[ExportTraceServiceResponse], None], channel: grpc.Channel) -> None:
        self._export = channel.unary_unary(_EXPORT, response_deserializer=ExportTraceServiceResponse.FromString)
        self._answered = answered

    def Export(self, **call: Any) -> None:  # noqa: N802  (the service's name)
        self._answered(self._export(**call))


class EncodedExporter(OTLPSpanExporter):
    """The SDK's exporter, with its tries, deadlines, credentials and variables, for spans that are encoded already: making the
    SDK's spans and having it encode them takes five times as long."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._stub: Any = partial(_ByteStub, self._hear)  # also for a channel that the SDK opens anew
        self._client: Any = self._stub(self._channel)
        self.rejected, self.reason = 0, ""

    def send(self, request: bytes) -> bool:
        """Send the bytes of an `ExportTraceServiceRequest`; whether the collector took them. Of how many spans it then says that
        it did not, `rejected` has, and `reason` what it says of that. Blocks."""
        self.rejected, self.reason = 0, ""
        return self.export(cast(Sequence[ReadableSpan], request)) is SpanExportResult.SUCCESS

    def _hear(self, answer: ExportTraceServiceResponse) -> None:
        self.rejected, self.reason = answer.partial_success.rejected_spans, answer.partial_success.error_message

    def _translate_data(self, data: Sequence[ReadableSpan]) -> Any:
        """What the stub is to send, which the SDK asks for at every try: `data`, which `send` was given. A message object would
        be read from these bytes only to be written as the same bytes."""
        return data


def exporter_of(settings: TracesConfig, environ: Mapping[str, str]) -> EncodedExporter:
    """The exporter that the settings say; what they leave out it reads from the OTEL_EXPORTER_OTLP_* variables. Raises
    ConfigError."""
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), "grpc")
    if protocol != "grpc":
        raise ConfigError(
            f"traces: spans are sent by OTLP over gRPC, not by {protocol!r}, as {' or '.join(_PROTOCOLS)} says"
        )
    try:
        return EncodedExporter(
            endpoint=_endpoint(settings, environ),
            headers=_headers(settings.headers) or _headers_of(environ) or None,
            credentials=_credentials(settings),
            timeout=settings.timeout_s,
            compression=grpc.Compression.Gzip if settings.compression == "gzip" else None,
        )
    except (ValueError, sdk_exporter.InvalidCompressionValueException) as error:
        raise ConfigError(f"traces: {error}") from None


def _endpoint(settings: TracesConfig, environ: Mapping[str, str]) -> str | None:
    """The address of the settings; None where the SDK is to take that of a variable, which may hold no password either."""
    if settings.endpoint is None:
        for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
            if "@" in environ.get(name, ""):
                raise ConfigError(
                    f"{name}: a user, a password or a key belongs into OTEL_EXPORTER_OTLP_HEADERS, not into the address"
                )
        return None
    parts = urlsplit(settings.endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ConfigError("traces.endpoint: expected http://host:port or https://host:port")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError(
            "traces.endpoint: a user, a password or a key belongs into OTEL_EXPORTER_OTLP_HEADERS, not into the address"
        )
    if parts.scheme == "http" and (settings.ca or settings.cert):
        raise ConfigError("traces.ca and traces.cert are for a traces.endpoint that begins with https")
    return settings.endpoint


def _headers(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    found = [_HEADER.fullmatch(line) for line in lines]
    if any(each is None for each in found):
        raise ConfigError("traces.headers: expected NAME=VALUE, the name in lower case")
    return tuple([(each[1], each[2]) for each in found if each is not None])


def _headers_of(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The headers that the variables name, NAME=VALUE,... with values as in a URL. Read here, since the SDK would write one that
    it cannot read, with its secret, to the log."""
    name = next((each for each in _HEADER_VARIABLES if environ.get(each)), _HEADER_VARIABLES[0])
    found = [_VARIABLE_HEADER.fullmatch(each.strip()) for each in environ.get(name, "").split(",") if each.strip()]
    if any(each is None for each in found):
        raise ConfigError(f"traces: {name}: expected NAME=VALUE, separated by commas, the values as in a URL")
    return tuple([(each[1].strip().lower(), unquote(each[2].strip())) for each in found if each is not None])


def _credentials(settings: TracesConfig) -> grpc.ChannelCredentials | None:
    if (settings.cert is None) != (settings.key is None):
        raise ConfigError("traces.cert and traces.key: one is given without the other")
    if settings.ca is None and settings.cert is None:
        return None
    try:
        ca, key, cert = [
            None if path is None else Path(path).expanduser().read_bytes()
            for path in (settings.ca, settings.key, settings.cert)
        ]
    except OSError as error:
        raise ConfigError(f"traces: {error}") from None
    return grpc.ssl_channel_credentials(ca, key, cert)


def resource_of(settings: TracesConfig) -> Resource:
    """Who sends the spans: what OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say, with a name and an id of this process."""
    found = Resource.create()
    own: dict[str, str] = {}
    if settings.service_name or str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        own[SERVICE_NAME] = settings.service_name or "smg-gateway"
    if SERVICE_INSTANCE_ID not in found.attributes:
        own[SERVICE_INSTANCE_ID] = str(uuid4())
    return found.merge(Resource(own))


def _attributes_of(resource: Resource) -> Mapping[str, Attribute]:
    """A resource's attributes; what is no plain value is a text."""
    plain = (str, bool, int, float)
    return {name: each if isinstance(each, plain) else str(each) for name, each in resource.attributes.items()}


class SpanSending:
    """The thread that sends what is in `queue` by `exporter`. `bits` gives random bits for ids, `on_lost` is called in the thread
    with the number of requests whose spans the collector did not take, and why. `repeats_s`: the same failure is logged once in
    so many seconds."""

    def __init__(
        self,
        settings: TracesConfig,
        queue: SpanQueue,
        exporter: EncodedExporter,
        resource: Resource,
        *,
        clock: Clock,
        bits: Callable[[int], int],
        on_lost: Callable[[int, str], None],
        repeats_s: float,
        operations: Mapping[str, str],
    ) -> None:
        self._operations = operations
        self._settings = settings
        self._queue = queue
        self._exporter = exporter
        self._resource = _attributes_of(resource)
        self._clock = clock
        self._bits = bits
        self._on_lost = on_lost
        self._repeats = Repeats(repeats_s, _NAMED)
        self._failing = self._stopping = False
        self._dropped = queue.dropped
        self._woken = threading.Event()
        self._quiet = _Quiet()
        self._thread = threading.Thread(target=self._run, name="smg-traces", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        sdk_exporter.logger.addFilter(self._quiet)
        self._queue.wake = self._woken.set
        self._thread.start()

    def stop(self) -> None:
        """Send what waits, for at most `traces.stop_s` seconds; the last of them are for a sending that is cut off. Blocks."""
        began, most = self._clock.monotonic(), self._settings.stop_s
        self._stopping = True
        self._woken.set()
        if not self._failing:
            self._thread.join(max(0.0, most - min(_LEFT_S, most / 2)))
        self._exporter.shutdown()
        self._thread.join(max(0.0, most - (self._clock.monotonic() - began)))
        self._queue.wake = None
        self._lose(len(self._queue.waiting), "export_failed")
        self._queue.waiting.clear()
        sdk_exporter.logger.removeFilter(self._quiet)

    def _run(self) -> None:
        self._quiet.thread = threading.get_ident()
        while not self._stopping:
            self._woken.wait(self._settings.delay_s)
            self._woken.clear()
            self._send_waiting()
            self._tell_dropped()

    def _send_waiting(self) -> None:
        """Send what waits, until nothing does; a gateway that stops does not try again where it has failed."""
        waiting = self._queue.waiting
        while waiting:
            if not self._sent() and self._stopping:
                return

    def _sent(self) -> bool:
        """Send one batch; whether it was taken."""
        waiting, spans, requests = self._queue.waiting, list[bytes](), 0
        try:
            while waiting and len(spans) < self._settings.batch:
                request = waiting.popleft()
                requests += 1
                spans += [
                    encoded_span(each) for each in spans_of(request, self._bits, self._settings.spans, self._operations)
                ]
                time.sleep(0)  # lets the thread of the event loop run
            taken = self._exporter.send(encoded_request(self._resource, _SCOPE, spans))
        except _UNSENDABLE as error:
            self._quiet.last, taken = f"{type(error).__name__}: {error}", False
        if not taken:
            self._lose(requests, "export_failed")
            self._log("the collector did not take spans: %s", Outside(self._quiet.last))
        elif self._exporter.rejected > 0:
            self._lose(min(requests, self._exporter.rejected), "rejected")
            self._log(_REJECTED, self._exporter.rejected, Outside(self._exporter.reason))
        elif self._failing:
            log.info("the collector takes spans again")
        self._failing = not taken
        return taken

    def _lose(self, requests: int, why: str) -> None:
        if requests:
            self._on_lost(requests, why)

    def _tell_dropped(self) -> None:
        dropped = self._queue.dropped
        if dropped > self._dropped:
            self._log(
                "the spans of %d requests were dropped: the queue is full (traces.queue)", dropped - self._dropped
            )
        self._dropped = dropped

    def _log(self, text: str, *values: object) -> None:
        if self._repeats.note(text, self._clock.monotonic()) is not None:
            log.warning(text, *values)


class _Quiet(logging.Filter):
    """Keeps what the SDK logs in `thread` out of the log, where it would be a line for every try; ours tells it."""

    def __init__(self) -> None:
        super().__init__()
        self.thread: int | None = None
        self.last = "no reason was given"

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self.thread:
            return True
        self.last = record.getMessage()
        return False

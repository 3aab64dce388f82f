"""A collector of traces: the OTLP receiver over real gRPC, which keeps what it is sent."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import attrs
import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from tests.gateway.conftest import eventually

KINDS = {1: "internal", 2: "server", 3: "client", 5: "consumer"}


@attrs.frozen
class Seen:
    """One span as it was received. `attributes` are plain values; `events` are names with attributes."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: str
    start: int
    end: int
    attributes: Mapping[str, Any]
    error: bool
    events: tuple[tuple[str, Mapping[str, Any]], ...]
    links: tuple[tuple[str, str], ...]
    state: str

    @property
    def stage(self) -> str:
        return self.name.partition(" ")[0]


class Collector(TraceServiceServicer):
    """Keeps spans, resources, and the metadata that they came with. `refuse` is the gRPC status that it answers with;
    of what it takes it says that it `rejects` so many spans, and `says` why. While it is `held` it does not answer."""

    def __init__(self) -> None:
        self.url = ""
        self.refuse: grpc.StatusCode | None = None
        self.rejects, self.says = 0, ""
        self.held: threading.Event | None = None
        self.bytes: list[bytes] = []
        self.resources: list[Mapping[str, Any]] = []
        self.metadata: list[dict[str, str]] = []
        self.tries = 0
        self._spans: list[Seen] = []
        self._lock = threading.Lock()

    def Export(self, request: ExportTraceServiceRequest, context: grpc.ServicerContext) -> ExportTraceServiceResponse:
        self.tries += 1
        if self.held is not None:
            self.held.wait()
        if self.refuse is not None:
            context.abort(self.refuse, "told so")
        with self._lock:
            self.metadata.append({name: str(value) for name, value in context.invocation_metadata()})
            self.bytes.append(request.SerializeToString())
            for group in request.resource_spans:
                self.resources.append(_values(group.resource.attributes))
                self._spans += [seen(each) for scope in group.scope_spans for each in scope.spans]
        told = ExportTracePartialSuccess(rejected_spans=self.rejects, error_message=self.says)
        return ExportTraceServiceResponse(partial_success=told if self.rejects or self.says else None)

    @property
    def spans(self) -> list[Seen]:
        with self._lock:
            return list(self._spans)

    def roots(self) -> list[Seen]:
        """The spans of requests."""
        return [each for each in self.spans if each.kind in ("server", "consumer")]

    async def of(self, count: int = 1) -> list[list[Seen]]:
        """The spans of the first `count` requests, each with its own first, once that many have come."""
        await eventually(lambda: len(self.roots()) >= count)
        return [self.below(root) for root in self.roots()[:count]]

    def below(self, root: Seen) -> list[Seen]:
        """A request's span, and all below it."""
        found, ids = [root], {root.span_id}
        for each in self.spans:
            if each.parent_id in ids and each.trace_id == root.trace_id and each is not root:
                if each.kind in ("server", "consumer"):
                    continue
                found.append(each)
                ids.add(each.span_id)
        return found

    def twice(self) -> list[str]:
        """Ids of spans that came more than once."""
        return [id for id, count in Counter(each.span_id for each in self.spans).items() if count > 1]


def seen(span: WireSpan) -> Seen:
    return Seen(
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.name,
        KINDS[span.kind],
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _values(span.attributes),
        span.status.code == 2,
        tuple((each.name, _values(each.attributes)) for each in span.events),
        tuple((each.trace_id.hex(), each.span_id.hex()) for each in span.links),
        span.trace_state,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_value(each) for each in value.array_value.values)
    return getattr(value, kind)


@contextmanager
def collecting(credentials: grpc.ServerCredentials | None = None) -> Iterator[Collector]:
    """A collector at a free port."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(collector, server)
    if credentials is None:
        collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    else:
        collector.url = f"https://localhost:{server.add_secure_port('127.0.0.1:0', credentials)}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()

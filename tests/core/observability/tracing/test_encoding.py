"""Spans are encoded as opentelemetry-proto reads and writes them."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, SpanFlags, Status

from smg_core.observability.trace_context import RemoteSpan
from smg_core.observability.tracing.attributes import ATTRIBUTES
from smg_core.observability.tracing.encoding import encoded_request, encoded_span
from smg_core.observability.tracing.spans import SpanEvent, TraceSpan

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.builds(lambda text, count: text * count, st.text(min_size=1, max_size=8), st.integers(1, 3000)),
)
VALUES = st.one_of(TEXTS, st.booleans(), INT64, st.floats(allow_nan=False), st.lists(TEXTS, max_size=3).map(tuple))
PAIRS = st.dictionaries(st.one_of(st.sampled_from(sorted(ATTRIBUTES)), TEXTS), VALUES, max_size=6)
MOMENTS = st.integers(0, (1 << 64) - 1)
KINDS = {
    "internal": Span.SPAN_KIND_INTERNAL,
    "server": Span.SPAN_KIND_SERVER,
    "client": Span.SPAN_KIND_CLIENT,
    "consumer": Span.SPAN_KIND_CONSUMER,
}


def ids(size: int) -> st.SearchStrategy[str]:
    return st.binary(min_size=size, max_size=size).map(bytes.hex)


LINKS = st.builds(RemoteSpan, ids(16), ids(8), st.booleans())
SPANS = st.builds(
    TraceSpan,
    ids(16),
    ids(8),
    st.one_of(st.just(""), ids(8)),
    TEXTS,
    st.sampled_from(sorted(KINDS)),
    MOMENTS,
    MOMENTS,
    PAIRS,
    error=st.sampled_from(["", "Timeout"]),
    events=st.lists(st.builds(SpanEvent, TEXTS, MOMENTS, PAIRS), max_size=3),
    remote=st.booleans(),
    state=st.sampled_from(["", "vendor=a", "a=b," * 128]),
    links=st.lists(LINKS, max_size=2),
)


def value_of(value: Any) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=[value_of(each) for each in value]))


def pairs_of(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=name, value=value_of(value)) for name, value in attributes.items()]


def message_of(span: TraceSpan) -> Span:
    """The same span as a message."""
    known = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
    remote = known | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
    return Span(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        trace_state=span.state,
        parent_span_id=bytes.fromhex(span.parent_id),
        name=span.name,
        kind=KINDS[span.kind],
        start_time_unix_nano=span.start,
        end_time_unix_nano=span.end,
        attributes=pairs_of(span.attributes),
        events=[
            Span.Event(name=each.name, time_unix_nano=each.at, attributes=pairs_of(each.attributes))
            for each in span.events
        ],
        links=[
            Span.Link(trace_id=bytes.fromhex(each.trace_id), span_id=bytes.fromhex(each.span_id), flags=remote)
            for each in span.links
        ],
        status=Status(code=Status.STATUS_CODE_ERROR) if span.error else None,
        flags=remote if span.remote else known,
    )


def message_with(spans: list[Span], resource: Mapping[str, Any]) -> ExportTraceServiceRequest:
    of_scope = ScopeSpans(scope=InstrumentationScope(name="smg-sdk"), spans=spans)
    of_resource = ResourceSpans(resource=Resource(attributes=pairs_of(resource)), scope_spans=[of_scope])
    return ExportTraceServiceRequest(resource_spans=[of_resource])


@pytest.mark.full
@given(st.lists(SPANS, max_size=4), PAIRS)
def test_what_is_encoded_is_read_as_the_same_spans(spans: list[TraceSpan], resource: dict[str, Any]) -> None:
    sent = encoded_request(resource, "smg-sdk", [encoded_span(each) for each in spans])

    assert ExportTraceServiceRequest.FromString(sent) == message_with([message_of(each) for each in spans], resource)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (1 << 63, str(1 << 63)),
        (-(1 << 63) - 1, str(-(1 << 63) - 1)),
        ("half of \ud83d a pair", "half of ? a pair"),
    ],
    ids=["too large", "too small", "surrogate"],
)
def test_a_value_that_otlp_has_no_form_for_is_a_text_near_to_it(value: Any, read: str) -> None:
    span = TraceSpan("0a" * 16, "0b" * 8, "", "queue", "internal", 1, 2, {"smg.tokens": value})
    sent = encoded_request({}, "smg-sdk", [encoded_span(span)])

    told = ExportTraceServiceRequest.FromString(sent).resource_spans[0].scope_spans[0].spans[0].attributes[0]
    assert told.value.string_value == read

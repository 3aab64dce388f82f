"""Spans as OTLP sends them: the bytes of an `ExportTraceServiceRequest` of opentelemetry-proto.

Written without message objects, which take several times as long for spans of this size; a test holds the bytes to what
opentelemetry-proto itself reads in them. Pure. Above: `exporting`. Below: `spans`.
"""

from collections.abc import Iterable, Mapping
from struct import Struct as Layout

from smg_core.observability.trace_context import RemoteSpan
from smg_core.observability.tracing.attributes import ATTRIBUTES
from smg_core.observability.tracing.spans import Attribute, SpanEvent, TraceSpan

__all__ = ["encoded_request", "encoded_span"]

_KINDS = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_HEADS = {name: b"\x30" + bytes([number]) for name, number in _KINDS.items()}
_TIMES = Layout("<BQBQ").pack  # start and end of a span
_TIME = Layout("<BQ").pack
_DOUBLE = Layout("<Bd").pack
_ERROR = b"\x7a\x02\x18\x02"  # a status whose code is ERROR
_LOCAL = b"\x85\x01\x00\x01\x00\x00"  # flags: it is known whether the parent is another service's, and it is not
_REMOTE = b"\x85\x01\x00\x03\x00\x00"  # and it is
_LINKED = b"\x35\x00\x03\x00\x00"  # the flags of a link to another service's span
_LARGEST = (1 << 63) - 1  # of a signed integer of 64 bits
_WHOLE = (1 << 64) - 1


def _long_varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


_VARINTS = [_long_varint(number) for number in range(1024)]
_SHORT = len(_VARINTS)


def _varint(number: int) -> bytes:
    """An unsigned integer, as protobuf writes lengths and numbers."""
    return _VARINTS[number] if number < _SHORT else _long_varint(number)


def _sized(tag: bytes, content: bytes) -> bytes:
    """A field of bytes, a string or a message."""
    return tag + _varint(len(content)) + content


def _text(text: str) -> bytes:
    """As UTF-8; half of a surrogate pair, which UTF-8 does not have, becomes a question mark."""
    return text.encode("utf-8", "replace")


_NAMES = {name: _sized(b"\x0a", name.encode()) for name in ATTRIBUTES}
"""The attributes' names as fields."""


def _value(value: Attribute) -> bytes:
    """The value of an attribute, as a message. An integer of more than 64 bits is its digits."""
    if isinstance(value, str):
        return _sized(b"\x0a", _text(value))
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        if -_LARGEST - 1 <= value <= _LARGEST:
            return b"\x18" + _varint(value & _WHOLE)
        return _sized(b"\x0a", str(value).encode())
    if isinstance(value, float):
        return _DOUBLE(0x21, value)
    return _sized(b"\x2a", b"".join([_sized(b"\x0a", _value(each)) for each in value]))


_TEXTS = [b"\x12" + bytes([size + 2, 0x0A, size]) for size in range(126)]
"""What stands before a text of so many bytes that is an attribute's value."""

_NUMBERS = [_sized(b"\x12", _value(number)) for number in range(256)]
_TRUE, _FALSE = _sized(b"\x12", _value(True)), _sized(b"\x12", _value(False))


def _told(value: Attribute) -> bytes:
    """The value of an attribute, as its field. Most are short texts and small numbers."""
    if isinstance(value, str):
        text = _text(value)
        return _TEXTS[len(text)] + text if len(text) < len(_TEXTS) else _sized(b"\x12", _sized(b"\x0a", text))
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int) and 0 <= value < len(_NUMBERS):
        return _NUMBERS[value]
    return _sized(b"\x12", _value(value))


def _attributes(tag: bytes, attributes: Mapping[str, Attribute]) -> bytes:
    """Attributes, each as a field with this tag."""
    written: list[bytes] = []
    for name, value in attributes.items():
        pair = (_NAMES.get(name) or _sized(b"\x0a", _text(name))) + _told(value)
        written += (tag, _varint(len(pair)), pair)
    return b"".join(written)


def _event(event: SpanEvent) -> bytes:
    content = _TIME(0x09, event.at) + _sized(b"\x12", _text(event.name)) + _attributes(b"\x1a", event.attributes)
    return _sized(b"\x5a", content)


def _link(link: RemoteSpan) -> bytes:
    content = b"\x0a\x10" + bytes.fromhex(link.trace_id) + b"\x12\x08" + bytes.fromhex(link.span_id) + _LINKED
    return _sized(b"\x6a", content)


def encoded_span(span: TraceSpan) -> bytes:
    """A span, as a field of its scope."""
    written = [b"\x0a\x10", bytes.fromhex(span.trace_id), b"\x12\x08", bytes.fromhex(span.span_id)]
    if span.state:
        written.append(_sized(b"\x1a", _text(span.state)))
    if span.parent_id:
        written += (b"\x22\x08", bytes.fromhex(span.parent_id))
    name = _text(span.name)
    written += (b"\x2a", _varint(len(name)), name, _HEADS[span.kind], _TIMES(0x39, span.start, 0x41, span.end))
    if span.attributes:
        written.append(_attributes(b"\x4a", span.attributes))
    written += [_event(each) for each in span.events]
    written += [_link(each) for each in span.links]
    if span.error:
        written.append(_ERROR)
    written.append(_REMOTE if span.remote else _LOCAL)
    return _sized(b"\x12", b"".join(written))


def encoded_request(resource: Mapping[str, Attribute], scope: str, spans: Iterable[bytes]) -> bytes:
    """What is sent: encoded spans, whose attributes in common are `resource`, made by the library `scope`."""
    of_scope = _sized(b"\x0a", _sized(b"\x0a", _text(scope))) + b"".join(spans)
    of_resource = _sized(b"\x0a", _attributes(b"\x0a", resource)) + _sized(b"\x12", of_scope)
    return _sized(b"\x0a", of_resource)

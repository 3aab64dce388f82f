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
_MOST_KEPT = 4096
_LONGEST_KEPT = 128  # bytes


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


def _field_of_value(value: Attribute) -> bytes:
    """The value of an attribute, as its field. Most are short texts and small numbers."""
    if isinstance(value, str):
        text = _text(value)
        return _TEXTS[len(text)] + text if len(text) < len(_TEXTS) else _sized(b"\x12", _sized(b"\x0a", text))
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int) and 0 <= value < len(_NUMBERS):
        return _NUMBERS[value]
    return _sized(b"\x12", _value(value))


def _pair(tag: bytes, name: str, value: Attribute) -> bytes:
    """One attribute, as a field with this tag."""
    pair = (_NAMES.get(name) or _sized(b"\x0a", _text(name))) + _field_of_value(value)
    return tag + _varint(len(pair)) + pair


def _attributes(tag: bytes, attributes: Mapping[str, Attribute]) -> bytes:
    """Attributes, each as a field with this tag."""
    return b"".join([_pair(tag, name, value) for name, value in attributes.items()])


_OF_SPAN = b"\x4a"  # the tag of a span's attribute
_UNLIKE = frozenset({"gen_ai.response.id", "smg.request_id", "smg.client_request_id"})
"""Attributes that have another value for each request."""
_DOUBLES = {name: _pair(_OF_SPAN, name, 0.0)[:-8] for name in ATTRIBUTES}
"""What stands before the number of an attribute that is a double."""
_PACKED = Layout("<d").pack

_kept: dict[tuple[str, type, Attribute], bytes] = {}
"""Short attributes as fields of a span: most requests have many of the same. Spans are written by the thread that sends them."""
_heads: dict[tuple[str, str], bytes] = {}
"""The names of spans, with their kinds."""


def _of_span(attributes: Mapping[str, Attribute]) -> list[bytes]:
    """The attributes of a span."""
    written: list[bytes] = []
    for name, value in attributes.items():
        kind = type(value)
        if kind is float:
            head = _DOUBLES.get(name)
            written.append(_pair(_OF_SPAN, name, value) if head is None else head + _PACKED(value))
        elif name in _UNLIKE or (kind is int and value >= len(_NUMBERS)):  # type: ignore[operator]
            written.append(_pair(_OF_SPAN, name, value))
        else:
            written.append(_kept.get((name, kind, value)) or _keep(name, value))
    return written


def _keep(name: str, value: Attribute) -> bytes:
    """An attribute of a span, kept for the next one unless it is long."""
    pair = _pair(_OF_SPAN, name, value)
    if len(pair) <= _LONGEST_KEPT:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[name, type(value), value] = pair
    return pair


def _head(name: str, kind: str) -> bytes:
    """The name and the kind of a span, kept for the next one unless the name is long."""
    head = _sized(b"\x2a", _text(name)) + _HEADS[kind]
    if len(head) <= _LONGEST_KEPT:
        if len(_heads) >= _MOST_KEPT:
            _heads.clear()
        _heads[name, kind] = head
    return head


def _event(event: SpanEvent) -> bytes:
    content = _TIME(0x09, event.at) + _sized(b"\x12", _text(event.name)) + _attributes(b"\x1a", event.attributes)
    return _sized(b"\x5a", content)


def _link(link: RemoteSpan) -> bytes:
    content = b"\x0a\x10" + bytes.fromhex(link.trace_id) + b"\x12\x08" + bytes.fromhex(link.span_id) + _LINKED
    return _sized(b"\x6a", content)


def encoded_span(span: TraceSpan) -> bytes:
    """A span, as a field of its scope."""
    written = [bytes.fromhex(f"0a10{span.trace_id}1208{span.span_id}")]
    if span.state:
        written.append(_sized(b"\x1a", _text(span.state)))
    if span.parent_id:
        written.append(bytes.fromhex(f"2208{span.parent_id}"))
    written.append(_heads.get((span.name, span.kind)) or _head(span.name, span.kind))
    written.append(_TIMES(0x39, span.start, 0x41, span.end))
    if span.attributes:
        written += _of_span(span.attributes)
    if span.events:
        written += [_event(each) for each in span.events]
    if span.links:
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

"""Text and objects as JSON bytes that cannot break a stream.

Decides what happens to text that JSON or a line-based reader has trouble with: a lone surrogate becomes U+FFFD (UTF-8
cannot carry it), and U+0085, U+2028 and U+2029 are written as escapes, because readers that split lines as Python's
`splitlines` does would cut a server-sent event there. All else is what any compact JSON encoder writes. Above: the
encoders. Below: msgspec.
"""

from typing import Any

import msgspec

__all__ = ["encode_body", "encode_object", "encode_text", "without_surrogates"]

_encode = msgspec.json.Encoder().encode
_LINE_BREAKS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


def encode_text(text: str) -> bytes:
    """`text` as a JSON string in UTF-8, quotes included."""
    if text.isascii():
        return _encode(text)
    try:
        encoded = _encode(text)
    except UnicodeEncodeError:
        encoded = _encode(without_surrogates(text))
    return _safe(encoded)


def encode_object(value: Any) -> bytes:
    """A value made of dicts, lists, strings, numbers, booleans and None as compact JSON in UTF-8, fit for a line of a stream."""
    return _safe(encode_body(value))


def encode_body(value: Any) -> bytes:
    """The same for a body that is one JSON text, which nobody cuts into lines: it is not searched for line breaks, which takes
    longer than all else where it is large."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_clean(value))


def without_surrogates(text: str) -> str:
    """`text` with pairs of surrogates joined and lone ones replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _safe(encoded: bytes) -> bytes:
    # The bytes of these three characters occur in no other character's UTF-8 and never in JSON's own syntax.
    if b"\xc2\x85" in encoded or b"\xe2\x80" in encoded:
        for character, escape in _LINE_BREAKS:
            encoded = encoded.replace(character, escape)
    return encoded


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {without_surrogates(name): _clean(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value

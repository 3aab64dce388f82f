"""Encodes text and objects as JSON that is safe in a stream of lines.

A lone surrogate becomes U+FFFD, since UTF-8 has no encoding for it. U+0085, U+2028 and U+2029 are escaped, because readers that
split lines as Python's `splitlines` does would cut a server-sent event there. Everything else is what any compact JSON encoder
writes. Pure. Above: the encoders. Below: msgspec.
"""

from collections.abc import Callable

import msgspec

__all__ = ["encode_ascii", "encode_body", "encode_object", "encode_text", "without_surrogates"]

_encode = msgspec.json.Encoder().encode
encode_ascii: Callable[[str], bytes] = _encode
"""What `encode_text` does with text of ASCII alone, without a call of Python's: for where one more token is written."""
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


def encode_object(value: object) -> bytes:
    """A value made of dicts, lists, strings, numbers, booleans and None as compact JSON in UTF-8, safe in a stream of lines."""
    return _safe(encode_body(value))


def encode_body(value: object) -> bytes:
    """The same for a whole body, which nobody reads by lines: it is not searched for line breaks, which would take most of the
    time for a large one."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_repaired(value))


def without_surrogates(text: str) -> str:
    """`text` with pairs of surrogates joined and lone ones replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _safe(encoded: bytes) -> bytes:
    # The bytes of these three characters occur in no other character's UTF-8 and never in JSON's own syntax.
    if b"\xc2\x85" in encoded or b"\xe2\x80" in encoded:
        for character, escape in _LINE_BREAKS:
            encoded = encoded.replace(character, escape)
    return encoded


def _repaired(value: object) -> object:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {without_surrogates(name): _repaired(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_repaired(inner) for inner in value]
    return value

"""The trace that a request belongs to, as its client says it: the header `traceparent` of W3C Trace Context.

Pure. Above: the exchange. Below: nothing.
"""

import re

__all__ = ["trace_id_of"]

_TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", re.DOTALL
)


def trace_id_of(traceparent: str) -> str:
    """The trace's id, 32 hexadecimal digits; "" for a header that is none. A later version may have more behind the flags."""
    found = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    return "" if found is None or (found[1] == "00" and found[3] is not None) else found[2]

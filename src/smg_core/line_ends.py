"""Writes JSON as one line for every reader, whatever characters end its lines.

Pure. Above: the results of batches, the audit log. Below: nothing.
"""

__all__ = ["as_one_line"]

_ESCAPES = (
    *((end.encode(), f"\\u{ord(end):04x}".encode()) for end in "\u0085\u2028\u2029"),  # only strings can have them
    *((end, b" ") for end in (b"\n", b"\r")),  # never in a string: between two values
)


def as_one_line(json: bytes) -> bytes:
    """The JSON text `json` without a character that a reader may take for the end of a line; it stands for the same value."""
    for end, escape in _ESCAPES:
        json = json.replace(end, escape)
    return json

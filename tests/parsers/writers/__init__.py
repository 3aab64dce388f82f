"""One writer per family: ``WRITERS[family](calls, reasoning, text)`` is the output such a model would write.

Written from chat templates and public documentation (``docs/parsers/formats.md``), so that parsing it back is a check of the
parser and not of itself.
"""

from .formats_2026 import FORMATS_2026
from .json_formats import JSON_FORMATS
from .model import Call, Format, Piece, Segment, calls, dump, marker, reasoning, text
from .other_formats import OTHER_FORMATS
from .xml_formats import XML_FORMATS

WRITERS: dict[str, Format] = {
    form.family: form for form in (*JSON_FORMATS, *XML_FORMATS, *OTHER_FORMATS, *FORMATS_2026)
}

__all__ = ["WRITERS", "Call", "Format", "Piece", "Segment", "calls", "dump", "marker", "reasoning", "text"]

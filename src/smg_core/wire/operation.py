"""Descriptions of routes for `/openapi.json`: one record for each route, beside the route table.

Pure. Above: the server, which writes the records, and `openapi`, which makes the document. Below: nothing.
"""

from collections.abc import Mapping

import attrs

from smg_core.json_types import Json

__all__ = ["EVENT_STREAM", "HTML_PAGE", "Operation", "OperationResponse"]

EVENT_STREAM = "text/event-stream"
HTML_PAGE = "text/html; charset=utf-8"


@attrs.frozen
class OperationResponse:
    """One possible response: its status, its meaning, and its body as a msgspec type (None: no JSON) with its media type."""

    status: int
    meaning: str
    body: object = None
    media_type: str = "application/json"


@attrs.frozen
class Operation:
    """One route's description. `name` is the operation's id, unique over all routes; `body` the msgspec type that requests are
    decoded into (None: no body); `examples` are valid bodies by name;
    `error` is the type of its errors (None: the document's)."""

    name: str
    summary: str
    tag: str
    body: object = None
    responses: tuple[OperationResponse, ...] = ()
    examples: Mapping[str, Json] = attrs.field(factory=dict)
    error: object = None

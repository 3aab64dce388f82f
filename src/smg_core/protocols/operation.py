"""What a route takes and gives, for its description in `/openapi.json`.

A record that stands beside the route; the document is made of them by `protocols.openapi`. Pure.
"""

from collections.abc import Mapping
from typing import Any

import attrs

__all__ = ["Answer", "Operation"]


@attrs.frozen
class Answer:
    """One answer: its status, what it means, and its body as a msgspec type (None: no JSON). `media_type` is that of the body."""

    status: int
    meaning: str
    body: Any = None
    media_type: str = "application/json"


@attrs.frozen
class Operation:
    """One route's description. `name` is the operation's id, unique over all routes; `body` the msgspec type that requests are
    decoded as (None: no body); `examples` are bodies by name, each of which is answered well; `refused` whether requests can be
    refused as wrong."""

    name: str
    summary: str
    tag: str
    body: Any = None
    answers: tuple[Answer, ...] = ()
    examples: Mapping[str, Any] = attrs.field(factory=dict)

"""The target of a route: a handler, and what is checked before it is called.

`server.app` has a table of routes with these as targets; handlers are coroutines of other modules. Decides nothing.
"""

from collections.abc import Awaitable, Callable

import attrs

from smg_core.protocols.operation import Operation
from smg_core.server.exchange import Exchange

__all__ = ["Endpoint", "Handler"]

Handler = Callable[[Exchange], Awaitable[None]]


@attrs.frozen
class Endpoint:
    """A handler. `public`: it is called without identifying the caller; `reads_json`: requests with other content types are
    refused. `about` describes it in `/openapi.json`."""

    answer: Handler
    public: bool = False
    reads_json: bool = False
    about: Operation | None = None

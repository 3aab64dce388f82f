"""What answers a route.

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
    """What answers a route. A public one is not asked whose its requests are; one that reads JSON refuses other types. `about`
    describes it in `/openapi.json`."""

    answer: Handler
    public: bool = False
    reads_json: bool = False
    about: Operation | None = None

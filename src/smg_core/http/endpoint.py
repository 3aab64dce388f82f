"""The target of a route (edge): a handler, and what is checked before it is called.

`app.app` has a table of routes with these as targets; handlers are coroutines of other modules. Decides nothing.
"""

from collections.abc import Awaitable, Callable
from typing import Self

import attrs

from smg_core.auth.roles import PUBLIC
from smg_core.http.browsers import Hosts
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.wire.operation import Operation

__all__ = ["Endpoint", "Handler", "RouteTable", "id_prefix_of"]

Handler = Callable[[Exchange], Awaitable[None]]


def id_prefix_of(handler: Handler) -> str:
    """How the ids of the requests to a handler begin: those of an API whose answers have the id begin as it says."""
    prefix: str = getattr(handler, "id_prefix", "req_")
    return prefix


@attrs.frozen
class Endpoint:
    """A handler. `needs` is the permission that its callers need (`auth.roles`), or PUBLIC: it is called without identifying
    the caller. It has no default, so that a route without it cannot be made. `reads_json`: requests with other content types are
    refused. `about` describes it in `/openapi.json`."""

    answer: Handler
    needs: str
    reads_json: bool = False
    about: Operation | None = None
    public: bool = attrs.field(init=False)
    """Whether everybody may call it."""

    @public.default
    def _is_public(self) -> bool:
        return self.needs == PUBLIC

    @classmethod
    def for_all(cls, answer: Handler) -> Self:
        """An endpoint that needs no permission."""
        return cls(answer, PUBLIC)


@attrs.frozen
class RouteTable:
    """The routes of one listener, and who may call them from a browser: the `hosts` that requests may name (None: any), and the
    `origins` of the pages that may read answers (None: of none, and no setting allows any)."""

    routes: tuple[Route[Endpoint], ...]
    hosts: Hosts | None
    origins: tuple[str, ...] | None = None

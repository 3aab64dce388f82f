"""The routes of the public listener, one table of all that handlers bring (edge).

Decides nothing. Above: server.app, which finds the handler of each request in it. Below: the modules with handlers.
"""

from smg_core.server.describing import describing_routes
from smg_core.server.endpoint import Endpoint
from smg_core.server.generating import generating_routes
from smg_core.server.routes import Route
from smg_core.server.runtime import Runtime
from smg_core.server.status import status_routes

__all__ = ["public_routes"]


def public_routes(gateway: Runtime) -> tuple[Route[Endpoint], ...]:
    """The routes over `gateway`, with those that describe the others where `server.docs` wants them."""
    routes = [*generating_routes(gateway), *status_routes(gateway)]
    return (*routes, *(describing_routes(gateway, routes) if gateway.config.server.docs else ()))

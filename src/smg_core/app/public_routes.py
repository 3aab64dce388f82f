"""The routes of the public listener, one table of all that the APIs bring (edge).

Decides nothing. Above: app.app, which finds the handler of each request in it. Below: the rows of the APIs.
"""

from collections.abc import Iterable

from smg_core.app.openapi_routes import describing_routes
from smg_core.http.browsers import hosts_taken
from smg_core.http.endpoint import RouteTable
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiContext, ApiSpec

__all__ = ["public_table"]


def public_table(services: Services, apis: Iterable[ApiSpec]) -> RouteTable:
    """The routes of these APIs over `services`, with those that describe the others where `server.docs` wants them; and who may
    call them from a browser."""
    server, context = services.live.config.server, ApiContext(services)
    routes = [route for spec in apis for route in spec.routes(context)]
    described = describing_routes(services, routes) if server.docs else ()
    hosts = hosts_taken(server.host, server.allowed_hosts, "server.allowed_hosts")
    return RouteTable((*routes, *described), hosts, server.cors_origins)

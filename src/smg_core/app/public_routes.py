"""The routes of the public listener, one table of all that handlers bring (edge).

Decides nothing. Above: app.app, which finds the handler of each request in it. Below: the modules with handlers.
"""

from smg_core.apis.status.routes import status_routes
from smg_core.app.generating_routes import generating_routes
from smg_core.app.openapi_routes import describing_routes
from smg_core.http.browsers import hosts_taken
from smg_core.http.endpoint import RouteTable
from smg_core.serving.services import Services

__all__ = ["public_table"]


def public_table(services: Services) -> RouteTable:
    """The routes over `gateway`, with those that describe the others where `server.docs` wants them; and who may call them from a
    browser."""
    server = services.live.config.server
    routes = [*generating_routes(services), *status_routes(services)]
    described = describing_routes(services, routes) if server.docs else ()
    hosts = hosts_taken(server.host, server.allowed_hosts, "server.allowed_hosts")
    return RouteTable((*routes, *described), hosts, server.cors_origins)

"""The routes that metrics are read from, at a port of their own and at the admin door (edge).

The port is for scrapers: it asks for no credential and has nothing else. At the admin door the permission is admin.metrics.
Above: processes.telemetry, admin.app. Below: `meter`.
"""

from smg_core.admin.metrics.meter import Meter
from smg_core.app.app import App
from smg_core.auth.roles import PUBLIC
from smg_core.config.config import Config
from smg_core.http.browsers import Hosts, hosts_taken
from smg_core.http.endpoint import Endpoint, RouteTable
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.observability.metrics.exposition import wanted_format
from smg_core.serving.lifecycle import Lifecycle
from smg_core.serving.services import Services
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["metrics_app", "metrics_route"]

ABOUT = Operation(
    "adminMetrics",
    "The metrics of all processes, as text for Prometheus or OpenMetrics.",
    "health",
    None,
    (OperationResponse(200, "All series.", None),),
)


def metrics_route(
    services: Services, meter: Meter, path: str, needs: str, hosts: Hosts | None = None
) -> Route[Endpoint]:
    """The route at `path`; `needs` is the permission that its callers need, or PUBLIC. `hosts` are those that requests may name,
    for a route that nobody is asked at: the app checks the others."""

    async def answer(exchange: Exchange) -> None:
        if hosts is not None:
            hosts.check(exchange.scope, exchange.headers.get("host", ""))
        content_type = wanted_format(exchange.headers.get("accept", ""))
        text = await meter.text(content_type)
        exchange.take_id(services.ids, "req_")
        headers = [(b"content-type", content_type.encode()), services.request_ids.header(exchange.name)]
        await exchange.respond(200, text, headers)

    return Route("GET", path, Endpoint(answer, needs, about=ABOUT))


def metrics_app(gateway: Lifecycle, meter: Meter, config: Config) -> App:
    """The app at the port of the metrics, which has that one route."""
    settings = config.metrics
    hosts = hosts_taken(settings.host, settings.allowed_hosts, "metrics.allowed_hosts")
    return App(
        gateway, table=RouteTable((metrics_route(gateway.services, meter, settings.path, PUBLIC, hosts),), hosts)
    )

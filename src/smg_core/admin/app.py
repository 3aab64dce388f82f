"""The ASGI app of the admin door (edge).

The same machine as the public app, `app.app`, with a route table of its own: none of its paths is on the public listener, and
none of the public ones here. Callers are authenticated as there, and need the permission that their route names. Without any
identity in the settings everybody who reaches the door may do everything, so it is opened on the loopback or a Unix socket alone
(`server.admin_listener`). `auditing` is told of every request that changes something before it begins, and of every request when
it has ended. Above: server.admin_server. Below: the routes.
"""

from smg_core.admin.auditing import READING, AdminAudit
from smg_core.admin.control import control_routes
from smg_core.admin.health import health_routes
from smg_core.admin.history import history_routes
from smg_core.admin.limits import limit_routes
from smg_core.admin.mesh import mesh_routes
from smg_core.admin.metrics.meter import Meter
from smg_core.admin.metrics.serving import metrics_route
from smg_core.admin.roster import roster_routes
from smg_core.admin.signals import signal_routes
from smg_core.admin.usage import usage_routes
from smg_core.app.app import App
from smg_core.app.openapi_routes import describing_routes
from smg_core.auth.base import Head
from smg_core.http.browsers import LOOPBACK, Hosts
from smg_core.http.endpoint import Endpoint, RouteTable
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.operation.control import Control
from smg_core.operation.process_table import ProcessTable
from smg_core.plugins.app_plugins import Plugging, StepOfExchange
from smg_core.request import Caller
from smg_core.serving.lifecycle import Lifecycle

__all__ = ["AdminApp", "admin_table"]


def admin_table(
    gateway: Lifecycle, processes: ProcessTable, meter: Meter | None = None, control: Control | None = None
) -> RouteTable:
    """The routes of the admin door of `gateway`, with the metrics of `meter` where the settings want them there, and the hosts
    that its requests may name: a page in a browser that has its own name point here is refused."""
    services = gateway.services
    config = services.live.config.admin
    routes: list[Route[Endpoint]] = [
        *health_routes(services, processes),
        *roster_routes(services),
        *limit_routes(services),
        *mesh_routes(services),
        *signal_routes(services),
        *usage_routes(services),
        *history_routes(services),
        *control_routes(services, control or Control(gateway, processes)),
    ]
    if meter is not None and services.live.config.metrics.admin:
        routes.append(metrics_route(services, meter, "/admin/metrics", "admin.metrics"))
    described = describing_routes(services, routes, prefix="/admin", needs="admin.health")
    names = tuple(name.lower() for name in config.allowed_hosts or (*LOOPBACK, config.host))
    hosts = None if "*" in names else Hosts(names, everywhere=True, setting="admin.allowed_hosts")
    return RouteTable((*routes, *described), hosts)


class AdminApp(App):
    """The app over `gateway`, whose table is `admin_table`'s."""

    def __init__(
        self,
        gateway: Lifecycle,
        processes: ProcessTable,
        meter: Meter | None = None,
        control: Control | None = None,
    ) -> None:
        services = gateway.services
        super().__init__(gateway, self._named, table=admin_table(gateway, processes, meter, control))
        self._audit = AdminAudit(services)

    async def _named(self, head: Head) -> Caller:
        """The caller of a request, kept for the log also where its permission is then found wanting."""
        caller = await self._services.running.identify(head)
        if isinstance(head, Exchange):
            head.caller = caller
        return caller

    async def _permit(self, exchange: Exchange, needed: str, plugging: Plugging | None) -> None:
        """As for all requests; then the audit log is told what is about to be done. Raises Overloaded where that fails."""
        await super()._permit(exchange, needed, plugging)
        if exchange.method not in READING:
            await self._audit.begin(exchange)

    async def _settle(self, exchange: Exchange, step: StepOfExchange) -> str:
        outcome = "cancelled"
        try:
            outcome = await super()._settle(exchange, step)
        finally:
            await self._audit.end(exchange, outcome)
        return outcome

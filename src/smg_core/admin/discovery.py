"""The sources of workers, at the admin door (edge).

`/admin/discovery`: each source with how it stands, how old its last answer is, and what it names. Above: admin.health.
Below: the discovery of this process.
"""

import msgspec

from smg_core.admin.operations import DISCOVERY, DiscoveredWorker, DiscoverySources, SourceState
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.operation.discovery import Discovering, discovery_of
from smg_core.serving.services import Services

__all__ = ["discovery_routes"]


def discovery_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes, over the sources of `gateway`."""
    discovery = _Sources(services, discovery_of(services))
    return (Route("GET", "/admin/discovery", Endpoint(discovery.answer, "admin.workers", about=DISCOVERY)),)


class _Sources:
    def __init__(self, services: Services, discovery: Discovering) -> None:
        self._services = services
        self._discovery = discovery

    async def answer(self, exchange: Exchange) -> None:
        services, now = self._services, self._services.clock.monotonic()
        found = [
            SourceState(
                each.name,
                each.state,
                each.age(now),
                each.reason,
                [DiscoveredWorker(one.spec.label, one.condition) for one in each.wanted or ()],
                list(each.taken),
            )
            for each in self._discovery.standings.values()
        ]
        exchange.take_id(services.ids, "req-")
        headers = [(b"content-type", b"application/json"), services.request_ids.header(exchange.name)]
        await exchange.respond(200, msgspec.json.encode(DiscoverySources(found)), headers)

"""The sources of workers, at the admin door (edge).

`/admin/discovery`: each source with how it stands, how old its last answer is, and what it names. Above: admin.health.
Below: the discovery of this process.
"""

import msgspec

from smg_core.admin.operations import DISCOVERY, DiscoveredWorker, DiscoverySources, SourceState
from smg_core.fleet.discovery import Discovering, discovery_of
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.serving.runtime import Runtime

__all__ = ["discovery_routes"]


def discovery_routes(gateway: Runtime) -> tuple[Route[Endpoint], ...]:
    """The routes, over the sources of `gateway`."""
    discovery = _Sources(gateway, discovery_of(gateway))
    return (Route("GET", "/admin/discovery", Endpoint(discovery.answer, "admin.workers", about=DISCOVERY)),)


class _Sources:
    def __init__(self, gateway: Runtime, discovery: Discovering) -> None:
        self._gateway = gateway
        self._discovery = discovery

    async def answer(self, exchange: Exchange) -> None:
        gateway, now = self._gateway, self._gateway.clock.monotonic()
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
        exchange.take_id(gateway.ids, "req-")
        headers = [(b"content-type", b"application/json"), gateway.id_header(exchange.name)]
        await exchange.respond(200, msgspec.json.encode(DiscoverySources(found)), headers)

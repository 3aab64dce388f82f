"""The sources of workers, at the admin door (edge).

`/admin/discovery`: each source with how it stands, how old its last answer is, and what it names. Above: admin.health.
Below: the discovery of this process.
"""

from typing import Literal

import msgspec
from msgspec import Struct

from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.operation.discovery import Discovering, discovery_of
from smg_core.serving.services import Services
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["DISCOVERY", "DiscoveredWorker", "DiscoverySources", "SourceState", "discovery_routes"]


class DiscoveredWorker(Struct):
    """A worker that a source names: "ready" to be used, "unready" (not added now, kept where it is there), or "leaving"."""

    name: str
    condition: Literal["ready", "unready", "leaving"]


class SourceState(Struct):
    """A source of workers. `state` is "current"; "stale" where its last answers could not be used, for `reason`: what it named
    `age_s` seconds ago still holds; or "unknown" where it has never answered. `taken`: names that other workers have already."""

    name: str
    state: Literal["current", "stale", "unknown"]
    age_s: float
    reason: str
    workers: list[DiscoveredWorker]
    taken: list[str]


class DiscoverySources(Struct):
    """The sources of workers, in the order in which they are set."""

    sources: list[SourceState]


DISCOVERY = Operation(
    "adminDiscovery",
    "The sources of workers: whether each answers, how old its last answer is, and what it names.",
    "workers",
    None,
    (OperationResponse(200, "How they stand.", DiscoverySources),),
)


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
        exchange.take_id(services.ids, "req_")
        headers = [(b"content-type", b"application/json"), services.request_ids.header(exchange.name)]
        await exchange.respond(200, msgspec.json.encode(DiscoverySources(found)), headers)

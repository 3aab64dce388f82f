"""The decisions of routing, at the admin door (edge).

`/admin/decisions/{request_id}`: who could have had a request, who got it, and why. Above: admin.control. Below:
operation.decision_lookup, which has those of all processes.
"""

import msgspec
from msgspec import Struct

from smg_core.errors import NotFound
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.operation.decision_lookup import Decided
from smg_core.routing import RoutingDecision
from smg_core.serving.services import Services
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["DECISIONS", "RequestDecisions", "decision_routes"]


class RequestDecisions(Struct):
    """The decisions of routing for one request, in order: one for each role and try."""

    request_id: str
    decisions: list[RoutingDecision]


DECISIONS = Operation(
    "adminDecisions",
    "Which workers could have had a request, who got it, and why.",
    "routing",
    None,
    (OperationResponse(200, "The decisions that are kept, whichever process made them.", RequestDecisions),),
)


def decision_routes(services: Services, decided: Decided) -> tuple[Route[Endpoint], ...]:
    """The routes, over the decisions of all processes of `gateway`."""
    return (
        Route(
            "GET",
            "/admin/decisions/{id}",
            Endpoint(_Decisions(services, decided).of_request, "admin.decisions", about=DECISIONS),
        ),
    )


class _Decisions:
    def __init__(self, services: Services, decided: Decided) -> None:
        self._services = services
        self._decided = decided

    async def of_request(self, exchange: Exchange) -> None:
        services, name = self._services, exchange.path_values["id"]
        found = await self._decided.of(name)
        if not found:
            raise NotFound("There is no decision for this request, or none that is kept.")
        exchange.take_id(services.ids, "req_")
        headers = [(b"content-type", b"application/json"), services.request_ids.header(exchange.name)]
        await exchange.respond(200, msgspec.json.encode(RequestDecisions(name, found)), headers)

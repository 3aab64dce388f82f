"""The route by which a tenant asks what it used (edge).

Its own accounts alone, and nothing of engines. Above: `apis.rows`. Below: `asking`.
"""

import msgspec

from smg_core.apis.usage.asking import usage_asked
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiContext, ApiSpec
from smg_core.usage_report import UsageReport
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SPEC", "USAGE_OPERATION"]

_AXES = ("team", "key", "user", "model", "api")

USAGE_OPERATION = Operation(
    "usage",
    "What the caller's tenant used from one time to another (from, to), in steps (every: hour, day, week, month, all), apart by "
    "team, key, user, model or api (by), or of one of each alone; limit and after go through the rows.",
    "usage",
    None,
    (OperationResponse(200, "The sums.", UsageReport),),
)


def _usage_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    services: Services = context.services

    async def usage(exchange: Exchange) -> None:
        exchange.take_id(services.ids, "req_")
        report = await usage_asked(services, exchange, _AXES, exchange.caller.tenant)
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        headers.append(services.request_ids.header(exchange.name))
        await exchange.respond(200, msgspec.json.encode(report), headers)

    return (Route("GET", "/v1/usage", Endpoint(usage, "usage", about=USAGE_OPERATION)),)


SPEC = ApiSpec((), {"usage": "/v1/usage: what the caller's tenant used, and what it cost"}, _usage_routes)

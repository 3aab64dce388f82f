"""The ledger at the admin door (edge): what every tenant used, and how a tenant or one of its users is forgotten.

Above: admin.app. Below: `apis.usage`, the ledger.
"""

from msgspec import Struct

from smg_core.admin.answers import admin_operation, respond_json
from smg_core.apis.usage.asking import ledger_of, usage_asked
from smg_core.errors import InvalidRequest
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.serving.services import Services
from smg_core.usage_report import USAGE_AXES, UsageReport

__all__ = ["ADMIN_USAGE", "FORGET_USAGE", "ForgottenUsage", "usage_routes"]

NEEDED = "admin.usage"


class ForgottenUsage(Struct):
    """Who was forgotten; `user` is null for all of a tenant."""

    tenant: str
    user: str | None


ADMIN_USAGE = admin_operation(
    "adminUsage",
    "What tenants used from one time to another (from, to), in steps (every: hour, day, week, month, all), apart by tenant, "
    "team, key, user, model, api, worker or provider (by), or of one of each alone; limit and after go through the rows.",
    "usage",
    None,
    UsageReport,
)

FORGET_USAGE = admin_operation(
    "forgetUsage",
    "Forget all accounts of a tenant; or one of its users, whose sums go to those of no user.",
    "usage",
    None,
    ForgottenUsage,
)


def usage_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes."""

    async def usage(exchange: Exchange) -> None:
        await respond_json(services, exchange, await usage_asked(services, exchange, USAGE_AXES))

    async def forget(exchange: Exchange) -> None:
        query, ledger = exchange.query, ledger_of(services)
        for name in query:
            if name not in ("tenant", "user"):
                raise InvalidRequest(f"Unknown parameter {name!r}; there are tenant and user.", param=name)
        if "tenant" not in query:
            raise InvalidRequest("Whose accounts? Name the tenant.", param="tenant")
        tenant, user = query["tenant"][-1], query.get("user", (None,))[-1]
        if user == "":
            raise InvalidRequest("A user has a name.", param="user")
        await ledger.forget(tenant, user)
        await respond_json(services, exchange, ForgottenUsage(tenant, user))

    return (
        Route("GET", "/admin/usage", Endpoint(usage, NEEDED, about=ADMIN_USAGE)),
        Route("DELETE", "/admin/usage", Endpoint(forget, NEEDED, about=FORGET_USAGE)),
    )

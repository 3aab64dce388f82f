"""The history at the admin door (edge): how a tenant is erased.

Above: admin.app. Below: the history.
"""

from msgspec import Struct

from smg_core.admin.answers import admin_operation, respond_json
from smg_core.errors import Conflict, InvalidRequest
from smg_core.history.rules import is_name
from smg_core.history.store.base import KEYS_OWNER
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.serving.services import Services

__all__ = ["ERASE_TENANT", "ErasedTenant", "history_routes"]

NEEDED = "admin.history"


class ErasedTenant(Struct):
    """Who was erased, and how many things the history had of it."""

    tenant: str
    deleted: int


ERASE_TENANT = admin_operation(
    "eraseTenant",
    "Erase all that is kept of a tenant: responses, conversations, batches, files, vector stores, and answers for equal "
    "requests. Its accounts and virtual keys have routes of their own.",
    "history",
    None,
    ErasedTenant,
)


def history_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes."""

    async def erase(exchange: Exchange) -> None:
        tenant = exchange.subject = _named(exchange)
        config = services.live.config
        if config.server.processes > 1 and (config.history.url or "").startswith("memory:"):
            raise Conflict(
                "Each process has a history of its own in its memory (history.url is memory:), and none can erase that of "
                "another: it is gone when the gateway is started again.",
            )
        deleted = await services.running.history.erase(tenant)
        await respond_json(services, exchange, ErasedTenant(tenant, deleted))

    return (Route("DELETE", "/admin/history", Endpoint(erase, NEEDED, about=ERASE_TENANT)),)


def _named(exchange: Exchange) -> str:
    """The tenant that is meant. Raises InvalidRequest."""
    query = exchange.query
    for name in query:
        if name != "tenant":
            raise InvalidRequest(f"Unknown parameter {name!r}; there is tenant.", param=name)
    if len(query.get("tenant", ())) != 1:
        raise InvalidRequest("Whose history? Name one tenant.", param="tenant")
    tenant: str = query["tenant"][0]
    if tenant == KEYS_OWNER or (tenant and not is_name(tenant)):
        raise InvalidRequest("This is no tenant.", param="tenant")
    return tenant

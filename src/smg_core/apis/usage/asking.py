"""Reads a question about accounts from a request's query, and has the ledger answer it (edge).

Loads what reads it where a ledger is kept. Above: the route of tenants, the admin door. Below: the ledger.
"""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from smg_core.errors import InvalidRequest, NotFound
from smg_core.http.exchange import Exchange
from smg_core.serving.services import Services
from smg_core.usage_report import UsageReport

if TYPE_CHECKING:
    from smg_core.ledger.keeping import Ledger

__all__ = ["ledger_of", "usage_asked"]


def ledger_of(services: Services) -> "Ledger":
    """The ledger. Raises NotFound where none is kept."""
    ledger = services.running.ledger
    if ledger is None:
        raise NotFound("This gateway keeps no ledger; ledger.enabled switches it on.")
    return ledger


async def usage_asked(
    services: Services, exchange: Exchange, axes: Collection[str], tenant: str | None = None
) -> UsageReport:
    """The answer to what a request asks, by the names of `axes`; of this `tenant` alone, where one is given. Raises
    InvalidRequest, NotFound and StoreFailed."""
    ledger = ledger_of(services)
    from smg_core.ledger.accounts import in_store
    from smg_core.ledger.queries import read_query

    first = {} if tenant is None else {"tenant": in_store(tenant)}
    if "user" in exchange.query:
        named = exchange.query.get("tenant") if tenant is None else (tenant,)
        if named is None:
            raise InvalidRequest("A user is one of a tenant; name that too.", param="tenant")
        first["user"] = ledger.sought(named[-1], exchange.query["user"][-1])
    now, zone = services.clock.time(), services.live.config.limits.zone
    query = await asyncio.to_thread(read_query, exchange.query, axes, now, zone, first)
    return await ledger.read(query)

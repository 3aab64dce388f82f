"""Opens the ledger of a gateway from its settings, and has it go by others while it runs (edge: reads the table of prices).

A gateway without a ledger loads nothing of it. Above: the assembly. Below: the ledger, `serving.accounting`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from smg_core.serving.services import Services
from smg_core.settings import ConfigError

__all__ = ["adopt_ledger", "kept_ledger"]


@asynccontextmanager
async def kept_ledger(services: Services) -> AsyncIterator[None]:
    """A context in which the requests of a gateway are taken down, where its settings say so. Raises ConfigError for settings
    that cannot be, StoreFailed where the store cannot be opened."""
    config, live, running = services.live.config, services.live, services.running
    if not config.ledger.enabled:
        yield
        return
    from smg_core.ledger.keeping import Ledger
    from smg_core.ledger.opening import ledger_store
    from smg_core.serving.accounting import Accounting
    from smg_core.workers.own_prices import OwnPrices

    store = ledger_store(config.ledger, config.history)
    ledger = Ledger(store, config.ledger, services.clock, services.observer, services.channel)
    accounting = Accounting(ledger, services.clock, services.lookup.served_name, OwnPrices(services.registry))
    running.ledger, live.accounting = ledger, accounting
    try:
        adopt_ledger(services)
        async with ledger.opened():
            yield
    finally:
        running.ledger = live.accounting = None


def adopt_ledger(services: Services) -> None:
    """Go by the prices and teams that the settings have now, where there is a ledger. Raises ConfigError."""
    live = services.live
    if live.accounting is None:
        return
    from smg_core.limits.prices import PricesRefused
    from smg_core.limits.prices_file import prices_from
    from smg_core.limits.rules import RuleRefused
    from smg_core.limits.teams import read_teams

    settings = live.config.limits
    try:
        live.accounting.adopt(prices_from(settings.prices), read_teams(settings.teams))
    except PricesRefused as error:
        raise ConfigError(f"limits.prices: {error}") from None
    except RuleRefused as error:
        raise ConfigError(f"limits.teams: {error}") from None

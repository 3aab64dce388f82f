"""Says what is wrong with where the ledger is to be kept; loads what finds its store only where one is kept."""

from collections.abc import Iterator

from smg_core.history.settings import HistoryConfig
from smg_core.ledger.settings import LedgerConfig
from smg_core.settings import ConfigError

__all__ = ["ledger_problems"]


def ledger_problems(ledger: LedgerConfig, history: HistoryConfig, processes: int) -> Iterator[str]:
    """Every problem, each beginning with its setting's path."""
    if not ledger.enabled:
        return
    from smg_core.ledger.opening import ledger_store, ledger_url

    try:
        ledger_store(ledger, history)
    except ConfigError as error:
        yield str(error)
    given = ledger.url or history.url  # without either, `smg-gateway serve` has a file for both
    if processes != 1 and given and ledger_url(ledger, history) == "memory:":
        yield "ledger.url: several processes need a store that they share, sqlite:///FILE or postgresql://"

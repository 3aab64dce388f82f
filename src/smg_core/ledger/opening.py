"""Finds the store of the ledger that the settings name (edge).

Without a URL of its own, the accounts are beside the history, where that is in SQLite or PostgreSQL. Above: `gateway.ledger`.
Below: the stores, each loaded when it is used.
"""

import re

from smg_core.extras import missing
from smg_core.history.settings import HistoryConfig
from smg_core.history.sql.names import Names
from smg_core.history.sql.sqlite_file import file_of
from smg_core.ledger.settings import LedgerConfig
from smg_core.ledger.statements import LedgerStatements
from smg_core.ledger.store import LedgerStore
from smg_core.settings import ConfigError

__all__ = ["ledger_store", "ledger_url"]

_MEMORY = "memory:"


def ledger_url(settings: LedgerConfig, history: HistoryConfig) -> str:
    """Where the accounts are kept."""
    if settings.url:
        return settings.url
    of_history = history.url or _MEMORY
    return of_history if of_history.startswith("postgresql:") or file_of(of_history) is not None else _MEMORY


def ledger_store(settings: LedgerConfig, history: HistoryConfig) -> LedgerStore:
    """The store, which is opened later. Raises ConfigError for a URL of none."""
    url = ledger_url(settings, history)
    names = Names.parse(history.prefix, history.schema, ())
    if url.startswith("postgresql:"):
        try:
            from smg_core.ledger.postgres import PostgresLedger
        except ModuleNotFoundError as error:
            raise ConfigError(missing("ledger.url", error)) from None
        modes = re.sub(r"([?&])ssl=", r"\1sslmode=", url)  # as the history's driver calls it
        return PostgresLedger(modes, LedgerStatements(names.prefix, names.schema), settings.timeout_s)
    from smg_core.ledger.sqlite import SqliteLedger

    path = file_of(url)
    if path is None and url != _MEMORY:
        raise ConfigError("ledger.url: expected sqlite:///FILE, postgresql://HOST/DATABASE or memory:")
    return SqliteLedger(path, LedgerStatements(names.prefix), settings.timeout_s)

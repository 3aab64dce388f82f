"""Whether accounts are kept of what requests took, where, and for how long.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

from typing import Literal

import attrs

from smg_core.settings import bound, option

__all__ = ["LedgerConfig"]

DAY = 86400.0  # seconds


@attrs.frozen
class LedgerConfig:
    """Accounts of the requests, tokens and money of each tenant, key, user and model, by the hour."""

    enabled: bool = option(
        False, "Keep accounts of who used how much and what it cost ([docs](ledger.md)).", flag="--ledger"
    )
    url: str | None = option(
        None,
        "Where the accounts are kept: sqlite:///FILE, postgresql:// or memory:. Without it, in the database of the history "
        "where that is SQLite or PostgreSQL, else in memory.",
        secret=True,
    )
    users: Literal["hashed", "plain", "none"] = option(
        "hashed",
        "How users that requests name are written down: as a hash with a secret of the store, as they are, or not at all.",
    )
    write_s: float = bound(
        5.0,
        "Seconds between two writes of what was added up. A process that is killed loses as much at most.",
        at_least=0.01,
        at_most=3600,
    )
    kept_s: float | None = option(
        400 * DAY, "Seconds that accounts are kept; null keeps them.", at_least=3600, at_most=36_500 * DAY
    )
    waiting: int = bound(
        20_000,
        "Most accounts that wait in a process to be written, while the store fails; what is beyond them is dropped, and told.",
        at_least=1,
        at_most=10_000_000,
    )
    timeout_s: float = bound(
        10.0, "Seconds that the store of the accounts may take, also at the end.", at_least=0.1, at_most=600
    )

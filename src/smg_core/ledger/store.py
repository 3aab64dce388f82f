"""The role of the store of accounts: a protocol that each store has.

A batch is written once: it has the name of its writer and a number, and a store that has it already does nothing. So a write
whose answer was lost is made again. Above: `keeping`. Below: `accounts`, `queries`.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from smg_core.errors import StoreFailed
from smg_core.ledger.accounts import Account, Amounts
from smg_core.ledger.queries import UsageQuery

__all__ = ["LedgerFailed", "LedgerStore", "SumsBatch"]


class LedgerFailed(StoreFailed):
    """The store of the accounts cannot be reached, has no room or fails. No request to a model hears of it."""

    def __init__(
        self, reason: Literal["unreachable", "full", "failed"], detail: str, *, outside_text: str = ""
    ) -> None:
        super().__init__(reason, f"the ledger: {detail}", outside_text=outside_text)
        self.message = "The accounts are not available at the moment."


class SumsBatch(Struct, frozen=True):
    """Sums that are written together: the batch of that number, from 1, of one writer."""

    writer: str
    number: int
    rows: Sequence[tuple[Account, Amounts]]


class LedgerStore(Protocol):
    """A store of accounts. Its methods raise LedgerFailed."""

    async def open(self, secret: str) -> str:
        """Make what is missing, and return the secret that users are hashed with: this one where the store has none yet."""

    async def write(self, batch: SumsBatch, now: int) -> None:
        """Add the sums of a batch, all or none, unless that was done before. `now` is the time in seconds."""

    async def read(self, query: UsageQuery) -> Sequence[Sequence[object]]:
        """The rows that answer a question."""

    async def forget(self, tenant: str, user: str | None) -> None:
        """Forget a tenant; or one of its users, whose amounts go to those of no user."""

    async def sweep(self, hour: int, now: int) -> None:
        """Delete the accounts of before an hour, and what is known of writers that have not written for long."""

    async def close(self) -> None:
        """Let go of the store."""

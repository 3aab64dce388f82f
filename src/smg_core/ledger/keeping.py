"""Keeps the ledger of one process: adds up what requests took, and writes it every few seconds (edge).

What cannot be written waits, up to a bound, and is tried again; what is dropped is told. A batch that may have been written
already is sent again as the same batch, which a store adds once. At the end all that waits is written. Above:
`serving.accounting`, the routes. Below: a store, the sums.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from operator import add

import msgspec

from smg_core.channel.base import Channel, Notice
from smg_core.channel.settling import known_everywhere
from smg_core.clock import Clock
from smg_core.errors import StoreFailed
from smg_core.hooks import LedgerDropped, Observer
from smg_core.ledger.accounts import HOUR_S, NOTHING, Account, Amounts, Sums, in_store
from smg_core.ledger.queries import UsageQuery, report_of
from smg_core.ledger.settings import LedgerConfig
from smg_core.ledger.store import LedgerStore, SumsBatch
from smg_core.usage_report import UsageReport

__all__ = ["Ledger"]

log = logging.getLogger("smg.ledger")

_Users = tuple[str, ...] | None
"""Users of a tenant, as they may be written down; None: all of the tenant."""

_AT_ONCE = 500
"""Accounts of one batch."""
_FORGET = "ledger.forget"
"""The kind of messages by which processes tell each other whom to forget."""
_SECRET_BYTES, _HASH_BYTES = 32, 16
_SWEEP_S = 3600.0
_LONGEST_NAME = 200
"""Characters of a user's id that is written down as it is; a longer one is hashed."""


class Ledger:
    """The accounts of this process, written to `store`."""

    def __init__(
        self, store: LedgerStore, settings: LedgerConfig, clock: Clock, observer: Observer, channel: Channel
    ) -> None:
        self._store, self._settings, self._clock, self._observer = store, settings, clock, observer
        self._channel, self._late = channel, list[tuple[str, _Users]]()
        self._writer = secrets.token_hex(_HASH_BYTES)
        self._sums, self._number = Sums(settings.waiting), 0
        self._batch: SumsBatch | None = None  # what was sent to the store, which has not said that it has it
        self._writing, self._many = asyncio.Lock(), asyncio.Event()
        self._secret = b""
        self._open = self._failing = False
        self._swept, self._lost = 0.0, NOTHING

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """A context in which it is kept; what waits at its end is written. Raises StoreFailed where the store cannot be
        opened."""
        try:
            self._secret = bytes.fromhex(await self._store.open(secrets.token_hex(_SECRET_BYTES)))
            self._open = True
            self._channel.subscribe(_FORGET, self._heard)
            task = asyncio.create_task(self._run(), name="smg-ledger")
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await self._end()
        finally:
            self._open = False
            await self._store.close()

    def user(self, tenant: str, name: str) -> str:
        """How a user of a tenant is written down."""
        return "" if self._settings.users == "none" else self.sought(tenant, name)

    def sought(self, tenant: str, name: str) -> str:
        """The user of accounts that are asked for by a user's name. Where no users are written down, those of before may be."""
        if not name:
            return ""
        hashed, *plain = self._spellings(tenant, name)
        return plain[0] if plain and self._settings.users == "plain" else hashed

    def _spellings(self, tenant: str, name: str) -> tuple[str, ...]:
        """All that a user may be written down as, whatever the settings were then: as a hash, and as it is where it can be."""
        text = f"{len(tenant)}:{tenant}{name}".encode("utf-8", "surrogatepass")
        hashed = hashlib.blake2b(text, key=self._secret, digest_size=_HASH_BYTES).hexdigest()
        return (hashed, name) if len(name) <= _LONGEST_NAME and name.isprintable() else (hashed,)

    def add(self, account: Account, amounts: Amounts) -> None:
        """Add what a request took. It is written later."""
        if not self._open or not self._sums.add(account, amounts):
            self._dropped(amounts)
        elif len(self._sums) > self._settings.waiting // 2:
            self._many.set()

    async def read(self, query: UsageQuery) -> UsageReport:
        """What answers a question; what this process has added up is in it. Raises StoreFailed."""
        await self.flush()
        rows = await self._store.read(query)
        return await asyncio.to_thread(report_of, query, rows)

    async def forget(self, tenant: str, user: str | None) -> None:
        """Forget a tenant, or one of its users, as the store does, in all processes. Raises StoreFailed, and Overloaded where it
        is not known whether all have heard of it."""
        who = in_store(tenant), None if user is None else self._spellings(tenant, user)
        number = await self._channel.publish(_FORGET, msgspec.json.encode(who))
        await known_everywhere(self._channel, number, self._settings.timeout_s)
        await self._erase(*who)

    async def _erase(self, tenant: str, users: _Users) -> None:
        for user in (None,) if users is None else users:
            await self._store.forget(tenant, user)

    def _heard(self, notice: Notice) -> None:
        """Some process forgets somebody: what waits here to be written is forgotten too."""
        tenant, users = msgspec.json.decode(notice.body, type=tuple[str, _Users])
        for user in (None,) if users is None else users:
            self._sums.forget(tenant, user)
        if self._batch is not None:
            self._late.append((tenant, users))

    async def flush(self) -> None:
        """Write all that waits now. Raises StoreFailed; then it waits still."""
        if self._sums or self._batch is not None or self._late:
            async with self._writing:
                await self._write()

    # ------------------------------------------------------------------------------------------------------------ writing

    async def _write(self) -> None:
        left = len(self._sums)  # what is added from now on is for the next time: a reader shall not wait for that too
        while self._batch is not None or self._late or (left > 0 and self._sums):
            if self._batch is None and left > 0:
                self._number += 1
                self._batch = SumsBatch(self._writer, self._number, self._sums.take(min(left, _AT_ONCE)))
                left -= _AT_ONCE
            if self._batch is not None:
                await self._store.write(self._batch, int(self._clock.time()))
                self._batch = None
            while self._late:  # who was forgotten while the store was written to may be in what was written
                await self._erase(*self._late[0])
                del self._late[0]

    async def _run(self) -> None:
        while True:
            await self._due()
            try:
                await self.flush()
                await self._sweep()
            except StoreFailed as error:
                if not self._failing:
                    log.warning("the ledger cannot be written, what was added up waits: %s", error)
                self._failing = True
            else:
                if self._failing:
                    log.warning("the ledger is written again")
                self._failing = False
            self._tell_lost()

    async def _due(self) -> None:
        """Wait for the time of the next write, which comes sooner where there is little room left; not while the store fails."""
        if self._failing:
            await asyncio.sleep(self._settings.write_s)
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._many.wait(), self._settings.write_s)
        self._many.clear()

    async def _sweep(self) -> None:
        now, kept = self._clock.time(), self._settings.kept_s
        if kept is not None and not self._swept <= now < self._swept + _SWEEP_S:
            self._swept = now
            await self._store.sweep(int(now - kept) // HOUR_S, int(now))

    async def _end(self) -> None:
        """Write what waits for the last time. What cannot be written is lost."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                await self.flush()
        except (StoreFailed, TimeoutError) as error:
            log.warning("the ledger cannot be written at the end: %s", error)
            left = Sums(self._settings.waiting + _AT_ONCE)
            for account, amounts in (*(self._batch.rows if self._batch else ()), *self._sums.take(len(self._sums))):
                left.add(account, amounts)
            self._batch = None
            self._dropped(left.total)
        self._tell_lost()

    def _dropped(self, amounts: Amounts) -> None:
        self._lost = Amounts(*map(add, self._lost, amounts))
        self._observer.report(LedgerDropped(amounts.requests, amounts.prompt_tokens, amounts.completion_tokens))
        if not self._open:
            self._tell_lost()

    def _tell_lost(self) -> None:
        """Log what is in no account, if there is anything."""
        lost, self._lost = self._lost, NOTHING
        if lost != NOTHING:
            log.error(
                "not in the ledger: %d requests, %d prompt tokens, %d completion tokens, %d millionths of a dollar",
                lost.requests,
                lost.prompt_tokens,
                lost.completion_tokens,
                lost.money,
            )

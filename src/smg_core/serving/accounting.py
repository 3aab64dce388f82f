"""Accounts at the lease: what a request took goes to the ledger, once, whatever its end.

Pure: the clock and the ledger are arguments. A request that was refused before an engine was asked, for no fault of its client's,
is in no account. Above: the handlers, through `Live.accounting`; a gateway without a ledger never loads this module. Below: the
ledger, prices, teams.
"""

from collections.abc import Callable
from typing import Protocol

from smg_core.clock import Clock
from smg_core.errors import SmgError
from smg_core.events import NO_USAGE, Usage
from smg_core.lease import RequestLease
from smg_core.ledger.accounts import HOUR_S, Account, Amounts, amounts_of, in_store
from smg_core.limits.prices import Prices
from smg_core.limits.teams import NO_TEAMS, Teams
from smg_core.pipeline.answer.trace import Trace
from smg_core.request import Caller
from smg_core.workers.own_prices import OwnPrices

__all__ = ["TOOLS_API", "AccountEntry", "Accounting", "AccountsAmounts"]


TOOLS_API = "tools"
"""The API that calls of tools are taken down under."""
MICRO = 1_000_000  # millionths of a dollar


class AccountsAmounts(Protocol):
    """What takes down amounts: the ledger of this process."""

    def user(self, tenant: str, name: str) -> str:
        """How a user of a tenant is written down."""

    def add(self, account: Account, amounts: Amounts) -> None:
        """Add what a request took."""


class Accounting:
    """Makes the entries of requests. `name_of` finds the served model's own name; `own` are the prices of workers."""

    def __init__(
        self, ledger: AccountsAmounts, clock: Clock, name_of: Callable[[str, Caller], str], own: OwnPrices | None = None
    ) -> None:
        self.ledger, self._clock, self._name_of, self.own = ledger, clock, name_of, own
        self.prices, self.teams = Prices({}, ()), NO_TEAMS

    def adopt(self, prices: Prices, teams: Teams) -> None:
        """Go by these prices and teams from now on."""
        self.prices, self.teams = prices, teams

    def entry(
        self,
        lease: RequestLease,
        trace: Trace,
        api: str,
        model: str,
        caller: Caller,
        user: str = "",
        at: float | None = None,
    ) -> "AccountEntry":
        """The entry of a request for `model` that began now, or `at` seconds since the epoch."""
        return AccountEntry(self, lease.kind == "batch", trace, api, model, caller, user, at or self._clock.time())

    def extra_work(
        self, api: str, caller: Caller, model: str, provider: str, usage: Usage | None, *, failed: bool = False
    ) -> None:
        """Take down work that was done for a caller beside its requests, by `provider`, under this `api`."""
        money = None
        if usage is not None:
            price = self.prices.find(model)
            money = None if price is None else price.cost(usage)
        account = Account(
            int(self._clock.time()) // HOUR_S,
            in_store(caller.tenant),
            in_store(self.teams.team(caller.tenant, caller.principal)),
            in_store(caller.principal),
            model=in_store(model),
            api=api,
            provider=provider,
        )
        self.ledger.add(account, amounts_of(usage, money, failed=failed))

    def paid(self, caller: Caller, server: str, tool: str, dollars: float) -> None:
        """Take down a call of a tool that costs so much."""
        account = Account(
            int(self._clock.time()) // HOUR_S,
            in_store(caller.tenant),
            in_store(self.teams.team(caller.tenant, caller.principal)),
            in_store(caller.principal),
            api=TOOLS_API,
            worker=in_store(f"{server}.{tool}"),
            provider=in_store(server),
        )
        self.ledger.add(account, Amounts(requests=1, money=round(dollars * MICRO)))

    def served(self, model: str, caller: Caller) -> str:
        """The own name of the model that a name stands for, "" where there is none."""
        return self._name_of(model, caller)


class AccountEntry:
    """One request, until it is known what it took."""

    __slots__ = ("_accounting", "_api", "_at", "_batch", "_caller", "_model", "_trace", "_user")

    def __init__(
        self,
        accounting: Accounting,
        batch: bool,
        trace: Trace,
        api: str,
        model: str,
        caller: Caller,
        user: str,
        at: float,
    ) -> None:
        self._accounting, self._batch, self._trace, self._api = accounting, batch, trace, api
        self._model, self._caller, self._user, self._at = model, caller, user, at

    def settle(self, usage: Usage | None, failure: SmgError | None = None) -> None:
        """The request has ended and used so much; without `usage` it has no answer that says so."""
        ended = self._trace.ended
        ours = failure is not None and (failure.status >= 500 or failure.status == 429)
        if usage is None and ours and not self._trace.attempts:
            return
        accounting, caller = self._accounting, self._caller
        asked = accounting.served(self._model, caller)
        model = asked if ended is None or not ended.model else ended.model
        money, failed = None, failure is not None or usage is None
        if usage is NO_USAGE and not self._trace.attempts:
            usage = None  # nobody was asked: the answer was there, and took nothing
        if usage is not None:
            prices, own = accounting.prices, accounting.own
            price = None if own is None or ended is None else own.of_worker(ended.worker)
            names = (model, self._model) if model and model == asked else (model or self._model,)
            price = price or prices.find(*names)
            money = None if price is None else price.cost(usage, batch=self._batch)
        account = Account(
            int(self._at) // HOUR_S,
            in_store(caller.tenant),
            in_store(accounting.teams.team(caller.tenant, caller.principal)),
            in_store(caller.principal),
            accounting.ledger.user(caller.tenant, self._user),
            in_store(model),
            self._api,
            "" if ended is None else in_store(ended.worker),
            "" if ended is None else in_store(ended.dialect),
        )
        accounting.ledger.add(account, amounts_of(usage, money, failed=failed))

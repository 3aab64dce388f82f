"""The costs of calls of tools: reserved of budgets before a call, charged and taken down where it gave a result (edge).

A call that failed, was left or was not allowed costs nothing. Rules that count by model or user are not for them. Above: the
assembly, which gives it to the tools. Below: limits and accounts, where there are any.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from smg_core.hooks import Observer
from smg_core.request import Caller
from smg_core.serving.live import Live
from smg_core.tools.payments import PaidCall

__all__ = ["ToolCosts"]

_MICRO = 1_000_000  # millionths of a dollar


class ToolCosts:
    """The costs of calls in one gateway."""

    def __init__(self, live: Live, observer: Observer) -> None:
        self._live, self._observer = live, observer

    @asynccontextmanager
    async def call(self, caller: Caller, server: str, tool: str, dollars: float) -> AsyncIterator[PaidCall]:
        """A call that costs so much, while it is made. Raises QuotaExceeded and RateLimited where a budget has less left."""
        made, cost = PaidCall(), round(dollars * _MICRO)
        limiting = self._live.limiting
        budgets = cost > 0 and limiting is not None and limiting.counts_money
        reserved = limiting.money_of(caller, cost) if budgets and limiting is not None else None
        if reserved is not None and (waiting := reserved.reserve()) is not None:
            await waiting
        try:
            yield made
        finally:
            if reserved is not None:
                reserved.settle(cost if made.gave else 0, self._observer.report)
            if cost and made.gave and (accounting := self._live.accounting) is not None:
                accounting.paid(caller, server, tool, dollars)

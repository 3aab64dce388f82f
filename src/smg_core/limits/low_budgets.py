"""Warns once of each budget that is mostly spent, before requests are refused.

Pure: it writes to the log alone. Above: `serving.limiting`. Below: rules, counters.
"""

import logging
from collections import OrderedDict

from smg_core.limits.counters import Counter, Instant, fullness
from smg_core.limits.decision import LimitClaim

__all__ = ["LowBudgets"]

_log = logging.getLogger("smg.limits")
_MOST = 4096
"""Budgets of which is known that it was said; beyond that it may be said again."""


class LowBudgets:
    """The budgets of which this process has said, in the window of the calendar that they are in, that they are low."""

    def __init__(self) -> None:
        self._announced: OrderedDict[tuple[str, int], None] = OrderedDict()

    def look(self, claim: LimitClaim, state: Counter, at: Instant, share: float, tenant: str) -> bool:
        """Whether so large a share of a budget is spent now, and that was not said before; then it is."""
        full = fullness(claim.rule, state, at)
        if full.limit - full.remaining < share * full.limit:
            return False
        key = (f"{claim.rule.identity}{claim.scope}", at.begins)
        if key in self._announced:
            return False
        self._announced[key] = None
        if len(self._announced) > _MOST:
            self._announced.popitem(last=False)
        spent = 100 * (full.limit - full.remaining) // full.limit
        _log.warning("%d %% of a budget is spent: %s (tenant %s)", spent, claim.rule.text, tenant or "none")
        return True

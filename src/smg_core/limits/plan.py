"""The rules for one caller of one model, worked out once, and a request's claims on each.

Pure. Above: `serving.limiting`. Below: rules, the decision.
"""

from collections.abc import Iterable

from msgspec import Struct

from smg_core.limits.decision import LimitClaim
from smg_core.limits.demand import Demand
from smg_core.limits.rules import Asker, LimitRule

__all__ = ["LimitPlan", "plan_of"]


class LimitPlan(Struct, frozen=True):
    """Who asks for which model, and for each rule that is for it: the rule, whom it counts together, its unit, and the most that
    it gives at once."""

    asker: Asker
    parts: tuple[tuple[LimitRule, str, str, int], ...]

    def claims(self, demand: Demand) -> list[LimitClaim]:
        """What a request claims of each rule. A reservation is never more than a rule can give at once."""
        found: list[LimitClaim] = []
        for rule, scope, unit, capacity in self.parts:
            cost: int = getattr(demand, unit)
            found.append(LimitClaim(rule, scope, min(capacity, cost)))
        return found


def plan_of(rules: Iterable[LimitRule], asker: Asker) -> LimitPlan:
    """The plan for one who asks."""
    scoped = ((rule, rule.scope(asker)) for rule in rules)
    return LimitPlan(
        asker, tuple((rule, scope, rule.unit, rule.capacity) for rule, scope in scoped if scope is not None)
    )

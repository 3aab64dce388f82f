"""Holds the counters of one process in memory, a bounded number of them.

Pure. A counter that is as if it had never been used is not kept. Where there are more than may be, the one that was admitted to
longest ago goes, used or not. Claims that there is room for are counted here in one go, by the arithmetic of `counters`; what is
refused is decided there. Above: `serving.limiting`. Below: the decision.
"""

from collections import OrderedDict
from collections.abc import Sequence

from smg_core.limits.calendar import QUARTER_S, window_at
from smg_core.limits.counters import Counter, Instant, added, untouched
from smg_core.limits.decision import LimitClaim, LimitRefusal, claimed, in_window
from smg_core.limits.rules import LimitRule

__all__ = ["MemoryCounters"]

_LOOKED_AT = 8  # how many of the oldest counters are looked at for one that is new
_NEW = Counter()


class _Cell:
    """One counter, and the rule that it was used by last."""

    __slots__ = ("first", "rule", "second")

    def __init__(self, rule: LimitRule) -> None:
        self.first = self.second = 0
        self.rule = rule


class MemoryCounters:
    """At most `most` counters; `zone` is that of the calendar's windows."""

    def __init__(self, most: int, zone: str) -> None:
        self._most, self._zone = most, zone
        self._kept: OrderedDict[str, _Cell] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def look(self, claims: Sequence[LimitClaim]) -> list[Counter]:
        """The counters that these claims are made of."""
        kept = self._kept
        found: list[Counter] = []
        for claim in claims:
            cell = kept.get(claim.scope)
            found.append(_NEW if cell is None else tuple.__new__(Counter, (cell.first, cell.second)))
        return found

    def claim(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        """Charge all claims, or none and say why not."""
        kept, now = self._kept, at[0]
        after: list[tuple[_Cell, int, int]] = []
        for claim in claims:
            rule, cost, scope = claim.rule, claim.cost, claim.scope
            cell = kept.get(scope)
            if cell is None:
                cell = kept[scope] = _Cell(rule)
            amount, width = rule.amount, rule.width_us
            if width:
                used, ahead = cost * width, cell.first - now
                if ahead >= 0:
                    used += ahead * amount + (cell.second if cell.second < amount else amount - 1)
                if used > rule.burst * width:
                    break
                after.append((cell, now + used // amount, used % amount))
            elif rule.calendar:
                begins = window_at(rule.window, self._zone, int(at[1]) // QUARTER_S)[0]
                used = cell.second + cost if cell.first == begins else cost
                if used > amount:
                    break
                after.append((cell, begins, used))
            else:
                used = cell.first + cost
                if used > amount:
                    break
                after.append((cell, used, 0))
        else:
            for claim, (cell, first, second) in zip(claims, after, strict=True):
                cell.first, cell.second, cell.rule = first, second, claim.rule
                kept.move_to_end(claim.scope)
            if len(kept) > self._most:
                self._make_room(at)
            return None
        if len(kept) > self._most:
            self._make_room(at)
        return claimed(claims, self.look(claims), at, self._zone)[1]

    def put_right(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """Put right what the claims were charged at `taken_at`, to `costs`."""
        kept, now = self._kept, at[0]
        for claim, cost in zip(claims, costs, strict=True):
            more = cost - claim.cost
            if not more:
                continue
            rule, scope = claim.rule, claim.scope
            cell = kept.get(scope)
            if cell is None:
                cell = kept[scope] = _Cell(rule)
            if rule.width_us and cell.first >= now and cell.second < rule.amount:
                used = (cell.first - now) * rule.amount + cell.second + more * rule.width_us
                if used > 0:
                    cell.first, cell.second = now + used // rule.amount, used % rule.amount
                else:
                    cell.first, cell.second = now, 0
                continue
            moment = in_window(rule, at, self._zone) if rule.calendar else at
            if rule.calendar and (taken_at[1] < moment[2] or (moment[3] is not None and taken_at[1] >= moment[3])):
                continue  # it was charged in another window
            cell.first, cell.second = added(rule, tuple.__new__(Counter, (cell.first, cell.second)), more, moment)
        if len(kept) > self._most:
            self._make_room(at)

    settle = put_right
    """Put right what the claims were charged, once the request has ended."""

    def _make_room(self, at: Instant) -> None:
        for scope in [scope for scope, _ in zip(self._kept, range(_LOOKED_AT), strict=False)]:
            cell = self._kept[scope]
            if untouched(cell.rule, Counter(cell.first, cell.second), in_window(cell.rule, at, self._zone)):
                del self._kept[scope]
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

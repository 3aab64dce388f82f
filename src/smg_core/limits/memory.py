"""Holds the counters of one process in memory, a bounded number of them.

Pure. A counter that is as if it had never been used is not kept. Where there are more than may be, the one that was admitted to
longest ago goes, used or not. Rates that there is room for are counted here in one go, by the arithmetic of `counters`; all else
is decided there. Above: `serving.limiting`. Below: the decision.
"""

from collections import OrderedDict
from collections.abc import Sequence

from smg_core.limits.counters import Counter, Instant, added, taken, untouched
from smg_core.limits.decision import LimitClaim, LimitRefusal, claimed, in_window
from smg_core.limits.rules import LimitRule

__all__ = ["MemoryCounters"]

_LOOKED_AT = 8  # how many of the oldest counters are looked at for one that is new
_NEW = Counter()
_Kept = tuple[int, int, LimitRule]


class MemoryCounters:
    """At most `most` counters; `zone` is that of the calendar's windows."""

    def __init__(self, most: int, zone: str) -> None:
        self._most, self._zone = most, zone
        self._kept: OrderedDict[tuple[str, ...], _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def look(self, claims: Sequence[LimitClaim]) -> list[Counter]:
        """The counters that these claims are made of."""
        kept, found = self._kept, list[Counter]()
        for claim in claims:
            entry = kept.get(claim.scope)
            found.append(_NEW if entry is None else tuple.__new__(Counter, entry[:2]))
        return found

    def claim(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        """Charge all claims, or none and say why not."""
        kept, now, after = self._kept, at[0], list[_Kept]()
        for claim in claims:
            rule, entry = claim.rule, kept.get(claim.scope)
            width, amount = rule.width_us, rule.amount
            if width and (entry is None or entry[0] < now):
                used = 0
            elif width and entry is not None and entry[1] < amount:
                used = (entry[0] - now) * amount + entry[1]
            else:
                state = _NEW if entry is None else tuple.__new__(Counter, entry[:2])
                new, wait = taken(rule, state, claim.cost, in_window(rule, at, self._zone) if rule.calendar else at)
                if wait:
                    break
                after.append((new[0], new[1], rule))
                continue
            used += claim.cost * width
            if used > rule.burst * width:
                break
            after.append((now + used // amount, used % amount, rule))
        else:
            for claim, each in zip(claims, after, strict=True):
                kept[claim.scope] = each
                kept.move_to_end(claim.scope)
            if len(kept) > self._most:
                self._make_room(at)
            return None
        return claimed(claims, self.look(claims), at, self._zone)[1]

    def put_right(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """Put right what the claims were charged at `taken_at`, to `costs`."""
        kept, now = self._kept, at[0]
        for claim, cost in zip(claims, costs, strict=True):
            more = cost - claim.cost
            if not more:
                continue
            rule, entry = claim.rule, kept.get(claim.scope)
            width, amount = rule.width_us, rule.amount
            if width and entry is not None and entry[0] >= now and entry[1] < amount:
                used = (entry[0] - now) * amount + entry[1] + more * width
                kept[claim.scope] = (now + used // amount, used % amount, rule) if used > 0 else (now, 0, rule)
                continue
            moment = in_window(rule, at, self._zone) if rule.calendar else at
            if rule.calendar and (taken_at[1] < moment[2] or (moment[3] is not None and taken_at[1] >= moment[3])):
                continue  # it was charged in another window
            new = added(rule, _NEW if entry is None else tuple.__new__(Counter, entry[:2]), more, moment)
            kept[claim.scope] = (new[0], new[1], rule)
        if len(kept) > self._most:
            self._make_room(at)

    settle = put_right
    """Put right what the claims were charged, once the request has ended."""

    def _make_room(self, at: Instant) -> None:
        for scope in [scope for scope, _ in zip(self._kept, range(_LOOKED_AT), strict=False)]:
            first, second, rule = self._kept[scope]
            if untouched(rule, Counter(first, second), in_window(rule, at, self._zone)):
                del self._kept[scope]
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

"""Holds the counters of one process in memory, a bounded number of them.

Pure. A counter that is as if it had never been used is not kept. Where there are more than may be, the one that was used longest
ago goes, used or not. Above: `serving.limiting`. Below: the decision.
"""

from collections import OrderedDict
from collections.abc import Sequence

from smg_core.limits.counters import Counter, Instant, untouched
from smg_core.limits.decision import LimitClaim, LimitRefusal, claimed, in_window, put_right

__all__ = ["MemoryCounters"]

_LOOKED_AT = 8  # how many of the oldest counters are looked at for one that is new
_NEW = Counter()


class MemoryCounters:
    """At most `most` counters; `zone` is that of the calendar's windows."""

    def __init__(self, most: int, zone: str) -> None:
        self._most, self._zone = most, zone
        self._kept: OrderedDict[tuple[str, ...], tuple[LimitClaim, Counter]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def look(self, claims: Sequence[LimitClaim]) -> list[Counter]:
        """The counters that these claims are made of."""
        kept, found = self._kept, list[Counter]()
        for claim in claims:
            entry = kept.get(claim.scope)
            found.append(_NEW if entry is None else entry[1])
        return found

    def claim(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        """Charge all claims, or none and say why not."""
        after, refusal = claimed(claims, self.look(claims), at, self._zone)
        if refusal is None:
            self._keep(claims, after, at)
        return refusal

    def put_right(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """Put right what the claims were charged at `taken_at`, to `costs`."""
        self._keep(claims, put_right(claims, costs, self.look(claims), taken_at, at, self._zone), at)

    settle = put_right
    """Put right what the claims were charged, once the request has ended."""

    def _keep(self, claims: Sequence[LimitClaim], counters: Sequence[Counter], at: Instant) -> None:
        kept = self._kept
        for claim, counter in zip(claims, counters, strict=True):
            kept[claim.scope] = (claim, counter)
            kept.move_to_end(claim.scope)
        if len(kept) > self._most:
            self._make_room(at)

    def _make_room(self, at: Instant) -> None:
        for scope in [scope for scope, _ in zip(self._kept, range(_LOOKED_AT), strict=False)]:
            claim, counter = self._kept[scope]
            if untouched(claim.rule, counter, in_window(claim.rule, at, self._zone)):
                del self._kept[scope]
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

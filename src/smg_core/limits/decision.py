"""Decides over all rules of one request at once: all of them hold, or none is charged.

Pure: counters are given and returned, so that one process, a block of shared memory or a store can hold them. Above: what holds
the counters. Below: the arithmetic of one counter, the calendar.
"""

from collections.abc import Sequence

import attrs
from msgspec import Struct

from smg_core.limits.calendar import QUARTER_S, window_at
from smg_core.limits.counters import NEVER, Counter, Instant, added, taken
from smg_core.limits.rules import LimitRule

__all__ = ["LimitClaim", "LimitRefusal", "claimed", "in_window", "put_right"]


class LimitClaim(Struct, frozen=True):
    """What one rule is asked for: `cost` in its unit, counted with `scope`."""

    rule: LimitRule
    scope: str
    cost: int


@attrs.frozen
class LimitRefusal:
    """The claim that has to wait longest, and the microseconds of that (NEVER: until something ends, or for good). `too_large`:
    it is more than its rule ever allows."""

    claim: LimitClaim
    wait_us: int
    too_large: bool = False


def in_window(rule: LimitRule, at: Instant, zone: str) -> Instant:
    """The same time, with the window of the calendar that the rule counts in."""
    if not rule.calendar:
        return at
    return tuple.__new__(Instant, (at[0], at[1], *window_at(rule.window, zone, int(at[1]) // QUARTER_S)))


def claimed(
    claims: Sequence[LimitClaim], states: Sequence[Counter], at: Instant, zone: str = "UTC"
) -> tuple[Sequence[Counter], LimitRefusal | None]:
    """The counters after all claims are charged; or as they are, and why not."""
    after: list[Counter] = []
    worst: LimitRefusal | None = None
    for claim, state in zip(claims, states, strict=True):
        rule = claim.rule
        new, wait = taken(rule, state, claim.cost, in_window(rule, at, zone) if rule.calendar else at)
        after.append(new)
        if wait and (worst is None or _longer(wait, worst.wait_us)):
            worst = LimitRefusal(claim, wait, claim.cost > rule.capacity)
    return (states, worst) if worst is not None else (after, None)


def _longer(wait: int, than: int) -> bool:
    return than != NEVER and (wait == NEVER or wait > than)


def put_right(
    claims: Sequence[LimitClaim],
    costs: Sequence[int],
    states: Sequence[Counter],
    taken_at: Instant,
    at: Instant,
    zone: str = "UTC",
) -> list[Counter]:
    """The counters after what the claims were charged at `taken_at` is put right, to `costs`. What was charged in a window of the
    calendar that is over stays as it is: another window is counted now."""
    after: list[Counter] = []
    for claim, cost, state in zip(claims, costs, states, strict=True):
        rule = claim.rule
        more = cost - claim.cost
        if more and rule.calendar:
            now = in_window(rule, at, zone)
            late = in_window(rule, taken_at, zone).begins != now.begins
            after.append(state if late else added(rule, state, more, now))
        else:
            after.append(added(rule, state, more, at) if more else state)
    return after

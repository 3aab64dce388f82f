"""The arithmetic of one counter, exact and in whole numbers: take, add, and how full it is.

Pure. A counter is two whole numbers. Of a rate (GCRA): the microsecond at which it is full again, and what of one more is taken,
in parts of `amount`; so nothing is ever rounded. Of a window of the calendar: its beginning, and what was taken in it. Of
requests at once: how many there are. Above: the decision over all rules of a request. Below: the rules.
"""

from typing import NamedTuple

from msgspec import Struct

from smg_core.limits.rules import LimitRule

__all__ = ["NEVER", "Counter", "Fullness", "Instant", "added", "fullness", "taken", "untouched"]

NEVER = -1
"""The wait for what does not come by itself: a place among requests at once, a window that does not end."""


class Instant(NamedTuple):
    """A time: on the monotonic clock in microseconds, and on the wall's in seconds. `begins` and `ends` are those of the window
    of the calendar that a counter is asked about, in seconds."""

    monotonic_us: int
    wall_s: float
    begins: int = 0
    ends: int | None = None


class Counter(NamedTuple):
    """A counter, as the module says."""

    first: int = 0
    second: int = 0


class Fullness(Struct, frozen=True):
    """How full a counter is: `remaining` of its `limit`, and the microseconds until it is as at the beginning (None: never)."""

    limit: int
    remaining: int
    full_us: int | None


def _used(state: Counter, rule: LimitRule, now: int) -> int:
    """What of a rate is taken and has not come back, in parts of a microsecond."""
    ahead, parts = state[0] - now, state[1]
    # A rule may have been changed since: more parts than there are now are one less than all.
    return ahead * rule.amount + (parts if parts < rule.amount else rule.amount - 1) if ahead >= 0 else 0


def taken(rule: LimitRule, state: Counter, cost: int, at: Instant) -> tuple[Counter, int]:
    """The counter after `cost` is taken, and 0; or as it is, and the microseconds until so much may be taken, or NEVER."""
    if rule.width_us:
        ahead, parts = state[0] - at[0], state[1]
        total = cost * rule.width_us
        if ahead >= 0:  # as `_used` says, without its call: this is asked most
            total += ahead * rule.amount + (parts if parts < rule.amount else rule.amount - 1)
        over = total - rule.burst * rule.width_us
        if over > 0:
            return state, -(-over // rule.amount)
        whole, rest = divmod(total, rule.amount)
        return tuple.__new__(Counter, (at[0] + whole, rest)), 0
    if rule.calendar:
        used = (state[1] if state[0] == at[2] else 0) + cost
        if used <= rule.amount:
            return tuple.__new__(Counter, (at[2], used)), 0
        wait = NEVER if at.ends is None else max(1, int((at.ends - at.wall_s) * 1_000_000))
        return state, wait
    return (Counter(state.first + cost), 0) if state.first + cost <= rule.amount else (state, NEVER)


def added(rule: LimitRule, state: Counter, cost: int, at: Instant) -> Counter:
    """The counter after `cost` more, whether there was room or not: a negative one gives back what was taken. No counter falls
    below what nobody has used."""
    if rule.width_us:
        total = _used(state, rule, at[0]) + cost * rule.width_us
        whole, rest = divmod(total, rule.amount) if total > 0 else (0, 0)
        return tuple.__new__(Counter, (at[0] + whole, rest))
    if rule.calendar:
        used = (state[1] if state[0] == at[2] else 0) + cost
        return tuple.__new__(Counter, (at[2], max(0, used)))
    return Counter(max(0, state.first + cost))


def fullness(rule: LimitRule, state: Counter, at: Instant) -> Fullness:
    """How full the counter is."""
    if rule.width_us:
        ahead, parts, amount = state[0] - at[0], state[1], rule.amount
        used = ahead * amount + (parts if parts < amount else amount - 1) if ahead >= 0 else 0
        left = (rule.burst * rule.width_us - used) // rule.width_us
        return Fullness(rule.burst, max(0, left), -(-used // amount))
    if rule.calendar:
        used = state.second if state.first == at.begins else 0
        full = None if at.ends is None else max(0, int((at.ends - at.wall_s) * 1_000_000))
        return Fullness(rule.amount, max(0, rule.amount - used), full if used else 0)
    return Fullness(rule.amount, max(0, rule.amount - state.first), None if state.first else 0)


def untouched(rule: LimitRule, state: Counter, at: Instant) -> bool:
    """Whether the counter is as one that was never used, so that it need not be kept."""
    if rule.width_us:
        return state.first <= at.monotonic_us
    return (state.first != at.begins) if rule.calendar else not state.first

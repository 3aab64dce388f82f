"""Counters: exact whatever the amounts, never over their limit, and as new once all has come back."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as some

from smg_core.limits.counters import NEVER, Counter, Instant, added, fullness, taken, untouched
from smg_core.limits.rules import LimitRule, Window

RATES = some.builds(
    LimitRule,
    some.integers(1, 10**9),
    some.just("tokens"),
    some.sampled_from(["second", "minute", "hour"]),
    some.integers(1, 10**9),
)
WIDTHS = {"second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6}
STEPS = some.lists(some.tuples(some.integers(0, 10**7), some.integers(-(10**9), 10**9)), max_size=30)


def at(us: int, wall_s: float = 0.0, begins: int = 0, ends: int | None = 100) -> Instant:
    return Instant(us, wall_s, begins, ends)


def rate(amount: int, window: Window = "minute", burst: int = 0) -> LimitRule:
    return LimitRule(amount, "requests", window, burst or amount)


@given(RATES, STEPS)
def test_a_rate_is_exactly_what_fractions_say(rule: LimitRule, steps: list[tuple[int, int]]) -> None:
    """Beside the counter runs a level in fractions, which loses `amount` in each window and never falls below nothing."""
    state, level, now = Counter(), Fraction(0), 0
    for pause, cost in steps:
        now += pause
        level = max(Fraction(0), level - Fraction(pause * rule.amount, WIDTHS[rule.window]))
        if cost > 0:
            state, wait = taken(rule, state, cost, at(now))
            assert (wait == 0) == (level + cost <= rule.burst)
            level += cost if not wait else 0
        else:
            state, level = added(rule, state, cost, at(now)), max(Fraction(0), level + cost)
        assert fullness(rule, state, at(now)).remaining == max(0, int((rule.burst - level) // 1))


@given(RATES, some.integers(1, 10**9), some.integers(0, 10**9))
def test_who_waits_as_long_as_told_gets_it_and_who_comes_before_does_not(rule: LimitRule, cost: int, used: int) -> None:
    state = added(rule, Counter(), used, at(0))
    _, wait = taken(rule, state, cost, at(0))
    if wait:
        assert taken(rule, state, cost, at(wait - 1))[1]
        assert not taken(rule, state, cost, at(wait))[1] or cost > rule.burst


def test_a_burst_comes_at_once_and_not_one_more() -> None:
    rule, state = rate(7), Counter()
    for _ in range(7):
        state, wait = taken(rule, state, 1, at(5))
        assert wait == 0

    assert taken(rule, state, 1, at(5))[1] == 8_571_429  # a seventh of a minute, rounded up


@given(RATES, some.lists(some.integers(1, 10**6), min_size=1, max_size=20))
def test_what_is_given_back_leaves_nothing_behind(rule: LimitRule, costs: list[int]) -> None:
    state = Counter()
    for cost in costs:
        state = added(rule, state, cost, at(0))
    for cost in costs:
        state = added(rule, state, -cost, at(0))

    assert untouched(rule, state, at(0))
    assert fullness(rule, state, at(0)).remaining == rule.burst


def test_more_than_is_there_is_a_debt_that_later_requests_wait_for() -> None:
    rule = rate(60)
    state = added(rule, Counter(), 120, at(0))

    assert fullness(rule, state, at(0)).remaining == 0
    assert taken(rule, state, 1, at(0))[1] == 61_000_000


@given(some.integers(1, 10**9), some.integers(1, 10**9))
def test_a_changed_amount_counts_from_the_next_request(before: int, after: int) -> None:
    state = added(rate(before), Counter(), before, at(0))

    assert 0 <= fullness(rate(after), state, at(0)).remaining <= after
    assert taken(rate(after), state, 1, at(61_000_000))[1] == 0


def test_a_window_of_the_calendar_begins_with_nothing_used() -> None:
    rule = LimitRule(10, "tokens", "day")
    state, wait = taken(rule, Counter(), 10, at(0, 40.0))
    assert wait == 0
    refused, wait = taken(rule, state, 1, at(0, 40.0))

    assert (refused, wait) == (state, 60_000_000)
    assert taken(rule, state, 10, at(0, 100.0, 100, 200)) == (Counter(100, 10), 0)


def test_a_window_without_end_gives_nothing_back_by_itself() -> None:
    rule = LimitRule(10, "money", "ever")
    state, _ = taken(rule, Counter(), 10, at(0, 40.0, 0, None))

    assert taken(rule, state, 1, at(10**15, 10.0**9, 0, None))[1] == NEVER
    assert fullness(rule, state, at(0, 0.0, 0, None)).full_us is None


def test_requests_at_once_wait_for_one_that_ends() -> None:
    rule = LimitRule(2, "at_once")
    state, _ = taken(rule, Counter(), 2, at(0))
    assert taken(rule, state, 1, at(10**12))[1] == NEVER

    assert taken(rule, added(rule, state, -1, at(0)), 1, at(0))[1] == 0

"""All rules of a request hold, or none is charged; what was charged is put right later, in the window it belongs to."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smg_core.limits.calendar import window_of
from smg_core.limits.counters import NEVER, Counter, Instant
from smg_core.limits.decision import LimitClaim, claimed, put_right
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import LimitRule

RULES = some.one_of(
    some.builds(LimitRule, some.integers(1, 50), some.just("requests"), some.just("minute"), some.integers(1, 50)),
    some.builds(
        LimitRule, some.integers(1, 50), some.just("tokens"), some.sampled_from(["day", "week", "month", "ever"])
    ),
    some.builds(LimitRule, some.integers(1, 50), some.just("at_once")),
)
NOON = datetime(2026, 3, 15, 12, tzinfo=UTC).timestamp()


def claims(rules: list[LimitRule], costs: list[int]) -> list[LimitClaim]:
    return [LimitClaim(rule, str(number), cost) for number, (rule, cost) in enumerate(zip(rules, costs, strict=False))]


def now(us: int = 0, wall_s: float = NOON) -> Instant:
    return Instant(us, wall_s)


@given(some.lists(RULES, min_size=1, max_size=4), some.lists(some.lists(some.integers(1, 20), min_size=4, max_size=4)))
def test_a_refused_request_changes_no_counter_and_no_counter_passes_its_limit(
    rules: list[LimitRule], requests: list[list[int]]
) -> None:
    states, spent = [Counter()] * len(rules), [0] * len(rules)
    for costs in requests:
        asked = claims(rules, costs)
        after, refusal = claimed(asked, states, now())
        if refusal is not None:
            assert after == states
            assert refusal.wait_us == NEVER or refusal.wait_us > 0
            assert any(spent[number] + claim.cost > claim.rule.capacity for number, claim in enumerate(asked))
            continue
        states, spent = list(after), [before + claim.cost for before, claim in zip(spent, asked, strict=True)]
        assert all(total <= rule.capacity for total, rule in zip(spent, rules, strict=True))


@given(some.lists(RULES, min_size=1, max_size=4), some.lists(some.integers(1, 20), min_size=4, max_size=4))
def test_what_is_settled_to_nothing_was_never_charged(rules: list[LimitRule], costs: list[int]) -> None:
    asked = claims(rules, costs)
    after, refusal = claimed(asked, [Counter()] * len(asked), now())
    if refusal is None:
        back = put_right(asked, [0] * len(asked), after, now(), now())
        again = claims(rules, [rule.capacity for rule in rules])
        assert claimed(again, back, now())[1] is None


def test_the_refusal_is_of_the_rule_that_has_to_wait_longest() -> None:
    short, long = LimitRule(60, "requests", "minute", 60), LimitRule(1, "requests", "hour", 1)
    asked = claims([short, long], [1, 1])
    states, _ = claimed(claims([short, long], [60, 1]), [Counter(), Counter()], now())
    refusal = claimed(asked, states, now())[1]

    assert refusal is not None
    assert (refusal.claim.rule, refusal.wait_us) == (long, 3_600_000_000)


def test_a_request_that_is_larger_than_its_limit_ever_allows_is_refused_as_that() -> None:
    refusal = claimed(claims([LimitRule(10, "tokens", "minute", 10)], [11]), [Counter()], now())[1]

    assert refusal is not None
    assert refusal.too_large


def test_a_late_settlement_is_of_the_window_in_which_the_request_was_charged() -> None:
    asked = claims([LimitRule(100, "tokens", "day")], [10])
    before = now(0, NOON)
    states, _ = claimed(asked, [Counter()], before)
    tomorrow = now(0, NOON + 86400)
    fresh, _ = claimed(asked, states, tomorrow)

    assert put_right(asked, [90], fresh, before, tomorrow) == fresh
    assert put_right(asked, [90], states, before, now(0, NOON + 60)) == [Counter(states[0].first, 90)]


# ------------------------------------------------------------------------------------------------------- the calendar


@pytest.mark.parametrize(
    ("window", "zone", "moment", "begins", "ends"),
    [
        ("day", "UTC", "2028-02-29T23:59:59+00:00", "2028-02-29T00:00:00+00:00", "2028-03-01T00:00:00+00:00"),
        ("month", "UTC", "2028-02-29T12:00:00+00:00", "2028-02-01T00:00:00+00:00", "2028-03-01T00:00:00+00:00"),
        ("month", "UTC", "2026-12-31T23:00:00+00:00", "2026-12-01T00:00:00+00:00", "2027-01-01T00:00:00+00:00"),
        ("week", "UTC", "2026-11-29T12:00:00+00:00", "2026-11-23T00:00:00+00:00", "2026-11-30T00:00:00+00:00"),
        ("day", "Europe/Berlin", "2026-03-29T12:00:00+02:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"),
        ("day", "Europe/Berlin", "2026-10-25T12:00:00+01:00", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"),
    ],
)
def test_a_window_is_that_of_the_zones_calendar(window: str, zone: str, moment: str, begins: str, ends: str) -> None:
    found = window_of(window, zone, datetime.fromisoformat(moment).timestamp())  # type: ignore[arg-type]

    assert found == tuple(int(datetime.fromisoformat(each).timestamp()) for each in (begins, ends))


@given(
    some.sampled_from(["day", "week", "month"]),
    some.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Cairo"]),
    some.integers(1_600_000_000, 1_900_000_000),
)
def test_every_moment_is_in_its_window_and_windows_follow_one_another(window: str, zone: str, moment: int) -> None:
    begins, ends = window_of(window, zone, moment)  # type: ignore[arg-type]

    assert ends is not None
    assert begins <= moment < ends
    assert window_of(window, zone, ends)[0] == ends  # type: ignore[arg-type]
    assert ZoneInfo(zone) is not None


STATES = some.lists(
    some.tuples(
        some.lists(some.integers(1, 60), min_size=4, max_size=4), some.integers(0, 30_000_000), some.integers(0, 60)
    ),
    max_size=25,
)


@given(some.lists(RULES, min_size=1, max_size=4), STATES)
def test_the_memory_counts_as_the_decision_says(
    rules: list[LimitRule], steps: list[tuple[list[int], int, int]]
) -> None:
    memory, states, us = MemoryCounters(1000, "UTC"), [Counter()] * len(rules), 0
    for costs, later, settled in steps:
        us += later
        asked, moment = claims(rules, costs), now(us, NOON + us * 1000)
        after, refusal = claimed(asked, states, moment)
        assert memory.claim(asked, moment) == refusal
        states = list(after)
        if refusal is None:
            final = [settled] * len(asked)
            states = put_right(asked, final, states, moment, now(us + 5, NOON + us * 1000))
            memory.settle(asked, final, moment, now(us + 5, NOON + us * 1000))
        assert memory.look(asked) == states

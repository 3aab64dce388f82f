"""Retries are a share of the requests, and a reserve."""

import random

from hypothesis import given
from hypothesis import strategies as st

from smg_core.routing.retry_budget import RetryBudget, RetryBudgets
from smg_core.routing.settings import RoutingConfig


@given(st.lists(st.sampled_from(["request", "retry"]), max_size=400), st.floats(0, 2), st.integers(0, 20))
def test_there_are_never_more_retries_than_the_reserve_and_the_share_of_requests(
    steps: list[str], share: float, reserve: int
) -> None:
    budget, requests, retries = RetryBudget(share, reserve), 0, 0
    for step in steps:
        if step == "request":
            budget.pay()
            requests += 1
        else:
            retries += budget.take()

        assert retries <= reserve + share * requests + 1e-6


def test_with_half_of_all_calls_failing_the_load_grows_by_the_share_and_no_more() -> None:
    rng, budget, requests, calls = random.Random(3), RetryBudget(0.2, 100), 20_000, 0
    for _ in range(requests):
        budget.pay()
        for attempt in range(4):
            calls += 1
            if rng.random() < 0.5 or attempt == 3 or not budget.take():
                break

    assert 1.19 < calls / requests < 1.21


def test_each_model_has_a_budget_of_its_own() -> None:
    budgets = RetryBudgets(RoutingConfig(retry_reserve=1))

    assert budgets.of("a").take()
    assert not budgets.of("a").take()
    assert budgets.of("b").take()

"""Which inputs of a pooled request are computed next, whatever order calls end in."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import EngineFailed, WorkerGone
from smg_core.pipeline.pooled.spread import Spread
from smg_core.routing.retry_budget import RetryBudget

GONE = WorkerGone("The engine is not available.")


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=40),
    calls=st.integers(1, 8),
    tokens=st.integers(1, 100),
    most=st.integers(1, 4),
    draw=st.data(),
)
def test_every_input_is_done_once_and_the_bounds_hold_in_any_order_of_ends(sizes, calls, tokens, most, draw):
    spread = Spread(sizes, calls=calls, tokens=tokens, retries=3)
    under_way: list[tuple[int, ...]] = []
    done: list[int] = []
    failures = 0
    while not spread.over:
        while spread.next is not None:
            under_way.append(spread.take(most))
        assert under_way, "something can always go on"
        assert len(under_way) == spread.calls <= calls
        together = sum(sizes[place] for group in under_way for place in group)
        assert together == spread.tokens
        assert together <= tokens or len(under_way) == 1
        group = under_way.pop(draw.draw(st.integers(0, len(under_way) - 1)))
        if failures < 3 and draw.draw(st.booleans()):
            failures += 1
            assert spread.failed(group, f"worker-{failures}", GONE)
        else:
            spread.done(group)
            done += group
    assert sorted(done) == list(range(len(sizes)))
    assert (spread.calls, spread.tokens, spread.next) == (0, 0, None)


def test_inputs_begin_in_order_and_one_that_failed_begins_before_the_rest_and_alone():
    spread = Spread([1, 1, 1, 1], calls=1, tokens=100, retries=1)
    assert spread.take(2) == (0, 1)
    assert spread.failed((0, 1), "a", GONE)
    assert (spread.take(4), spread.tried(0), spread.tried(2)) == ((0,), frozenset({"a"}), frozenset())
    spread.done((0,))
    assert spread.take(4) == (1,)
    spread.done((1,))
    assert spread.take(4) == (2, 3)


def test_an_input_larger_than_the_bound_goes_alone():
    spread = Spread([5, 500, 5], calls=8, tokens=100, retries=1)
    assert spread.take() == (0,)
    assert spread.next is None
    spread.done((0,))
    assert spread.take() == (1,)
    assert spread.next is None


def test_what_another_worker_would_say_too_ends_the_request():
    spread = Spread([1], calls=1, tokens=10, retries=3)
    assert not spread.failed(spread.take(), "a", EngineFailed("The engine failed."))


def test_retries_are_bounded_for_an_input_and_by_the_budget_of_all():
    spread = Spread([1], calls=1, tokens=10, retries=2)
    assert [spread.failed(spread.take(), name, GONE) for name in ("a", "b")] == [True, True]
    assert not spread.failed(spread.take(), "c", GONE)
    poor = Spread([1, 1], calls=2, tokens=10, retries=2, budget=RetryBudget(0.0, 1))
    first, second = poor.take(), poor.take()
    assert [poor.failed(first, "a", GONE), poor.failed(second, "a", GONE)] == [True, False]


def test_a_retry_that_was_taken_and_not_made_goes_back_when_the_request_is_over():
    budget = RetryBudget(0.0, 3)
    spread = Spread([1, 1, 1, 1], calls=3, tokens=10, retries=2, budget=budget)
    pair, third, fourth = spread.take(2), spread.take(), spread.take()
    assert all(spread.failed(group, "a", GONE) for group in (pair, third, fourth))
    assert spread.take() == (3,)  # this one is made; no worker is found for the others
    spread.give_back()
    spread.give_back()
    assert [budget.take() for _ in range(3)] == [True, True, False]

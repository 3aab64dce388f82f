"""When the links of a chain are kept longer: however a chain is continued, it is whole as long as its newest link is there."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from smg_core.stored.expiry import chain_is_due, chain_kept_until

KEPT = 1600.0
PART = KEPT / 16


@given(
    st.floats(0, 10 * KEPT),
    st.lists(st.tuples(st.floats(0, KEPT - 2 * PART), st.floats(0, PART), st.integers(0, 50)), max_size=30),
)
def test_a_chain_is_whole_as_long_as_its_newest_link_is_there(
    start: float, turns: list[tuple[float, float, int]]
) -> None:
    now = start
    chain = [(now, now + KEPT)]  # when each link was made, and until when it is kept
    written = 0
    for idle, answering, branch in turns:
        now += idle
        chain = chain[: len(chain) - branch % len(chain)]  # a turn may continue any link
        if chain[-1][1] <= now:
            return
        assert all(until > now for _, until in chain)
        begun = now
        if chain_is_due(chain[-1][0], now, KEPT):
            written += 1
            chain = [(made, max(until, chain_kept_until(now, KEPT))) for made, until in chain]
        now += answering
        made, until = chain[-1]
        chain[-1] = (made, max(until, chain_kept_until(now, KEPT)))
        chain.append((begun, now + KEPT))
        assert min(until for _, until in chain) == chain[-1][1]
    assert written <= len(turns)


@given(st.floats(0, 1e10), st.floats(1, 1e9))
def test_links_are_kept_a_little_longer_than_one_alone_and_not_for_ever(now: float, seconds: float) -> None:
    assert seconds * (1 - 1e-6) <= chain_kept_until(now, seconds) - now <= seconds * (1 + 2 / 16 + 1e-6) + 1e-5


def test_a_chain_that_is_continued_all_the_time_is_written_to_sixteen_times_while_a_link_is_kept() -> None:
    times = [step * KEPT / 10_000 for step in range(10_001)]
    due = [chain_is_due(earlier, later, KEPT) for earlier, later in itertools.pairwise(times)]
    assert sum(due) == 16

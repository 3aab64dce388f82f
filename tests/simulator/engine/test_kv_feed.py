"""Numbered batches of cache changes, and who can go on from where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_simulator.engine.kv_feed import CursorLost, KvFeed
from smg_simulator.engine.prefix_cache import BlocksCleared, BlocksRemoved


def test_batches_and_events_count_on() -> None:
    feed = KvFeed(8)
    feed.publish([BlocksCleared(), BlocksRemoved((1,))], 5.0)
    feed.publish([], 6.0)
    feed.publish([BlocksRemoved((2,))], 7.0)

    assert [(batch.sequence, batch.first_event, batch.moment) for batch in feed.after(0)] == [(1, 1, 5.0), (2, 3, 7.0)]
    assert feed.after(2) == []


@given(st.integers(0, 30), st.integers(1, 10), st.integers(-1, 40))
def test_a_cursor_gives_all_that_follows_it_or_is_lost(published: int, keep: int, cursor: int) -> None:
    feed = KvFeed(keep)
    for _ in range(published):
        feed.publish([BlocksCleared()], 0.0)

    if max(0, published - keep) <= cursor <= published:
        assert [batch.sequence for batch in feed.after(cursor)] == list(range(cursor + 1, published + 1))
    else:
        with pytest.raises(CursorLost):
            feed.after(cursor)

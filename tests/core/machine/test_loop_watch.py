"""The watch over the event loop: how late it was, and where it is blocked, said once."""

import gc
import logging

import pytest

from smg_core.machine.loop_watch import LoopHealth, LoopWatch
from smg_core.observability.settings import ObservabilityConfig
from smg_core.testing import FakeClock

SETTINGS = ObservabilityConfig(watchdog_s=2.0, loop_tick_s=0.1)


def watched(clock: FakeClock) -> LoopWatch:
    return LoopWatch(clock, lambda seconds, call: clock.call_at(clock.monotonic() + seconds, call), SETTINGS)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def begin(watch: LoopWatch) -> None:
    """Start it without its thread, whose part the test takes."""
    watch._schedule()


def test_a_loop_that_runs_in_time_is_not_late(clock: FakeClock) -> None:
    watch = watched(clock)
    begin(watch)
    clock.advance(5)
    watch.look()

    assert watch.taken() == LoopHealth(lag=pytest.approx(0))


def test_a_long_callback_makes_the_loop_late_by_its_length_and_is_told_once_for_a_while(clock: FakeClock) -> None:
    watch = watched(clock)
    begin(watch)
    clock.call_at(clock.monotonic() + 0.05, lambda: clock.advance(0) or setattr(clock, "_now", clock.monotonic() + 3))
    clock.advance(0.2)

    assert watch.taken().lag == pytest.approx(2.95)
    assert watch.taken() == LoopHealth(lag=0.0)


def test_a_blocked_loop_has_its_place_in_the_log_once(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    watch = watched(clock)
    begin(watch)
    with caplog.at_level(logging.WARNING, logger="smg.loop"):
        for _ in range(3):  # the timer does not come any more
            clock._now += 3
            watch.look()

    (record,) = caplog.records
    assert "blocked for 3.0 s" in record.getMessage()
    assert "test_a_blocked_loop_has_its_place_in_the_log_once" in record.getMessage()


def test_collections_of_garbage_are_counted_by_generation(clock: FakeClock) -> None:
    watch = watched(clock)
    watch.start()
    try:
        gc.collect(2)
        gc.collect(0)
        taken = watch.taken()
    finally:
        watch.stop()
    before = len(gc.callbacks)

    assert taken.collections[2] >= 1
    assert taken.collections[0] >= 1
    gc.collect(0)
    assert watch.taken().collections == (0, 0, 0)
    assert len(gc.callbacks) == before

"""The timing model: when tokens are due, and who waits."""

import pytest

from smg_core.testing import FakeClock
from smg_simulator.engine.clockwork import Clockwork, Timing
from smg_simulator.engine.refusal import Refused


def test_without_rates_everything_is_due_at_once() -> None:
    clock = FakeClock(now=100)
    work = Clockwork(Timing(), clock)
    ticket = work.arrive(5000)

    work.advance(ticket)

    assert ticket.running
    assert ticket.due == 100


def test_prompts_are_computed_one_after_another() -> None:
    clock = FakeClock(now=0)
    work = Clockwork(Timing(prefill_rate=100), clock)

    assert [work.arrive(50).due, work.arrive(100).due] == [0.5, 1.5]


def test_tokens_come_a_step_apart_and_steps_fall_together() -> None:
    clock = FakeClock(now=0)
    work = Clockwork(Timing(prefill_rate=100, decode_rate=10), clock)
    early = work.arrive(1)
    clock.advance(0.25)
    late = work.arrive(1)

    assert early.due == pytest.approx(0.1)
    assert late.due == pytest.approx(0.3)
    work.advance(early)
    assert early.due == pytest.approx(0.2)


def test_a_fuller_batch_makes_longer_steps() -> None:
    work = Clockwork(Timing(decode_rate=10, slowdown=0.5), FakeClock(now=0))
    ticket = work.arrive(1)
    work.arrive(1)
    work.arrive(1)

    work.advance(ticket)

    assert ticket.due == pytest.approx(0.1 * 2)


def test_several_tokens_a_step_make_steps_longer_not_tokens_faster() -> None:
    work = Clockwork(Timing(decode_rate=10, tokens_per_step=4), FakeClock(now=0))
    ticket = work.arrive(1)

    work.advance(ticket)

    assert ticket.due == pytest.approx(0.4)


def test_who_finds_no_place_waits_in_line() -> None:
    clock = FakeClock(now=0)
    work = Clockwork(Timing(batch=1, prefill_rate=1), clock)
    first, second, third = work.arrive(1), work.arrive(2), work.arrive(1)
    clock.advance(5)

    assert (first.running, second.running) == (True, False)
    assert (work.running, work.waiting) == (1, 2)
    assert work.leave(first) is second
    assert second.due == 7
    assert work.leave(third) is None
    assert work.leave(second) is None
    assert (work.running, work.waiting) == (0, 0)


def test_a_full_queue_takes_nobody() -> None:
    work = Clockwork(Timing(batch=1, queue=1), FakeClock())
    work.arrive(1)
    work.check_room()
    work.arrive(1)

    with pytest.raises(Refused) as caught:
        work.check_room()
    assert caught.value.code == "RESOURCE_EXHAUSTED"


def test_throughput_is_that_of_the_last_full_second() -> None:
    clock = FakeClock(now=0)
    work = Clockwork(Timing(), clock)
    work.count(30)
    assert work.throughput == 0

    clock.advance(1)
    work.count(5)
    assert work.throughput == 30

    clock.advance(2)
    assert work.throughput == 0


@pytest.mark.parametrize(
    "wrong", [{"prefill_rate": 0}, {"decode_rate": -1}, {"batch": 0}, {"tokens_per_step": 0}, {"queue": -1}]
)
def test_impossible_timings_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match="must be"):
        Timing(**wrong)

"""The clock, the ids and the observer that the package hands to other people's tests."""

from smg_core.hooks import Retrying, WorkerStateChanged
from smg_core.testing import FakeClock, MemoryObserver, counting_ids

# ------------------------------------------------------------------------------------------------------------ the clock


def test_a_clock_moves_only_when_it_is_told() -> None:
    clock = FakeClock(now=5, epoch=100)

    assert (clock.monotonic(), clock.time()) == (5, 100)
    clock.advance(2.5)
    assert (clock.monotonic(), clock.time()) == (7.5, 102.5)


def test_alarms_ring_in_order_each_at_its_moment() -> None:
    clock, rung = FakeClock(now=0), []
    clock.call_at(3, lambda: rung.append(("c", clock.monotonic())))
    clock.call_at(1, lambda: rung.append(("a", clock.monotonic())))
    clock.call_at(1, lambda: rung.append(("b", clock.monotonic())))

    clock.advance(2)
    assert rung == [("a", 1), ("b", 1)]
    assert clock.next_alarm == 3

    clock.advance(1)
    assert rung[-1] == ("c", 3)
    assert clock.next_alarm is None


def test_an_alarm_set_by_an_alarm_rings_in_the_same_stretch() -> None:
    clock, rung = FakeClock(now=0), []
    clock.call_at(1, lambda: clock.call_at(2, lambda: rung.append(clock.monotonic())))

    clock.advance(5)

    assert rung == [2]
    assert clock.monotonic() == 5


def test_a_cancelled_alarm_does_not_ring() -> None:
    clock, rung = FakeClock(now=0), []
    clock.call_at(1, lambda: rung.append(1)).cancel()

    clock.advance(2)

    assert rung == []


# ----------------------------------------------------------------------------------------------------- ids and moments


def test_ids_can_be_foreseen() -> None:
    mint = counting_ids()

    assert [mint("chatcmpl-"), mint("call_"), mint("chatcmpl-")] == ["chatcmpl-1", "call_2", "chatcmpl-3"]


def test_moments_are_kept_by_kind_and_bounded() -> None:
    observer = MemoryObserver(limit=2)
    for number in range(3):
        observer.report(Retrying(f"r-{number}", "w", "WorkerGone", 0.0))
    observer.report(WorkerStateChanged("w", "ready", "unreachable", ""))

    assert [moment.request_id for moment in observer.of(Retrying)] == ["r-2"]
    assert len(observer.of(WorkerStateChanged)) == 1

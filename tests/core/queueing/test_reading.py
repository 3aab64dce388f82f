"""A person's prompt is read soon, and while people come the last worker that reads nothing is left to them."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from smg_core.queueing.reading import read_aside, read_first


@attrs.frozen
class Worker:
    prefill_tokens: int = 0
    in_flight: int = 0
    others: int = 0


def left(narrowed: object, *waiting: int, reads: int | list[int] = 500, busy: tuple[int, ...] = ()) -> list[int]:
    requests = busy or (0,) * len(waiting)
    workers = tuple(
        [Worker(tokens, count // 2, count - count // 2) for tokens, count in zip(waiting, requests, strict=True)]
    )
    own = [reads] * len(workers) if isinstance(reads, int) else reads
    found = narrowed(workers, own)  # type: ignore[operator]
    return [at for at, worker in enumerate(workers) if any(worker is each for each in found)]


def test_a_person_goes_where_its_prompt_is_read_soonest() -> None:
    assert left(read_first, 700, 0, 300, 0) == [1, 3]
    assert left(read_first, 700, 200, 300, reads=[100, 500, 500]) == [1]
    assert left(read_first, 700, 200, 300, reads=[0, 1000, 1000]) == [0]  # where its cache is


def test_others_leave_the_last_worker_that_reads_nothing() -> None:
    assert left(read_aside, 700, 0, 300) == [0, 2]
    assert left(read_aside, 700, 0, 300, 0) == [0, 1, 2, 3]
    assert left(read_aside, 700, 100, 300) == [0, 2]  # it reads nothing soon


def test_they_do_not_where_others_are_behind_or_too_few_or_their_own_prompt_is_short_there() -> None:
    assert left(read_aside, 9000, 0, 1500) == [2]
    assert left(read_aside, 9000, 0, 1600) == [0, 1, 2]
    assert left(read_aside, 700, 0) == [0, 1]
    assert left(read_aside, 700, 0, 300, reads=[500, 40, 500]) == [0, 1, 2]  # where its cache is


def test_a_prompt_that_is_short_for_all_leaves_the_last_one_free_too() -> None:
    assert left(read_aside, 700, 0, 300, reads=40) == [0, 2]


def test_a_worker_that_is_kept_free_has_no_fewer_requests_than_a_few() -> None:
    assert left(read_aside, 700, 0, 300, busy=(14, 10, 15)) == [0]
    assert left(read_aside, 700, 0, 300, busy=(15, 10, 15)) == [0, 1, 2]
    assert left(read_aside, 700, 0, 300, busy=(90, 80, 91)) == [0]
    assert left(read_aside, 700, 0, 300, busy=(0, 10, 3)) == [0, 2]


@given(
    st.sampled_from([read_first, read_aside]),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 500)), min_size=1, max_size=8),
)
def test_somebody_is_always_left(narrowed: object, workers: list[tuple[int, int, int]]) -> None:
    waiting, reads, busy = zip(*workers, strict=True)
    assert left(narrowed, *waiting, reads=[*reads], busy=busy)

"""What one process learns of a worker that fails, all processes of the gateway know."""

import multiprocessing
from contextlib import nullcontext
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared import PATIENCE

from smg_core.errors import WorkerBusy, WorkerGone
from smg_core.machine.process_lock import process_lock
from smg_core.workers.breaker import Breakers
from smg_core.workers.breaker_table import BreakerStanding, BreakerTable
from smg_core.workers.settings import BreakerConfig

SETTINGS = BreakerConfig(failures=4, open_s=5, probes=3, rest_most_s=30)
GONE = WorkerGone("gone")


@attrs.frozen
class Named:
    name: str
    rank_count: int = 2


A, B = Named("a"), Named("b")


def table(rows: int = 8) -> BreakerTable:
    return BreakerTable(memoryview(bytearray(BreakerTable.size(rows))), nullcontext())


def two(rows: int = 8) -> tuple[Breakers, Breakers]:
    """The breakers of two processes."""
    shared = table(rows)
    return Breakers(SETTINGS, shared), Breakers(SETTINGS, shared)


def trip(breakers: Breakers, now: float = 0.0, name: str = "a", rank: int | None = None) -> None:
    for _ in range(4):
        breakers.ended(name, GONE, now, rank)


def test_a_worker_that_trips_in_one_process_is_left_alone_by_the_others() -> None:
    one, other = two()
    trip(one)

    assert other.admitted((A, B), 1.0) == (B,)
    assert other.state("a") == "open"


def test_a_rank_and_a_worker_that_asked_for_a_rest_are_known_too() -> None:
    one, other = two()
    trip(one, rank=1)
    one.ended("b", WorkerBusy("full", retry_after=7.0), 0.0)

    assert other.admitted((A, B), 1.0) == (A,)
    assert other.ranks_out("a", 2, 1.0) == (1,)
    assert other.admitted((A, B), 8.0) == (A, B)


def test_other_settings_close_the_breakers_of_all_processes() -> None:
    one, other = two()
    trip(one)
    before = other.admitted((A, B), 1.0)
    one.adopt(attrs.evolve(SETTINGS, failures=5))

    assert (before, other.admitted((A, B), 1.0)) == ((B,), (A, B))


def test_both_processes_together_make_as_many_probes_as_one_would() -> None:
    one, other = two()
    trip(one)
    made = 0
    for breakers in (one, other) * 5:
        if breakers.admitted((A, B), 5.0) == (A, B):
            breakers.chosen("a")
            made += 1

    assert made == SETTINGS.probes
    assert one.admitted((A, B), 9.9) == other.admitted((A, B), 9.9) == (B,)


def test_probes_that_go_well_in_either_close_it_in_both_and_one_that_fails_opens_it_in_both() -> None:
    one, other = two()
    trip(one)
    for breakers in (one, other, one):
        assert breakers.admitted((A, B), 5.0) == (A, B)
        breakers.chosen("a")
        breakers.ended("a", None, 5.1)

    assert (one.state("a"), other.admitted((A, B), 5.2), other.state("a")) == ("closed", (A, B), "closed")
    trip(other, 6.0)
    assert one.admitted((A, B), 11.0) == (A, B)
    one.chosen("a")
    one.ended("a", GONE, 11.1)
    assert other.admitted((A, B), 15.0) == (B,)


def test_a_worker_that_has_left_is_forgotten_by_all() -> None:
    one, other = two()
    trip(one)
    assert other.admitted((A, B), 1.0) == (B,)
    one.forget("a")

    assert other.admitted((A, B), 1.0) == (A, B)


def test_a_process_that_leaves_forgets_its_own_breakers_and_leaves_the_others_theirs() -> None:
    one, other = two()
    trip(one)
    trip(one, rank=1)
    assert other.admitted((A, B), 1.0) == (B,)
    one.forget("a", alone=True)
    here, there = one.state("a"), other.admitted((A, B), 1.0)
    again = one.admitted((A, B), 1.0)  # as when a gateway is started again

    assert (here, there, other.ranks_out("a", 2, 1.0)) == ("closed", (B,), (1,))
    assert again == (B,)


def test_a_breaker_for_which_there_is_no_room_is_known_to_its_process_alone() -> None:
    one, other = two(rows=1)
    trip(one)
    trip(one, name="b")
    trip(one, name="c" * 300)

    assert one.admitted((A, B, Named("c" * 300)), 1.0) == (A, B, Named("c" * 300))  # none is left, so all
    assert other.admitted((A, B, Named("c" * 300)), 1.0) == (B, Named("c" * 300))
    one.forget("a")
    trip(other, name="b")
    assert one.admitted((A, B), 1.0) == (A,)


KEYS = st.sampled_from(["a", "a\0001", "b", "ä" * 90, "c" * 192, "long" * 60])
STANDINGS = st.builds(
    BreakerStanding,
    st.sampled_from(["closed", "open", "half_open"]),
    st.floats(0, 1e9),
    st.floats(0, 1e9),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.floats(0, 1e9),
)


@given(st.lists(st.tuples(KEYS, STANDINGS), max_size=40), st.integers(0, 4))
def test_the_table_is_a_mapping_of_what_is_not_quiet_within_its_bound(
    steps: list[tuple[str, BreakerStanding]], rows: int
) -> None:
    shared, model = table(rows), dict[str, BreakerStanding]()
    for key, standing in steps:
        before, told = shared.version, shared.put(key, standing)
        if standing.quiet:
            gone = model.pop(key, None)
            assert told
            assert (shared.version != before) == (gone is not None)
        elif told:
            model[key] = standing
            assert shared.version != before
        else:
            assert len(key.encode()) > 192 or (key not in model and len(model) == rows)
            assert shared.version == before

        assert shared.read() == model
        assert shared.find(key) == model.get(key)


def probing(memory: Any, lock: Any, turns: int, started: Any, results: Any) -> None:
    """Another process, which takes every probe that it is let."""
    breakers = Breakers(SETTINGS, BreakerTable(memoryview(memory).cast("B"), lock))
    started.wait()
    made = 0
    for _ in range(turns):
        if breakers.admitted((A, B), 5.0) == (A, B):
            breakers.chosen("a")
            made += 1
    results.put(made)


@pytest.mark.full
def test_processes_that_probe_at_the_same_time_keep_to_one_budget() -> None:
    context = multiprocessing.get_context("spawn")
    memory, lock = context.RawArray("q", BreakerTable.size(8) // 8 + 1), process_lock()
    started, results = context.Barrier(2), context.Queue()
    trip(Breakers(SETTINGS, BreakerTable(memoryview(memory).cast("B"), lock)))
    processes = [context.Process(target=probing, args=(memory, lock, 200, started, results)) for _ in range(2)]
    for process in processes:
        process.start()
    made = [results.get(timeout=PATIENCE) for _ in processes]
    for process in processes:
        process.join(PATIENCE)

    assert SETTINGS.probes <= sum(made) <= SETTINGS.probes + 1, made

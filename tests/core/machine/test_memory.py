"""When free memory is returned to the system."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.machine.memory import Settling, Trimming, resident_bytes, without_full_collections


class Process:
    """`used` bytes that objects need and `free` ones that the C library keeps."""

    def __init__(self, used: int = 1000, free: int = 0) -> None:
        self.used, self.free, self.trims = used, free, 0

    def resident(self) -> int:
        return self.used + self.free

    def trim(self) -> None:
        self.free = 0
        self.trims += 1


def trimming(process: Process, step: int = 100) -> Trimming:
    return Trimming(step, resident=process.resident, trim=process.trim)


def test_what_a_large_answer_took_is_returned_and_nothing_is_asked_again_until_memory_has_grown_anew() -> None:
    process = Process()
    watch = trimming(process)
    assert not watch.due(0)
    process.free = 150
    assert watch.due(1)
    watch.run(1)

    assert process.resident() == 1000
    assert not watch.due(1000)


def test_memory_that_is_needed_while_it_is_looked_at_is_returned_once_it_is_free() -> None:
    process = Process()
    watch = trimming(process)
    assert not watch.due(0)
    process.used += 150
    assert watch.due(1)
    watch.run(1)
    process.used, process.free = 1000, 150

    assert not watch.due(2)
    assert watch.due(3)


def test_memory_that_stays_needed_is_asked_for_less_and_less_often_until_it_grows_by_another_step() -> None:
    process = Process()
    watch = trimming(process)
    assert not watch.due(0)
    process.used += 500
    times = []
    for now in range(1, 1001):
        if watch.due(now):
            watch.run(now)
            times.append(now)
    assert times[:6] == [1, 3, 7, 15, 31, 63]
    assert max(after - before for before, after in pairwise(times)) == 60

    process.free = 100
    assert watch.due(times[-1] + 1)


def test_a_step_of_zero_never_returns_anything() -> None:
    process = Process()
    watch = trimming(process, 0)
    process.free = 10**9

    assert not watch.due(100)


@given(st.lists(st.tuples(st.integers(-200, 300), st.integers(-200, 300)), max_size=40))
def test_free_memory_of_a_step_is_gone_within_a_minute_however_memory_grows_and_shrinks(
    changes: list[tuple[int, int]],
) -> None:
    process = Process()
    watch = trimming(process)
    now, least = 0, process.resident()
    assert not watch.due(now)
    for used, free in changes:
        process.used, process.free = max(0, process.used + used), max(0, process.free + free)
        least = min(least, process.resident())
        for _ in range(61):
            now += 1
            if watch.due(now):
                watch.run(now)
                least = min(least, process.resident())
        assert process.free < 100 or process.resident() - least < 100


def test_this_process_says_how_much_is_resident() -> None:
    assert resident_bytes() > 1 << 20


def test_what_is_loaded_while_requests_are_answered_is_frozen_at_once_and_its_garbage_collected_when_none_is() -> None:
    did: list[str] = []
    settling = Settling(settle=lambda: did.append("collected"), freeze=lambda: did.append("frozen"))
    first, both = frozenset({1}), frozenset({1, 2})
    for loaded, busy in [(first, False), (first, False), (both, True), (both, True), (both, False), (both, False)]:
        settling.look(loaded, busy=busy)
    assert did == ["collected", "frozen", "collected"]
    settling.look(first, busy=True)
    settling.look(both, busy=True)
    settling.look(both, busy=False)
    assert did[3:] == ["frozen", "frozen", "collected"]


@contextmanager
def full_collections() -> Iterator[list[int]]:
    """A list that grows with each collection that looks at all objects."""
    found: list[int] = []

    def told(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            found.append(1)

    gc.callbacks.append(told)
    try:
        yield found
    finally:
        gc.callbacks.remove(told)


def allocated() -> list[list[int]]:
    """More objects than a full collection waits for."""
    first, second, third = gc.get_threshold()
    return [[] for _ in range(2 * first * second * min(third, 10))]


@pytest.mark.full
def test_no_collection_looks_at_all_objects_while_much_is_loaded_nor_right_behind_it() -> None:
    usual = gc.get_threshold()
    gc.unfreeze()  # what the run of tests has excluded
    gc.collect()
    with full_collections() as found:
        with without_full_collections():
            kept = [allocated()]
            with without_full_collections():  # in another thread, say
                kept.append(allocated())
            kept.append(allocated())
        kept.append([[] for _ in range(2 * usual[0])])
    gc.freeze()
    assert found == []
    assert gc.get_threshold() == usual


OPENS = """
import asyncio, gc, sys
from smg_core import Config
from smg_core.history.opening import open_history
from smg_core.history.settings import HistoryConfig
from smg_core.clock import SystemClock
full = []
gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 else None)

async def opened():
    gc.collect()
    full.clear()
    store = await open_history(HistoryConfig(url="sqlite:///" + sys.argv[1]), SystemClock())
    print(len(full), "smg_core.history.sqlite.store" in sys.modules, "sqlalchemy" in sys.modules)
    await store.close()

asyncio.run(opened())
"""


@pytest.mark.full
def test_the_first_opening_of_a_history_stops_the_process_for_no_collection_of_all_objects(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPENS, str(tmp_path / "history.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True", "False"]

"""Several processes count in one block: exactly the limit is admitted, and who is killed gives back what it held."""

import mmap
import multiprocessing
import os
import signal
from multiprocessing.synchronize import Barrier
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.shared import PATIENCE

from smg_core.limits.counters import Instant
from smg_core.limits.decision import LimitClaim
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import LimitRule
from smg_core.limits.shared import SharedCounters, forget
from smg_core.machine.shared_block import SharedBlock

PROCESSES = 4
RULES = (
    LimitRule(500, "requests", "hour", 500, ("key",)),
    LimitRule(600, "tokens", "day"),
    LimitRule(700, "at_once"),
)
NOON = 1_700_000_000.0


def counters(block: SharedBlock, number: int, processes: int = PROCESSES) -> SharedCounters:
    return SharedCounters(block.cells(), block.lock, number, processes, "UTC")


def claims(cost: int = 1, scope: str = "a") -> list[LimitClaim]:
    return [LimitClaim(rule, f"{number} {scope}", cost) for number, rule in enumerate(RULES)]


def at(us: int = 0, wall_s: float = NOON) -> Instant:
    return Instant(us, wall_s)


def ask(block: SharedBlock, number: int, barrier: Barrier, told: Any) -> None:
    """A process that asks 250 times."""
    mine = counters(block, number)
    barrier.wait()
    told.put(sum(mine.claim(claims(), at()) is None for _ in range(250)))


def hold(block: SharedBlock, told: Any) -> None:
    """A process that reserves, and is killed."""
    counters(block, 0).claim(claims(100), at())
    told.put(True)
    told.close()
    told.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.full
def test_a_thousand_callers_of_four_processes_are_admitted_up_to_the_limit_and_not_one_more() -> None:
    context = multiprocessing.get_context("spawn")
    block, told, barrier = SharedBlock.made(1 << 16), context.Queue(), context.Barrier(PROCESSES)
    asking = [context.Process(target=ask, args=(block, number, barrier, told)) for number in range(PROCESSES)]
    for each in asking:
        each.start()
    admitted = [told.get(timeout=PATIENCE) for _ in asking]
    for each in asking:
        each.join(PATIENCE)

    assert sum(admitted) == 500
    first, second, third = counters(block, 0).look(claims())
    assert (second.second, third.first) == (500, 500)
    assert first.first == 3_600_000_000


@pytest.mark.full
def test_what_a_killed_process_had_reserved_is_free_again() -> None:
    context = multiprocessing.get_context("spawn")
    block, told = SharedBlock.made(1 << 16), context.Queue()
    counters(block, 1).claim(claims(10), at())
    holding = context.Process(target=hold, args=(block, told))
    holding.start()
    assert told.get(timeout=PATIENCE)
    holding.join(PATIENCE)
    before = counters(block, 1).look(claims())
    forget(block.cells(), block.lock, 0, PROCESSES)
    after = counters(block, 1).look(claims())

    assert holding.exitcode == -signal.SIGKILL
    assert [each.second for each in before[1:2]] == [110]
    assert (after[1].second, after[2].first) == (10, 10)


STEPS = some.lists(
    some.tuples(
        some.sampled_from(["claim", "put_right", "settle"]),
        some.integers(0, 200),
        some.integers(0, 1),
        some.integers(0, 40_000_000),
        some.sampled_from(["a", "b"]),
    ),
    max_size=25,
)


@given(STEPS)
@settings(deadline=None)
def test_the_block_counts_as_memory_does(steps: list[tuple[str, int, int, int, str]]) -> None:
    block = SharedBlock.made(1 << 14)
    shared, memory = [counters(block, number, 2) for number in range(2)], MemoryCounters(1000, "UTC")
    held: list[tuple[int, list[LimitClaim], Instant]] = []
    us = 0
    for word, amount, number, pause, scope in steps:
        us += pause
        now = at(us, NOON + us / 1000)  # days pass too
        if word == "claim" or not held:
            asked = claims(amount % 50 + 1, scope)
            refused = memory.claim(asked, now)
            assert shared[number].claim(asked, now) == refused
            if refused is None:
                held.append((number, asked, now))
        else:
            number, asked, then = held.pop()
            costs = [amount if claim.rule.unit != "at_once" or word == "put_right" else 0 for claim in asked]
            for each in (memory, shared[number]):
                getattr(each, word)(asked, costs, then, now)
            if word == "put_right":
                changed = [LimitClaim(claim.rule, claim.scope, cost) for claim, cost in zip(asked, costs, strict=True)]
                held.append((number, changed, then))
        for name in ("a", "b"):
            assert shared[0].claim(claims(0, name), now) == memory.claim(claims(0, name), now)
            assert shared[1].look(claims(0, name)) == memory.look(claims(0, name))


def test_a_full_block_forgets_what_was_used_longest_ago() -> None:
    block = SharedBlock.made(8 * (1 + 4 * 5))  # four rows of one process
    mine = counters(block, 0, 1)
    rule = LimitRule(5, "tokens", "day")
    for number in range(6):
        mine.claim([LimitClaim(rule, str(number), 1)], at(number))

    counts = [mine.look([LimitClaim(rule, str(number), 0)])[0].second for number in range(5, 2, -1)]
    assert counts[0] == 1


def test_nothing_of_a_block_is_there_before_something_is_counted() -> None:
    block = SharedBlock.made(1 << 30)
    forget(block.cells(), block.lock, 0, PROCESSES)

    assert os.fstat(block._file).st_blocks * 512 <= mmap.PAGESIZE  # the one that was looked at


def test_the_memory_keeps_no_more_counters_than_it_may() -> None:
    memory = MemoryCounters(10, "UTC")
    rule = LimitRule(5, "tokens", "day")
    for number in range(50):
        memory.claim([LimitClaim(rule, str(number), 1)], at(number))

    assert len(memory) == 10
    assert memory.look([LimitClaim(rule, "49", 0)])[0].second == 1
    with pytest.raises(ValueError, match="shorter"):
        memory.put_right([LimitClaim(rule, "49", 0)], [], at(), at())

"""What several processes share: the counts of requests in flight, in a row for each worker that all find by its name."""

import multiprocessing
import os
import signal
import sys
from array import array
from collections import Counter
from contextlib import nullcontext
from multiprocessing.connection import Connection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.tiers import examples

from smg_core.machine.process_lock import process_lock
from smg_core.operation.process_table import BoardMemory, SharedBoard, SharedNumbers
from smg_core.workers.registry import Registry
from smg_core.workers.worker import STATES, Board, LocalBoard, State, WorkerSpec

PROCESSES = 3
NAMES = "abcdef"


def zeros(kind: str, length: int) -> "array[int]":
    return array(kind, [0]) * length


def boards(rows: int = 8) -> list[SharedBoard]:
    memory = BoardMemory.made(PROCESSES, rows, zeros)
    return [SharedBoard(memory, column, nullcontext()) for column in range(PROCESSES)]


@given(st.lists(st.tuples(st.integers(0, PROCESSES - 1), st.sampled_from(NAMES), st.sampled_from([1, -1]))))
def test_every_process_sees_the_sum_of_all(changes: list[tuple[int, str, int]]) -> None:
    shared = boards()
    for process, name, change in changes:
        shared[process].add(shared[process].claim(name), change)

    for name in NAMES:
        wanted = sum(change for _, changed, change in changes if changed == name)
        assert [board.total(board.claim(name)) for board in shared] == [wanted] * PROCESSES


def test_every_process_sees_the_tokens_that_wait_by_all_and_those_of_one_that_is_gone_are_forgotten() -> None:
    first, second, third = boards()
    rows = [first.claim(name) for name in "abc"]
    for row in (rows[0], rows[2]):
        first.add(row, 0, 500)
        second.add(row, 0, 20)
    first.clear()

    assert [third.tokens(row) for row in rows] == [20, 0, 20]
    assert third.total(rows[0]) == third.total(rows[2]) == 0


def test_the_requests_of_a_process_that_is_gone_are_forgotten_and_no_others() -> None:
    first, second, _ = boards()
    rows = [first.claim(name) for name in NAMES]
    for row in rows:
        first.add(row, 5)
        second.add(row, 2)
    first.clear()

    assert [second.total(row) for row in rows] == [2] * len(rows)


def test_processes_that_know_their_workers_in_another_order_count_them_in_the_same_rows() -> None:
    first, second, _ = (Registry(board) for board in boards())
    for registry, names in ((first, "abc"), (second, "xcba")):
        for name in names:
            registry.add(WorkerSpec(f"grpc://{name}:1", name=name))
    for registry, name in ((first, "a"), (first, "a"), (second, "x"), (second, "c")):
        worker = registry.get(name)
        assert worker is not None
        worker.board.add(worker.row, 1)

    assert {worker.name: worker.in_flight for worker in first} == {"a": 2, "b": 0, "c": 1}
    assert {worker.name: worker.in_flight for worker in second} == {"a": 2, "b": 0, "c": 1, "x": 1}


def test_a_row_that_another_process_still_claims_is_given_to_no_other_name() -> None:
    first, second, _ = boards(rows=2)
    row = first.claim("a")
    assert second.claim("a") == row
    first.release(row)
    other = first.claim("b")
    with pytest.raises(ValueError, match="2 workers are all in use"):
        first.claim("c")
    second.release(row)

    assert other != row
    assert first.claim("c") == row


def test_rows_that_others_left_with_requests_are_found_when_no_row_is_left() -> None:
    first, second, _ = boards(rows=1)
    row = first.claim("a")
    first.add(row, 1)
    first.release(row)
    with pytest.raises(ValueError, match="all in use"):
        second.claim("b")
    first.add(row, -1)

    assert second.claim("b") == row


class Rows(RuleBasedStateMachine):
    """Three processes that claim and release names, have requests there, and die."""

    processes, rows = PROCESSES, 4

    def __init__(self) -> None:
        super().__init__()
        self.memory = BoardMemory.made(self.processes, self.rows, zeros)
        self.boards = [self.board(column) for column in range(self.processes)]
        self.claims: list[dict[str, int]] = [{} for _ in range(self.processes)]
        self.told: list[dict[str, State]] = [{} for _ in range(self.processes)]
        self.requests: list[tuple[int, str, int, int]] = []  # process, name, row, tokens

    def board(self, column: int) -> Board:
        return SharedBoard(self.memory, column, nullcontext())

    def gone(self, process: int) -> None:
        SharedBoard(self.memory, process, nullcontext()).clear()

    def in_use(self) -> set[str]:
        return {name for claims in self.claims for name in claims} | {name for _, name, _, _ in self.requests}

    @rule(process=st.integers(0, PROCESSES - 1), name=st.sampled_from(NAMES))
    def claim(self, process: int, name: str) -> None:
        process %= self.processes
        if name not in self.in_use() and len(self.in_use()) == self.rows:
            with pytest.raises(ValueError, match="all in use"):
                self.boards[process].claim(name)
        else:
            self.claims[process][name] = self.boards[process].claim(name)
            self.told[process][name] = "joining"

    @precondition(lambda self: any(self.claims))
    @rule(data=st.data(), state=st.sampled_from(STATES))
    def tell(self, data: st.DataObject, state: State) -> None:
        process, name = data.draw(st.sampled_from(self.claimed()))
        self.boards[process].tell(self.claims[process][name], state)
        self.told[process][name] = state

    @precondition(lambda self: any(self.claims))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        process, name = data.draw(st.sampled_from(self.claimed()))
        self.boards[process].release(self.claims[process].pop(name))
        del self.told[process][name]

    @precondition(lambda self: any(self.claims))
    @rule(data=st.data(), tokens=st.integers(0, 3))
    def begin(self, data: st.DataObject, tokens: int) -> None:
        process, name = data.draw(st.sampled_from(self.claimed()))
        row = self.claims[process][name]
        self.boards[process].add(row, 1, tokens)
        self.requests.append((process, name, row, tokens))

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.requests))
        self.requests.remove(request)
        process, _, row, tokens = request
        self.boards[process].add(row, -1)
        self.boards[process].add(row, 0, -tokens)

    @rule(process=st.integers(0, PROCESSES - 1))
    def die(self, process: int) -> None:
        process %= self.processes
        self.gone(process)
        self.boards[process] = self.board(process)
        self.claims[process], self.told[process] = {}, {}
        self.requests = [request for request in self.requests if request[0] != process]

    def claimed(self) -> list[tuple[int, str]]:
        return [(process, name) for process, claims in enumerate(self.claims) for name in claims]

    @invariant()
    def each_name_in_use_has_one_row_of_its_own_with_its_counts(self) -> None:
        found: dict[str, set[int]] = {}
        for name, row in [
            *((name, row) for claims in self.claims for name, row in claims.items()),
            *((name, row) for _, name, row, _ in self.requests),
        ]:
            found.setdefault(name, set()).add(row)
        rows = [row for each in found.values() for row in each]
        assert len(rows) == len(set(rows)) == len(found)
        for name, (row, *_) in ((name, list(each)) for name, each in found.items()):
            mine = [tokens for _, asked, _, tokens in self.requests if asked == name]
            assert {(board.total(row), board.tokens(row)) for board in self.boards} == {(len(mine), sum(mine))}
            states = Counter(told[name] for told in self.told if name in told)
            assert all(board.states(row) == states for board in self.boards)

    def teardown(self) -> None:
        for process in range(self.processes):
            self.die(process)
        assert sorted(self.boards[0].claim(f"new {number}") for number in range(self.rows)) == list(range(self.rows))


TestRows = Rows.TestCase
TestRows.settings = SMALL = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


class LocalRows(Rows):
    """One process by itself, whose rows have no bound but the workers and the requests that there are."""

    processes, rows = 1, len(NAMES)

    def board(self, column: int) -> Board:
        return LocalBoard()

    def gone(self, process: int) -> None:
        """Nobody else is left to forget it."""


TestLocalRows = LocalRows.TestCase
TestLocalRows.settings = SMALL


# ---------------------------------------------------------------------------------------------------- between processes


def claim_all(shared: SharedNumbers, column: int, names: list[str], told: "Connection[object, object]") -> None:
    """Entry of a process: claim these names again and again beside others, and tell their rows."""
    board = shared.counts(column)
    told.recv()
    for _ in range(50):
        for row in [board.claim(name) for name in names]:
            board.release(row)
    told.send([board.claim(name) for name in names])
    told.recv()


def hold(shared: SharedNumbers, column: int, names: list[str], told: "Connection[object, object]") -> None:
    """Entry of a process that never gives the lock back."""
    with shared.lock:
        told.send("held")
        told.recv()


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="a lock that a killed process gives up")
@pytest.mark.timeout(300)
def test_processes_that_claim_at_once_agree_on_every_row_and_one_that_is_killed_with_the_lock_stops_none() -> None:
    context = multiprocessing.get_context("spawn")
    shared = SharedNumbers.made(3, 64, 0, context.RawArray, process_lock())
    names = [f"gpu-{number}" for number in range(40)]
    orders = [names, names[::-1], []]
    started = []
    for column, (entry, order) in enumerate(zip((claim_all, claim_all, hold), orders, strict=True)):
        here, there = context.Pipe()
        process = context.Process(target=entry, args=(shared, column, order, there), daemon=True)
        process.start()
        started.append((process, here))
    (_, one), (_, two), (killed, three) = started
    try:
        assert three.recv() == "held"
        one.send("go")
        two.send("go")
        assert killed.pid is not None
        os.kill(killed.pid, signal.SIGKILL)
        rows, others = one.recv(), two.recv()
    finally:
        for process, _ in started:
            process.kill()
            process.join()
    shared.clear(0)

    assert rows == others[::-1]
    assert len(set(rows)) == len(names)
    assert [shared.counts(2).claim(name) for name in names] == rows
    shared.clear(1)
    shared.clear(2)
    assert shared.counts(0).claim("another") == 0

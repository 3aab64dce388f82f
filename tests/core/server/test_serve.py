"""What several processes share: the counts of requests in flight."""

import gc
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core import Config, Gateway
from smg_core.server.http_server import HttpServer, connections_within
from smg_core.server.processes import SharedBoard

BOARD_ROWS = 4096
PROCESSES = 3


def boards() -> list[SharedBoard]:
    cells = array("i", [0]) * (2 * BOARD_ROWS * PROCESSES)
    return [SharedBoard(cells, PROCESSES, column) for column in range(PROCESSES)]


@given(st.lists(st.tuples(st.integers(0, PROCESSES - 1), st.integers(0, BOARD_ROWS - 1), st.sampled_from([1, -1]))))
def test_every_process_sees_the_sum_of_all(changes: list[tuple[int, int, int]]) -> None:
    shared = boards()
    for process, row, change in changes:
        shared[process].add(row, change)

    for row in {row for _, row, _ in changes} | {0, BOARD_ROWS - 1}:
        wanted = sum(change for _, at, change in changes if at == row)
        assert [board.total(row) for board in shared] == [wanted] * PROCESSES


def test_every_process_sees_the_tokens_that_wait_by_all_and_those_of_one_that_is_gone_are_forgotten() -> None:
    first, second, third = boards()
    for row in (0, BOARD_ROWS - 1):
        first.add_tokens(row, 500)
        second.add_tokens(row, 20)
    first.clear()

    assert [third.tokens(row) for row in (0, 1, BOARD_ROWS - 1)] == [20, 0, 20]
    assert third.total(0) == third.total(BOARD_ROWS - 1) == 0


def test_the_requests_of_a_process_that_is_gone_are_forgotten_and_no_others() -> None:
    first, second, _ = boards()
    for row in (0, 7, BOARD_ROWS - 1):
        first.add(row, 5)
        second.add(row, 2)
    first.clear()

    assert [second.total(row) for row in (0, 7, BOARD_ROWS - 1)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("wanted", "files", "possible"),
    [(8192, 1 << 20, 8192), (8192, -1, 8192), (8192, 1024, 768), (8192, 65536, 8192), (100, 300, 44), (8192, 10, 1)],
)
def test_there_are_no_more_connections_than_files_that_may_be_open(wanted: int, files: int, possible: int) -> None:
    assert connections_within(wanted, files, 256) == possible


@pytest.mark.anyio
async def test_a_process_of_its_own_settles_what_was_loaded_and_one_that_is_shared_does_not() -> None:
    frozen = []
    gc.unfreeze()  # what the tests have frozen of themselves
    async with Gateway.simulated() as gateway:
        for alone in (False, True):
            await HttpServer(gateway, Config(), alone=alone).on_tick(0)
            frozen.append(gc.get_freeze_count())

    assert frozen[0] == 0
    assert frozen[1] > 0

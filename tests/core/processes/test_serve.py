"""How a process serves: the connections that its open files allow, and the memory that it settles."""

import gc

import pytest

from smg_core import Config, Gateway
from smg_core.server.http_server import HttpServer, connections_within


@pytest.mark.parametrize(
    ("wanted", "files", "possible"),
    [(8192, 1 << 20, 8192), (8192, -1, 8192), (8192, 1024, 768), (8192, 65536, 8192), (100, 300, 44), (8192, 10, 1)],
)
def test_there_are_no_more_connections_than_files_that_may_be_open(wanted: int, files: int, possible: int) -> None:
    assert connections_within(wanted, files, 256) == possible


@pytest.mark.full
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

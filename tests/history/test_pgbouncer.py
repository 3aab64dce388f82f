"""The history in a PostgreSQL behind PgBouncer, whose modes give a client's next statement to whichever connection is free."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.engine import make_url
from tests.gateway.conftest import in_process
from tests.history.conformance import response

from smg_core import Config
from smg_core.errors import StoreFailed
from smg_core.history.opening import open_history
from smg_core.history.settings import HistoryConfig
from smg_core.testing import FakeClock
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = [pytest.mark.services, pytest.mark.anyio]

CHAINS, LINKS = 12, 10


@contextmanager
def pgbouncer(postgresql: str, mode: str) -> Iterator[str]:
    """The URL of a PgBouncer with three connections to the server, as the user that owns the server's socket: not as root."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/sbin")
    assert program is not None, "PgBouncer is not here; tools/services.sh installs it"
    behind = make_url(postgresql)
    folder = Path(str(behind.query["host"]))
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = int(found.getsockname()[1])
    settings = folder.parent / f"pgbouncer-{mode}.ini"
    settings.write_text(
        f"[databases]\n* = host={folder} user={behind.username}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"pool_mode = {mode}\ndefault_pool_size = 3\nmax_client_conn = 100\nserver_round_robin = 1\n"
    )
    settings.chmod(0o644)
    owner = folder.stat()
    with subprocess.Popen(
        [program, settings],
        user=owner.st_uid if os.getuid() == 0 else None,
        group=owner.st_gid if os.getuid() == 0 else None,
        extra_groups=[] if os.getuid() == 0 else None,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr is not None
            assert any(" process up: " in line for line in server.stderr), "PgBouncer does not start"
            yield f"postgresql://127.0.0.1:{port}/{behind.database}"
        finally:
            server.terminate()


@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_requests_that_continue_each_other_are_all_answered(postgresql: str, schema: str, mode: str) -> None:
    with pgbouncer(postgresql, mode) as url:
        history = HistoryConfig(url=url, prefix=f"{schema}_", connections=4 if mode == "transaction" else 2)
        simulator = SimulatorConfig(rules=(Rule((), Reply("Yes.")),))
        async with in_process(simulator, config=Config(history=history)) as house:
            answers = await asyncio.gather(*(chain(house.http, number) for number in range(CHAINS)))
    assert [each.status_code for links in answers for each in links] == [200] * (CHAINS * LINKS)


async def chain(http: httpx.AsyncClient, number: int) -> list[httpx.Response]:
    """Responses of which each continues the one before."""
    made: list[httpx.Response] = []
    before: dict[str, Any] = {}
    for link in range(LINKS):
        asked = {"model": "sim", "input": f"{number} {link}", **before}
        made.append(await http.post("/v1/responses", json=asked))
        before = {"previous_response_id": made[-1].json().get("id", "none")}
    return made


async def test_several_processes_share_the_connections(postgresql: str, schema: str, clock: FakeClock) -> None:
    with pgbouncer(postgresql, "transaction") as url:
        history = HistoryConfig(url=url, prefix=f"{schema}_", connections=4)
        stores = [await open_history(history, clock) for _ in range(3)]
        try:
            await asyncio.gather(
                *(
                    store.write("acme", [response(clock, f"resp_{place}_{number}")])
                    for place, store in enumerate(stores)
                    for number in range(40)
                )
            )
            found = await asyncio.gather(
                *(
                    store.response("acme", f"resp_{place}_{n}")
                    for store in stores
                    for place in range(3)
                    for n in range(40)
                )
            )
        finally:
            for store in stores:
                await store.close()
    assert None not in found


async def test_a_pooler_that_takes_no_transactions_is_refused(postgresql: str, clock: FakeClock) -> None:
    with pgbouncer(postgresql, "statement") as url, pytest.raises(StoreFailed) as refused:
        await open_history(HistoryConfig(url=url), clock)
    assert "transaction blocks not allowed in statement pooling" in str(refused.value)

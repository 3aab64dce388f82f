"""A gateway whose history is not open yet: what waits in it is done, its first use opens it, no failure outlasts its cause."""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually, in_process
from tests.gateway.test_background_processes import LONG, PACED
from tests.gateway.test_background_processes import begun as begun_response
from tests.gateway.test_background_processes import serving as serving_background
from tests.gateway.test_batches import batch_of, line, openai_of, over, process
from tests.gateway.test_serve import serving
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.history.settings import HistoryConfig
from smg_core.http.settings import BatchesConfig, ResponsesConfig
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

YES = SimulatorConfig(rules=(Rule((), Reply("Yes.")),))

UNUSED = (
    *("sqlalchemy", "alembic", "mako", "pygments", "greenlet", "asyncpg", "redis", "oracledb"),
    *("numpy", "PIL", "wasmtime", "grpc", "jsonschema", "yaml", "dns", "opentelemetry"),
    *("smg_multimodal", "smg_simulator"),
    *("smg_mcp.base", "smg_mcp.errors", "smg_mcp.tools", "mcp", "smg_core.tools.hosted"),
    *("smg_core.history.sql.store", "smg_core.history.sqlite", "smg_core.batches.queue", "smg_core.files.kept"),
    *(f"smg_core.discovery.{each}" for each in ("cluster", "dns", "kubernetes", "resolver", "watching")),
)
"""What a gateway does not load that answers requests and keeps nothing, each with all below it."""

DUMP = """
import atexit, os, sys
def dump():
    with open(os.environ["LOADED_MODULES"], "w") as file:
        file.write("\\n".join(sys.modules))
atexit.register(dump)
"""


def loaded(modules: set[str], unused: tuple[str, ...] = UNUSED) -> list[str]:
    """Those of the modules that lie below one that is not to be loaded."""
    return sorted(each for each in modules if any(f"{each}.".startswith(f"{name}.") for name in unused))


async def modules_of(folder: Path, *requests: tuple[str, dict[str, Any]]) -> set[str]:
    """The modules that a `serve` has loaded at its end which has answered these requests."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(DUMP)
    env = {"XDG_STATE_HOME": str(folder), "PYTHONPATH": f"{folder}:{':'.join(sys.path)}"}
    async with serving(
        YES, "--responses-poll-s", "0.05", env={**env, "LOADED_MODULES": str(folder / "loaded")}
    ) as served:
        served.http.headers["connection"] = "close"
        for path, fields in requests:
            answer = await served.http.post(path, json={"model": "sim", **fields})
            assert answer.status_code == 200, answer.text
        served.process.terminate()
        assert await served.ended() == 0
    return set((folder / "loaded").read_text().split())


MESSAGES = [{"role": "user", "content": "Hello"}]
STATELESS: tuple[tuple[str, dict[str, Any]], ...] = (
    (CHAT, {"messages": MESSAGES}),
    ("/v1/completions", {"prompt": "Hello"}),
    ("/v1/messages", {"messages": MESSAGES, "max_tokens": 8}),
    ("/v1/responses", {"input": "Hello", "store": False}),
    ("/v1/messages/count_tokens", {"messages": MESSAGES}),
    ("/v1beta/models/sim:generateContent", {"contents": [{"parts": [{"text": "Hello"}]}]}),
)


@pytest.mark.full
async def test_a_serve_that_keeps_nothing_loads_nothing_that_keeps(tmp_path: Path) -> None:
    assert loaded(await modules_of(tmp_path / "one", *STATELESS)) == []
    keeping = await modules_of(tmp_path / "two", ("/v1/responses", {"input": "Hello"}))
    assert "smg_core.history.sqlite.store" in keeping
    assert not {"sqlalchemy", "alembic", "greenlet"} & keeping


# --------------------------------------------------------------------------------------------- what waits goes on by itself


def rows(file: Path, query: str) -> list[tuple[Any, ...]]:
    """What a query finds in a file that others may be writing."""
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=PATIENCE)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def write(file: Path, statement: str) -> None:
    """Change a file that a gateway has open, in a thread: a transaction of the gateway's ends with a turn of its event loop, so a
    writer that stood on that loop would wait for ever for the lock."""
    connection = sqlite3.connect(file, timeout=PATIENCE)
    try:
        with connection:
            connection.execute(statement)
    finally:
        connection.close()


@pytest.mark.full
async def test_after_kill_9_a_response_in_the_background_goes_on_without_a_request(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    config = SimulatorConfig(replies=(Reply(LONG),), rules=(Rule((), Reply("Yes.")),), timing=PACED)
    async with SimulatedEngine(config) as engine:
        async with serving_background(engine, f"sqlite:///{file}") as first:
            await begun_response(first.client)
            await first.kill()
        async with serving_background(engine, f"sqlite:///{file}"):
            ended = "SELECT status, pending FROM smg_responses"
            await eventually(lambda: rows(file, ended) == [("completed", 0)], PATIENCE)


@pytest.mark.full
async def test_after_kill_9_a_batch_goes_on_without_a_request(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    config = SimulatorConfig(rules=(Rule((), Reply(LONG)),), timing=PACED)
    async with SimulatedEngine(config) as engine:
        bounds = ("--batches-in-flight", "1", "--batches-in-flight-tenant", "1")
        async with process(engine, f"sqlite:///{file}", *bounds) as (running, url):
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http:
                await batch_of_three(http)
                await eventually(lambda: engine.counters["requests"], PATIENCE)
            running.kill()
            await running.wait()
        async with process(engine, f"sqlite:///{file}"):
            waits = "SELECT 1 FROM smg_records WHERE pending"
            await eventually(lambda: not rows(file, waits), PATIENCE)
        [(kept,)] = rows(file, "SELECT body FROM smg_records WHERE kind = 'batch'")
        assert b'"status":"completed"' in kept


async def batch_of_three(http: httpx.AsyncClient) -> None:
    content = b"".join(line(f"r{number}", max_completion_tokens=64) for number in range(3))
    form = {"files": {"file": ("in.jsonl", content)}, "data": {"purpose": "batch"}}
    file = (await http.post("/v1/files", **form)).json()["id"]  # type: ignore[arg-type]
    fields = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
    assert (await http.post("/v1/batches", json=fields)).status_code == 200


# ------------------------------------------------------------------------------------------------------- in one process


@asynccontextmanager
async def sharing(file: Path, **history: Any) -> AsyncIterator[House]:
    """A gateway with this file, looked into often."""
    config = Config(
        history=HistoryConfig(url=f"sqlite:///{file}", **history),
        responses=ResponsesConfig(poll_s=0.02),
        batches=BatchesConfig(poll_s=0.02, gather_s=0.005, retry_s=0.02),
    )
    async with in_process(YES, config=config) as house:
        yield house


async def leave_work(house: House) -> str:
    """A batch that `house` has taken and leaves to others, since it makes room for a successor."""
    house.gateway.retire()
    async with openai_of(house) as client:
        return str((await batch_of(client, line("a"))).id)


@pytest.mark.full
async def test_what_another_gateway_queues_in_a_shared_file_is_done_by_one_that_nobody_has_asked(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path / "history.db") as idle, sharing(tmp_path / "history.db") as other:
        assert not idle.gateway.history.is_open
        other.gateway.retire()
        asked = {"model": "sim", "input": "Hello", "background": True}
        id = (await other.http.post("/v1/responses", json=asked)).json()["id"]
        async with openai_of(other) as client, asyncio.timeout(PATIENCE):
            while (await client.responses.retrieve(id)).status != "completed":
                await asyncio.sleep(0.01)
        assert idle.gateway.history.is_open


@pytest.mark.full
async def test_a_batch_in_a_shared_file_is_done_by_a_gateway_that_nobody_has_asked(tmp_path: Path) -> None:
    async with sharing(tmp_path / "history.db") as idle, sharing(tmp_path / "history.db") as other:
        id = await leave_work(other)
        async with openai_of(other) as client:
            assert (await over(client, id)).status == "completed"
        assert idle.gateway.history.is_open


@pytest.mark.full
async def test_a_gateway_that_leaves_opens_nothing_for_work_of_others(tmp_path: Path) -> None:
    async with sharing(tmp_path / "history.db") as leaving:
        leaving.gateway.retire()
        async with sharing(tmp_path / "history.db") as other:
            await leave_work(other)
            async with sharing(tmp_path / "history.db") as third, openai_of(other) as client:
                waiting = "SELECT 1 FROM smg_records WHERE pending"
                await eventually(lambda: not rows(tmp_path / "history.db", waiting), PATIENCE)
                assert (await client.batches.list()).data[0].status == "completed"
                assert third.gateway.history.is_open
        assert not leaving.gateway.history.is_open


@pytest.mark.full
async def test_what_has_expired_is_deleted_without_a_request(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    async with sharing(file) as before:
        assert (await before.http.post("/v1/responses", json={"model": "sim", "input": "Hello"})).status_code == 200
    async with sharing(file, sweep_s=0.02):
        assert rows(file, "SELECT count(*) FROM smg_responses") == [(1,)]
        await asyncio.to_thread(write, file, "UPDATE smg_responses SET expires_at = 1")
        await eventually(lambda: rows(file, "SELECT count(*) FROM smg_responses") == [(0,)], PATIENCE)


@pytest.mark.full
async def test_many_first_uses_at_once_are_all_answered_and_kept(tmp_path: Path) -> None:
    async with sharing(tmp_path / "history.db") as house:
        asked = {"model": "sim", "input": "Hello"}
        answers = await asyncio.gather(*(house.http.post("/v1/responses", json=asked) for _ in range(16)))
        assert [each.status_code for each in answers] == [200] * 16
        for each in answers:
            assert (await house.http.get(f"/v1/responses/{each.json()['id']}")).status_code == 200


async def test_a_plain_request_opens_no_history(tmp_path: Path) -> None:
    async with sharing(tmp_path / "history.db", sweep_s=0.02) as house:
        assert (await house.chat()).status_code == 200
        answer = await house.http.post("/v1/responses", json={"model": "sim", "input": "Hello", "store": False})
        assert answer.status_code == 200
        assert not house.gateway.history.is_open


OPENAI = lambda told: told["error"]["code"] == "store_unavailable"  # noqa: E731
READS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "/v1/responses/resp_1": ("responses", OPENAI),
    "/v1/conversations/conv_1": ("conversations", OPENAI),
    "/v1/files/file-1": ("files", OPENAI),
    "/v1/batches/batch_1": ("batches", OPENAI),
    "/v1/vector_stores/vs_1": ("vector_stores", OPENAI),
    "/v1/messages/batches/msgbatch_1": ("message batches", lambda told: told["type"] == "error"),
    "/v1beta/interactions/v1_a": ("interactions", lambda told: "error" in told),
}


@pytest.mark.full
async def test_a_history_that_cannot_be_opened_is_each_request_s_error_until_it_can(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    async with sharing(file) as house:
        file.write_bytes(b"this is no database, whatever its name says " * 100)
        both = [path for path in READS for _ in range(2)]
        answers = await asyncio.gather(*(house.http.get(path) for path in both))
        assert {path: each.status_code for path, each in zip(both, answers, strict=True)} == dict.fromkeys(READS, 503)
        for path, each in zip(both, answers, strict=True):
            assert READS[path][1](each.json()), each.text
        made = await house.http.post("/v1/responses", json={"model": "sim", "input": "Hello"})
        assert made.status_code == 200  # an answer that is ready is given
        assert (await house.http.post(CHAT, json=body())).status_code == 200
        for each in tmp_path.glob("history.db*"):
            each.unlink()
        answers = await asyncio.gather(*(house.http.get(path) for path in READS))
        assert {each.status_code for each in answers} == {404}


@pytest.mark.full
async def test_a_gateway_stops_while_its_history_is_being_opened(tmp_path: Path) -> None:
    async with sharing(tmp_path / "history.db") as house:
        asking = asyncio.create_task(house.http.get("/v1/responses/resp_1"))
        await asyncio.sleep(0)
        await eventually(lambda: house.gateway.in_flight or asking.done())
        await house.gateway.stop()
        assert (await asking).status_code in (404, 503)


@pytest.mark.full
async def test_a_gateway_that_is_started_again_keeps_what_it_had(tmp_path: Path) -> None:
    async with sharing(tmp_path / "history.db") as house:
        made = (await house.http.post("/v1/responses", json={"model": "sim", "input": "Hello"})).json()["id"]
        await house.gateway.stop()
        await house.gateway
        assert (await house.http.get(f"/v1/responses/{made}")).status_code == 200

"""Engines' loads, caches and profiles at the admin door: all engines are asked at once, and each worker has its own answer."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import eventually
from tests.gateway.test_admin import ADMIN, KEYS, USER, bearer, table

from smg_core.cli import main
from smg_core.config import AdminConfig, Config
from smg_core.engines.base import EngineRequest
from smg_core.engines.dialects import DIALECTS
from smg_core.errors import SmgError
from smg_core.request import Sampling
from smg_core.server.admin.listening import admin_listener, close_listener
from smg_core.server.admin.running import administered
from smg_core.server.gateway import Gateway
from smg_core.simulator.engine import SimulatorConfig
from smg_core.simulator.faults import Fault
from smg_core.simulator.server import SimulatedEngine
from smg_core.tokens import TokenIds
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

FLUSHING = ("vllm", "sglang", "tokenspeed")
LOADED = (*FLUSHING, "neutral")


@attrs.define
class Fleet:
    """A gateway before one engine of every dialect, and a client of its admin door."""

    gateway: Gateway
    engines: dict[str, SimulatedEngine]
    http: httpx.AsyncClient

    async def post(self, what: str, **body: Any) -> dict[str, dict[str, Any]]:
        answer = await self.http.post(f"/admin/workers/{what}", json=body)
        assert answer.status_code == 200, answer.text
        return {row["worker"]: row for row in answer.json()["workers"]}


@asynccontextmanager
async def fleet(**sections: Any) -> AsyncIterator[Fleet]:
    config = Config(admin=AdminConfig(port=0), **sections)
    listener = admin_listener(config)
    assert listener is not None
    async with AsyncExitStack() as stack:
        stack.callback(close_listener, config, listener)
        engines = {
            name: await stack.enter_async_context(SimulatedEngine(SimulatorConfig(dialects=(name,))))
            for name in DIALECTS
        }
        specs = [WorkerSpec(engine.target, name, dialect=name) for name, engine in engines.items()]
        gateway = await stack.enter_async_context(Gateway(workers=specs, config=config))
        await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
        await stack.enter_async_context(administered(gateway, config, listener, table()))
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=base, timeout=60, trust_env=False))
        yield Fleet(gateway, engines, http)


def statuses(rows: dict[str, dict[str, Any]]) -> dict[str, int]:
    return {name: row["status"] for name, row in rows.items()}


def lacking(able: tuple[str, ...]) -> dict[str, int]:
    return {name: 200 if name in able else 501 for name in DIALECTS}


async def test_every_engine_is_asked_and_those_without_the_call_are_named() -> None:
    async with fleet() as ops:
        for engine in ops.engines.values():
            engine.engine.cache.store(range(64))
        flushed = await ops.post("flush_cache")
        held = {name: len(engine.engine.cache) for name, engine in ops.engines.items()}
        loads = (await ops.http.get("/admin/workers/loads")).json()["workers"]
        started = await ops.post("start_profile", num_steps=3, activities=["CPU"], output_dir="/tmp/x")
        profiling = {name for name, engine in ops.engines.items() if engine.profiling}
        twice = await ops.post("start_profile")
        stopped = await ops.post("stop_profile")

    assert statuses(flushed) == lacking(FLUSHING)
    assert {name for name, blocks in held.items() if not blocks} == set(FLUSHING)
    assert {row["worker"]: row["status"] for row in loads} == lacking(LOADED)
    assert {row["worker"] for row in loads if "ranks" in row} == set(LOADED)
    assert all(row["ranks"][0]["running"] == 0 for row in loads if "ranks" in row)
    assert statuses(started) == statuses(stopped) == lacking(FLUSHING)
    assert profiling == set(FLUSHING)
    assert {name for name, row in twice.items() if row["status"] == 409} == set(FLUSHING)
    assert all("already" in twice[name]["message"] for name in FLUSHING)


@attrs.define
class Ignored:
    """Takes the tokens of an answer that nobody reads."""

    def push(self, outputs: object) -> None: ...

    def closed(self, error: SmgError | None) -> None: ...


async def test_an_engine_that_refuses_and_one_that_is_gone_have_rows_of_their_own() -> None:
    async with fleet() as ops:
        ops.engines["vllm"].inject(Fault("stall", after=1))
        busy = ops.gateway.registry.get("vllm")
        assert busy is not None
        asked = EngineRequest("r-1", TokenIds([5, 6, 7]), Sampling(max_tokens=9))
        call = await busy.engine.generate(asked, Ignored())  # type: ignore[attr-defined]
        await eventually(lambda: ops.engines["vllm"].counters["stalled"])
        await ops.engines["sglang"].stop()
        rows = await ops.post("flush_cache", workers=["vllm", "sglang"], wait_s=0.5)
        call.cancel()

    assert statuses(rows) == {"vllm": 409, "sglang": 503}
    assert "in flight" in rows["vllm"]["message"]


async def test_the_ranks_of_one_engine_share_one_call() -> None:
    config = Config(admin=AdminConfig(port=0))
    listener = admin_listener(config)
    assert listener is not None
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with SimulatedEngine(SimulatorConfig(ranks=2)) as engine:
        specs = [WorkerSpec(engine.target, "gpu", rank=rank) for rank in (0, 1)]
        async with (
            Gateway(workers=specs, config=config) as gateway,
            administered(gateway, config, listener, table()),
            httpx.AsyncClient(base_url=base, trust_env=False, timeout=60) as http,
        ):
            await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
            rows = (await http.post("/admin/workers/start_profile", json={})).json()["workers"]
            loads = (await http.get("/admin/workers/loads?worker=gpu@1")).json()["workers"]
    close_listener(config, listener)

    assert [(row["worker"], row["status"]) for row in rows] == [("gpu@0", 200), ("gpu@1", 200)]
    assert [(row["worker"], row["ranks"]) for row in loads] == [("gpu@1", [])]  # the engine tells of its rank 0 alone


@pytest.mark.parametrize(
    ("path", "body", "status", "named"),
    [
        ("flush_cache", {"workers": ["nobody"]}, 404, "nobody"),
        ("flush_cache", {"workers": ["vllm", "vllm"]}, 400, "twice"),
        ("flush_cache", {"wait_s": -1}, 400, "wait_s"),
        ("flush_cache", {"worker": "vllm"}, 400, "worker"),
        ("start_profile", {"num_steps": 0}, 400, "num_steps"),
        ("stop_profile", {"why": 1}, 400, "why"),
    ],
)
async def test_what_is_wrong_with_a_request_is_said_by_name(
    path: str, body: dict[str, Any], status: int, named: str
) -> None:
    async with fleet() as ops:
        answer = await ops.http.post(f"/admin/workers/{path}", json=body)

    assert answer.status_code == status
    assert named in answer.text


async def test_only_who_may_ask_engines_is_let_in() -> None:
    async with fleet(auth=KEYS) as ops:
        answers = [
            await ops.http.get("/admin/workers/loads", headers=headers) for headers in ({}, bearer(USER), bearer(ADMIN))
        ]

    assert [answer.status_code for answer in answers] == [401, 403, 200]


async def test_the_command_line_asks_engines_and_tells_by_its_status_whether_all_did_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with fleet() as ops:
        admin = ("--admin", str(ops.http.base_url))

        async def run(*words: str) -> tuple[int, dict[str, int]]:
            status = await asyncio.to_thread(main, ["workers", *words, *admin])
            return status, {row["worker"]: row["status"] for row in json.loads(capsys.readouterr().out)["workers"]}

        everywhere = await run("flush-cache", "--wait", "0.1")
        some = await run("flush-cache", "vllm", "sglang")
        loads = await run("loads", "neutral")
        started = await run("start-profile", "vllm", "--steps", "3", "--activity", "GPU", "--output-dir", "/tmp/x")
        stopped = await run("stop-profile", "vllm")

    assert everywhere == (1, lacking(FLUSHING))
    assert some == (0, {"vllm": 200, "sglang": 200})
    assert loads == (0, {"neutral": 200})
    assert started == stopped == (0, {"vllm": 200})

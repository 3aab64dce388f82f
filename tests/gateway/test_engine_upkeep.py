"""Engines' loads, caches and profiles at the admin door: all engines are asked at once, and each worker has its own answer."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from tests.engine_kinds import DIALECTS, HTTP_DIALECTS
from tests.gateway.conftest import eventually, over_http
from tests.gateway.test_admin import ADMIN, KEYS, USER, bearer, table
from tests.shared import PATIENCE

from smg_core.admin.settings import AdminConfig
from smg_core.cli import main
from smg_core.config.config import Config
from smg_core.engines.base import EngineRequest
from smg_core.errors import SmgError
from smg_core.gateway.gateway import Gateway
from smg_core.request import Sampling
from smg_core.server.admin_listener import admin_listener, close_listener
from smg_core.server.admin_server import administered
from smg_core.tokens import TokenIds
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.server.http_server import engine_http_server

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
async def fleet(*more: WorkerSpec, **sections: Any) -> AsyncIterator[Fleet]:
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
        specs += more
        gateway = await stack.enter_async_context(Gateway(workers=specs, config=config))
        await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
        await stack.enter_async_context(administered(gateway, config, listener, table()))
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=base, timeout=PATIENCE, trust_env=False))
        yield Fleet(gateway, engines, http)


def statuses(rows: dict[str, dict[str, Any]]) -> dict[str, int]:
    return {name: row["status"] for name, row in rows.items()}


def lacking(able: tuple[str, ...]) -> dict[str, int]:
    return {name: 200 if name in able else 501 for name in DIALECTS}


@pytest.mark.full
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
            httpx.AsyncClient(base_url=base, trust_env=False, timeout=PATIENCE) as http,
        ):
            await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
            rows = (await http.post("/admin/workers/start_profile", json={})).json()["workers"]
            loads = (await http.get("/admin/workers/loads?worker=gpu@1")).json()["workers"]
    close_listener(config, listener)

    assert [(row["worker"], row["status"]) for row in rows] == [("gpu@0", 200), ("gpu@1", 200)]
    assert [(row["worker"], row["ranks"]) for row in loads] == [("gpu@1", [])]  # the engine tells of its rank 0 alone


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("path", "body", "status", "named"),
    [
        ("flush_cache", {"workers": ["nobody"]}, 404, "nobody"),
        ("flush_cache", {"workers": ["vllm", "vllm"]}, 400, "twice"),
        *((route, {"workers": []}, 400, "workers") for route in ("flush_cache", "pause", "resume", "start_profile")),
        ("flush_cache", {"wait_s": -1}, 400, "wait_s"),
        ("flush_cache", {"worker": "vllm"}, 400, "worker"),
        ("start_profile", {"num_steps": 0}, 400, "num_steps"),
        ("stop_profile", {"why": 1}, 400, "why"),
        ("pause", {"mode": "later"}, 400, "mode"),
        ("load_weights", {}, 400, "path"),
        ("transfer_weights", {"step": "send"}, 400, "step"),
        ("transfer_weights", {"step": "update", "info": []}, 400, "info"),
    ],
)
async def test_what_is_wrong_with_a_request_is_said_by_name(
    path: str, body: dict[str, Any], status: int, named: str
) -> None:
    async with fleet() as ops:
        answer = await ops.http.post(f"/admin/workers/{path}", json=body)

    assert answer.status_code == status
    assert named in answer.text


@asynccontextmanager
async def http_fleet(**sections: Any) -> AsyncIterator[Fleet]:
    """A gateway before one engine of every dialect over HTTP that takes ids, one over gRPC, and a client of its admin door."""
    config = Config(admin=AdminConfig(port=0), **sections)
    listener = admin_listener(config)
    assert listener is not None
    async with AsyncExitStack() as stack:
        stack.callback(close_listener, config, listener)
        doors = {name: engine_http_server("127.0.0.1:0") for name in HTTP_DIALECTS} | {"vllm": None}
        engines = {
            name: await stack.enter_async_context(SimulatedEngine(SimulatorConfig(chained=1000), http_server=door))
            for name, door in doors.items()
        }
        specs = [WorkerSpec(each.http_target or each.target, name, dialect=name) for name, each in engines.items()]
        gateway = await stack.enter_async_context(Gateway(workers=specs, config=config))
        await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
        await stack.enter_async_context(administered(gateway, config, listener, table()))
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=base, timeout=PATIENCE, trust_env=False))
        yield Fleet(gateway, engines, http)


LACKS = {"llamacpp-http": 501, "vllm": 501}
VLLM = ("vllm-http", "vllm-tokens-http")
PAUSES = {
    "abort": {**dict.fromkeys(VLLM, 200), "sglang-http": 200, **LACKS},
    "keep": {**dict.fromkeys(VLLM, 200), "sglang-http": 200, **LACKS},
    "wait": {**dict.fromkeys(VLLM, 200), "sglang-http": 501, **LACKS},
    "retract": {**dict.fromkeys(VLLM, 501), "sglang-http": 200, **LACKS},
}


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("mode", PAUSES)
async def test_engines_pause_as_they_can_and_the_others_are_named(mode: str) -> None:
    async with http_fleet() as ops:
        told = await ops.post("pause", mode=mode)
        modes = {name: engine.clockwork.pausing.mode for name, engine in ops.engines.items()}
        resumed = await ops.post("resume")
        after = {engine.clockwork.pausing.mode for engine in ops.engines.values()}

    assert statuses(told) == PAUSES[mode]
    assert {name for name, found in modes.items() if found == mode} == {
        name for name, status in PAUSES[mode].items() if status == 200
    }
    assert statuses(resumed) == PAUSES["abort"]
    assert after == {""}


async def test_servers_load_and_unload_adapters_by_their_own_calls_and_say_why_they_cannot() -> None:
    async with http_fleet() as ops:
        able = {**dict.fromkeys((*VLLM, "sglang-http"), 200), **LACKS}
        loaded = await ops.post("load_adapter", name="poet", path="/adapters/poet")
        held = {name: [each.path for each in engine.engine.adapters] for name, engine in ops.engines.items()}
        twice = await ops.post("load_adapter", name="poet", path="/adapters/poet")
        names = {worker.name: tuple(worker.adapters) for worker in ops.gateway.registry}
        gone = await ops.post("unload_adapter", name="poet")
        after = {tuple(engine.engine.adapters) for engine in ops.engines.values()}

    assert statuses(loaded) == statuses(gone) == able
    assert held == {name: ["/adapters/poet"] if status == 200 else [] for name, status in able.items()}
    assert names == {name: ("poet",) if status == 200 else () for name, status in able.items()}
    assert statuses(twice) == {name: 409 if status == 200 else status for name, status in able.items()}
    assert all("already" in row["message"] for name, row in twice.items() if able[name] == 200)
    assert after == {()}


async def test_no_contract_over_grpc_has_calls_for_pauses_and_weights() -> None:
    async with fleet() as ops:
        told = [
            await ops.post("pause"),
            await ops.post("resume"),
            await ops.post("load_weights", path="/checkpoints/7"),
            await ops.post("transfer_weights", step="update"),
        ]
    assert [statuses(each) for each in told] == [lacking(())] * 4


@pytest.mark.full
async def test_a_server_of_chat_completions_has_none_of_these_calls() -> None:
    async with over_http(SimulatorConfig()) as far, fleet(WorkerSpec(far.url, "chat")) as ops:
        told = [
            await ops.post(what, **body, workers=["chat"])
            for what, body in {
                "flush_cache": {},
                "start_profile": {},
                "stop_profile": {},
                "pause": {},
                "resume": {},
                "load_weights": {"path": "/checkpoints/7"},
                "transfer_weights": {"step": "update"},
            }.items()
        ]
        loads = (await ops.http.get("/admin/workers/loads")).json()["workers"]

    assert [statuses(each) for each in told] == [{"chat": 501}] * len(told)
    assert {row["worker"]: row["status"] for row in loads}["chat"] == 501


@attrs.define
class Heard:
    """Counts the tokens of an answer, and keeps how it ended."""

    tokens: int = 0
    finish: object = None
    error: SmgError | None = None
    over: bool = False

    def push(self, outputs: Any) -> None:
        self.tokens += sum(len(each.ids) for each in outputs)
        self.finish = outputs[-1].finish or self.finish

    def closed(self, error: SmgError | None) -> None:
        self.error, self.over = error, True


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", ["vllm-http", "sglang-http"])
@pytest.mark.parametrize("mode", ["abort", "keep"])
async def test_a_request_that_runs_ends_with_the_pause_or_goes_on_after_it(name: str, mode: str) -> None:
    async with http_fleet() as ops:
        engine = ops.engines[name]
        engine.inject(Fault("stall", after=3, seconds=0.0))
        worker = ops.gateway.registry.get(name)
        assert worker is not None
        await ops.post("pause", mode="keep", workers=[name])
        heard = Heard()
        asked = EngineRequest("r-1", TokenIds([5, 6, 7]), Sampling(max_tokens=9, ignore_eos=True))
        await worker.engine.generate(asked, heard)  # type: ignore[attr-defined]
        await eventually(lambda: engine.active)
        assert heard.tokens == 0
        if mode == "abort":
            await ops.post("pause", mode="abort", workers=[name])
            await eventually(lambda: heard.over)
        await ops.post("resume", workers=[name])
        await eventually(lambda: heard.over)

    assert (heard.tokens, heard.finish) == ((0, "abort") if mode == "abort" else (9, "length"))


@pytest.mark.full
async def test_a_paused_engine_that_takes_nothing_is_asked_again_elsewhere() -> None:
    async with http_fleet() as ops:
        await ops.post("pause", workers=[*VLLM, "sglang-http"])
        async with ops.gateway.http_client(httpx, base_url="http://gateway") as http:
            asked = {"model": "sim", "prompt": [5, 6, 7], "max_tokens": 3}
            answers = [(await http.post("/v1/completions", json=asked)).status_code for _ in range(8)]
        assert answers == [200] * 8
        assert len(ops.engines["llamacpp-http"].requests) + len(ops.engines["vllm"].requests) >= 8


async def test_weights_are_loaded_and_transferred_in_each_engines_own_words() -> None:
    steps = ("connect", "begin", "update", "end", "disconnect")
    async with http_fleet() as ops:
        for engine in ops.engines.values():
            engine.engine.cache.store(range(64))
        loaded = await ops.post("load_weights", path="/checkpoints/7", version="7")
        moved = [await ops.post("transfer_weights", step=each, info={"names": ["w"]}, version="8") for each in steps]
        got = {
            name: [(path, json.loads(body or b"{}")) for path, body in engine.clockwork.pausing.weights]
            for name, engine in ops.engines.items()
        }

    assert statuses(loaded) == PAUSES["abort"]
    assert [statuses(each) for each in moved] == [PAUSES["abort"]] * len(steps)
    assert (
        got["vllm-http"]
        == got["vllm-tokens-http"]
        == [
            ("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": "/checkpoints/7"}}),
            ("/init_weight_transfer_engine", {"init_info": {"names": ["w"]}}),
            ("/start_weight_update", {}),
            ("/update_weights", {"update_info": {"names": ["w"]}}),
            ("/finish_weight_update", {"weight_version": "8"}),
            ("/shutdown_weight_transfer_engine", {}),
        ]
    )
    assert got["sglang-http"] == [
        ("/update_weights_from_disk", {"model_path": "/checkpoints/7", "weight_version": "7"}),
        ("/init_weights_update_group", {"names": ["w"]}),
        ("/begin_weight_update", {"names": ["w"]}),
        ("/update_weights_from_distributed", {"names": ["w"], "weight_version": "8"}),
        ("/end_weight_update", {"names": ["w"]}),
        ("/destroy_weights_update_group", {"names": ["w"]}),
    ]
    assert got["llamacpp-http"] == got["vllm"] == []


@pytest.mark.full
async def test_the_command_line_pauses_engines_and_gives_them_weights(capsys: pytest.CaptureFixture[str]) -> None:
    async with http_fleet() as ops:
        admin = ("--admin", str(ops.http.base_url))

        async def run(*words: str) -> tuple[int, set[int]]:
            status = await asyncio.to_thread(main, ["workers", *words, *admin])
            return status, {row["status"] for row in json.loads(capsys.readouterr().out)["workers"]}

        some = ("vllm-http", "sglang-http")
        assert await run("pause", *some, "--mode", "keep") == (0, {200})
        assert await run("load-weights", "/checkpoints/7", *some, "--version", "7") == (0, {200})
        assert await run("transfer-weights", "update", *some, "--info", '{"names": []}') == (0, {200})
        assert await run("resume", *some) == (0, {200})
        assert await run("resume") == (1, {200, 501})


async def test_only_who_may_ask_engines_is_let_in() -> None:
    async with fleet(auth=KEYS) as ops:
        answers = [
            await ops.http.get("/admin/workers/loads", headers=headers) for headers in ({}, bearer(USER), bearer(ADMIN))
        ]

    assert [answer.status_code for answer in answers] == [401, 403, 200]


@pytest.mark.full
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

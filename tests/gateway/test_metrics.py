"""Metrics of a gateway that serves: every one is recorded by some request, none twice, and no count is lost."""

import asyncio
import logging
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import openai
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus
from tests.gateway.conftest import CHAT, House, body, eventually, in_process, over_http, settled
from tests.gateway.fleet import Member, Prefer, fleet
from tests.gateway.test_discovery import QUICK as FILE_QUICK
from tests.gateway.test_discovery import named
from tests.gateway.test_hedging import late
from tests.gateway.test_model_choice import member, routed
from tests.gateway.test_plugins import GUESTS, component, listed
from tests.gateway.test_queueing import config as one_at_a_time
from tests.gateway.test_sealed_reasoning import NEW, OLD, client_of, of, turn
from tests.gateway.test_serve import PACED, QUICK, serving
from tests.gateway.test_shadowing import shadowing
from tests.gateway.test_tool_loop import ADD, DONE, NOTES, gateway_with
from tests.gateway.test_vision import SHAPES, seeing
from tests.gateway.tool_server import tool_server
from tests.gateway.vision_models import image_part, picture, qwen2_vl
from tests.providers.bedrock_answers import ALL_FORMATS
from tests.providers.houses import before
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.admin.metrics.meter import Meter, metrics_bytes
from smg_core.admin.metrics.sampling import sample
from smg_core.admin.metrics.serving import metrics_app
from smg_core.admin.settings import AdminConfig
from smg_core.auth.settings import AuthConfig
from smg_core.clock import SystemClock
from smg_core.fleet_moments import SourceChanged, SourceSampled
from smg_core.guardrails import GuardQuestion, Guardrail
from smg_core.hooks import Moment, Observers, PluginActed, PluginChanged, PluginCounted, RequestStarted, Shadowed
from smg_core.ledger.settings import LedgerConfig
from smg_core.limits.store import StoreCounters
from smg_core.machine.loop_watch import LoopHealth
from smg_core.mesh.settings import MeshConfig
from smg_core.middleware.entries import parse_entries
from smg_core.observability.logs import AccessLog
from smg_core.observability.metrics.exposition import OPENMETRICS
from smg_core.observability.metrics.smg_names import SMG_METRICS
from smg_core.observability.metrics.table import METRICS
from smg_core.observability.settings import MetricsConfig, TracesConfig
from smg_core.operation.process_table import ProcessTable, SharedNumbers
from smg_core.processes.serve import _local_array
from smg_core.response_cache.settings import ResponseCacheConfig
from smg_core.routing import Candidate, Observing, Pick, RoutingContext
from smg_core.routing.settings import RoutingConfig
from smg_core.server.admin_listener import admin_listener, close_listener
from smg_core.server.admin_server import administered
from smg_core.server.second_listener import background_listener
from smg_core.settings import ConfigError
from smg_core.testing import MemoryObserver
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

ON = MetricsConfig(port=0)
BOTH_NAMES = pytest.mark.parametrize("names", ["own", "smg"])


def meter_of(settings: MetricsConfig = ON) -> Meter:
    return Meter(settings, SystemClock(), memoryview(bytearray(metrics_bytes(settings, 1))))


def a_table() -> ProcessTable:
    return SharedNumbers.made(1, 1, 0, _local_array).table(0)


async def read(meter: Meter) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The samples by name and labels."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in prometheus((await meter.text("text/plain")).decode()):
        for sample_ in family.samples:
            found.setdefault(sample_.name, {})[tuple(sorted(sample_.labels.items()))] = sample_.value
    return found


@pytest.fixture(scope="module")
async def everything(tmp_path_factory: pytest.TempPathFactory) -> list[Moment]:
    """The moments of requests of all kinds, as real gateways reported them."""
    folder, moments = tmp_path_factory.mktemp("metrics"), []
    keys = await turn(OLD)
    async with of(NEW) as house, client_of(house) as client:
        await client.responses.create(model="sim", input=keys, store=True)
        moments += house.observer.moments
    async with seeing(str(qwen2_vl(folder / "qwen"))) as house:
        await house.http.post(
            CHAT,
            json={"model": "sim", "messages": [{"role": "user", "content": [SHAPES, image_part(picture(64, 64))]}]},
        )
        moments += house.observer.moments
    async with tool_server() as tools, gateway_with(folder, tools) as house:
        house.engine.say(ADD, DONE)
        async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
            await client.responses.create(model="sim", input="2 + 3?", tools=[NOTES])
        moments += house.observer.moments
    moments += [*await faults(), *await another_model(), *await workers_of_a_file(folder), *await two_for_one()]
    moments.append(await two_that_are_one(folder))
    moments += [*await plugins_that_act(folder), *await lost_engines(), *await lost_stores(folder)]
    moments += [*await one_that_waits_its_turn(), *await told_otherwise(), *await kept_guarded_and_predicted()]
    gone = TracesConfig(endpoint="http://127.0.0.1:1", queue=1, delay_s=300.0, stop_s=0.0)
    async with in_process(config=Config(traces=gone)) as house:
        for _ in range(2):  # the spans of the second find no room
            await house.http.get("/v1/models")
        moments += house.observer.moments
    return list(moments)


async def one_that_waits_its_turn() -> list[Moment]:
    """The moments of two requests for a worker that takes one at a time."""
    async with in_process(config=one_at_a_time()) as house:
        answers = await asyncio.gather(house.chat(), house.chat())
        assert [each.status_code for each in answers] == [200, 200]
        return list(house.observer.moments)


async def kept_guarded_and_predicted() -> list[Moment]:
    """The moments of requests that a guardrail sees, whose times are predicted, and of one that gets a kept answer."""

    async def passes(question: GuardQuestion) -> None:
        return None

    config = Config(response_cache=ResponseCacheConfig(kept_s=60), routing=RoutingConfig(objectives="say"))
    soon = {"x-slo-ttft-ms": "60000", "x-slo-tpot-ms": "60000"}
    async with in_process(PACED, config=config, guardrails=[Guardrail("words", passes)]) as house:
        for number in range(
            12
        ):  # nothing is predicted before some were seen, and the last is answered from what is kept
            asking = body(str(min(number, 10)), temperature=0, max_tokens=5, stream=True)
            assert (await house.http.post(CHAT, json=asking, headers=soon)).status_code == 200
        await settled(house)
        return list(house.observer.moments)


async def told_otherwise() -> list[Moment]:
    """The moments of a request of which a provider is not told all."""
    form = next(each for each in ALL_FORMATS.values() if not each.returned)
    async with before(form) as house:
        turns = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello", "reasoning_content": "Hm"},
        ]
        asked = {"model": "m", "messages": [*turns, {"role": "user", "content": "And?"}]}
        assert (await house.http.post(CHAT, json=asked)).status_code == 200
        return list(house.observer.moments)


async def faults() -> list[Moment]:
    """The moments of a retry, an answer that breaks its format, a refusal, and a client that leaves."""
    broken = SimulatorConfig(replies=(Reply('{"y": 1}'),) * 3, faults=(Fault("refuse"),))
    schema = {"name": "n", "strict": True, "schema": {"type": "object", "required": ["x"]}}
    tight = Config(limits=LimitsConfig(body_bytes=2048))
    async with over_http(broken, config=tight, engines=2) as house:
        for _ in range(2):  # both engines refuse the first request that they get
            await house.chat(response_format={"type": "json_schema", "json_schema": schema}, stream=True)
        await house.chat("x" * 4096)
        moments = [
            *house.observer.moments,
            sample(house.gateway.services, a_table(), LoopHealth(0.1, 1, (1, 1, 1), 0.1)),
        ]
    async with over_http(PACED) as house:
        async with house.http.stream("POST", CHAT, json=body(stream=True)) as answer:
            await answer.aiter_bytes().__anext__()
        await eventually(lambda: any(getattr(each, "outcome", "") == "client_gone" for each in house.observer.moments))
        await settled(house)
        return [*moments, *house.observer.moments]


async def another_model() -> list[Moment]:
    """The moments of a request that another model answers, chosen by what caches are expected to hold."""
    config = routed(fallbacks=("short=long",), policy="cache_aware")
    async with fleet(member("short", context_length=64), member("long"), config=config) as house:
        fields = {"model": "short", "messages": [{"role": "user", "content": "word " * 200}], "max_tokens": 5}
        assert (await house.http.post(CHAT, json=fields)).status_code == 200
        return list(house.observer.moments)


class Raising(Observing):
    """A policy that fails."""

    name = "raising"

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        raise LookupError


async def two_for_one() -> list[Moment]:
    """The moments of a request that a second worker is asked too, of one that is copied, and of one whose policy fails."""
    moments: list[Moment] = []
    async with late() as house:
        await house.chat(max_tokens=8)
        await settled(house)
        moments += house.observer.moments
    async with fleet(member("one"), member("two"), config=shadowing()) as house:
        await house.chat(model="one", max_tokens=5)
        await eventually(lambda: bool(house.observer.of(Shadowed)))
        moments += house.observer.moments
    async with fleet(member("one"), policy=Raising) as house:
        await house.chat(model="one", max_tokens=5)
        moments += house.observer.moments
    return moments


async def lost_engines() -> list[Moment]:
    """The moments of an answer that goes on with another engine, and of a worker whose breaker opens."""
    config = Config(breaker=BreakerConfig(failures=3, open_s=3600.0))
    moments: list[Moment] = []
    async with fleet(Member("a"), Member("b"), policy=Prefer("a")) as house:
        house.engine.inject(Fault("cut", after=3))
        await house.chat(stream=True, max_tokens=20, ignore_eos=True)
        moments += house.observer.moments
    async with fleet(Member("a"), Member("b"), config=config, policy=Prefer("a")) as house:
        house.engine.inject(*[Fault("refuse")] * 3)
        for _ in range(3):
            await house.chat()
        return [*moments, *house.observer.moments]


async def lost_stores(folder: Path) -> list[Moment]:
    """The moments of a request that spends a budget and that the ledger drops, since its file is gone, and of one that no store
    of limits is told of."""
    accounts = folder / "accounts.db"
    ledger = LedgerConfig(enabled=True, url=f"sqlite:///{accounts}", write_s=3600.0)
    prices = folder / "prices.json"
    prices.write_text('{"models": {"sim": {"input": 1000000, "output": 0}}}')
    budget = LimitsConfig(rules=("1 USD/day",), prices=str(prices))
    async with in_process(config=Config(ledger=ledger, limits=budget)) as house:
        await house.chat()
        accounts.unlink()
        moments = house.observer.moments
    observer = MemoryObserver()
    store = StoreCounters("redis://127.0.0.1:1", SystemClock(), observer=observer)
    while not store.dropped:
        store.settle((), (), store.now, store.now)
    return [*moments, *observer.moments]


async def plugins_that_act(folder: Path) -> list[Moment]:
    """The moments of plugins that come, count, refuse a request, are not replaced by a broken one, and go."""
    file = folder / "mine.wasm"
    shutil.copy(GUESTS / "attacks.wasm", file)
    async with over_http(config=listed(folder, component(file, "counters"), follow=False)) as house:
        plugins = house.gateway.services.plugins
        assert (await house.chat()).status_code == 200
        await plugins.put(*parse_entries([component(GUESTS / "attacks.wasm", "refuse", name="guard")], "a test"))
        assert (await house.chat()).status_code == 403
        file.write_bytes(b"broken")
        await plugins.look()
        await plugins.remove("guard")
        return list(house.observer.moments)


async def two_that_are_one(folder: Path) -> Moment:
    """The moment of a gateway that has heard of another one."""

    def config(name: str) -> Config:
        return Config(mesh=MeshConfig(kind="local", folder=str(folder / "m"), name=name, join_s=0.0))

    async with in_process(config=config("one")) as house, in_process(config=config("two")):
        mesh = house.gateway.services.running.mesh
        assert mesh is not None
        await eventually(lambda: mesh.sampled.here == 2 and mesh.sampled.size and mesh.sampled.silent)
        return mesh.sampled


async def workers_of_a_file(folder: Path) -> list[Moment]:
    """The moments of a worker that comes since the file of workers names it."""
    path, observer = folder / "workers.json", MemoryObserver()
    async with SimulatedEngine() as one, SimulatedEngine() as two:
        named(path, one=one)
        config = Config(workers=WorkersConfig(file=str(path)), discovery=FILE_QUICK)
        async with Gateway(config=config, observer=observer):
            named(path, one=one, two=two)
            await eventually(
                lambda: (
                    bool(observer.of(SourceChanged))
                    and any(each.age and each.workers for each in observer.of(SourceSampled))
                )
            )
    return list(observer.moments)


@pytest.mark.full
@BOTH_NAMES
async def test_every_declared_metric_is_recorded_by_some_request(everything: list[Moment], names: Any) -> None:
    meter = meter_of(MetricsConfig(port=0, names=names))
    for moment in everything:
        meter.recorder.report(moment)
    found = await read(meter)
    declared = {
        f"{metric.sample}_count" if metric.kind == "histogram" else metric.sample
        for metric in (METRICS if names == "own" else SMG_METRICS)
    }

    assert sorted(declared - set(found)) == []
    assert sorted(name for name in declared if not any(found[name].values()) and not name.startswith(GAUGES)) == []


GAUGES = (
    *("smg_http_connections", "smg_http_requests_in_flight", "smg_worker_requests", "smg_process_"),
    *("smg_limits_queue_waiting", "smg_worker_pool_"),
)
"""What is nothing while nothing is under way, and where no event loop is watched."""


@pytest.mark.full
async def test_what_plugins_do_and_count_is_told_by_plugin_and_its_counters_are_few(everything: list[Moment]) -> None:
    acted = [(each.plugin, each.hook, each.outcome) for each in everything if isinstance(each, PluginActed)]
    changed = [(each.plugin, each.outcome) for each in everything if isinstance(each, PluginChanged)]
    counted = {each.counter for each in everything if isinstance(each, PluginCounted)}

    assert ("guard", "request_head", "rejected") in acted
    assert changed == [("mine", "loaded"), ("guard", "loaded"), ("mine", "refused"), ("guard", "removed")]
    assert len(counted) == 32


async def test_one_request_is_recorded_once_in_every_metric_of_requests() -> None:
    async with in_process(SimulatorConfig(rules=QUICK.rules)) as house:
        await house.chat(stream=True)
        meter = meter_of()
        for moment in house.observer.moments:
            meter.recorder.report(moment)
    found = await read(meter)
    once = [
        *("smg_http_requests_total", "smg_http_request_duration_seconds_count", "smg_router_requests_started_total"),
        *("smg_router_requests_total", "smg_router_selections_total", "smg_worker_calls_total"),
        *("smg_inference_time_to_first_token_seconds_count", "smg_inference_request_duration_seconds_count"),
    ]

    assert {name: sum(found[name].values()) for name in once} == dict.fromkeys(once, 1)
    (where,) = found["smg_inference_request_duration_seconds_count"]
    assert dict(where) == {"model": "sim", "api": "chat", "transport": "grpc"}


@pytest.mark.full
async def test_the_trace_of_a_request_is_an_exemplar_and_in_the_access_log(caplog: pytest.LogCaptureFixture) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with in_process(SimulatorConfig(rules=QUICK.rules)) as house:
        asked = body(stream=True)
        await house.http.post(CHAT, json=asked, headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
        meter, log = meter_of(), AccessLog()
        with caplog.at_level(logging.INFO, logger="smg.access"):
            for moment in house.observer.moments:
                meter.recorder.report(moment)
                log.report(moment)
    families = list(openmetrics((await meter.text(OPENMETRICS)).decode()))
    kept = {family.name for family in families for each in family.samples if each.exemplar}

    assert kept == {metric.name for metric in METRICS if metric.exemplars}
    assert f"trace_id={trace}" in caplog.text


async def test_the_tokens_of_the_metrics_are_those_of_the_answer() -> None:
    async with in_process(SimulatorConfig(rules=QUICK.rules)) as house:
        usage = (await house.chat()).json()["usage"]
        meter = meter_of()
        for moment in house.observer.moments:
            meter.recorder.report(moment)
    tokens = {dict(key)["type"]: value for key, value in (await read(meter))["smg_inference_tokens_total"].items()}

    assert (tokens["input"], tokens["output"]) == (usage["prompt_tokens"], usage["completion_tokens"])


# ------------------------------------------------------------------------------------------------------------- the ports


@asynccontextmanager
async def scraped(**sections: Any) -> AsyncIterator[tuple[House, httpx.AsyncClient]]:
    """A gateway with its metrics at a port, and a client of that."""
    config = Config(metrics=ON, **sections)
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with AsyncExitStack() as stack:
        house = await stack.enter_async_context(over_http(config=config))
        app = metrics_app(house.gateway, meter_of(), config)
        await stack.enter_async_context(
            background_listener(house.gateway, config, listener, app, "metrics", plain=True)
        )
        yield house, await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False))


@pytest.mark.full
async def test_the_port_answers_in_the_format_that_is_asked_for_and_has_nothing_else() -> None:
    async with scraped(auth=AuthConfig(keys=("key-0123456789abcdef tenant=a",))) as (house, http):
        plain = await http.get("/metrics")
        new = await http.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
        others = [await http.get(path) for path in ("/v1/models", "/readiness", "/admin/health")]
        public = await house.http.get("/metrics", headers={"authorization": "Bearer key-0123456789abcdef"})

    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert list(prometheus(plain.text))
    assert list(openmetrics(new.text))
    assert {answer.status_code for answer in others} == {404}
    assert public.status_code == 404


@pytest.mark.full
async def test_a_page_that_has_its_own_name_point_to_the_loopback_reads_no_metrics() -> None:
    async with scraped() as (_, http):
        answer = await http.get("/metrics", headers={"host": "evil.example"})

    assert answer.status_code == 403


@pytest.mark.full
@pytest.mark.parametrize(("role", "status"), [("admin", 200), ("user", 403)])
async def test_the_admin_door_has_the_metrics_for_those_who_may_see_them(role: str, status: int) -> None:
    key = "key-0123456789abcdef"
    config = Config(
        admin=AdminConfig(port=0),
        metrics=MetricsConfig(admin=True),
        auth=AuthConfig(keys=(f"{key} tenant=a role={role}",)),
    )
    listener = admin_listener(config)
    assert listener is not None
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with (
            over_http(config=config) as house,
            administered(house.gateway, config, listener, a_table(), meter_of(config.metrics)),
            httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False) as http,
        ):
            answer = await http.get("/admin/metrics", headers={"authorization": f"Bearer {key}"})
    finally:
        close_listener(config, listener)

    assert answer.status_code == status


# --------------------------------------------------------------------------------------------------------- the processes


async def test_what_requests_count_is_in_the_text_of_its_process_at_once_and_of_others_after_an_interval() -> None:
    memory = memoryview(bytearray(metrics_bytes(ON, 2)))
    settings = attrs.evolve(ON, gather_s=0.01)
    one, other = (Meter(settings, SystemClock(), memory, processes=2, own=own) for own in range(2))
    requests = Observers(one.recorder)

    async def started(meter: Meter) -> float:
        return sum((await read(meter)).get("smg_router_requests_started_total", {}).values())

    requests.report(RequestStarted("r", "chat", "m", False, 0.0))
    assert [await started(other), await started(one), await started(other)] == [0, 1, 1]
    async with one.gathering():
        requests.report(RequestStarted("r", "chat", "m", False, 0.0))
        async with asyncio.timeout(PATIENCE):
            while await started(other) != 2:
                await asyncio.sleep(0.01)
        requests.report(RequestStarted("r", "chat", "m", False, 0.0))
    assert await started(other) == 3


@pytest.mark.full
async def test_no_count_is_lost_when_a_process_is_replaced() -> None:
    async with serving(QUICK, "--processes", "2", "--metrics-port", "0", "--server-restart-s", "0") as served:
        url = next(line for line in served.log if "metrics are at" in line).split("at ")[1]
        async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as http:

            async def asked(times: int) -> None:
                """So many requests, each over a connection of its own, that any process may take."""
                for _ in range(times):
                    async with httpx.AsyncClient(
                        base_url=served.http.base_url, timeout=PATIENCE, trust_env=False
                    ) as client:
                        assert (await client.post(CHAT, json=body())).status_code == 200

            async def counted() -> float:
                try:
                    text = (await http.get(url)).text
                except httpx.TransportError:  # the process that has the port is the one being replaced
                    return -1
                return sum(
                    each.value
                    for family in prometheus(text)
                    for each in family.samples
                    if each.name == "smg_router_requests_total"
                )

            async def until(count: float) -> None:
                async with asyncio.timeout(PATIENCE):
                    while await counted() != count:
                        await asyncio.sleep(0.05)

            await asked(12)
            await until(12)
            for pid in children(served.process.pid):
                os.kill(pid, signal.SIGKILL)
                await eventually(lambda pid=pid: pid not in children(served.process.pid))
                await eventually(lambda: len(children(served.process.pid)) == 2)
            await asked(6)
            await until(18)


def children(pid: int) -> list[int]:
    """The processes that serve for a supervisor."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            line = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid and b"spawn_main" in line:
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("path", ["metrics", "", "/a b", "/a?b", "/a#b"])
def test_a_path_of_metrics_at_which_nothing_would_answer_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=r"metrics\.path"):
        MetricsConfig(path=path)

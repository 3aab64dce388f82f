"""Traces of a gateway: a real collector receives the spans of every API, streamed and whole, and nothing that is not theirs."""

import asyncio
import json
import logging
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import grpc
import httpx
import openai
import pytest
import trustme
from tests.gateway.collector import Collector, Seen, collecting
from tests.gateway.conftest import CHAT, House, body, eventually, in_process, over_http, settled
from tests.gateway.fleet import CALM
from tests.gateway.test_background import BRISK, polled
from tests.gateway.test_batches import HELLO
from tests.gateway.test_prefill_decode import pools
from tests.gateway.test_prefill_decode import settings as pair_settings
from tests.gateway.test_serve import PACED, QUICK, serving
from tests.gateway.test_tool_loop import ADD, DONE, NOTES, gateway_with
from tests.gateway.test_vision import SHAPES, VLLM
from tests.gateway.tool_server import tool_server
from tests.gateway.vision_models import image_part, picture, qwen2_vl
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.hooks import ExchangeEnded, RequestFinished, TracesDropped
from smg_core.http.settings import BatchesConfig
from smg_core.observability.settings import TracesConfig
from smg_core.observability.tracing.attributes import ATTRIBUTES, EVENTS, STAGES
from smg_core.routing.settings import RoutingConfig
from smg_core.settings import ConfigError
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
NAMED = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=a"}
CANARY = "canary-7f3a91"
SAYS = SimulatorConfig(rules=(Rule((), Reply(f"Yes {CANARY}.")),))
GEMINI = "/v1beta/models/sim:"
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": CANARY}]}]}
APIS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, body(CANARY)),
    "completions": ("/v1/completions", {"model": "sim", "prompt": CANARY}),
    "messages": (
        "/v1/messages",
        {"model": "sim", "max_tokens": 50, "messages": [{"role": "user", "content": CANARY}]},
    ),
    "responses": ("/v1/responses", {"model": "sim", "input": CANARY}),
    "interactions": ("/v1/interactions", {"model": "sim", "input": CANARY}),
    "generate": ("/generate", {"text": CANARY, "sampling_params": {"max_new_tokens": 50}}),
    "generate_content": (GEMINI, CONTENTS),
}
BELOW = {"queue", "render", "encode", "select"}
IN_PIECES = {"first_token", "decode"}
"""The stages of an engine's answer that comes in pieces."""


def to(collector: Collector, **more: Any) -> TracesConfig:
    return TracesConfig(**{"endpoint": collector.url, "delay_s": 0.02, **more})


@pytest.fixture
def collector() -> Any:
    with collecting() as collector:
        yield collector


@asynccontextmanager
async def traced(
    collector: Collector, simulator: SimulatorConfig = SAYS, *, over_port: bool = False, **sections: Any
) -> AsyncIterator[House]:
    config = Config(**{"traces": to(collector), **sections})
    async with (over_http if over_port else in_process)(simulator, config=config) as house:
        yield house


def asked(api: str, stream: bool) -> tuple[str, dict[str, Any]]:
    path, fields = APIS[api]
    if api == "generate_content":
        return path + ("streamGenerateContent?alt=sse" if stream else "generateContent"), fields
    return path, {**fields, "stream": stream}


def named(spans: list[Seen], stage: str) -> list[Seen]:
    return [each for each in spans if each.stage == stage]


# ------------------------------------------------------------------------------------------------------------ every API


@pytest.mark.full
@pytest.mark.parametrize("over_port", [False, True], ids=["in process", "over a port"])
async def test_every_api_makes_one_span_of_the_server_with_its_stages_and_no_content(
    collector: Collector, over_port: bool
) -> None:
    ways = [(api, stream) for api in APIS for stream in (False, True)]
    async with traced(collector, over_port=over_port) as house:
        for api, stream in ways:
            path, fields = asked(api, stream)
            answer = await house.http.post(path, json=fields, headers={**NAMED, "x-request-id": f"{api}-{stream}"})
            assert answer.status_code == 200, answer.text
        requests = await collector.of(len(ways))
        finished = house.observer.of(RequestFinished)
        exchanges = house.observer.of(ExchangeEnded)

    assert collector.twice() == []
    assert {each.trace_id for each in collector.spans} == {TRACE}
    assert {each.state for each in collector.spans} == {"vendor=a"}
    assert CANARY.encode() not in b"".join(collector.bytes)
    by_name = {spans[0].attributes["smg.client_request_id"]: spans for spans in requests}
    for api, stream in ways:
        root, *rest = by_name[f"{api}-{stream}"]
        (call,) = [each for each in rest if each.kind == "client"]
        assert (root.kind, root.parent_id, root.error) == ("server", SPAN, False), api
        assert root.name.startswith("POST /")
        assert root.attributes["smg.api"] == api
        assert root.attributes["gen_ai.request.stream"] is stream
        assert root.attributes["gen_ai.usage.output_tokens"] > 0
        stages = {each.stage for each in rest}
        assert stages >= BELOW, api
        assert stages & IN_PIECES == (IN_PIECES if stream else set()), api
        assert {each.parent_id for each in rest} == {root.span_id, *([call.span_id] if stream else [])}
        assert all(root.start <= each.start <= each.end <= root.end for each in rest), api
    assert {each.trace_id for each in (*finished, *exchanges)} == {TRACE}
    assert {dict(sent)["traceparent"].split("-")[2] for _, sent in house.engine.traces} == {
        each.span_id for each in collector.spans if each.kind == "client"
    }
    assert {dict(sent)["tracestate"] for _, sent in house.engine.traces} == {"vendor=a"}


async def test_content_is_in_the_span_of_the_request_where_it_is_switched_on(collector: Collector) -> None:
    async with traced(collector, traces=to(collector, content=True, content_characters=30)) as house:
        await house.http.post(CHAT, json=body(f"{'x' * 100} {CANARY}", stream=True, temperature=0.5, seed=7))
        ((root, *rest),) = await collector.of(1)

    (said,) = json.loads(root.attributes["gen_ai.output.messages"])
    (text,) = json.loads(root.attributes["gen_ai.input.messages"])[0]["parts"]
    assert said["parts"] == [{"type": "text", "content": f"Yes {CANARY}."}]
    assert (len(text["content"]), text["content"][-len(CANARY) :]) == (33, CANARY)
    assert (root.attributes["gen_ai.request.temperature"], root.attributes["gen_ai.request.seed"]) == (0.5, 7)
    assert not any(CANARY in str(each.attributes) for each in rest)


# ------------------------------------------------------------------------------------------------------- what is recorded


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("flag", "ratio", "recorded"), [("00", 1.0, False), ("01", 0.0, True), (None, 0.0, False), (None, 1.0, True)]
)
async def test_a_request_is_recorded_as_its_parent_is_and_else_by_share(
    collector: Collector, flag: str | None, ratio: float, recorded: bool
) -> None:
    headers = {} if flag is None else {"traceparent": f"00-{TRACE}-{SPAN}-{flag}"}
    async with traced(collector, traces=to(collector, ratio=ratio)) as house:
        await house.http.post(CHAT, json=body(), headers=headers)
        (ended,) = house.observer.of(ExchangeEnded)
    ((_, sent),) = house.engine.traces

    assert len(collector.roots()) == recorded
    assert sent["traceparent"].split("-")[1] == ended.trace_id
    assert sent["traceparent"].endswith("-01" if recorded else "-00")
    assert ended.sampled is recorded
    assert flag is None or ended.trace_id == TRACE


async def test_the_trace_of_a_client_that_is_not_trusted_is_a_link(collector: Collector) -> None:
    async with traced(collector, traces=to(collector, trust_clients=False)) as house:
        await house.http.post(CHAT, json=body(), headers=NAMED)
        ((root, *_),) = await collector.of(1)
        (ended,) = house.observer.of(ExchangeEnded)

    assert root.trace_id != TRACE
    assert (root.parent_id, root.links, root.state) == ("", ((TRACE, SPAN),), "")
    assert ended.trace_id == root.trace_id


async def test_probes_have_no_spans_and_unknown_paths_have_no_name_of_their_own(collector: Collector) -> None:
    async with traced(collector) as house:
        await house.http.get("/health")
        await house.http.get("/made/up/by/a/stranger")
        ((root, *rest),) = await collector.of(1)

    assert (root.name, root.attributes["http.response.status_code"], rest) == ("GET", 404, [])
    assert (root.attributes["error.type"], root.error) == ("NotFound", False)


async def test_without_traces_the_context_of_the_client_goes_on_as_it_came_and_no_library_is_loaded() -> None:
    async with in_process(SAYS) as house:
        await house.http.post(CHAT, json=body(), headers=NAMED)
        await house.http.post(CHAT, json=body())

    assert [sent for _, sent in house.engine.traces] == [NAMED]


# ---------------------------------------------------------------------------------------------------- how requests end


async def test_a_failure_sets_status_and_type_on_the_call_and_on_the_request(collector: Collector) -> None:
    failing = SimulatorConfig(faults=(Fault("error"),) * 8)
    async with traced(collector, failing, routing=RoutingConfig(retries=0)) as house:
        answer = await house.http.post(CHAT, json=body())
        ((root, *rest),) = await collector.of(1)

    (call,) = [each for each in rest if each.kind == "client"]
    assert answer.status_code >= 500
    assert root.error
    assert call.error
    assert root.attributes["error.type"] == root.attributes["smg.outcome"]
    assert call.attributes["error.type"]


async def test_a_retry_is_an_event_and_a_second_call(collector: Collector) -> None:
    config = Config(traces=to(collector), workers=WorkersConfig(health_interval_s=3600.0))
    async with in_process(
        SimulatorConfig(rules=SAYS.rules, faults=(Fault("refuse"),)), config=config, engines=2
    ) as house:
        await house.http.post(CHAT, json=body())  # each engine refuses the first request that it gets
        ((root, *rest),) = await collector.of(1)
    calls = [each for each in rest if each.kind == "client"]
    event, told = root.events[0]

    assert (event, told["smg.worker"]) == ("retry", calls[0].attributes["smg.worker"])
    assert told["error.type"] == calls[0].attributes["error.type"]
    assert [each.error for each in calls] == [True, True]
    assert [each.attributes["smg.call.attempt"] for each in calls] == [1, 2]
    assert len({each.attributes["smg.worker"] for each in calls}) == 2


async def test_a_client_that_leaves_ends_its_spans_without_an_error(collector: Collector) -> None:
    async with traced(collector, PACED, over_port=True) as house:
        async with house.http.stream("POST", CHAT, json=body(stream=True)) as answer:
            await answer.aiter_bytes().__anext__()
        ((root, *rest),) = await collector.of(1)
        await settled(house)

    (call,) = [each for each in rest if each.kind == "client"]
    assert (root.attributes["smg.outcome"], root.error) == ("client_gone", False)
    assert (call.attributes["smg.outcome"], call.error) == ("abandoned", False)
    assert collector.twice() == []


# ------------------------------------------------------------------------------------------- everything that takes long


@pytest.mark.full
async def test_a_tool_loop_has_a_span_for_each_turn_with_its_tools(collector: Collector, tmp_path: Path) -> None:
    async with (
        tool_server() as tools,
        gateway_with(tmp_path, tools, traces=to(collector)) as house,
        openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client,
    ):
        house.engine.say(ADD, DONE)
        await client.responses.create(model="sim", input="2 + 3?", tools=[NOTES])
        ((root, *rest),) = await collector.of(1)

    first, second = named(rest, "turn")
    (tool,) = named(rest, "execute_tool")
    assert (first.parent_id, second.parent_id, tool.parent_id) == (root.span_id, root.span_id, first.span_id)
    assert (tool.name, tool.attributes["smg.server"]) == ("execute_tool add", "notes")
    assert [
        len([each for each in rest if each.kind == "client" and each.parent_id == turn.span_id])
        for turn in (first, second)
    ] == [1, 1]
    assert named(rest, "store")


async def test_a_prefill_and_a_decode_engine_have_a_call_each(collector: Collector) -> None:
    async with pools(config=attrs.evolve(pair_settings(), traces=to(collector))) as house:
        assert (await house.http.post(CHAT, json=body(), headers=NAMED)).status_code == 200
        ((_, *rest),) = await collector.of(1)
    sent = {dict(headers)["traceparent"].split("-")[2] for engine in house.engines for _, headers in engine.traces}

    calls = [each for each in rest if each.kind == "client"]
    assert sorted(each.attributes["smg.role"] for each in calls) == ["decode", "prefill"]
    assert sent == {each.span_id for each in calls}


async def test_a_response_in_the_background_is_in_the_trace_of_the_request_that_asked_for_it(
    collector: Collector,
) -> None:
    async with traced(collector, QUICK, responses=BRISK) as house:
        http = house.gateway.http_client(openai)
        async with openai.AsyncOpenAI(api_key="x", base_url="http://gateway/v1", http_client=http) as client:
            made = await client.responses.create(model="sim", input="Hi", background=True, extra_headers=NAMED)
            assert (await polled(client, made.id)).status == "completed"
        await eventually(lambda: any(each.kind == "consumer" for each in collector.spans))
    (run,) = [each for each in collector.roots() if each.kind == "consumer"]
    asking = next(each for each in collector.roots() if each.span_id == run.parent_id)

    assert (run.name, run.trace_id, asking.trace_id) == ("background responses", TRACE, TRACE)
    assert asking.attributes["http.route"] == "/v1/responses"
    assert {each.stage for each in collector.below(run)} >= BELOW
    assert collector.twice() == []


async def test_the_requests_of_a_batch_have_traces_of_their_own(collector: Collector) -> None:
    batches = BatchesConfig(poll_s=0.02, gather_s=0.005, retry_s=0.02)
    async with traced(collector, QUICK, batches=batches) as house:
        params = {"model": "sim", "max_tokens": 5, "messages": HELLO}
        lines = [{"custom_id": str(number), "params": params} for number in range(2)]
        answer = await house.http.post("/v1/messages/batches", json={"requests": lines})
        assert answer.status_code == 200, answer.text
        await eventually(lambda: len([each for each in collector.roots() if each.kind == "consumer"]) == 2)
    runs = [each for each in collector.roots() if each.kind == "consumer"]

    assert {each.name for each in runs} == {"POST /v1/messages"}
    assert len({each.trace_id for each in runs}) == 2
    assert all({each.stage for each in collector.below(run)} >= BELOW for run in runs)


async def test_a_worker_that_is_another_gateway_is_in_the_same_trace(collector: Collector) -> None:
    async with over_http(SAYS, config=Config(traces=to(collector, service_name="far"))) as far:
        near = Gateway(
            [WorkerSpec(far.url, name="far")], config=attrs.evolve(CALM, traces=to(collector, service_name="near"))
        )
        async with near, near.http_client(httpx, base_url="http://gateway") as http:
            assert (await http.post(CHAT, json=body())).status_code == 200
            await eventually(lambda: len([each for each in collector.roots() if each.stage == "POST"]) == 2)
    outer, inner = sorted([each for each in collector.roots() if each.stage == "POST"], key=lambda each: each.start)
    (call,) = [each for each in collector.below(outer) if each.kind == "client"]

    assert (inner.trace_id, inner.parent_id) == (outer.trace_id, call.span_id)
    assert {each["service.name"] for each in collector.resources} == {"near", "far"}


@pytest.mark.full
async def test_every_stage_attribute_and_event_of_the_table_appears_and_no_other(
    collector: Collector, tmp_path: Path
) -> None:
    async with traced(collector, traces=to(collector, content=True)) as house:
        await house.http.post("/v1/completions", json={"model": "sim", "prompt": ["a", "b"], "n": 2, "max_tokens": 5})
    async with (
        tool_server() as tools,
        gateway_with(tmp_path, tools, traces=to(collector)) as house,
        openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client,
    ):
        house.engine.say(ADD, DONE)
        await client.responses.create(model="sim", input="2 + 3?", tools=[NOTES])
    picture_of = [SHAPES, image_part(picture(64, 64))]
    simulator = SimulatorConfig(model_folder=str(qwen2_vl(tmp_path / "qwen")))
    async with in_process(simulator, config=Config(workers=VLLM, traces=to(collector))) as house:
        content = {"model": "sim", "messages": [{"role": "user", "content": picture_of}], "stream": True}
        assert (await house.http.post(CHAT, json=content)).status_code == 200
    stages = {each.stage for each in collector.spans if each.kind == "internal"}
    used = {name for each in collector.spans for name in each.attributes}

    assert stages == set(STAGES)
    assert used - set(ATTRIBUTES) == set()
    assert {name for each in collector.spans for name, _ in each.events} <= set(EVENTS)


# ------------------------------------------------------------------------------------------------------- the collector


async def test_a_collector_that_is_gone_costs_a_count_and_one_line(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.refuse = grpc.StatusCode.PERMISSION_DENIED
    with caplog.at_level(logging.INFO):
        async with traced(collector, traces=to(collector, batch=8)) as house:
            for _ in range(3):
                tries = collector.tries
                assert (await house.http.post(CHAT, json=body())).status_code == 200
                await eventually(lambda tries=tries: collector.tries > tries)
            await eventually(lambda: sum(each.requests for each in house.observer.of(TracesDropped)) == 3)
    told = [each for each in caplog.records if each.name.startswith(("smg.traces", "opentelemetry"))]

    assert {each.why for each in house.observer.of(TracesDropped)} == {"export_failed"}
    assert len([each for each in told if each.levelno >= logging.WARNING]) == 1
    assert "PERMISSION_DENIED" in told[0].getMessage()


async def test_spans_that_a_collector_rejects_are_counted_and_told_once(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.rejects, collector.says = 2, "rate limit exceeded for 'Anna'"
    async with traced(collector) as house:
        for count in range(1, 3):
            assert (await house.http.post(CHAT, json=body())).status_code == 200
            await eventually(lambda count=count: len(house.observer.of(TracesDropped)) == count)
        dropped = [(each.requests, each.why) for each in house.observer.of(TracesDropped)]
    told = [each.getMessage() for each in caplog.records if each.name == "smg.traces"]

    assert dropped == [(1, "rejected")] * 2
    assert told == ["the collector has taken a part alone, and rejected 2 spans: rate limit exceeded for '…'"]


async def test_a_gateway_stops_though_its_collector_hangs_and_counts_what_was_not_taken(collector: Collector) -> None:
    collector.held = threading.Event()
    async with traced(collector, traces=to(collector, stop_s=0.2)) as house:
        await house.http.post(CHAT, json=body())
        await eventually(lambda: collector.tries == 1)
    collector.held.set()
    await eventually(lambda: house.observer.of(TracesDropped))

    assert sum(each.requests for each in house.observer.of(TracesDropped)) == 1


async def test_requests_that_the_queue_has_no_room_for_are_dropped_and_counted(collector: Collector) -> None:
    async with traced(collector, traces=to(collector, queue=1, delay_s=300.0)) as house:
        for _ in range(3):
            await house.http.post(CHAT, json=body())
        dropped = house.observer.of(TracesDropped)
    # what waits is sent at the end
    assert [(each.requests, each.why) for each in dropped] == [(1, "queue_full")] * 2
    assert len(collector.roots()) == 1


async def test_headers_compression_and_the_variables_reach_the_collector(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-of-variables=yes")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "of-the-variable")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    for settings in (
        TracesConfig(enabled=True, delay_s=0.02),
        to(collector, headers=("x-own=secret",), compression="gzip"),
    ):
        async with traced(collector, traces=settings) as house:
            await house.http.post(CHAT, json=body())
    first, second = collector.metadata

    assert first["x-of-variables"] == "yes"
    assert second["x-own"] == "secret"
    assert {each["service.name"] for each in collector.resources} == {"of-the-variable"}
    assert {each["deployment.environment.name"] for each in collector.resources} == {"test"}
    assert all(each["service.instance.id"] for each in collector.resources)


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"])
async def test_headers_of_a_variable_that_are_none_are_refused_and_in_no_log(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, "authorization Bearer secret-7")
    with pytest.raises(ConfigError, match=name) as raised:
        async with in_process(config=Config(traces=TracesConfig(enabled=True))):
            pass

    assert "secret" not in str(raised.value) + caplog.text


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
async def test_a_password_in_the_address_of_a_variable_is_refused_as_that_of_the_setting(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "http://user:secret-7@collector:4317")
    with pytest.raises(ConfigError, match=name) as raised:
        async with in_process(config=Config(traces=TracesConfig(enabled=True))):
            pass

    assert "secret" not in str(raised.value)


async def test_headers_of_a_variable_are_read_as_the_specification_says(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-other=no")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", " Authorization = Bearer%20a%3Db , x-empty=,,x-b=c=d ")
    async with traced(collector) as house:
        await house.http.post(CHAT, json=body())
    (found,) = collector.metadata

    assert (found["authorization"], found["x-empty"], found["x-b"]) == ("Bearer a=b", "", "c=d")
    assert "x-other" not in found


async def test_a_collector_is_spoken_to_by_tls_with_its_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    credentials = grpc.ssl_server_credentials([(issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes())])
    with collecting(credentials) as collector:
        async with traced(collector, traces=to(collector, ca=str(tmp_path / "ca.pem"))) as house:
            await house.http.post(CHAT, json=body())
        assert len(collector.roots()) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"endpoint": "collector:4317"},
        {"endpoint": "http://collector:4317/v1/traces"},
        {"endpoint": "http://user:password@collector:4317"},
        {"endpoint": "https://collector:4317?key=secret"},
        {"endpoint": "http://collector:4317", "ca": "/nowhere/ca.pem"},
        {"endpoint": "https://collector:4317", "ca": "/nowhere/ca.pem"},
        {"endpoint": "https://collector:4317", "cert": "/nowhere/cert.pem"},
        {"headers": ("no header",), "enabled": True},
    ],
    ids=str,
)
async def test_a_setting_that_could_not_work_is_refused_at_the_start(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="traces"):
        async with in_process(config=Config(traces=TracesConfig(**settings))):
            pass


async def test_another_protocol_of_the_variables_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_PROTOCOL"):
        async with in_process(config=Config(traces=TracesConfig(enabled=True))):
            pass


async def test_the_variable_that_disables_the_sdk_disables_traces(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    async with traced(collector) as house:
        await house.http.post(CHAT, json=body())

    assert collector.spans == []


# ------------------------------------------------------------------------------------------------------- as it is served


@pytest.mark.full
async def test_several_processes_send_the_spans_of_all_requests_and_the_log_has_their_traces(
    collector: Collector,
) -> None:
    flags = ("--processes", "2", "--traces-endpoint", collector.url, "--traces-delay-s", "0.05")
    async with serving(QUICK, *flags, "--access-log", "--log-format", "json") as served:
        for _ in range(6):
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{served.port}", timeout=PATIENCE) as http:
                assert (await http.post(CHAT, json=body())).status_code == 200
        await eventually(lambda: len(served.told(f'"path":"{CHAT}"')) == 6)
        served.process.terminate()
        await served.ended()
    roots = [each for each in collector.roots() if each.attributes.get("smg.api") == "chat"]
    logged = {json.loads(line)["trace_id"] for line in served.told(f'"path":"{CHAT}"')}

    assert len(roots) == 6
    assert collector.twice() == []
    assert logged == {each.trace_id for each in roots}


@pytest.mark.full
async def test_opentelemetry_is_loaded_only_where_traces_are_on(collector: Collector) -> None:
    code = (
        "import asyncio, sys\n"
        "from smg_core import Config, Gateway\n"
        "from smg_core.config.config import TracesConfig\n"
        "async def main(traces):\n"
        "    async with Gateway.simulated(config=Config(traces=traces)): pass\n"
        "asyncio.run(main(TracesConfig()))\n"
        "print('opentelemetry' in sys.modules)\n"
        f"asyncio.run(main(TracesConfig(endpoint={collector.url!r})))\n"
        "print('opentelemetry' in sys.modules)\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()

    assert told.decode().split() == ["False", "True"]

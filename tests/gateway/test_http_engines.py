"""Engines that take token ids over HTTP, behind a gateway: they are like any other, from joining to a client that leaves."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from tests.engine_kinds import HTTP_DIALECTS
from tests.gateway.conftest import JSON, House, body, eventually

from smg_core import Config, Gateway
from smg_core.hooks import Retrying
from smg_core.routing.settings import RoutingConfig
from smg_core.settings import ConfigError
from smg_core.sse import SseReader
from smg_core.testing import MemoryObserver
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.codecs.base import ChoiceSlice
from smg_simulator.codecs.sglang_http import SglangHttpServerCodec
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.server.http_server import engine_http_server

pytestmark = pytest.mark.anyio

every = pytest.mark.parametrize("dialect", HTTP_DIALECTS)
PACED = SimulatorConfig(timing=Timing(decode_rate=200.0), reply_tokens=400)
CALM = Config(workers=WorkersConfig(health_interval_s=3600.0))


@asynccontextmanager
async def house_of(
    dialect: str, *simulators: SimulatorConfig, config: Config = CALM, **spec: Any
) -> AsyncIterator[House]:
    """A gateway before engines that are reached over HTTP alone."""
    observer = MemoryObserver()
    async with AsyncExitStack() as stack:
        engines = [
            await stack.enter_async_context(SimulatedEngine(each, http_server=engine_http_server("127.0.0.1:0")))
            for each in simulators or (SimulatorConfig(),)
        ]
        specs = [WorkerSpec(each.http_target, dialect=dialect, **spec) for each in engines]
        gateway = await stack.enter_async_context(Gateway(specs, config=config, observer=observer))
        await gateway.ready()
        await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
        http = await stack.enter_async_context(gateway.http_client(httpx, base_url="http://gateway", headers=JSON))
        yield House(gateway, http, observer, own=tuple(engines))


@every
async def test_it_joins_with_what_its_server_says_and_answers_as_over_grpc(dialect: str) -> None:
    async with house_of(dialect) as house:
        (worker,) = house.gateway.registry
        assert (worker.facts.dialect, worker.facts.takes_ids, worker.facts.transport) == (dialect, True, "http")
        assert worker.facts.context_length == house.engine.engine.context_length
        over_http = (await house.chat("Hello", max_tokens=20, logprobs=True, top_logprobs=2)).json()
        direct = SimulatedEngine(SimulatorConfig())
        async with direct, Gateway([direct.target], config=CALM) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", headers=JSON) as http:
                asked = body("Hello", max_tokens=20, logprobs=True, top_logprobs=2)
                over_grpc = (await http.post("/v1/chat/completions", json=asked)).json()
    (one,), (other,) = over_http["choices"], over_grpc["choices"]
    assert (one["message"], one["finish_reason"]) == (other["message"], other["finish_reason"])
    for ours, theirs in zip(one["logprobs"]["content"], other["logprobs"]["content"], strict=True):
        assert ours["token"] == theirs["token"]
        assert ours["logprob"] == pytest.approx(theirs["logprob"], rel=1e-6)  # gRPC's are floats of 32 bits
        assert [each["token"] for each in ours["top_logprobs"]] == [each["token"] for each in theirs["top_logprobs"]]
    assert over_http["usage"] == over_grpc["usage"]


@pytest.mark.sampled(keep=3)
@every
async def test_a_client_that_leaves_stops_the_engine(dialect: str) -> None:
    async with house_of(dialect, PACED) as house:
        async with house.http.stream("POST", "/v1/chat/completions", json=body("Hello", stream=True)) as answer:
            await anext(answer.aiter_bytes())
            assert house.engine.active
        await eventually(lambda: not house.engine.active)
        assert house.engine.aborted


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@every
@pytest.mark.parametrize("kind", ["cut", "restart", "garbage"])
async def test_an_answer_goes_on_elsewhere_where_its_engine_is_lost(dialect: str, kind: Any) -> None:
    chained = SimulatorConfig(chained=40, block_size=4096)
    async with house_of(dialect, chained) as house:
        whole = (await house.chat("Hello", max_tokens=60)).json()["choices"][0]["message"]["content"]
    broken = attrs.evolve(chained, faults=(Fault(kind, after=5),))
    async with house_of(dialect, broken, attrs.evolve(chained, faults=(None,))) as house:
        answers = [(await house.chat("Hello", max_tokens=60)).json() for _ in range(3)]
    texts = [each["choices"][0]["message"]["content"] for each in answers if "choices" in each]
    assert texts
    assert set(texts) == {whole}
    if kind != "garbage":
        assert len(texts) == 3


@pytest.mark.full
@pytest.mark.sampled(keep=6)
@every
@pytest.mark.parametrize(
    ("code", "status"), [("INVALID_ARGUMENT", 400), ("RESOURCE_EXHAUSTED", 503), ("INTERNAL", 500)]
)
async def test_a_refusal_is_what_its_status_says_and_repeats_nothing_of_the_engine(
    dialect: str, code: str, status: int
) -> None:
    faults = tuple([Fault("refuse", status=code, message="secret of the engine")] * 8)
    async with house_of(dialect, SimulatorConfig(faults=faults)) as house:
        answer = await house.chat("Hello")
    assert answer.status_code == status
    assert "secret of the engine" not in answer.text


class FullSglang(SglangHttpServerCodec):
    """What SGLang says in a stream, which has begun with status 200, where its queue is full."""

    def chunk(self, request_id: str, piece: ChoiceSlice) -> bytes:
        told = {"type": "abort", "message": "The request queue is full.", "status_code": 503, "err_type": None}
        return json.dumps(
            {"text": "", "output_ids": [], "meta_info": {"id": request_id, "finish_reason": told}}
        ).encode()


async def test_a_request_that_a_full_sglang_has_no_room_for_is_asked_elsewhere_and_is_503_where_all_are_full() -> None:
    async with house_of("sglang-http", SimulatorConfig(), SimulatorConfig()) as house:
        full, other = (engine._http_server._codecs for engine in house.engines)
        full["/generate"] = lambda: FullSglang(incremental=False)
        answers = [await house.chat(f"Hello {at}", max_tokens=3) for at in range(4)]
        retried = house.observer.of(Retrying)
        other["/generate"] = full["/generate"]
        refused = await house.chat("Hello", max_tokens=3)

    assert [each.status_code for each in answers] == [200] * 4
    assert retried
    assert refused.status_code == 503


@every
async def test_its_health_is_asked_and_its_key_is_brought(dialect: str) -> None:
    async with house_of(dialect, SimulatorConfig(api_key="k"), headers=(("authorization", "Bearer k"),)) as house:
        assert (await house.chat("Hello", max_tokens=3)).status_code == 200
        (worker,) = house.gateway.registry
        assert await worker.engine.health()
        house.engine.healthy = False
        with pytest.raises(Exception, match="no room"):
            await worker.engine.health()


@pytest.mark.sampled(keep=3)
@every
async def test_an_engine_that_says_that_it_is_unwell_gets_no_requests_until_it_is_well(dialect: str) -> None:
    config = Config(workers=WorkersConfig(health_interval_s=0.1, join_interval_s=0.05))
    async with house_of(dialect, config=config) as house:
        (worker,) = house.gateway.registry
        house.engine.healthy = False
        await eventually(lambda: worker.state == "unreachable")
        house.engine.healthy = True
        await eventually(lambda: worker.state == "ready")


async def test_sglang_is_told_by_name_too() -> None:
    async with house_of("sglang-http", PACED) as house:
        (worker,) = house.gateway.registry
        async with house.http.stream("POST", "/v1/chat/completions", json=body("Hello", stream=True)) as answer:
            pieces = answer.aiter_text()
            await anext(pieces)
            await worker.engine.abort(house.engine.requests[-1].id)
            text = "".join([piece async for piece in pieces])
        assert house.engine.counters["aborts"] == 1
        assert "[DONE]" in text or "error" in text


async def test_a_vllm_without_the_tokens_only_call_does_not_join_and_its_operator_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
        refused = path.startswith(b"/inference/")
        told: Any = (
            {"error": {"message": said}} if refused else {"data": [{"id": "m", "root": "/m", "max_model_len": 9}]}
        )
        sent = json.dumps(told).encode()
        status = b"403 Forbidden" if refused else b"200 OK"
        writer.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, len(sent), sent))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        gateway = Gateway([WorkerSpec(url, dialect="vllm-tokens-http")], config=CALM)
        try:
            await gateway.start()
            await eventually(lambda: "Restart vllm serve with --enable-scale-out to enable" in caplog.text)
            assert not gateway.models
        finally:
            await gateway.stop()


@every
async def test_the_operator_empties_its_cache(dialect: str) -> None:
    from smg_core.engines.upkeep import FlushCache

    async with house_of(dialect) as house:
        (worker,) = house.gateway.registry
        reply = await worker.engine.upkeep(FlushCache())
        if dialect == "llamacpp-http":
            assert reply is None
            return
        assert reply is not None
        assert reply.done


async def test_a_dialect_of_the_other_kind_is_refused_by_name() -> None:
    with pytest.raises((ConfigError, LookupError), match="vllm-http"):
        async with Gateway(["grpc://127.0.0.1:1"], config=Config(workers=WorkersConfig(dialect="vllm-http"))):
            pass
    with pytest.raises(
        (ConfigError, LookupError), match="no dialect 'trtllm' at http:// URLs; there are auto, vllm-http"
    ):
        async with Gateway([WorkerSpec("http://127.0.0.1:1", dialect="trtllm")]):
            pass


@every
async def test_tools_reasoning_and_several_choices(dialect: str) -> None:
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
    async with house_of(dialect) as house:
        free = "structural_tag" not in next(iter(house.gateway.registry)).facts.constraints  # it cannot be made to call
        if free:
            house.engine.say(Reply(tool_calls=(("get_weather", {"city": "Paris"}),)))
        called = (await house.chat("Call get_weather", tools=[tool], tool_choice="auto" if free else "required")).json()
        several = (await house.chat("Hello", n=3, max_tokens=5, temperature=1.0)).json()
    (call,) = called["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    json.loads(call["function"]["arguments"])
    assert [each["index"] for each in several["choices"]] == [0, 1, 2]


@pytest.mark.parametrize("stream", [True, False])
async def test_llamacpp_loses_no_character_that_takes_several_tokens(stream: bool) -> None:
    text = "one \N{GRINNING FACE}\N{WAVING HAND SIGN} two \u9f98 three"
    async with house_of("llamacpp-http") as house:
        house.engine.say(Reply(text))
        answer = await house.chat("Hello", stream=stream, logprobs=True, max_tokens=64)
        if stream:
            chunks = [json.loads(each.data) for each in SseReader().feed(answer.content) if each.data != "[DONE]"]
            deltas = [choice for chunk in chunks for choice in chunk["choices"]]
            said = "".join(each["delta"].get("content") or "" for each in deltas)
            rows = [row for each in deltas for row in (each.get("logprobs") or {}).get("content") or ()]
        else:
            (choice,) = answer.json()["choices"]
            said, rows = choice["message"]["content"], choice["logprobs"]["content"]
    assert said == text
    assert bytes(byte for row in rows for byte in row["bytes"]).decode() == text


async def test_llamacpp_is_asked_for_a_whole_answer_where_the_ids_are_told() -> None:
    async with house_of("llamacpp-http", SimulatorConfig(reply_tokens=4)) as house:
        house.engine.say(Reply("\N{GRINNING FACE}"))
        ids = {"input_ids": [5, 6, 7], "sampling_params": {"max_new_tokens": 32}}
        told = (await house.http.post("/generate", json=ids)).json()["output_ids"]
        (worker,) = house.gateway.registry
        model = house.gateway.models.get(worker.models[0])
    assert model.tokenizer.decode(told) == "\N{GRINNING FACE}"


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@every
async def test_an_answer_that_an_engine_over_http_began_is_ended_by_one_over_grpc(dialect: str) -> None:
    chained = SimulatorConfig(chained=40, block_size=4096)
    asked = body("Hello", max_tokens=60, temperature=0.0)
    async with AsyncExitStack() as stack:
        broken = SimulatedEngine(
            attrs.evolve(chained, faults=(Fault("cut", after=5),)), http_server=engine_http_server("127.0.0.1:0")
        )
        sound = SimulatedEngine(chained)
        for each in (broken, sound):
            await stack.enter_async_context(each)
        specs = [WorkerSpec(broken.http_target, dialect=dialect), WorkerSpec(sound.target, dialect="vllm")]
        config = attrs.evolve(CALM, routing=RoutingConfig(policy="round_robin"))
        gateway = await stack.enter_async_context(Gateway(specs, config=config))
        await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
        http = await stack.enter_async_context(gateway.http_client(httpx, base_url="http://gateway", headers=JSON))
        answers = [(await http.post("/v1/chat/completions", json=asked)).json() for _ in range(4)]
    assert len({each["choices"][0]["message"]["content"] for each in answers}) == 1
    assert broken.counters["faults"] == 1

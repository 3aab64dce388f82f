"""Another gateway as the worker of a model: Chat Completions through two gateways in a row, alone and beside engines that take
token ids."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually, over_http, settled
from tests.gateway.fleet import ALERT, CALM, Prefer, joined
from tests.gateway.test_failures import taken_apart
from tests.gateway.test_mixed_fleet import SCHEMA, WEATHER
from tests.shared import PATIENCE
from tokenizers import AddedToken, Tokenizer

from smg_core import Config, Gateway
from smg_core.hooks import FormatViolation, RequestFinished, Retrying
from smg_core.pipeline.settings import StructuredConfig
from smg_core.routing import Policy
from smg_core.testing import MemoryObserver
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.testing import tool_call

pytestmark = pytest.mark.anyio

WORDS = "one two three four five six seven"
SAYS = SimulatorConfig(rules=(Rule((), Reply(WORDS)),))
PACED = SimulatorConfig(reply_tokens=2000, timing=Timing(decode_rate=100))


@attrs.define
class Row(House):
    """The near gateway, and the far one that is its worker."""

    far: House = attrs.field(kw_only=True)


@asynccontextmanager
async def in_a_row(
    simulator: SimulatorConfig | None = None,
    *more: WorkerSpec,
    config: Config = CALM,
    far_config: Config | None = None,
    policy: Policy | None = None,
) -> AsyncIterator[Row]:
    """A gateway whose worker is a gateway before an embedded engine; `more` are further workers of it."""
    observer = MemoryObserver()
    async with over_http(simulator or SAYS, config=far_config) as far:
        gateway = Gateway([WorkerSpec(far.url, name="far"), *more], config=config, observer=observer, policy=policy)
        async with gateway, gateway.http_client(httpx, base_url="http://gateway") as http:
            for worker in gateway.registry:
                await joined(gateway, worker.name)
            yield Row(gateway, http, observer, own=far.engines, far=far)


# ------------------------------------------------------------------------------------------------------------ the only one


@pytest.mark.full
@pytest.mark.parametrize("streaming", [False, True])
async def test_json_of_a_chat_server_is_held_to_its_format_too(streaming: bool) -> None:
    mending = attrs.evolve(CALM, structured=StructuredConfig(on_violation="repair"))
    cut = SimulatorConfig(replies=(Reply('{"a": "tea"}'),))
    async with in_a_row(cut, config=mending) as row:
        answer = await row.chat(stream=streaming, response_format={"type": "json_object"}, stop=["ea"])
        (broken,) = row.observer.of(FormatViolation)

    text = taken_apart(answer).text if streaming else answer.json()["choices"][0]["message"]["content"]
    assert text == '{"a": "t"}'
    assert broken.mended


@pytest.mark.full
@pytest.mark.parametrize("streaming", [False, True])
async def test_an_answer_passes_through_two_gateways(streaming: bool) -> None:
    async with in_a_row() as row:
        served = (await row.http.get("/v1/models")).json()["data"]
        answer = await row.chat(stream=streaming)
        await settled(row)
        (finished,) = row.observer.of(RequestFinished)
        (beyond,) = row.far.observer.of(RequestFinished)

    text = taken_apart(answer).text if streaming else answer.json()["choices"][0]["message"]["content"]
    assert [each["id"] for each in served] == ["sim"]
    assert text == WORDS
    assert (finished.worker, finished.outcome, finished.finish) == ("far", "ok", ("stop",))
    assert (finished.prompt_tokens, finished.completion_tokens) == (beyond.prompt_tokens, beyond.completion_tokens)


async def test_a_stream_of_generate_content_says_no_count_before_it_is_known() -> None:
    asked = {"contents": [{"parts": [{"text": "Hello"}]}]}
    async with in_a_row() as row:
        counted: list[list[int | None]] = []
        for house in (row.http, row.far.http):  # the far one has the engine itself, which counts before it answers
            answer = await house.post("/v1beta/models/sim:streamGenerateContent?alt=sse", json=asked)
            chunks = [json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")]
            counted.append([chunk.get("usageMetadata", {}).get("promptTokenCount") for chunk in chunks])
    (*unknown, whole), known = counted
    assert len(unknown) > 1
    assert set(unknown) == {None}
    assert set(known) == {whole}
    assert whole


async def test_usage_is_the_far_engines() -> None:
    async with in_a_row() as row:
        whole = (await row.chat()).json()["usage"]
        direct = (await row.far.chat()).json()["usage"]
        streamed = await row.chat(stream=True, stream_options={"include_usage": True})

    usage = [json.loads(event)["usage"] for event in taken_apart(streamed).events if '"usage":{' in event]
    assert whole["prompt_tokens"] == direct["prompt_tokens"] == usage[-1]["prompt_tokens"]
    assert whole["completion_tokens"] == direct["completion_tokens"] == usage[-1]["completion_tokens"]


@pytest.mark.full
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_tool_call_arrives_with_its_arguments(streaming: bool) -> None:
    async with in_a_row(SimulatorConfig(replies=(tool_call("get_weather", {"city": "Zürich"}),))) as row:
        answer = await row.chat(stream=streaming, tools=[WEATHER])

    if streaming:
        deltas = [json.loads(event)["choices"] for event in taken_apart(answer).events if event.startswith("{")]
        calls = [call for choices in deltas for each in choices for call in each["delta"].get("tool_calls") or ()]
        name, arguments = (
            calls[0]["function"]["name"],
            "".join(call["function"].get("arguments") or "" for call in calls),
        )
        finish = next(each["finish_reason"] for choices in deltas for each in choices if each["finish_reason"])
    else:
        (choice,) = answer.json()["choices"]
        (call,) = choice["message"]["tool_calls"]
        name, arguments, finish = call["function"]["name"], call["function"]["arguments"], choice["finish_reason"]
    assert (name, json.loads(arguments), finish) == ("get_weather", {"city": "Zürich"}, "tool_calls")


@pytest.mark.full
async def test_structured_output_choices_and_logprobs_arrive() -> None:
    async with in_a_row(SimulatorConfig()) as row:
        held = (await row.chat(response_format=SCHEMA)).json()
        several = (await row.chat(n=3, temperature=1, max_tokens=4, logprobs=True, top_logprobs=2)).json()

    assert {"yes", "why"} == set(json.loads(held["choices"][0]["message"]["content"]))
    assert [choice["index"] for choice in several["choices"]] == [0, 1, 2]
    assert all(len(choice["logprobs"]["content"]) == 4 for choice in several["choices"])


@pytest.mark.full
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 10**6}, "max_tokens"),
        ({"logit_bias": {"999999999": 1}}, "logit_bias"),
        ({"n": 2, "prompt_logprobs": 1}, "prompt_logprobs"),
    ],
)
async def test_what_the_far_gateway_refuses_is_refused_here(fields: dict[str, Any], param: str) -> None:
    async with in_a_row() as row:
        answer = await row.chat(**fields)
        after = await row.chat()

    assert answer.status_code == 400, answer.text
    assert after.status_code == 200


async def test_an_engine_that_fails_beyond_the_far_gateway_is_an_error_here_and_names_no_address() -> None:
    async with in_a_row() as row:
        row.engine.inject(Fault("error", message="CUDA error at /opt/vllm"))
        answer = await row.chat()
        row.engine.inject(Fault("error", after=3))
        broken = taken_apart(await row.chat(stream=True))

    assert answer.status_code == 500
    assert not [hint for hint in ("127.0.0.1", "vllm", "CUDA") if hint in answer.text]
    assert len(broken.errors) == 1
    assert not broken.done


async def test_a_model_that_nobody_serves_is_404_at_the_near_gateway_already() -> None:
    async with in_a_row() as row:
        answer = await row.http.post(CHAT, json=body(model="other"))

    assert answer.status_code == 404
    assert not row.far.observer.moments or all(each.status == 200 for each in row.far.observer.of(RequestFinished))


async def test_a_client_that_leaves_has_the_far_engine_told() -> None:
    async with in_a_row(PACED) as row:
        asked = asyncio.create_task(row.chat(stream=True))
        await eventually(lambda: row.engine.counters["tokens"])
        asked.cancel()
        await asyncio.wait([asked])
        await settled(row)
        await eventually(lambda: row.engine.aborted)
        await eventually(lambda: row.observer.of(RequestFinished) and row.far.observer.of(RequestFinished))
        near, beyond = (house.observer.of(RequestFinished)[0].outcome for house in (row, row.far))

    assert (near, beyond) == ("client_gone", "client_gone")
    assert len(row.engine.aborted) == 1


@pytest.mark.full
async def test_a_far_gateway_that_goes_and_comes_back_is_used_again() -> None:
    async with in_a_row(config=ALERT) as row:
        (worker,) = row.gateway.registry
        await row.engine.stop()
        await eventually(lambda: worker.state == "unreachable", PATIENCE)
        away = await row.chat()
        await row.engine.start()
        await joined(row.gateway, "far")
        back = await row.chat()

    assert (away.status_code, back.status_code) == (503, 200)


# --------------------------------------------------------------------------------------------- beside engines that take ids


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("wanted", ["far", "ids"])
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_gateway_and_an_engine_of_one_model_give_the_same_answer(wanted: str, streaming: bool) -> None:
    async with SimulatedEngine(SAYS) as engine:
        spec = WorkerSpec(engine.target, name="ids")
        async with in_a_row(SAYS, spec, policy=Prefer(wanted)) as row:
            answer = await row.chat(stream=streaming)
            (finished,) = row.observer.of(RequestFinished)
            (far, _) = row.gateway.registry

    text = taken_apart(answer).text if streaming else answer.json()["choices"][0]["message"]["content"]
    assert text == WORDS
    assert finished.worker == wanted
    assert not far.facts.takes_ids


@pytest.mark.full
@pytest.mark.parametrize("lost", ["far", "ids"])
async def test_either_takes_over_from_the_other(lost: str) -> None:
    async with SimulatedEngine(SAYS) as engine:
        spec = WorkerSpec(engine.target, name="ids")
        async with in_a_row(SAYS, spec, policy=Prefer(lost)) as row:
            broken = row.engine if lost == "far" else engine
            broken.inject(*[Fault("refuse")] * 6)
            answer = await row.chat()
            streamed = taken_apart(await row.chat(stream=True))
            retried = row.observer.of(Retrying)

    assert answer.json()["choices"][0]["message"]["content"] == streamed.text == WORDS
    assert {each.worker for each in retried} == {lost}


@pytest.mark.full
async def test_a_model_first_served_by_a_gateway_is_encoded_here_once_an_engine_joins_and_until_it_leaves() -> None:
    async with SimulatedEngine(SAYS) as engine, in_a_row(SAYS) as row:
        before = (await row.gateway.explain(body("Hello"))).token_ids
        row.gateway.add_worker(WorkerSpec(engine.target, name="ids"))
        await joined(row.gateway, "ids")
        between = (await row.gateway.explain(body("Hello"))).token_ids
        answers = [await row.chat() for _ in range(4)]
        await row.gateway.remove_worker("ids")
        after = await row.chat()

    assert len(before) == 0
    assert len(between) > 0
    assert [answer.status_code for answer in [*answers, after]] == [200] * 5


@pytest.mark.full
async def test_engines_that_follow_one_another_beside_a_gateway_are_each_served_with_their_own_tokenizer(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "other"
    shutil.copytree(MODEL_FOLDER, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([AddedToken("there")])
    tokenizer.save(str(folder / "tokenizer.json"))
    other = SimulatorConfig(model="/models/sim", model_folder=str(folder))
    async with SimulatedEngine(SAYS) as one, SimulatedEngine(other) as two, in_a_row(SAYS) as row:
        ids = []
        for name, engine in (("one", one), ("two", two)):
            row.gateway.add_worker(WorkerSpec(engine.target, name=name, model="sim"))
            await joined(row.gateway, name)
            ids.append(list((await row.gateway.explain(body("Hello there"))).token_ids))
            await row.gateway.remove_worker(name)

    assert ids[0] != ids[1]
    assert all(ids)

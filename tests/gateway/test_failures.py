"""Engines that fail, in every way the embedded one can: what the client sees, and that nothing is left behind."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import openai
import pytest
from tests.gateway.conftest import CHAT, House, body, eventually, in_process, settled

from smg_core import Config, Gateway
from smg_core.hooks import AttemptEnded, ExchangeEnded, RequestFinished, Retrying, WorkerStateChanged
from smg_core.observability.access_lines import access_fields
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.testing import MemoryObserver
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

ALERT = Config(workers=WorkersConfig(health_interval_s=0.1))
HASTY = Config(workers=WorkersConfig(health_interval_s=0.1), timeouts=TimeoutsConfig(request_s=0.3, stream_s=0.3))
IMPATIENT = attrs.evolve(ALERT, timeouts=TimeoutsConfig(token_s=0.3))
"""For a stall in mid-stream: the wait for the first token has no bound that a busy machine could reach."""
STAYING = WorkersConfig(health_interval_s=0.1, migrations=0)
"""Answers that have begun do not go on with other workers (test_migration.py has those that do)."""
MESSAGES = "/v1/messages"
LONG = "one two three four five six seven eight nine ten. "
SAYS = SimulatorConfig(rules=(Rule((), Reply(LONG)),))


@attrs.frozen
class Answer:
    """A streamed answer taken apart: what the client saw of it, and how it ended."""

    status: int
    text: str
    errors: tuple[dict[str, Any], ...]
    done: bool
    events: tuple[str, ...]


async def stream(house: House, text: str = "Hello", **fields: Any) -> Answer:
    return taken_apart(await house.chat(text, stream=True, **fields))


def taken_apart(answer: httpx.Response) -> Answer:
    events = tuple(part.removeprefix("data: ") for part in answer.text.split("\n\n") if part)
    told = [json.loads(event) for event in events if event.startswith("{")]
    pieces = [each["choices"][0]["delta"].get("content") or "" for each in told if each.get("choices")]
    errors = tuple(each["error"] for each in told if "error" in each)
    return Answer(answer.status_code, "".join(pieces), errors, "[DONE]" in events, events)


def error_of(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The error of a whole answer, which names nothing internal."""
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert not [hint for hint in ("127.0.0.1", "unix:", ".sock", "/tmp", "fault was asked") if hint in answer.text]
    return error


def tasks() -> set[Any]:
    """All tasks but those that live as long as the gateway (the watch over workers, what runs beside the requests) and the
    embedded engines' own, which come and go."""
    kinds = {task: task.get_coro() for task in asyncio.all_tasks()}
    lasting = {each for each, coro in kinds.items() if getattr(coro, "__qualname__", "").startswith("Monitor.")}
    lasting |= {each for each, coro in kinds.items() if "cython" in type(coro).__module__}
    return {each for each in kinds.keys() - lasting if not each.get_name().startswith("beside ")}


@asynccontextmanager
async def nothing_left(house: House) -> AsyncIterator[None]:
    """What was counted, called and started inside is over soon after."""
    before = tasks()
    yield
    await settled(house)
    await eventually(lambda: not tasks() - before)


@asynccontextmanager
async def before(*engines: SimulatedEngine, config: Config = ALERT) -> AsyncIterator[House]:
    """A gateway before engines that come and go as the test says; it is not waited for."""
    observer = MemoryObserver()
    gateway = Gateway([engine.target for engine in engines], config=config, observer=observer)
    await gateway.start()
    try:
        async with gateway.http_client(httpx, base_url="http://gateway") as http:
            yield House(gateway, http, observer, own=engines)
    finally:
        await gateway.stop()


# ------------------------------------------------------------------------------------------------------- down and back


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_engine_that_is_down_is_503_with_when_to_come_back_and_no_address(streaming: bool) -> None:
    async with before(SimulatedEngine(listen="127.0.0.1:1")) as house:
        answer = await house.chat(stream=streaming)
        ready = await house.http.get("/readiness")
        alive = await house.http.get("/liveness")

    error = error_of(answer, 503)
    assert int(answer.headers["retry-after"]) >= 1
    assert error["type"] == "server_error"
    assert (ready.status_code, alive.status_code) == (503, 200)


async def test_the_official_client_raises_that_the_service_is_unavailable() -> None:
    async with before(SimulatedEngine(listen="127.0.0.1:1")) as house:
        http = house.gateway.http_client(openai)
        client = openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0)
        with pytest.raises(openai.InternalServerError) as error:
            await client.chat.completions.create(model="sim", messages=[{"role": "user", "content": "a"}])

    assert error.value.status_code == 503


async def test_an_engine_that_goes_and_comes_back_is_used_again_by_the_same_gateway() -> None:
    async with SimulatedEngine(SAYS) as engine, before(engine) as house:
        await house.gateway.ready()
        (worker,) = house.gateway.registry
        assert (await house.chat()).status_code == 200
        await engine.stop()
        error_of(await house.chat(), 503)
        await eventually(lambda: worker.state == "unreachable")
        gone = await house.chat()
        error_of(gone, 503)
        assert gone.headers["retry-after"]
        assert (await house.http.get("/health")).status_code == 503
        await engine.start()
        await eventually(lambda: worker.state == "ready")
        answer = await stream(house)
        await settled(house)
        changes = [(each.before, each.after) for each in house.observer.of(WorkerStateChanged)]

    assert answer.done
    assert changes == [("joining", "ready"), ("ready", "unreachable"), ("unreachable", "ready")]


@pytest.mark.full
async def test_an_engine_that_is_late_is_taken_in_when_it_comes() -> None:
    async with SimulatedEngine(SAYS) as engine:
        await engine.stop()
        async with before(engine) as house:
            error_of(await house.chat(), 503)
            await engine.start()
            await house.gateway.ready()
            assert (await house.chat()).status_code == 200


async def test_one_failure_tells_at_once_that_a_worker_is_gone_and_the_others_go_on() -> None:
    async with in_process(SAYS, engines=2, config=Config()) as house:
        await house.engine.stop()
        answers = await asyncio.gather(*(house.chat() for _ in range(10)))
        await eventually(lambda: [worker.state for worker in house.gateway.registry] == ["unreachable", "ready"])

    assert [answer.status_code for answer in answers] == [200] * 10


async def test_all_workers_dead_is_503() -> None:
    async with in_process(SAYS, engines=3) as house, nothing_left(house):
        for engine in house.gateway.engines:
            await engine.stop()
        for _ in range(3):
            answer = await house.chat()
            error_of(answer, 503)
            assert answer.headers["retry-after"]
        streamed = await stream(house)

    assert streamed.status == 503


# ------------------------------------------------------------------------------------------------- before the first byte

LOST = [
    Fault("refuse"),
    Fault("refuse", status="RESOURCE_EXHAUSTED"),
    Fault("cut"),
    Fault("cut", status="CANCELLED"),
    Fault("restart"),
]


@pytest.mark.full
@pytest.mark.sampled(per=("fault",))
@pytest.mark.parametrize("fault", LOST, ids=lambda fault: f"{fault.kind} {fault.status}")
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_worker_lost_before_the_first_byte_is_replaced_and_the_client_sees_nothing(
    fault: Fault, streaming: bool
) -> None:
    async with in_process(SAYS, engines=2, config=ALERT) as house, nothing_left(house):
        house.engine.inject(fault)
        answer = await house.chat(stream=streaming)
        retried = house.observer.of(Retrying)
        finished = house.observer.of(RequestFinished)
        ids = [request.id for engine in house.gateway.engines for request in engine.requests]

    text = taken_apart(answer).text if streaming else answer.json()["choices"][0]["message"]["content"]
    assert text == LONG
    assert [each.worker for each in retried] == ["simulator-0"]
    assert [each.outcome for each in finished] == ["ok"]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("fault", [Fault("cut", after=4), Fault("restart", after=4)], ids=lambda fault: fault.kind)
async def test_a_whole_answer_is_begun_again_elsewhere_however_far_it_was(fault: Fault) -> None:
    async with in_process(SAYS, engines=2, config=ALERT) as house, nothing_left(house):
        house.engine.inject(fault)
        answer = await house.chat()

    assert answer.json()["choices"][0]["message"]["content"] == LONG
    assert answer.json()["usage"]["completion_tokens"] < 30


@pytest.mark.full
@pytest.mark.parametrize("streaming", [False, True])
async def test_retries_are_bounded(streaming: bool) -> None:
    config = attrs.evolve(ALERT, routing=RoutingConfig(retries=2))
    async with in_process(SAYS, engines=5, config=config) as house, nothing_left(house):
        for engine in house.gateway.engines:
            engine.inject(Fault("refuse"))
        answer = await house.chat(stream=streaming)
        asked = sum(engine.counters["requests"] for engine in house.gateway.engines)

    error_of(answer, 503)
    assert asked == 3


async def test_a_request_the_engine_calls_wrong_is_not_tried_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    async with in_process(SAYS, engines=2, config=ALERT) as house, nothing_left(house):
        house.engine.inject(Fault("refuse", status="INVALID_ARGUMENT", message="top_p is odd"))
        answer = await house.chat()

    assert error_of(answer, 400)["message"] == "The engine rejected the request."
    assert "INVALID_ARGUMENT: top_p is …" in caplog.text
    assert not house.observer.of(Retrying)


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault("error", message="CUDA error at /opt/vllm/worker.py"), 500),
        (Fault("error", after=3), 500),
        (Fault("garbage"), 502),
        (Fault("garbage", after=3), 502),
        (Fault("silence"), 502),
        (Fault("silence", after=3), 502),
    ],
    ids=lambda value: f"{value.kind} after {value.after}" if isinstance(value, Fault) else str(value),
)
async def test_an_engine_that_fails_at_a_whole_answer_is_a_clean_error(fault: Fault, status: int) -> None:
    async with in_process(SAYS) as house, nothing_left(house):
        house.engine.inject(fault)
        answer = await house.chat()
        after = await house.chat()

    assert error_of(answer, status)["type"] == "server_error"
    assert "vllm" not in answer.text
    assert after.status_code == 200


# -------------------------------------------------------------------------------------------------- after the first byte


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(
    "fault",
    [
        Fault("cut", after=4),
        Fault("error", after=4),
        Fault("error", after=4, status="RESOURCE_EXHAUSTED"),
        Fault("garbage", after=4),
        Fault("silence", after=4),
        Fault("restart", after=4),
        Fault("stall", after=4),
    ],
    ids=lambda fault: f"{fault.kind} {fault.status}",
)
async def test_a_stream_that_breaks_ends_with_one_error_in_band_and_is_not_begun_again(fault: Fault) -> None:
    paced = attrs.evolve(SAYS, timing=Timing(decode_rate=200))
    staying = attrs.evolve(IMPATIENT, workers=STAYING)
    async with in_process(paced, engines=2, config=staying) as house, nothing_left(house):
        house.engine.inject(fault)
        broken = await stream(house, stream_options={"include_usage": True})
        asked = [engine.counters["requests"] for engine in house.gateway.engines]
        (finished,) = house.observer.of(RequestFinished)

    assert broken.status == 200
    assert LONG.startswith(broken.text)
    assert broken.text
    (error,) = broken.errors
    assert "error" in broken.events[-1]
    assert not broken.done
    assert set(error) == {"message", "type", "param", "code"}
    assert "fault was asked" not in error["message"]
    assert asked == [1, 0]
    assert finished.outcome != "ok"
    assert finished.completion_tokens >= 1  # what came in one read with the fault may be lost with it


async def test_the_official_client_raises_an_error_that_comes_in_band() -> None:
    paced = attrs.evolve(SAYS, timing=Timing(decode_rate=200))
    async with in_process(paced) as house:
        house.engine.inject(Fault("error", after=4))
        http = house.gateway.http_client(openai)
        client = openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0)
        answer = await client.chat.completions.create(
            model="sim", messages=[{"role": "user", "content": "a"}], stream=True
        )
        with pytest.raises(openai.APIError, match="engine"):
            [chunk async for chunk in answer]


@pytest.mark.full
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_stall_ends_with_504_when_the_request_is_out_of_time_and_the_engine_is_told(streaming: bool) -> None:
    async with in_process(SAYS, config=HASTY) as house, nothing_left(house):
        house.engine.inject(Fault("stall"))
        answer = await house.chat(stream=streaming)
        (request,) = house.engine.requests
        await eventually(lambda: request.id in house.engine.aborted)

    error_of(answer, 504)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("path", "asked", "told"),
    [
        (MESSAGES, {"max_tokens": 90}, "api_error"),
        (CHAT, {}, '"finish_reason":"abort"'),
    ],
)
async def test_an_answer_that_is_aborted_at_the_engine_is_told_as_such(
    streaming: bool, path: str, asked: dict[str, Any], told: str
) -> None:
    async with in_process(SAYS) as house, nothing_left(house):
        house.engine.inject(Fault("stall", after=2))
        said = body(stream=streaming, **asked)
        task = asyncio.create_task(house.http.post(path, json=said))
        await eventually(lambda: house.engine.counters["stalled"])
        house.engine.abort_named({request.id for request in house.engine.requests})
        answer = await task

    assert told in answer.text
    assert "end_turn" not in answer.text
    assert answer.status_code == (500 if path == MESSAGES and not streaming else 200)


# ------------------------------------------------------------------------------------------------------------ under load


@pytest.mark.full
async def test_a_worker_that_restarts_under_load_loses_no_whole_request_and_ends_each_stream_once() -> None:
    paced = attrs.evolve(SAYS, timing=Timing(decode_rate=20))
    async with in_process(paced, engines=2, config=Config(workers=STAYING)) as house, nothing_left(house):
        first = house.engine

        async def ask(number: int) -> httpx.Response:
            return await house.chat(f"{number}", stream=number % 4 >= 2)

        first.inject(*[Fault("stall", after=2)] * 80)  # so that it has calls to lose, however slow the machine is
        asked = [asyncio.create_task(ask(number)) for number in range(80)]
        await eventually(lambda: first.counters["stalled"] >= 8)
        first.faults.replace((), {}, clear=True)
        await first.restart(away=0.1)
        asked += [asyncio.create_task(ask(number)) for number in range(80, 120)]
        answers = await asyncio.gather(*asked)
        await eventually(lambda: all(worker.state == "ready" for worker in house.gateway.registry))
        assert (await house.chat()).status_code == 200

    wholes = [answer for number, answer in enumerate(answers) if number % 4 < 2]
    streams = [taken_apart(answer) for number, answer in enumerate(answers) if number % 4 >= 2]
    assert {answer.status_code for answer in wholes} == {200}
    assert {answer.json()["choices"][0]["message"]["content"] for answer in wholes} == {LONG}
    assert any(answer.errors for answer in streams)
    for answer in streams:
        assert answer.status == 200
        assert answer.done != bool(answer.errors)
        assert len(answer.errors) <= 1
        assert answer.text == LONG if answer.done else LONG.startswith(answer.text)


async def test_an_answer_is_refused_before_it_begins_when_more_are_under_way_than_may_be() -> None:
    from smg_core.wire.settings import LimitsConfig

    config = Config(limits=LimitsConfig(concurrent_requests=2))
    async with in_process(SAYS, config=config) as house:
        house.engine.inject(Fault("stall"), Fault("stall"))
        held = [asyncio.create_task(house.chat()) for _ in range(2)]
        await eventually(lambda: house.engine.active == 2)
        answer = await house.chat()
        for task in held:
            task.cancel()
        await asyncio.wait(held)
        await settled(house)
        after = await house.chat()

    error_of(answer, 503)
    assert answer.headers["retry-after"]
    assert after.status_code == 200


async def test_a_post_to_a_gateway_whose_model_is_unknown_as_yet_says_so() -> None:
    async with before(SimulatedEngine(listen="127.0.0.1:1")) as house:
        answer = await house.http.post(CHAT, json=body(model="anything"))

    error_of(answer, 503)


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("kind", ["refuse", "cut", "error", "silence", "garbage"])
async def test_whatever_an_engine_fails_with_the_operator_is_told_what_it_was(kind: Any) -> None:
    async with in_process(SAYS, config=Config(routing=RoutingConfig(retries=0))) as house:
        house.engine.inject(Fault(kind))
        answer = await house.chat()
        (ended,) = house.observer.of(AttemptEnded)

    assert answer.status_code >= 500
    assert ended.detail


# ------------------------------------------------------------------------------------------------------------------ the log

TRACE = "0af7651916cd43dd8448eb211c80319c"
EVERY_API: dict[str, dict[str, Any]] = {
    CHAT: body(),
    "/v1/completions": {"model": "sim", "prompt": "Hello", "max_tokens": 4},
    "/v1/messages": {"model": "sim", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]},
    "/v1/responses": {"model": "sim", "input": "Hello", "store": False},
    "/v1beta/models/sim:generateContent": {"contents": [{"parts": [{"text": "Hello"}]}]},
    "/generate": {"text": "Hello", "sampling_params": {"max_new_tokens": 4}},
}


async def test_the_same_failure_over_all_apis_is_one_line_with_the_ids_of_the_access_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "x-request-id": "mine"}
    async with in_process(SAYS, config=attrs.evolve(ALERT, routing=RoutingConfig(retries=0))) as house:
        for path, fields in EVERY_API.items():
            house.engine.inject(Fault("refuse", status="INVALID_ARGUMENT", message="top_k is invalid"))
            assert (await house.http.post(path, json=fields, headers=headers)).status_code == 400
        access = access_fields(house.observer.of(ExchangeEnded)[0])
    (told,) = [each for each in caplog.records if each.name == "smg.failures"]
    fields = told.fields  # type: ignore[attr-defined]

    ids = ("request_id", "client_request_id", "trace_id")
    assert {name: fields[name] for name in ids} == {name: access[name] for name in ids}
    assert (fields["client_request_id"], fields["trace_id"]) == ("mine", TRACE)
    assert fields["detail"] == "INVALID_ARGUMENT: top_k is invalid"
    assert all(f"{name}={fields[name]}" in told.getMessage() for name in ids)

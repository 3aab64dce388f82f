"""Requests wait before a model whose workers are full: in which order, who is refused and how, and what leaves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from bench.overload import shed
from msgspec.structs import replace
from tests.core.pipeline.prompt.test_prepare import asking
from tests.gateway.conftest import CHAT, House, body, eventually, in_process, over_http, settled
from tests.gateway.fleet import Member, fleet
from tests.gateway.test_idempotency import CLASSIFIER, body_of

from smg_core import Config, Gateway
from smg_core.auth.settings import AuthConfig
from smg_core.hooks import FellBack, SilentObserver, WorkerPicked
from smg_core.lease import Population, RequestLease
from smg_core.limit_moments import QueueLeft
from smg_core.pipeline.answer.trace import Trace
from smg_core.queueing.bands import weights_in
from smg_core.queueing.settings import QueueConfig
from smg_core.queueing.waiting import Queueing, QueuePlace
from smg_core.request import Caller, PoolRequest
from smg_core.routing.settings import RoutingConfig
from smg_core.settings import ConfigError
from smg_core.vector_stores.embedding import TextEmbedding
from smg_core.workers.room import WorkersFull
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

QUICK = SimulatorConfig(seed=1, reply_tokens=4)
SLOW = SimulatorConfig(seed=1, reply_tokens=2000, timing=Timing(decode_rate=200))
FROZEN = SimulatorConfig(seed=1, reply_tokens=4, timing=Timing(prefill_rate=0.001))
FROZEN_FULL = attrs.evolve(FROZEN, model="full")
POOLS = SimulatorConfig(generation_model=False, embedding_size=8)


def config(slots: int = 1, auth: AuthConfig | None = None, dialect: str = "vllm", **settings: Any) -> Config:
    return Config(
        queue=QueueConfig(enabled=True, **settings),
        workers=WorkersConfig(most_in_flight=slots, dialect=dialect),
        auth=auth or AuthConfig(),
    )


def queues(house: House) -> Queueing:
    found = house.gateway.services.live.queueing
    assert isinstance(found, Queueing)
    return found


def waiting(house: House) -> int:
    return sum(each.queue.waiting for each in queues(house)._known.values())


def outcomes(house: House) -> list[tuple[str, str]]:
    return [(each.band, each.outcome) for each in house.observer.of(QueueLeft) if each.outcome]


@asynccontextmanager
async def holding(house: House, **headers: str) -> AsyncIterator[None]:
    """A request that is at work at an engine meanwhile, and is left then."""
    running = sum(each.queue.running for each in queues(house)._known.values())
    task = asyncio.create_task(house.http.post(CHAT, json=body(), headers=headers))
    await eventually(lambda: sum(each.queue.running for each in queues(house)._known.values()) > running)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.full
async def test_a_request_waits_while_the_workers_are_full_and_says_its_place_and_its_wait() -> None:
    async with over_http(SLOW, config=config()) as house:
        async with holding(house):
            second = asyncio.create_task(house.chat(max_tokens=1))
            await eventually(lambda: waiting(house) == 1)
        answer = await second

        assert answer.status_code == 200
        assert answer.headers["x-smg-queue-place"] == "1"
        assert int(answer.headers["x-smg-queue-wait-ms"]) >= 0
        assert outcomes(house) == [("standard", "went")]
        await settled(house)
        plain = await house.chat(max_tokens=1)
        assert plain.status_code == 200
        assert "x-smg-queue-place" not in plain.headers


async def test_bands_go_in_their_order_and_a_client_that_leaves_frees_its_place_at_once() -> None:
    async with over_http(SLOW, config=config()) as house:
        done: list[str] = []

        async def ask(band: str) -> None:
            answer = await house.http.post(CHAT, json=body(max_tokens=1), headers={"x-smg-priority": band})
            done.append(band if answer.status_code == 200 else str(answer.status_code))

        async with holding(house):
            tasks: list[asyncio.Task[None]] = []
            for count, band in enumerate(("batch", "standard", "interactive", "system"), 1):
                tasks.append(asyncio.create_task(ask(band)))
                await eventually(lambda count=count: waiting(house) == count)  # type: ignore[misc]
            tasks[1].cancel()
            await eventually(lambda: waiting(house) == 3)
        await asyncio.gather(*tasks, return_exceptions=True)

        assert done == ["system", "interactive", "batch"]
        assert ("standard", "left") in outcomes(house)
        await settled(house)


async def test_the_number_that_waits_is_told_without_those_that_left_and_with_those_that_came_since() -> None:
    def told() -> int:
        return house.observer.of(QueueLeft)[-1].waiting

    async with over_http(SLOW, config=config()) as house:
        tasks: list[asyncio.Task[httpx.Response]] = []

        async def come(more: int) -> None:
            tasks.extend(asyncio.create_task(house.chat()) for _ in range(more))
            await eventually(lambda: waiting(house) == len(tasks))

        async def leave() -> None:
            tasks.pop().cancel()
            await eventually(lambda: waiting(house) == len(tasks))

        async with holding(house):
            for left in (1, 0):
                await come(1 + left)
                for _ in range(1 + left):
                    await leave()
                assert told() == 0
            await come(2)
            await eventually(lambda: told() == 2)
            await leave()
            assert told() == 1
            await come(1)
            await eventually(lambda: told() == 2)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await settled(house)


async def test_a_key_is_in_the_band_of_its_role_which_a_request_lowers_and_never_raises() -> None:
    auth = AuthConfig(
        keys=("key-of-the-app-one tenant=a role=app", "key-of-tenant-two tenant=b"),
        roles=("app=chat models queue.interactive",),
    )
    async with in_process(SLOW, config=config(auth=auth, wait_s=0.01)) as house:
        one, two = {"authorization": "Bearer key-of-the-app-one"}, {"authorization": "Bearer key-of-tenant-two"}
        async with holding(house, **one):
            for key, asked in ((one, ""), (one, "system"), (one, "batch"), (two, ""), (two, "interactive")):
                headers = {**key, **({"x-smg-priority": asked} if asked else {})}
                assert (await house.http.post(CHAT, json=body(), headers=headers)).status_code == 503
            wrong = await house.http.post(CHAT, json=body(), headers={**one, "x-smg-priority": "first"})
        assert wrong.status_code == 400
        assert wrong.json()["error"]["param"] == "x-smg-priority"
        assert [band for band, _ in outcomes(house)] == ["interactive", "interactive", "batch", "standard", "standard"]


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "x", "9" * 40, "²", ""])
async def test_a_deadline_that_is_none_is_refused_by_name(value: str) -> None:
    async with in_process(QUICK, config=config()) as house:
        answer = await house.http.post(CHAT, json=body(), headers=[(b"x-smg-deadline-ms", value.encode("latin-1"))])
    assert answer.status_code == 400
    assert "x-smg-deadline-ms" in answer.text


async def test_a_request_whose_deadline_passes_in_the_queue_is_told_so() -> None:
    async with in_process(SLOW, config=config()) as house:
        async with holding(house):
            answer = await house.http.post(CHAT, json=body(), headers={"x-smg-deadline-ms": "20"})
        assert answer.status_code == 504
        assert outcomes(house) == [("standard", "deadline")]


async def test_the_role_of_a_key_may_have_a_deadline_which_a_request_shortens_and_never_prolongs() -> None:
    keys = ("key-of-the-app-one tenant=a role=app", "key-of-tenant-two tenant=b")
    auth = AuthConfig(keys=keys, roles=("app=chat embeddings deadline:20",))
    one, two = {"authorization": "Bearer key-of-the-app-one"}, {"authorization": "Bearer key-of-tenant-two"}
    long, short = {"x-smg-deadline-ms": "100000"}, {"x-smg-deadline-ms": "1"}
    vectors = {"model": "sim", "input": "Hello"}
    async with in_process(SLOW, config=config(auth=auth)) as house:
        async with holding(house, **two):
            answers = [
                await house.http.post(CHAT, json=body(), headers=one),
                await house.http.post(CHAT, json=body(stream=True), headers=one | long),
                await house.http.post(CHAT, json=body(), headers=one | short),
                await house.http.post("/v1/embeddings", json=vectors, headers=one),
            ]
            patient = asyncio.create_task(house.http.post(CHAT, json=body(max_tokens=1), headers=two))
            await eventually(lambda: waiting(house) == 1)
        answered = await patient
    assert [each.status_code for each in answers] == [504] * 4
    assert answered.status_code == 200
    assert [outcome for _, outcome in outcomes(house)] == ["deadline"] * 4 + ["went"]


SHED_BUDGET = 160
"""Python calls of a request that is refused, from its head to its answer, which take a quiet machine 78 microseconds of CPU."""

ENVELOPES = {
    "/v1/chat/completions": (503, "type", "server_error"),
    "/v1/completions": (503, "type", "server_error"),
    "/v1/messages": (529, "type", "overloaded_error"),
    "/v1/responses": (503, "code", "server_is_overloaded"),
    "/v1beta/models/sim:generateContent": (503, "status", "UNAVAILABLE"),
}


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("path", ENVELOPES)
async def test_a_full_queue_refuses_in_the_envelope_of_each_api_with_when_to_come_again(path: str) -> None:
    status, member, word = ENVELOPES[path]
    async with over_http(SLOW, config=config(requests=1)) as house:
        async with holding(house):
            other = asyncio.create_task(house.chat(max_tokens=1))
            await eventually(lambda: waiting(house) == 1)
            answer = await house.http.post(path, json=body_of(path.replace("models/sim", "models/{model:path}")))
            assert (answer.status_code, answer.json()["error"][member]) == (status, word)
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.headers["x-smg-queue-place"] == "2"
        assert (await other).status_code == 200
        await settled(house)


ASKED = ("chat", "completions", "generate", "responses", "interactions", "messages", "generate_content", "embeddings")
NOT_ASKED = (":countTokens", "/count_tokens", "/input_tokens", "/cancel", "{id}")


@pytest.mark.full
@pytest.mark.parametrize("simulator", [QUICK, POOLS, CLASSIFIER], ids=["generates", "pools", "classifies"])
async def test_every_route_that_reaches_an_engine_has_a_place_before_its_model_and_gives_it_back(
    simulator: SimulatorConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialect = "neutral" if simulator is CLASSIFIER else "vllm"
    async with in_process(simulator, config=config(4, dialect=dialect)) as house:
        entered: list[object] = []
        real = Queueing._enter

        def enter(*arguments: Any) -> Any:
            entered.append(arguments[1])
            return real(*arguments)

        monkeypatch.setattr(Queueing, "_enter", enter)
        answered = 0
        for route in house.gateway.asgi().routes:
            pattern = route.pattern
            if route.method not in ("POST", "PUT") or route.target.needs not in ASKED or pattern.endswith(NOT_ASKED):
                continue
            path = pattern.replace("{model:path}", "sim").replace("{publisher}", "google")
            path = path.replace("{project}", "p").replace("{location}", "l")
            before = len(entered)
            answer = await house.http.request(route.method, path, json=body_of(pattern))
            await settled(house)
            answered += answer.status_code == 200
            assert answer.status_code != 200 or len(entered) > before, pattern
        assert answered
        for each in queues(house)._known.values():
            assert (each.queue.waiting, each.queue.running, each.queue._tokens, each.places) == (0, 0, 0, {})


async def test_vectors_of_stored_files_wait_behind_all_others_and_those_of_a_search_as_a_request_does() -> None:
    caller, done = Caller("acme"), list[str]()
    async with in_process(POOLS, config=config()) as house:
        services = house.gateway.services
        held = services.admission.readmit(caller, "pooled")
        request = PoolRequest(id="embd-1", model="sim", kind="embed", inputs=("a",), caller=caller)
        assert queues(house).begin_pooled(request, held, Trace(0.0, house.observer), {}, []) is None

        async def vectors(task: str) -> None:
            assert await TextEmbedding(services).vectors(caller, "sim", ["a text"], task)
            done.append(task)

        async with asyncio.TaskGroup() as group:
            for count, task in enumerate(("document", "query"), 1):
                group.create_task(vectors(task))
                await eventually(lambda count=count: waiting(house) == count)  # type: ignore[misc]
            held.settle(None)
        held.release()
    assert done == ["query", "document"]
    assert [each for each in outcomes(house) if each[1] == "went"] == [("standard", "went"), ("batch", "went")]


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
async def test_a_batch_request_that_sent_nothing_is_stopped_for_a_person_and_answered_afterwards(stream: bool) -> None:
    async with over_http(FROZEN, config=config(preempt=True)) as house:
        asked = house.http.post(CHAT, json=body(stream=stream), headers={"x-smg-priority": "batch"})
        first = asyncio.create_task(asked)
        await eventually(lambda: house.engine.active)
        clockwork = house.engine.clockwork
        clockwork.timing, clockwork._prefill_free = Timing(), 0.0  # what comes from now on is answered at once

        person = await house.http.post(CHAT, json=body(), headers={"x-smg-priority": "interactive"})

        assert person.status_code == 200
        answer = await first
        assert answer.status_code == 200
        if stream:
            assert answer.text.count('"finish_reason":"stop"') == 1
            assert answer.text.endswith("data: [DONE]\n\n")
        else:
            assert answer.json()["choices"] == person.json()["choices"]
        assert [each for each in outcomes(house) if each[0] == "batch"] == [("batch", "stopped"), ("batch", "went")]
        await settled(house)
        assert all(not each.places for each in queues(house)._known.values())


@pytest.mark.parametrize("policy", ["round_robin", "least_load", "cache_aware"])
async def test_the_last_engine_that_reads_nothing_is_left_to_people_while_they_come(policy: str) -> None:
    settings = attrs.evolve(config(slots=8), routing=RoutingConfig(policy=policy))
    members = [Member(name, "neutral", FROZEN) for name in "abc"]
    async with fleet(*members, config=settings) as house:
        tasks: list[asyncio.Task[httpx.Response]] = []

        async def send(band: str, text: str) -> str:
            headers = {"x-smg-priority": band}
            tasks.append(asyncio.create_task(house.http.post(CHAT, json=body(text), headers=headers)))
            await eventually(lambda: len(house.observer.of(WorkerPicked)) == len(tasks))
            return house.observer.of(WorkerPicked)[-1].worker

        first = await send("interactive", "Hello " * 300)
        others = [await send("standard", f"{number} " * 300) for number in range(4)]
        second = await send("interactive", "Other " * 300)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len({first, *others}) == 2
    assert second not in {first, *others}


async def test_without_the_setting_nothing_is_stopped() -> None:
    async with over_http(SLOW, config=config()) as house:
        async with holding(house, **{"x-smg-priority": "batch"}):
            person = asyncio.create_task(house.http.post(CHAT, json=body(max_tokens=1)))
            await eventually(lambda: waiting(house) == 1)
        assert (await person).status_code == 200
        assert ("batch", "stopped") not in outcomes(house)


async def test_a_request_that_is_shed_costs_no_more_calls_than_its_budget() -> None:
    _, calls = await shed(10)
    assert calls <= SHED_BUDGET


async def test_when_the_queues_are_switched_off_what_waits_goes_on() -> None:
    async with over_http(SLOW, config=config()) as house:
        async with holding(house):
            second = asyncio.create_task(house.chat(max_tokens=1))
            await eventually(lambda: waiting(house) == 1)
            house.gateway.adopt(attrs.evolve(house.gateway.config, queue=QueueConfig(), workers=WorkersConfig()))
            assert (await second).status_code == 200
        assert house.gateway.services.live.queueing is None
        await settled(house)


async def test_an_unknown_model_has_no_queue() -> None:
    async with in_process(QUICK, config=config()) as house:
        for number in range(20):
            answer = await house.chat(model=f"none-{number}")
            assert answer.status_code == 404
        assert queues(house)._known == {}


async def test_a_streamed_request_waits_as_a_whole_one_does() -> None:
    async with over_http(SLOW, config=config()) as house:
        async with holding(house):
            second = asyncio.create_task(house.chat(max_tokens=1, stream=True))
            await eventually(lambda: waiting(house) == 1)
        answer = await second
        assert answer.text.endswith("data: [DONE]\n\n")
        assert answer.headers["x-smg-queue-place"] == "1"


async def test_a_stop_of_the_gateway_leaves_nothing_waiting() -> None:
    gateway = Gateway.simulated(SLOW, config=config())
    async with gateway, gateway.http_client(httpx, base_url="http://gateway") as http:
        tasks = [asyncio.create_task(http.post(CHAT, json=body())) for _ in range(3)]
        await eventually(lambda: gateway.services.in_flight == 3)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert gateway.services.live.queueing is None


async def test_requests_wait_while_the_workers_of_their_model_are_gone_and_go_to_the_one_that_comes() -> None:
    waits = attrs.evolve(config(), workers=WorkersConfig(most_in_flight=1, health_interval_s=0.1))
    async with SimulatedEngine(QUICK) as other, fleet(Member("first", engine=QUICK), config=waits) as house:
        await house.engine.stop()
        await eventually(lambda: all(each.state != "ready" for each in house.gateway.registry))
        request = asyncio.create_task(house.chat())
        await eventually(lambda: waiting(house) == 1)
        house.gateway.add_worker(Member("other").spec(other))
        assert (await request).status_code == 200


async def test_requests_that_wait_for_a_model_that_is_taken_away_are_told_so() -> None:
    async with fleet(Member("first", engine=FROZEN), config=config()) as house:
        running = asyncio.create_task(house.chat())
        await eventually(lambda: house.engine.active)
        second = asyncio.create_task(house.chat())
        await eventually(lambda: waiting(house) == 1)
        removing = asyncio.create_task(house.gateway.remove_worker("first"))
        await house.engine.stop()
        answer = await second
        assert answer.status_code in (404, 503)
        await asyncio.gather(removing, running)
        assert waiting(house) == 0


@pytest.mark.full
async def test_health_answers_while_ten_times_what_a_model_takes_waits_or_is_refused() -> None:
    async with over_http(FROZEN, config=config(slots=4, requests=16)) as house:
        tasks = [asyncio.create_task(house.chat()) for _ in range(40)]
        await eventually(lambda: sum(task.done() for task in tasks) == 20)
        assert {task.result().status_code for task in tasks if task.done()} == {503}
        assert (await house.http.get("/health")).status_code == 200
        assert (await house.http.get("/v1/models")).status_code == 200
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await settled(house)
        assert all(each.queue._times == [] for each in queues(house)._known.values())


async def test_a_request_that_finds_the_workers_full_after_its_turn_waits_again_and_says_its_place() -> None:
    told: list[tuple[bytes, bytes]] = []
    async with in_process(FROZEN, config=config()) as house:
        lease = RequestLease(Population(), Caller(), "generation", 10)
        request, trace = replace(asking(), model="sim"), Trace(0.0, SilentObserver())
        assert queues(house).begin_generation(request, 1, lease, trace, always=told) is None
        chats = [asyncio.create_task(house.chat()) for _ in range(2)]
        await eventually(lambda: waiting(house) == 2)

        async def begin() -> None:
            raise WorkersFull("full", retry_after=1.0)

        assert isinstance(lease.place, QueuePlace)
        again = asyncio.create_task(lease.place.driven(begin))
        await eventually(lambda: bool(told))
        place = dict(told)
        for task in (*chats, again):
            task.cancel()
        await asyncio.gather(*chats, again, return_exceptions=True)
        lease.release()
    assert place[b"x-smg-queue-place"] == b"2"


async def test_a_request_that_the_queue_of_its_model_refuses_goes_to_the_model_that_answers_in_its_place() -> None:
    chained = attrs.evolve(config(requests=1), routing=RoutingConfig(fallbacks=("full=other",)))
    members = (Member("full", engine=FROZEN_FULL), Member("other", engine=attrs.evolve(QUICK, model="other")))
    async with fleet(*members, config=chained) as house:
        held = [asyncio.create_task(house.chat(model="full")) for _ in range(2)]
        await eventually(lambda: waiting(house) == 1)
        answer = await house.chat(model="full")
        assert answer.status_code == 200
        assert "x-smg-queue-place" not in answer.headers
        assert [(each.model, each.to, each.reason) for each in house.observer.of(FellBack)] == [
            ("full", "other", "overloaded")
        ]
        await eventually(lambda: house.engines[1].counters["finished"] == 1)
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)


async def test_a_name_that_is_split_waits_before_the_model_that_it_gets() -> None:
    split = attrs.evolve(config(), routing=RoutingConfig(splits=("both=full:9,other:1",), split_header="x-which"))
    members = (Member("full", engine=FROZEN_FULL), Member("other", engine=attrs.evolve(QUICK, model="other")))
    async with fleet(*members, config=split) as house:
        held = asyncio.create_task(house.chat(model="full"))
        await eventually(lambda: house.engine.active)
        answer = await house.http.post(CHAT, json=body(model="both"), headers={"x-which": "other"})
        assert answer.status_code == 200
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)


@pytest.mark.parametrize("line", ["acme", "acme=0", "acme=-1", "acme=nan", "acme=inf", "=2", "acme=x"])
async def test_a_weight_that_is_none_keeps_a_gateway_from_starting(line: str) -> None:
    with pytest.raises(ConfigError, match=r"queue\.weights"):
        async with Gateway.simulated(QUICK, config=config(weights=(line,))):
            pass


def test_a_line_says_the_weight_of_a_tenant() -> None:
    assert weights_in(("acme=2", "b=0.5")) == {"acme": 2.0, "b": 0.5}

"""Every call's outcome is reported, with its worker: to the watch, to the policy, and to those who count requests."""

import asyncio
import json
import socket
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, body, eventually, held_back, over_http, settled
from tests.gateway.fleet import CALM, Member, Prefer, Watching, fleet
from tests.gateway.test_failures import taken_apart
from tests.gateway.test_model_choice import GENERATING, asking_of
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.hooks import AttemptEnded, FirstToken, RequestFinished, WorkerStateChanged
from smg_core.http.settings import ServerConfig
from smg_core.observability.settings import ObservabilityConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.wire.settings import LimitsConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

LONG = "one two three four five six seven eight nine ten. "
SAYS = SimulatorConfig(rules=(Rule((), Reply(LONG)),))
SLOW = attrs.evolve(SAYS, timing=Timing(decode_rate=50))
ONE_TRY = attrs.evolve(CALM, routing=RoutingConfig(retries=0))
STAYING = attrs.evolve(CALM, workers=attrs.evolve(CALM.workers, migrations=0))
EXPLAINED = attrs.evolve(CALM, observability=ObservabilityConfig(explain=True))
dialects = pytest.mark.parametrize("dialect", ["vllm", "neutral", "mlx", "sglang", "trtllm", "tokenspeed"])


def finished(house: House) -> RequestFinished:
    (only,) = house.observer.of(RequestFinished)
    return only


async def middle(house: House, **fields: Any) -> "asyncio.Task[Any]":
    """A stream of which the client has seen something."""
    asked = asyncio.create_task(house.chat(stream=True, **fields))
    await eventually(lambda: house.observer.of(FirstToken))
    return asked


# ----------------------------------------------------------------------------------------------------------- to the watch


@pytest.mark.sampled(keep=3)
@dialects
async def test_a_worker_that_dies_in_the_middle_of_a_stream_is_known_to_be_gone_at_once(dialect: str) -> None:
    members = Member("a", dialect, SLOW), Member("b", dialect, SAYS)
    async with fleet(*members, policy=Prefer("a"), config=STAYING) as house:
        asked = await middle(house)
        await house.engine.stop()
        broken = taken_apart(await asked)
        await eventually(lambda: house.gateway.registry.get("a").state == "unreachable")  # type: ignore[union-attr]
        after = await house.chat()
        changes = [(each.worker, each.after) for each in house.observer.of(WorkerStateChanged)]

    assert len(broken.errors) == 1
    assert after.status_code == 200
    assert changes == [("a", "ready"), ("b", "ready"), ("a", "unreachable")]


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@dialects
async def test_a_worker_that_is_gone_before_the_first_byte_is_known_to_be_gone_at_once(dialect: str) -> None:
    async with fleet(Member("a", dialect, SAYS), Member("b", dialect, SAYS), policy=Prefer("a")) as house:
        await house.engine.stop()
        answer = await house.chat()
        await eventually(lambda: house.gateway.registry.get("a").state == "unreachable")  # type: ignore[union-attr]

    assert answer.status_code == 200


async def test_a_stream_that_was_cut_by_an_engine_that_is_well_costs_it_nothing() -> None:
    async with fleet(Member("a", engine=SLOW)) as house:
        house.engine.inject(Fault("cut", after=3))
        await house.chat(stream=True)
        await settled(house)
        after = await house.chat()
        (worker,) = house.gateway.registry
        assert worker.state == "ready"

    assert after.status_code == 200


# ---------------------------------------------------------------------------------------------------------- to the policy


@pytest.mark.sampled(per=("fault",), keep=4)
@pytest.mark.parametrize(
    ("fault", "failed"),
    [
        (None, False),
        (Fault("refuse"), True),
        (Fault("cut", after=3), True),
        (Fault("error", after=3), True),
        (Fault("garbage", after=3), True),
        (Fault("silence", after=3), True),
        (Fault("refuse", status="RESOURCE_EXHAUSTED"), True),
        (Fault("refuse", status="INVALID_ARGUMENT"), False),
    ],
    ids=lambda value: f"{value.kind} {value.status}" if isinstance(value, Fault) else None,
)
@pytest.mark.parametrize("streaming", [False, True])
@dialects
async def test_the_policy_is_told_of_every_call_and_whether_it_was_the_workers_fault(
    dialect: str, streaming: bool, fault: Fault | None, failed: bool
) -> None:
    policy = Watching()
    async with fleet(Member("a", dialect, SAYS), policy=policy, config=ONE_TRY) as house:
        house.engine.inject(fault)
        await house.chat(stream=streaming)
        await settled(house)
        told = list(policy.ended)

    assert [(each.worker, each.failed) for each in told] == [("a", failed)]
    assert told[0].seconds >= 0


async def test_a_client_that_leaves_is_no_fault_of_the_worker() -> None:
    policy = Watching()
    endless = SimulatorConfig(reply_tokens=2000, timing=Timing(decode_rate=100))
    async with fleet(Member("a", engine=endless), policy=policy) as house:
        asked = await middle(house)
        asked.cancel()
        await asyncio.wait([asked])
        await settled(house)
        await eventually(lambda: policy.ended)
        (ended,) = house.observer.of(AttemptEnded)

    assert [each.failed for each in policy.ended] == [False]
    assert ended.outcome == "abandoned"


async def test_a_request_that_is_refused_before_an_engine_is_called_has_no_outcome() -> None:
    policy = Watching()
    async with fleet(Member("a"), policy=policy) as house:
        await house.chat(cache_salt="x")
        await house.chat(max_tokens=10**9)
        ended = house.observer.of(AttemptEnded)

    assert policy.ended == ended == []


async def test_each_try_is_told_with_the_worker_it_was_made_at() -> None:
    policy = Watching("a")
    async with fleet(Member("a", engine=SAYS), Member("b", "neutral", SAYS), policy=policy) as house:
        house.engine.inject(Fault("refuse"))
        await house.chat()
        ends = [(each.worker, each.attempt, each.outcome) for each in house.observer.of(AttemptEnded)]

    assert [(each.worker, each.failed) for each in policy.ended] == [("a", True), ("b", False)]
    assert ends == [("a", 1, "WorkerGone"), ("b", 2, "ok")]


# ----------------------------------------------------------------------------------------------------- usage before failure


@pytest.mark.sampled(per=("kind",), keep=2)
@dialects
@pytest.mark.parametrize("kind", ["cut", "error", "silence", "garbage"])
async def test_a_stream_that_breaks_says_what_was_used_before_it_says_that_it_failed(dialect: str, kind: Any) -> None:
    async with fleet(Member("a", dialect, SLOW), config=ONE_TRY) as house:
        house.engine.inject(Fault(kind, after=5))
        answer = await house.chat(stream=True, stream_options={"include_usage": True})
        ended = finished(house)

    *_, counted, error = [json.loads(event) for event in taken_apart(answer).events]
    assert "error" in error
    assert counted["choices"] == []
    assert counted["usage"]["prompt_tokens"] == ended.prompt_tokens > 0
    assert counted["usage"]["completion_tokens"] == ended.completion_tokens > 0


# ------------------------------------------------------------------------------------------------ to those who count requests


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_finished_request_says_its_worker_its_tries_its_first_output_and_why_it_ended(streaming: bool) -> None:
    async with fleet(Member("a", engine=SAYS), Member("b", "neutral", SAYS), policy=Prefer("a")) as house:
        house.engine.inject(Fault("refuse"))
        await house.chat(stream=streaming, n=2, temperature=1)
        ended = finished(house)

    assert (ended.worker, ended.attempts, ended.outcome, ended.status) == ("b", 2, "ok", 200)
    assert ended.finish == ("stop", "stop")
    assert (ended.first_seconds is not None) is streaming  # in one piece: its time says how long all of it took
    assert 0 <= (ended.first_seconds or 0) <= ended.seconds


@pytest.mark.parametrize("stream", [False, True])
async def test_on_every_api_the_time_to_the_first_output_is_that_of_streams_alone(stream: bool) -> None:
    async with fleet(Member("a", engine=SAYS)) as house:
        for path, fields in GENERATING:
            path, body = asking_of(path, fields, "sim", stream=stream)
            assert (await house.http.post(path, json=body)).status_code == 200
            for ended in (house.observer.of(RequestFinished)[-1], house.observer.of(AttemptEnded)[-1]):
                assert (ended.first_seconds is not None) is stream, (path, ended)


@pytest.mark.parametrize(("fields", "finish"), [({"max_tokens": 2}, "length"), ({"stop": ["three"]}, "stop")])
async def test_a_finished_request_says_why_the_model_stopped(fields: dict[str, Any], finish: str) -> None:
    async with fleet(Member("a", engine=SAYS)) as house:
        await house.chat(**fields)

        assert finished(house).finish == (finish,)


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_request_that_nothing_came_of_has_no_time_to_the_first_output(streaming: bool) -> None:
    async with fleet(Member("a", engine=SAYS), config=ONE_TRY) as house:
        house.engine.inject(Fault("refuse"))
        await house.chat(stream=streaming)
        ended = finished(house)

    assert (ended.worker, ended.attempts, ended.first_seconds, ended.finish) == ("a", 1, None, ())
    assert (ended.outcome, ended.status, ended.completion_tokens) == ("WorkerGone", 503, 0)


async def test_a_request_that_no_worker_was_chosen_for_names_none() -> None:
    async with fleet(Member("a")) as house:
        await house.chat(max_tokens=10**9)
        ended = finished(house)

    assert (ended.worker, ended.attempts, ended.first_seconds) == ("", 0, None)


async def test_a_stream_that_breaks_has_a_first_output_and_no_finish() -> None:
    async with fleet(Member("a", engine=SLOW), config=ONE_TRY) as house:
        house.engine.inject(Fault("cut", after=3))
        await house.chat(stream=True)
        ended = finished(house)

    assert ended.first_seconds is not None
    assert (ended.finish, ended.outcome) == ((), "WorkerGone")


# ------------------------------------------------------------------------------------------------------- the explain header


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_explain_header_says_no_number_that_is_not_known(streaming: bool) -> None:
    async with fleet(Member("a", engine=SAYS), config=EXPLAINED) as house:
        answer = await house.http.post(
            "/v1/chat/completions",
            json={"model": "sim", "messages": [{"role": "user", "content": "Hello"}], "stream": streaming},
            headers={"x-smg-explain": "1"},
        )
        told = json.loads(answer.headers["x-smg-explain"])
        ended = finished(house)

    assert (told["worker"], told["policy"], told["tries"]) == ("a", "round_robin", 1)
    assert told["prompt_tokens"] == ended.prompt_tokens
    assert told.get("completion_tokens", ended.completion_tokens) == ended.completion_tokens
    assert told.get("cached_tokens", ended.cached_tokens) == ended.cached_tokens
    if streaming:
        assert "completion_tokens" not in told
    assert list(told["phases_ms"])[-1] == ("first_token" if streaming else "generate")


async def test_the_explain_header_counts_the_tries_and_names_the_last_worker() -> None:
    members = Member("a", engine=SAYS), Member("b", "neutral", SAYS)
    async with fleet(*members, config=EXPLAINED, policy=Prefer("a")) as house:
        house.engine.inject(Fault("refuse"))
        answer = await house.http.post(
            "/v1/chat/completions",
            json={"model": "sim", "messages": [{"role": "user", "content": "Hello"}]},
            headers={"x-smg-explain": "1"},
        )

    told = json.loads(answer.headers["x-smg-explain"])
    assert (told["worker"], told["tries"], told["policy"]) == ("b", 2, "prefer")


async def test_a_rehearsal_knows_prompt_and_worker_and_nothing_of_an_answer() -> None:
    async with fleet(Member("a", "neutral", SAYS)) as house:
        found = await house.gateway.explain({"model": "sim", "messages": [{"role": "user", "content": "Hello"}]})
        asked = house.engine.counters["requests"]

    assert (found.worker, found.notes["dialect"], asked) == ("a", "neutral", 0)
    assert found.token_ids
    assert (found.completion_tokens, found.cached_tokens) == (None, None)
    assert {"tries", "first_token"}.isdisjoint(phase.name for phase in found.phases)


# ---------------------------------------------------------------------------------------------------------- to a shutdown


HURRIED = Config(server=ServerConfig(drain_s=0.2), limits=LimitsConfig(response_buffer_bytes=65536))
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


@pytest.mark.full
async def test_a_stream_that_a_shutdown_cut_before_a_client_that_does_not_read_is_not_counted_as_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "uvicorn.error")
    endless = SimulatorConfig(rules=(Rule((), Reply(LONG * 5000)),))
    asking = json.dumps(body(stream=True)).encode()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        async with over_http(endless, config=HURRIED) as house:
            client.connect(("127.0.0.1", int(house.url.rsplit(":", 1)[1])))
            client.sendall(HEAD % len(asking) + asking)
            await eventually(lambda: house.observer.of(FirstToken))
            await held_back(house)
            house.server._asked_to_leave()
            await eventually(lambda: house.server.should_exit)
            under_way = list(house.server.server_state.tasks)
            await eventually(
                lambda: "Finished server process" in caplog.text, PATIENCE
            )  # uvicorn has cancelled what was left
            for task in under_way:
                task.cancel()  # as the event loop's end does
            await asyncio.gather(*under_way, return_exceptions=True)
            ended = finished(house)

    assert ended.outcome == "Draining"
    assert ended.status == 503


@pytest.mark.full
async def test_a_request_whose_body_a_shutdown_does_not_wait_for_is_counted() -> None:
    async with over_http(config=HURRIED) as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rsplit(":", 1)[1]))
        writer.write(HEAD % 100 + b"{")
        await eventually(lambda: house.server.server_state.tasks)
        house.server._asked_to_leave()
        answer = await reader.read()
        writer.close()
        ended = finished(house)

    assert answer.startswith(b"HTTP/1.1 503")
    assert (ended.outcome, ended.status, ended.model) == ("Draining", 503, "")

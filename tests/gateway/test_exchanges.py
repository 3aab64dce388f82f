"""What is told of every HTTP request, and what becomes of a fault that nobody had foreseen."""

import asyncio
import json
import logging

import httpx
import pytest
from tests.gateway.conftest import CHAT, body, eventually, in_process, over_http

from smg_core.hooks import AttemptEnded, ExchangeEnded, RequestFinished
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SAYS = SimulatorConfig(rules=(Rule((), Reply("Yes.")),))


@pytest.mark.full
async def test_every_route_is_told_with_status_and_bytes() -> None:
    async with over_http(SAYS) as house:
        whole = await house.http.post(CHAT, json=body(), headers={"x-request-id": "mine"})
        streamed = await house.http.post(CHAT, json=body(stream=True))
        models, lost = await house.http.get("/v1/models"), await house.http.get("/nowhere")
        await eventually(lambda: len(house.observer.of(ExchangeEnded)) == 4)
        told = house.observer.of(ExchangeEnded)

    answers = (whole, streamed, models, lost)
    assert [each.status for each in told] == [200, 200, 200, 404]
    assert [each.sent for each in told] == [len(answer.content) for answer in answers]
    assert [each.path for each in told] == [CHAT, CHAT, "/v1/models", "/nowhere"]
    assert [each.method for each in told] == ["POST", "POST", "GET", "GET"]
    assert all(each.peer.startswith("127.0.0.1:") for each in told)
    assert [each.client_id or each.request_id for each in told] == [
        answer.headers["x-request-id"] for answer in answers
    ]
    assert told[0].client_id == "mine"
    assert told[0].finished is not None


async def test_what_is_refused_before_the_app_sees_it_is_told_too() -> None:
    async with over_http(SAYS) as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
        writer.write(b"GET /v1/models HTTP/1.1\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        (told,) = house.observer.of(ExchangeEnded)

    assert (told.status, told.path, told.outcome) == (400, "/v1/models", "InvalidRequest")


@pytest.mark.parametrize("where", ["decode", "drive"])
async def test_a_fault_that_nobody_had_foreseen_counts_as_error_500_and_is_traced_once(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_process(SAYS) as house:

        async def fails(*_: object) -> None:
            raise RuntimeError("nobody had foreseen this")

        if where == "decode":
            monkeypatch.setattr("smg_core.serving.inference.Inference._admit", fails)
        else:
            monkeypatch.setattr(house.gateway.services.running.driver, "drive", fails)
        answers = [await house.chat() for _ in range(3)]
        told, finished = house.observer.of(ExchangeEnded), house.observer.of(RequestFinished)

    assert {answer.status_code for answer in answers} == {500}
    assert not [answer for answer in answers if "foreseen" in answer.text]
    assert {(each.outcome, each.status) for each in told} == {("error", 500)}
    assert {(each.outcome, each.status) for each in finished} == {("error", 500)}
    assert len(told) == len(finished) == 3
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


async def test_what_an_engine_says_of_its_failure_is_for_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    secret = "secret grpc://10.0.0.5 /opt/x"
    async with in_process(SAYS) as house:
        for status in ("INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL", "FAILED_PRECONDITION", "OUT_OF_RANGE"):
            house.engine.inject(Fault("refuse", status=status, message=secret))
        answers = [await house.http.post(CHAT, json=body(), headers={"x-request-id": f"mine-{n}"}) for n in range(5)]
        ended = house.observer.of(AttemptEnded)

    assert not [answer for answer in answers if "secret" in answer.text]
    assert all(secret in each.detail for each in ended)
    lines = [record.getMessage() for record in caplog.records if record.name == "smg.failures"]
    assert len(lines) == 5
    for number, line in enumerate(lines):
        assert not [word for word in secret.split() if word in line]  # it may be a client's
        assert f"client_request_id=mine-{number}" in line
        assert ended[number].request_id in line
        assert ended[number].worker in line


async def test_the_explain_header_names_no_address() -> None:
    from smg_core import Config, Gateway
    from smg_core.observability.settings import ObservabilityConfig
    from smg_simulator.server.grpc_server import SimulatedEngine

    async with SimulatedEngine(SAYS) as engine:
        gateway = Gateway([engine.target], config=Config(observability=ObservabilityConfig(explain=True)))
        async with gateway, gateway.http_client(httpx, base_url="http://gateway") as http:
            answer = await http.post(CHAT, json=body(), headers={"x-smg-explain": "1"})

    told = json.loads(answer.headers["x-smg-explain"])
    assert told["worker"] == "worker-1"
    assert engine.target not in answer.headers["x-smg-explain"]

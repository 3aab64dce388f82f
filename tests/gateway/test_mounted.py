"""The gateway inside an application that runs no lifespan for it: the first request starts it."""

import asyncio
import logging
import subprocess
import sys
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from tests.gateway.conftest import CHAT, body
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.server.settings import ServerConfig
from smg_core.simulator.engine import SimulatorConfig

pytestmark = pytest.mark.anyio


def client(gateway: Gateway, framework: Any = Starlette) -> httpx.AsyncClient:
    """A client of an application that has the gateway mounted at /llm, and does not run its lifespan."""
    application = framework()
    application.mount("/llm", gateway.asgi())
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(application), base_url="http://localhost/llm", timeout=PATIENCE
    )


@pytest.mark.parametrize("framework", [Starlette, FastAPI])
async def test_first_requests_wait_for_the_start_and_for_a_worker(framework: Any) -> None:
    gateway = Gateway.simulated(SimulatorConfig(), config=Config(server=ServerConfig(first_wait_s=PATIENCE)))
    async with client(gateway, framework) as http:
        answers = await asyncio.gather(*(http.post(CHAT, json=body()) for _ in range(8)))
    await gateway.stop()

    assert [answer.status_code for answer in answers] == [200] * 8


@pytest.mark.parametrize("wrong", ["127.0.0.1:50160", "ftp://gpu-0"])
async def test_a_start_that_fails_is_an_error_in_the_envelope_with_its_cause_in_the_log(
    wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = Gateway([wrong])
    with caplog.at_level(logging.CRITICAL):
        async with client(gateway) as http:
            answers = [await http.post(CHAT, json=body()) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [500] * 3
    assert answers[0].json()["error"]["message"] == "The gateway cannot start; its log says why."
    assert wrong not in answers[0].text
    assert [record.message for record in caplog.records if wrong in record.message] == [caplog.records[0].message]


async def test_a_start_that_failed_is_tried_again() -> None:
    engine = Gateway.simulated()
    gateway = Gateway(["grpc://gpu-0"])
    async with engine, client(gateway) as http:
        refused = await http.post(CHAT, json=body())
        gateway._specs = [each.spec for each in engine.registry]
        answered = await http.post(CHAT, json=body())
        await gateway.stop()

    assert (refused.status_code, answered.status_code) == (500, 200)


WITHOUT_STOP = """
import asyncio
import sys
import httpx
from starlette.applications import Starlette
from smg_core import Gateway

async def ask():
    application = Starlette()
    application.mount("/llm", Gateway.simulated().asgi())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost") as http:
        print((await http.get("/llm/v1/models", timeout=60)).status_code)

for _ in range(int(sys.argv[1])):
    asyncio.run(ask())
"""


@pytest.mark.parametrize("times", [1, 20])
async def test_the_gateway_stops_without_a_word_when_the_event_loop_ends(times: int) -> None:
    command = [sys.executable, "-X", "faulthandler", "-W", "error", "-c", WITHOUT_STOP, str(times)]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE)

    assert (ran.stdout, ran.stderr, ran.returncode) == ("200\n" * times, "", 0)

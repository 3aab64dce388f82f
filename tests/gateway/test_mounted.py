"""The gateway inside an application that runs no lifespan for it: the first request starts it."""

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from tests.gateway.conftest import CHAT, body
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.auth.settings import AuthConfig
from smg_core.http.settings import ServerConfig
from smg_simulator.engine.engine import SimulatorConfig

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


async def test_a_start_that_fails_is_an_error_in_the_envelope_with_its_cause_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = str(tmp_path / "no-such-keys")
    gateway = Gateway(["grpc://gpu-0:50051"], config=Config(auth=AuthConfig(keys_file=wrong)))
    with caplog.at_level(logging.CRITICAL):
        async with client(gateway) as http:
            answers = [await http.post(CHAT, json=body()) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [500] * 3
    assert answers[0].json()["error"]["message"] == "The gateway cannot start; its log says why."
    assert wrong not in answers[0].text
    assert [record.message for record in caplog.records if wrong in record.message] == [caplog.records[0].message]


async def test_a_start_that_failed_is_tried_again(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    engine = Gateway.simulated()
    async with engine:
        gateway = Gateway([each.spec for each in engine.registry], config=Config(auth=AuthConfig(keys_file=str(keys))))
        async with client(gateway) as http:
            refused = await http.post(CHAT, json=body())
            keys.write_text("sk-own-0123456789abcdef tenant=acme")
            keys.chmod(0o600)
            own = {"authorization": "Bearer sk-own-0123456789abcdef"}
            answered = await http.post(CHAT, json=body(), headers=own)
            await gateway.stop()

    assert (refused.status_code, answered.status_code) == (500, 200)


@pytest.mark.parametrize("started", ["by a request", "by its context"])
async def test_a_gateway_that_was_stopped_refuses_requests_on_every_route_until_it_is_started_again(
    started: str,
) -> None:
    gateway = Gateway.simulated(config=Config(server=ServerConfig(first_wait_s=PATIENCE)))
    async with client(gateway) as http:
        if started == "by a request":
            assert (await http.post(CHAT, json=body())).status_code == 200
            await gateway.stop()
        else:
            async with gateway:
                assert (await http.post(CHAT, json=body())).status_code == 200
        for method, path in [("GET", "/health"), ("GET", "/v1/models"), ("POST", CHAT), ("POST", "/v1/messages")]:
            refused = await http.request(method, path, json=body() if method == "POST" else None)
            assert refused.status_code in (503, 529), (path, refused.text)
            assert "The gateway was stopped." in refused.text
        assert not gateway.started
        assert repr(gateway).startswith("<Gateway stopped: ")

        async with gateway:
            assert (await http.post(CHAT, json=body())).status_code == 200


async def test_what_waits_for_the_end_of_the_event_loop_ends_when_the_gateway_is_stopped_before() -> None:
    gateway = Gateway.simulated(config=Config(server=ServerConfig(first_wait_s=PATIENCE)))
    before = asyncio.all_tasks()
    async with client(gateway) as http:
        assert (await http.post(CHAT, json=body())).status_code == 200
        await gateway.stop()
        async with gateway:  # what waited for the first end leaves the second life alone
            assert (await http.post(CHAT, json=body())).status_code == 200
            assert not [each for each in asyncio.all_tasks() - before if each.get_name() == "end with the event loop"]
            assert gateway.started


async def test_a_lifespan_that_has_ended_is_no_stop_by_hand(caplog: pytest.LogCaptureFixture) -> None:
    gateway = Gateway.simulated(config=Config(server=ServerConfig(first_wait_s=PATIENCE)))
    events, sent = asyncio.Queue[dict[str, str]](), list[Any]()

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await events.put({"type": "lifespan.startup"})
    await events.put({"type": "lifespan.shutdown"})
    await gateway.asgi()({"type": "lifespan"}, events.get, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    async with client(gateway) as http:
        assert (await http.post(CHAT, json=body())).status_code == 200
    await gateway.stop()


DROPPED = """
import asyncio
import gc
import httpx
from smg_core import Gateway

async def ask():
    http = Gateway.simulated().http_client(httpx, base_url="http://gateway")
    print((await http.get("/v1/models", timeout=60)).status_code)

async def main():
    await ask()
    gc.collect()
    for _ in range(10):
        await asyncio.sleep(0)
    gc.collect()

asyncio.run(main())
"""


@pytest.mark.full
async def test_a_gateway_that_a_request_started_and_nobody_keeps_ends_without_a_word() -> None:
    command = [sys.executable, "-X", "faulthandler", "-W", "error::RuntimeWarning", "-c", DROPPED]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE)

    assert (ran.stdout, ran.stderr, ran.returncode) == ("200\n", "", 0)


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


@pytest.mark.full
@pytest.mark.parametrize("times", [1, 20])
async def test_the_gateway_stops_without_a_word_when_the_event_loop_ends(times: int) -> None:
    command = [sys.executable, "-X", "faulthandler", "-W", "error", "-c", WITHOUT_STOP, str(times)]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE)

    assert (ran.stdout, ran.stderr, ran.returncode) == ("200\n" * times, "", 0)

"""The key that Google's clients put into the query is in no line of any log and in no answer, whatever becomes of the request."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.shared import PATIENCE
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from smg_core import Config, Gateway
from smg_core.apis.gemini.encode import GeminiWholeEncoder
from smg_core.hooks import ExchangeEnded
from smg_core.http.settings import ServerConfig
from smg_core.observability.logs import AccessLog
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SECRET = "AIzaSySecretSecretSecret"
MODEL = "/v1beta/models/sim:generateContent"
STREAM = "/v1beta/models/sim:streamGenerateContent"
CONTENTS = {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"maxOutputTokens": 5}}
QUICK = SimulatorConfig(seed=1)


class Lines(logging.Handler):
    """Every line of every log, as text with its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Any:
    handler, root = Lines(), logging.getLogger()
    handler.addFilter(
        lambda record: not record.name.startswith(("httpx", "httpcore", "websockets"))
    )  # the client's own
    monkeypatch.setattr(root, "level", logging.DEBUG)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.INFO)  # as uvicorn does itself
    root.addHandler(handler)
    yield handler.said
    root.removeHandler(handler)


@asynccontextmanager
async def under_uvicorn(simulator: SimulatorConfig, *, config: Config) -> AsyncIterator[House]:
    """The app under uvicorn as it comes, with uvicorn's own access log."""
    async with Gateway.simulated(simulator, config=config, observer=AccessLog()) as gateway:
        server = uvicorn.Server(uvicorn.Config(gateway.asgi(), port=0, lifespan="off", log_config=None))
        running = asyncio.create_task(server.serve())
        await eventually(lambda: server.started)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False) as http:
            yield House(gateway, http, None, url, server)  # type: ignore[arg-type]
        server.should_exit = True
        await running


Way = Callable[..., AbstractAsyncContextManager[House]]


async def raw(house: House, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
    writer.write(sent)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.full
@pytest.mark.parametrize("way", [over_http, under_uvicorn])
async def test_a_key_in_the_query_is_told_to_nobody(
    way: Way, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("a fault of the gateway's own")

    told: list[bytes] = []
    async with way(QUICK, config=Config(server=ServerConfig(parse_routes=True))) as house:
        key = {"key": SECRET}

        async def ask(method: str, path: str, **more: Any) -> None:
            answer = await house.http.request(method, path, params=key, **more)
            told.append(answer.content + str(answer.headers).encode())

        for path in (MODEL, STREAM):
            await ask("POST", path, json=CONTENTS)
            await ask("POST", path, json={"contents": 5})
            await ask("POST", path, content=b"{", headers={"content-type": "text/plain"})
            for fault in (Fault("error"), Fault("error", 2), Fault("garbage", 1), Fault("cut", 2)):
                house.engine.inject(fault)
                await ask("POST", path, json=CONTENTS)
        for path in (
            "/v1beta/models",
            "/v1beta/models/none",
            "/nowhere",
            "/v1/responses/x",
            "/health",
            "/openapi.json",
        ):
            await ask("GET", path)
            await ask("FOO", path)
            await ask("DELETE", path)
        for request in (
            f"GET /v1beta/models?key={SECRET} HTTP/1.1\r\n\r\n",
            f"GET /v1beta/models?key={SECRET} HTTP/1.0\r\n\r\n",
            f"GET /v1beta/models?key={SECRET} HTTP/9.9\r\nhost: x\r\n\r\n",
            f"GET /v1beta/models?key={SECRET}{'x' * 100_000} HTTP/1.1\r\nhost: x\r\n\r\n",
            f"GET /v1beta/models?key={SECRET}\x01 HTTP/1.1\r\nhost: x\r\n\r\n",
            f"GET /v1beta/models?key={SECRET} HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
            f"GET http://[/v1beta/models?key={SECRET} HTTP/1.1\r\nhost: x\r\n\r\n",
        ):
            told.append(await raw(house, request.encode()))  # noqa: PERF401  (one after the other)
        for path in ("/v1/responses", "/nowhere"):
            try:
                async with connect(f"{house.url.replace('http', 'ws', 1)}{path}?key={SECRET}", proxy=None) as talk:
                    await talk.send('{"type": "zzz"}')
                    told.append(str(await talk.recv()).encode())
            except WebSocketException as error:
                told.append(str(error).encode())
        monkeypatch.setattr(GeminiWholeEncoder, "__init__", broken)
        await ask("POST", MODEL, json=CONTENTS)
        await settled(house)

    assert any("Traceback" in line for line in lines)
    assert [line for line in lines if SECRET in line] == []
    assert [answer for answer in told if SECRET.encode() in answer] == []


TARGETS = {
    "GET": [
        f"http://user:{SECRET}@h/v1/models",
        f"http://user:{SECRET}@h",
        f"http://user:{SECRET}@h?x={SECRET}",
        f"ftp://user:{SECRET}@h/x",
        f"//user:{SECRET}@h/x",
        f"///user:{SECRET}@h",
        f"http:///user:{SECRET}@h/",
        f"http:/user:{SECRET}@h/",
        f"user:{SECRET}@h",
        f"/v1/none?key={SECRET}",
        f"/v1/none#{SECRET}",
    ],
    "CONNECT": [f"user:{SECRET}@h:443"],
    "OPTIONS": [f"*?{SECRET}"],
}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(("method", "target"), [(method, each) for method in TARGETS for each in TARGETS[method]])
async def test_a_user_or_a_query_of_any_target_is_in_no_line(method: str, target: str, lines: list[str]) -> None:
    async with over_http(QUICK) as house:
        answer = await raw(house, f"{method} {target} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n".encode())
        await eventually(lambda: house.observer.of(ExchangeEnded))
        (ended,) = house.observer.of(ExchangeEnded)
        AccessLog().report(ended)

    assert answer.startswith(b"HTTP/1.1 4")
    assert ended.request_id
    assert f"x-request-id: {ended.request_id}".encode() in answer
    assert SECRET not in repr(ended) + "".join(lines)
    assert "smg.access" in "".join(lines) or "outcome=" in "".join(lines)

"""What clients, tools and files of batches say is in no log, no metric and no span, also where what the gateway needs fails or
leaves: tools, the history, the engine, the clients themselves. Nor are the passwords in its own settings."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.collector import Collector, collecting
from tests.gateway.conftest import CHAT, House, body, over_http, settled
from tests.gateway.test_batches import BRISK, ENDED
from tests.gateway.test_history_failures import overwrite
from tests.gateway.test_metrics import meter_of
from tests.gateway.test_responses_socket import ask, send, talk
from tests.gateway.test_serve import start
from tests.gateway.test_tool_loop import DONE, NOTES, calls, configured
from tests.gateway.tool_server import ToolServer, tool_server
from tests.shared import PATIENCE

from smg_core.cli import main
from smg_core.history.settings import HistoryConfig
from smg_core.hooks import ToolCalled
from smg_core.observability.logs import AccessLog, configure
from smg_core.observability.settings import ObservabilityConfig, TracesConfig
from smg_core.pipeline.settings import TimeoutsConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

PROMPT, ANSWER, ARGUMENT, BATCH = (
    "canary-prompt-9c41",
    "canary-answer-9c41",
    "canary-argument-9c41",
    "canary-batch-9c41",
)
TOKEN, QUERY, METADATA = "canary-token-9c41", "canary-query-9c41", "canary-metadata-9c41"
PASSWORD = "canary-password-9c41"
SECRETS = (PROMPT, ANSWER, ARGUMENT, BATCH, TOKEN, QUERY, METADATA)
SAYS = Reply(f"Well, {ANSWER} it is. " * 40)
ASKED: dict[str, Any] = {"model": "sim", "input": PROMPT, "metadata": {"k": METADATA}}
OWN_PEERS = ("httpx", "httpcore", "mcp", "sse_starlette", "websockets.client", "asyncio")
"""Loggers of the test's own clients and servers, and of asyncio, which names every call of a debug loop."""


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in OWN_PEERS}
    yield
    root.handlers[:] = before
    root.setLevel(level)
    for name, each in levels.items():
        logging.getLogger(name).setLevel(each)


@asynccontextmanager
async def watched(folder: Path, tools: ToolServer, collector: Collector) -> AsyncIterator[House]:
    """A gateway with everything on that says something: tools, a history in a file, batches, traces, a debug log."""
    (folder / "history").mkdir()
    config = attrs.evolve(
        configured(folder, tools, observability=ObservabilityConfig(explain=True, log_level="debug", repeat_s=0)),
        history=HistoryConfig(url=f"sqlite:///{folder}/history/history.db"),
        batches=BRISK,
        traces=TracesConfig(endpoint=collector.url, delay_s=0.02),
        timeouts=TimeoutsConfig(token_s=5.0, first_token_s=5.0),
    )
    configure("debug", "json")
    for name in OWN_PEERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    async with over_http(SimulatorConfig(seed=1, timing=Timing(decode_rate=400)), config=config) as house:
        yield house


async def use_tools(house: House, tools: ToolServer) -> None:
    """Tools that run, that fail, that there are not, and those of a server that only the request names."""
    said = calls(("write", {"note": ARGUMENT}), ("fail", {"why": ARGUMENT}), ("add", {"a": ARGUMENT}), (ARGUMENT, {}))
    own = {**NOTES, "server_label": "own", "authorization": TOKEN, "headers": {"x-key": TOKEN}}
    places = (
        f"{tools.url}?token={QUERY}",
        f"http://127.0.0.1:1/mcp?token={QUERY}",
        f"http://u:{TOKEN}@localhost:1/mcp",
    )
    for stream in (False, True):
        house.engine.say(said, DONE)
        await house.http.post("/v1/responses", json={**ASKED, "tools": [NOTES], "stream": stream})
        for place in places:
            house.engine.say(DONE)
            fields = {**ASKED, "tools": [{**own, "server_url": place}], "stream": stream}
            await house.http.post("/v1/responses", json=fields)
    assert {each.outcome for each in house.observer.of(ToolCalled)} >= {"ok"}
    assert [each for each in tools.ran if ARGUMENT in each]


async def use_a_socket(house: House) -> None:
    """A WebSocket: a good response, messages that are none, and a client that leaves in the middle."""
    async with talk(house, f"/v1/responses?token={QUERY}", additional_headers={"x-key": TOKEN}) as socket:
        house.engine.say(SAYS)
        assert (await ask(socket, input=PROMPT))["type"] == "response.completed"
        await socket.send(f'{{"type": "{PROMPT}", "input": "{ARGUMENT}"')
        await socket.recv()
        await send(socket, input={"x": PROMPT}, model="no-such-model")
        await socket.recv()
        house.engine.say(SAYS)
        await send(socket, input=PROMPT)
        await socket.recv()


async def run_a_batch(house: House) -> None:
    """A batch of requests that work and requests that do not, and a file that is no batch."""
    lines = [
        {"custom_id": f"{BATCH}-{number}", "method": "POST", "url": CHAT, "body": {**body(BATCH), **more}}
        for number, more in enumerate(({}, {"model": "no-such-model"}, {"messages": BATCH}))
    ]
    content = "\n".join(map(json.dumps, lines)) + f'\n{{"custom_id": "{BATCH}'
    async with httpx.AsyncClient(base_url=house.url, trust_env=False, timeout=PATIENCE) as http:
        for text in (content, "\n".join(map(json.dumps, lines)), f"\x00{BATCH}"):
            form = {"file": (f"{BATCH}.jsonl", text.encode(), "application/jsonl")}
            made = await http.post("/v1/files", data={"purpose": "batch"}, files=form)
            assert made.status_code == 200, made.text
            fields = {"input_file_id": made.json()["id"], "endpoint": CHAT, "completion_window": "24h"}
            batch = (await http.post("/v1/batches", json={**fields, "metadata": {"k": METADATA}})).json()
            await batch_ended(house, batch["id"])


async def batch_ended(house: House, id: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await house.http.get(f"/v1/batches/{id}")).json()["status"] not in ENDED:
            await asyncio.sleep(0.01)


async def leave(house: House) -> None:
    """Clients that leave after the first bytes of an answer."""
    for path, fields in (
        (CHAT, body(PROMPT)),
        ("/v1/messages", {"model": "sim", "max_tokens": 500, "messages": [{"role": "user", "content": PROMPT}]}),
        ("/v1/responses", ASKED),
    ):
        house.engine.say(SAYS)
        async with house.http.stream("POST", path, json={**fields, "stream": True}) as answer:
            await anext(answer.aiter_bytes())


async def lose_the_history(house: House, folder: Path) -> list[int]:
    """Requests that need a history that has gone bad; their statuses."""
    kept = (await house.http.post("/v1/responses", json=ASKED)).json()["id"]
    overwrite(folder / "history")
    made = [
        await house.http.post("/v1/responses", json={**ASKED, **more})
        for more in ({}, {"stream": True}, {"background": True}, {"previous_response_id": kept})
    ]
    items = [{"role": "user", "content": PROMPT}]
    made.append(await house.http.post("/v1/conversations", json={"metadata": {"k": METADATA}, "items": items}))
    return [each.status_code for each in made]


async def lose_the_engine(house: House) -> list[int]:
    """Requests whose engine is gone: one in the middle of an answer, and some later; the statuses of these."""
    house.engine.say(SAYS)
    with contextlib.suppress(httpx.TransportError):
        async with house.http.stream("POST", CHAT, json=body(PROMPT, stream=True)) as answer:
            pieces = answer.aiter_bytes()
            await anext(pieces)
            await house.engine.stop()
            async for _ in pieces:
                pass
    return [
        (await house.http.post(path, json=fields)).status_code
        for path, fields in ((CHAT, body(PROMPT)), ("/v1/responses", ASKED), (CHAT, body(PROMPT, stream=True)))
    ]


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("logging_as_before")
async def test_no_content_is_in_a_sink_whatever_fails_or_leaves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meter = meter_of()
    with collecting() as collector:
        async with tool_server() as tools, watched(tmp_path, tools, collector) as house:
            await use_tools(house, tools)
            await use_a_socket(house)
            await run_a_batch(house)
            await leave(house)
            await settled(house)
            stored = await lose_the_history(house, tmp_path)
            gone = await lose_the_engine(house)
            for moment in house.observer.moments:
                for observer in (AccessLog(), meter.recorder):
                    observer.report(moment)
            metrics = (await meter.text("text/plain")).decode()
        spans, sent = collector.spans, b"".join(collector.bytes).decode("utf-8", "replace")
    log = capsys.readouterr().err

    assert {200, 503} <= set(stored)
    assert set(gone) == {503}
    assert {"execute_tool", "store", "decode", "turn"} <= {each.stage for each in spans}
    assert {"client_gone", "ok"} <= {each.attributes.get("smg.outcome") for each in spans}
    for word in ("smg.access", "smg.failures", "could not be kept", "/v1/batches"):
        assert word in log, word  # what is searched has been written
    for name, text in (("log", log), ("metrics", metrics), ("spans", sent)):
        assert [(word, around(text, word)) for word in SECRETS if word in text] == [], name


def around(text: str, word: str) -> str:
    at = text.index(word)
    return text[max(0, at - 300) : at + 100]


@pytest.mark.full
async def test_a_password_in_an_address_of_the_settings_is_in_no_line_of_a_start_that_fails() -> None:
    place = f"u:{PASSWORD}@127.0.0.1:1"
    addresses = ("--history", f"redis://{place}/0", "--traces-endpoint", f"http://{place}")
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), f"http://{place}")
    process = await start(
        "--worker", "grpc://127.0.0.1:1", "--port", "0", "--log-level", "debug", *addresses, env=proxies
    )
    _, told = await process.communicate()

    assert process.returncode == 1
    assert "cannot start" in told.decode()
    assert PASSWORD not in told.decode()


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_an_address_of_a_worker_with_a_password_is_refused_and_not_repeated(
    scheme: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--worker", f"{scheme}://u:{PASSWORD}@127.0.0.1:1"]) == 2
    told = capsys.readouterr()
    assert "must not carry" in told.err
    assert PASSWORD not in told.err + told.out

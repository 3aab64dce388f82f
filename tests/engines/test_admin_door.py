"""The admin door before real engines: loads, an emptied cache, and what an engine has not is said. Run by `make test-engines`."""

import asyncio
from array import array
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
from tests.engines.running import COMES_UP_S, Running
from tests.engines.test_client_suite import ENDLESS, GREETING, HELLO

from smg_core import Config, Gateway
from smg_core.admin.settings import AdminConfig
from smg_core.operation.process_table import ProcessTable
from smg_core.server.admin_listener import admin_listener
from smg_core.server.admin_server import administered

pytestmark = [pytest.mark.anyio, pytest.mark.engines, pytest.mark.timeout(COMES_UP_S + 300)]

STATUS = {"mlx": (501, 501, 501), "vllm": (200, 200, 501), "sglang": (200, 200, 501)}
"""What the engine answers to a question after its load, to emptying its cache, and to loading an adapter: SGLang's dialect
has that call, and its servicer (0.14) does not."""


@pytest.fixture
async def door(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(admin=AdminConfig(port=0))
    listener = admin_listener(config)
    assert listener is not None
    base = f"http://127.0.0.1:{listener.getsockname()[1]}/admin/workers"
    try:
        async with (
            administered(gateway, config, listener, ProcessTable(array("q", bytes(8 * ProcessTable.size(1))))),
            httpx.AsyncClient(base_url=base, timeout=120, trust_env=False) as http,
        ):
            yield http
    finally:
        listener.close()


def row(answer: httpx.Response) -> dict[str, Any]:
    (found,) = answer.json()["workers"]
    return dict(found)


async def until_running(door: httpx.AsyncClient, requests: int) -> None:
    """Return once the engine says that it works on so many; it may say so late, bounded by the test's own time."""
    while row(await door.get("/loads"))["ranks"][0]["running"] != requests:
        await asyncio.sleep(0.1)


async def test_the_admin_door_asks_the_engine_for_its_load_and_to_empty_its_cache(
    engine: Running, client: openai.AsyncOpenAI, model: str, door: httpx.AsyncClient
) -> None:
    loads, flush, adapter = STATUS[engine.engine.name]
    stream = await client.chat.completions.create(model=model, messages=HELLO, **ENDLESS)
    async for _ in stream:
        break
    assert row(await door.get("/loads"))["status"] == loads
    if loads == 200:
        await until_running(door, 1)
    await stream.close()
    if loads == 200:
        await until_running(door, 0)

    assert row(await door.post("/flush_cache", json={"wait_s": 30}))["status"] == flush
    absent = {"name": "absent", "path": "/nowhere"}
    assert row(await door.post("/load_adapter", json=absent))["status"] == adapter
    answer = await client.chat.completions.create(model=model, messages=HELLO, temperature=0)
    assert answer.choices[0].message.content == GREETING

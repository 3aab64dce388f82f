"""The gateway's built-in tools by way of /mcp: code, searches of files and pictures, as the official client has them."""

import base64
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import openai
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.gateway.conftest import House, over_http
from tests.gateway.fleet import joined
from tests.gateway.test_images import colour
from tests.gateway.test_picture_tools import by_name
from tests.gateway.test_vector_stores import BREAD, LAMP, store_of
from tests.interpreters import small_interpreter
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.containers.settings import ContainersConfig
from smg_core.hooks import RequestFinished, ToolCalled
from smg_core.pipeline.settings import McpConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.server.http_server import engine_http_server

pytestmark = pytest.mark.anyio

SAID = '{"stdout": "said", "stderr": ""}'


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("own")
    (folder / "mcp.yaml").write_text("servers: [{name: pictures, protocol: model, model: flux}]")
    config = Config(
        mcp=McpConfig(config=str(folder / "mcp.yaml"), serve="sessions"),
        containers=ContainersConfig(
            interpreter=str(small_interpreter(folder / "interpreter", answer=SAID)), folder=str(folder / "kept")
        ),
    )
    async with (
        over_http(SimulatorConfig(), config=config, identity=by_name) as house,
        SimulatedEngine(SimulatorConfig(model="flux"), http_server=engine_http_server("127.0.0.1:0")) as painter,
    ):
        await joined(house.gateway, house.gateway.add_worker(WorkerSpec(painter.http_target, dialect="openai")).name)
        yield house


@asynccontextmanager
async def connected(house: House, key: str = "acme", mode: Any = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, trust_env=False, timeout=PATIENCE) as http,
        Client(streamable_http_client(f"{house.url}/mcp", http_client=http), mode=mode, cache=None) as client,
    ):
        yield client


@pytest.mark.full
async def test_code_runs_in_a_container_that_the_next_call_may_name(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "smg.tools"):
        async with connected(house) as client:
            first: Any = await client.call_tool("code_interpreter", {"code": "x = 1"})
            container = first.structured_content["container"]
            again: Any = await client.call_tool("code_interpreter", {"code": "x", "container": container})
            gone: Any = await client.call_tool("code_interpreter", {"code": "x", "container": "cntr_none"})
            other: Any = await client.call_tool("code_interpreter", {"code": "x", "container": 1})
            none: Any = await client.call_tool("code_interpreter", {})
    assert first.content[0].text == f"said\n[container: {container}]"
    assert (again.is_error, again.structured_content["container"]) == (False, container)
    assert (gone.is_error, other.is_error, none.is_error) == (True, True, True)
    assert "'code'" in none.content[0].text
    assert "tool code_interpreter for tenant 'acme'" in caplog.text
    assert [(each.server, each.tool, each.outcome) for each in house.observer.of(ToolCalled)][:3] == [
        ("code", "code_interpreter", "ok"),
        ("code", "code_interpreter", "ok"),
        ("code", "code_interpreter", "error"),
    ]


async def test_code_of_a_session_goes_on_in_its_container_where_it_names_none(house: House) -> None:
    async with connected(house, mode="legacy") as client, connected(house, mode="legacy") as other:
        first: Any = await client.call_tool("code_interpreter", {"code": "x = 1"})
        again: Any = await client.call_tool("code_interpreter", {"code": "x"})
        apart: Any = await other.call_tool("code_interpreter", {"code": "x"})
    assert again.structured_content["container"] == first.structured_content["container"]
    assert apart.structured_content["container"] != first.structured_content["container"]


async def test_files_are_searched_in_the_callers_stores_alone(house: House) -> None:
    async with openai.AsyncOpenAI(api_key="acme", base_url=f"{house.url}/v1", max_retries=0) as sdk:
        store = await store_of(sdk, LAMP, BREAD, name="notes")
    async with connected(house) as client:
        found: Any = await client.call_tool(
            "file_search", {"query": "lamp", "vector_store_ids": [store], "max_num_results": 1}
        )
        [result] = found.structured_content["results"]
        assert (result["filename"], result["text"], result["vector_store_id"]) == ("0.txt", LAMP.decode(), store)
        assert "never an instruction" in found.content[0].text
        for wrong in (
            {"query": "lamp"},
            {"query": "lamp", "vector_store_ids": ["vs_none"]},
            {"vector_store_ids": [store]},
        ):
            assert (await client.call_tool("file_search", wrong)).is_error, wrong


async def test_a_picture_is_made_by_the_served_model_in_the_callers_accounts(house: House) -> None:
    async with connected(house) as client:
        made: Any = await client.call_tool("image_generation", {"prompt": "a red fox"})
    assert made.content[1].mime_type == "image/png"
    assert colour(made.content[1].data)[:2]
    assert base64.b64decode(made.content[1].data)
    assert "result" not in made.structured_content
    assert house.observer.of(RequestFinished)[-1].api == "images"


async def test_a_caller_without_the_permissions_is_offered_none(house: House) -> None:
    async with connected(house) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert listed.keys() == {"code_interpreter", "file_search", "image_generation"}
    assert listed["file_search"].input_schema["required"] == ["query", "vector_store_ids"]
    async with connected(house, "none") as client:
        assert (await client.list_tools()).tools == []
        for name in listed:
            with pytest.raises(MCPError, match="no tool"):
                await client.call_tool(name, {"code": "1", "query": "x", "prompt": "x", "vector_store_ids": ["x"]})

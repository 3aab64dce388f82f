"""Python functions that a program gives its gateway: called by models in every API, under the rules of tools of servers."""

import json
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from tests.gateway.conftest import House, over_http
from tests.gateway.realtime import in_order, opened, receive, respond, say, send, talk
from tests.gateway.test_tool_loop import DONE, prompt, says
from tests.gateway.test_tool_permissions import APIS, KEYS, ask, every_api

from smg_core import Config
from smg_core.auth.settings import AuthConfig
from smg_core.pipeline.settings import McpConfig
from smg_mcp import PythonTool, ToolContext, ToolHints
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

RAN: list[str] = []


def add(a: int, b: int) -> str:
    """Adds two numbers.

    Args:
        a: The first.
    """
    RAN.append(f"{a} {b}")
    return f"SUM-{a + b}"


async def fail(why: str) -> None:
    raise RuntimeError(f"BROKEN-{why}")


def whose(context: ToolContext) -> str:
    return f"TENANT-{context.tenant}"


FUNCTIONS = [add, fail, PythonTool(whose, hints=ToolHints(read_only=True))]
OWN: Any = {"type": "mcp", "server_label": "functions", "require_approval": "never"}


def calls(*made: tuple[str, dict[str, Any]]) -> Reply:
    return Reply(tool_calls=tuple((f"functions__{name}", arguments) for name, arguments in made))


ADD = calls(("add", {"a": 2, "b": 3}))


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    auth = AuthConfig(keys=(f"{KEYS['all']} tenant=acme", f"{KEYS['key']} tenant=acme tool=functions.whose"))
    config = Config(mcp=McpConfig(chat=True), auth=auth)
    async with over_http(SimulatorConfig(seed=1), config=config, tools=FUNCTIONS) as house:
        yield house


@every_api
async def test_a_model_calls_a_function_and_answers_with_its_result(house: House, api: str) -> None:
    RAN.clear()
    says(house, ADD, DONE)
    answer = await ask(house, api, "functions", key="all")
    assert answer.status_code == 200, answer.text
    assert RAN == ["2 3"]
    assert "SUM-5" in prompt(house)
    assert "The first." in prompt(house)
    assert "It is done." in answer.text


@every_api
async def test_what_a_function_raises_goes_to_the_model(house: House, api: str) -> None:
    says(house, calls(("fail", {"why": "so"}), ("add", {"a": "x", "b": 1})), DONE)
    answer = await ask(house, api, "functions", key="all")
    assert answer.status_code == 200, answer.text
    assert "RuntimeError: BROKEN-so" in prompt(house)
    assert "the arguments do not fit" in prompt(house)


@every_api
async def test_a_key_bounds_which_functions_are_offered(house: House, api: str) -> None:
    says(house, calls(("whose", {})), DONE)
    answer = await ask(house, api, "functions", key="key")
    assert answer.status_code == 200, answer.text
    assert "functions__add" not in prompt(house)
    assert "TENANT-acme" in prompt(house)


@pytest.mark.full
async def test_a_session_of_realtime_calls_functions() -> None:
    async with over_http(SimulatorConfig(seed=1), tools=FUNCTIONS) as house:
        house.engine.say(ADD, DONE)
        async with talk(house) as socket:
            await opened(socket)
            await send(socket, "session.update", session={"type": "realtime", "tools": [OWN]})
            await receive(socket)
            await say(socket, "2 + 3?")
            events = in_order(await respond(socket))
        assert '"SUM-5"' in json.dumps(events)


async def test_a_call_of_a_function_waits_for_the_users_approval(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    RAN.clear()
    caplog.set_level(logging.INFO, "smg.tools")
    asking = {**OWN, "require_approval": "always"}
    async with openai.AsyncOpenAI(api_key=KEYS["all"], base_url=f"{house.url}/v1", max_retries=0) as client:
        says(house, ADD)
        first = await client.responses.create(model="sim", input="2 + 3?", tools=[asking])
        question = first.output[-1]
        assert question.type == "mcp_approval_request"
        assert RAN == []
        says(house, DONE)
        given: Any = {"type": "mcp_approval_response", "approval_request_id": question.id, "approve": True}
        second = await client.responses.create(
            model="sim", input=[given], previous_response_id=first.id, tools=[asking]
        )
    assert RAN == ["2 3"]
    assert second.output_text == "It is done."
    assert [": asked (" in line or ": approved (" in line for line in caplog.messages if "functions.add" in line] == [
        True
    ] * 2


async def test_a_client_that_is_answered_does_not_wait_for_a_function_that_hangs() -> None:
    go = threading.Event()
    async with over_http(
        SimulatorConfig(seed=1), tools=[PythonTool(go.wait, name="hang", timeout_s=0.05), add]
    ) as house:
        says(house, calls(("hang", {}), ("add", {"a": 1, "b": 1})), DONE)
        answer = await ask(house, "responses", "functions")
        assert answer.status_code == 200, answer.text
        assert "did not answer within 0.05 s" in prompt(house)
        assert "SUM-2" in prompt(house)
        go.set()


@pytest.mark.full
async def test_a_gateway_without_functions_runs_no_tools() -> None:
    async with over_http(SimulatorConfig(seed=1)) as house:
        says(house, DONE)
        body = APIS["responses"].body("functions", "")
        answer = await house.http.post("/v1/responses", json={"model": "sim", **body})
        assert answer.headers["x-smg-not-offered"] == "mcp"
        assert "functions__" not in prompt(house)

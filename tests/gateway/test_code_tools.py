"""Code in the APIs' own forms, run by a server of tools that stands for it, as the official SDKs read it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from tests.gateway.conftest import House, over_http
from tests.gateway.test_tool_loop import prompt, says
from tests.gateway.web_site import calls

from smg_core import Config
from smg_core.apis.responses.wire.grammar import check_stream
from smg_core.auth.base import Head
from smg_core.grants import Grants
from smg_core.pipeline.settings import McpConfig
from smg_core.request import Caller
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CODE: Any = {"type": "code_interpreter", "container": {"type": "auto"}}
OUTPUTS: Any = ["code_interpreter_call.outputs"]
RUN = calls("code_interpreter", code="6 * 7")
SAYS = Reply("It is 42.")
_SERVER = """
servers:
  - name: sandbox
    protocol: python
    functions: ["tests.gateway.test_code_tools:run_python"]
    builtin_type: code_interpreter
    builtin_tool_name: run_python
    tools: {run_python: {arg_mapping: {renames: {code: source}}}}
"""


def run_python(source: str) -> str:
    """Runs Python, of which it knows one program."""
    if source != "6 * 7":
        raise ValueError("NameError: x")
    return "42"


async def by_name(head: Head) -> Caller | None:
    """The key `none` may use no tool."""
    name = head.credential.text if head.credential is not None else "acme"
    return Caller("acme", name, Grants(tools=((),)) if name == "none" else Grants())


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    file = tmp_path_factory.mktemp("code") / "mcp.yaml"
    file.write_text(_SERVER)
    config = Config(mcp=McpConfig(config=str(file)))
    async with over_http(SimulatorConfig(), config=config, identity=by_name) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
        yield client


async def test_a_call_of_code_is_an_item_with_its_code_and_its_outputs(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, RUN, SAYS)
    response = await client.responses.create(model="sim", input="6 * 7?", tools=[CODE], include=OUTPUTS)
    call, message = response.output
    assert call.type == "code_interpreter_call"
    assert (call.code, call.status, call.container_id) == ("6 * 7", "completed", "mcp_sandbox")
    assert call.outputs is not None
    assert [each.to_dict() for each in call.outputs] == [{"type": "logs", "logs": "42"}]
    assert message.type == "message"
    assert "42" in prompt(house)
    kept = await client.responses.retrieve(response.id)
    assert kept.output == response.output


async def test_the_stream_has_the_events_of_a_call_of_code(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, RUN, SAYS)
    stream = await client.responses.create(model="sim", input="6 * 7?", tools=[CODE], stream=True)
    events = [event async for event in stream]
    check_stream([event.to_dict(mode="json") for event in events])
    kinds = [event.type for event in events if "code_interpreter" in event.type]
    assert kinds == [
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
    ]
    assert events[-1].type == "response.completed"
    assert events[-1].response.output[0].to_dict()["outputs"] is None


async def test_code_that_raises_is_told_to_the_model_and_the_call_is_complete(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, calls("code_interpreter", code="x"), SAYS)
    response = await client.responses.create(model="sim", input="x?", tools=[CODE], include=OUTPUTS)
    call = response.output[0]
    assert call.type == "code_interpreter_call"
    assert call.status == "completed"
    assert call.outputs is not None
    assert "NameError" in str(call.outputs[0].to_dict()["logs"])


@pytest.mark.parametrize("type_", ["code_execution_20250522", "code_execution_20250825"])
@pytest.mark.parametrize("streams", [False, True])
async def test_messages_have_the_blocks_of_code_execution(house: House, type_: str, streams: bool) -> None:
    says(house, RUN, SAYS)
    tool: Any = {"type": type_, "name": "code_execution"}
    asked: Any = {"model": "sim", "max_tokens": 100, "messages": [{"role": "user", "content": "6 * 7?"}]}
    async with anthropic.AsyncAnthropic(api_key="x", base_url=house.url, max_retries=0) as client:
        if streams:
            async with client.beta.messages.stream(**asked, tools=[tool]) as stream:
                message = await stream.get_final_message()
        else:
            message = await client.beta.messages.create(**asked, tools=[tool])
        use, result, text = message.content
        assert use.type == "server_tool_use"
        assert (use.name, use.input) == ("code_execution", {"code": "6 * 7"})
        assert result.type == "code_execution_tool_result"
        assert result.tool_use_id == use.id
        assert result.content.type == "code_execution_result"
        assert (result.content.stdout, result.content.return_code) == ("42", 0)
        assert text.type == "text"
        again: Any = [
            *asked["messages"],
            {"role": "assistant", "content": [each.model_dump() for each in message.content]},
            {"role": "user", "content": "And then?"},
        ]
        says(house, SAYS)
        await client.beta.messages.create(**{**asked, "messages": again}, tools=[tool])


async def test_gemini_has_the_parts_of_code_and_of_its_result(house: House) -> None:
    says(house, RUN, SAYS)
    async with genai.Client(api_key="x", http_options=types.HttpOptions(base_url=house.url)).aio as client:
        config = types.GenerateContentConfig(tools=[types.Tool(code_execution=types.ToolCodeExecution())])
        answer = await client.models.generate_content(model="sim", contents="6 * 7?", config=config)
        says(house, calls("code_interpreter", code="x"), SAYS)
        failed = await client.models.generate_content(model="sim", contents="x?", config=config)
    assert answer.executable_code == "6 * 7"
    assert answer.code_execution_result == "42"
    result = failed.candidates[0].content.parts[1].code_execution_result
    assert result.outcome == types.Outcome.OUTCOME_FAILED


async def test_a_key_that_may_not_run_code_is_not_offered_it_and_is_told_so(house: House) -> None:
    async with openai.AsyncOpenAI(api_key="none", base_url=f"{house.url}/v1", max_retries=0) as client:
        says(house, SAYS)
        raw = await client.responses.with_raw_response.create(model="sim", input="6 * 7?", tools=[CODE])
        assert raw.headers["x-smg-not-offered"] == "code_interpreter"
        assert raw.parse().tools[0].type == "code_interpreter"
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(
                model="sim", input="x", tools=[CODE], tool_choice={"type": "code_interpreter"}
            )


async def test_a_call_of_code_can_be_demanded(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, RUN, SAYS)
    chosen: Any = {"type": "code_interpreter"}
    response = await client.responses.create(model="sim", input="6 * 7?", tools=[CODE], tool_choice=chosen)
    assert response.output[0].type == "code_interpreter_call"


@pytest.mark.full
async def test_without_what_runs_code_it_is_accepted_and_not_offered(tmp_path: Path) -> None:
    async with over_http() as house:
        tool = {"type": "code_interpreter", "container": {"type": "auto"}}
        found = await house.http.post("/v1/responses", json={"model": "sim", "input": "x", "tools": [tool]})
        assert found.status_code == 200
        assert found.headers["x-smg-not-offered"] == "code_interpreter"

"""Code of models in the gateway's own containers, by the real interpreter: as the official SDKs see it, with files in and out."""

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from tests.gateway.conftest import House, over_http
from tests.gateway.test_code_tools import by_name
from tests.gateway.test_tool_loop import prompt, says
from tests.gateway.web_site import calls
from tests.interpreters import real_interpreter

from smg_core import Config
from smg_core.containers.settings import ContainersConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.services,
]  # it is built by componentize-py, which tools/services.sh installs

CODE: Any = {"type": "code_interpreter", "container": {"type": "auto"}}
OUTPUTS: Any = ["code_interpreter_call.outputs"]
SAYS = Reply("Done.")


def code(text: str) -> Reply:
    return calls("code_interpreter", code=text)


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = str(tmp_path_factory.mktemp("kept"))
    containers = ContainersConfig(interpreter=str(real_interpreter()), folder=folder, call_s=5.0)
    async with over_http(SimulatorConfig(), config=Config(containers=containers), identity=by_name) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
        yield client


async def test_calls_of_one_response_have_one_container_whose_names_and_files_stay(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, code("x = 6"), code("open('made.txt', 'w').write('made'); x * 7"), SAYS)
    response = await client.responses.create(model="sim", input="6 * 7?", tools=[CODE], include=OUTPUTS)
    first, second, _ = response.output
    assert first.type == second.type == "code_interpreter_call"
    assert first.container_id == second.container_id
    assert second.outputs is not None
    assert second.outputs[0].to_dict()["logs"] == "42"
    assert "/mnt/data/made.txt (4 bytes)" in prompt(house)
    (made,) = [each async for each in client.containers.files.list(second.container_id)]
    assert (made.path, made.source) == ("/mnt/data/made.txt", "assistant")
    content = await client.containers.files.content.retrieve(made.id, container_id=second.container_id)
    assert content.read() == b"made"


async def test_a_container_that_is_named_is_used_again_and_one_that_is_not_there_is_refused(
    house: House, client: openai.AsyncOpenAI
) -> None:
    made = await client.containers.create(name="mine")
    await client.containers.files.create(made.id, file=("a.csv", b"1,2"))
    tool: Any = {"type": "code_interpreter", "container": made.id}
    for text, logs in (("t = open('a.csv').read(); t", "'1,2'"), ("t[0]", "'1'")):
        says(house, code(text), SAYS)
        response = await client.responses.create(model="sim", input="?", tools=[tool], include=OUTPUTS)
        call = response.output[0]
        assert call.type == "code_interpreter_call"
        assert call.container_id == made.id
        assert call.outputs is not None
        assert call.outputs[0].to_dict()["logs"] == logs
    gone: Any = {"type": "code_interpreter", "container": "cntr_" + "0" * 32}
    with pytest.raises(openai.NotFoundError) as found:
        await client.responses.create(model="sim", input="?", tools=[gone])
    assert found.value.param == "tools[0].container"


async def test_files_of_the_request_are_in_its_container(house: House, client: openai.AsyncOpenAI) -> None:
    kept = await client.files.create(file=("in.txt", b"hello"), purpose="user_data")
    says(house, code("open('/mnt/data/in.txt').read()"), SAYS)
    tool: Any = {"type": "code_interpreter", "container": {"type": "auto", "file_ids": [kept.id]}}
    response = await client.responses.create(model="sim", input="?", tools=[tool], include=OUTPUTS)
    call = response.output[0]
    assert call.type == "code_interpreter_call"
    assert call.outputs is not None
    assert call.outputs[0].to_dict()["logs"] == "'hello'"


async def test_code_that_is_stopped_fails_its_call_and_the_model_is_told_why(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, code("while True: pass"), SAYS)
    response = await client.responses.create(model="sim", input="?", tools=[CODE])
    call = response.output[0]
    assert call.type == "code_interpreter_call"
    assert call.status == "failed"
    assert "it took too long. What code had left in memory is gone" in prompt(house)


async def test_messages_have_the_container_and_files_that_code_made_by_the_files_api(house: House) -> None:
    tool: Any = {"type": "code_execution_20250825", "name": "code_execution"}
    asked: Any = {"model": "sim", "max_tokens": 100, "messages": [{"role": "user", "content": "?"}], "tools": [tool]}
    async with anthropic.AsyncAnthropic(api_key="x", base_url=house.url, max_retries=0) as client:
        says(house, code("x = 2\nopen('out.txt', 'w').write('out')"), SAYS)
        message = await client.beta.messages.create(**asked)
        result = message.content[1]
        assert result.type == "code_execution_tool_result"
        assert result.content.type == "code_execution_result"
        (made,) = result.content.content
        downloaded = await client.beta.files.download(made.file_id)
        assert await downloaded.read() == b"out"
        assert message.container is not None
        says(house, code("x"), SAYS)
        async with client.beta.messages.stream(**asked, container=message.container.id) as stream:
            following = await stream.get_final_message()
        again = following.content[1]
        assert again.type == "code_execution_tool_result"
        assert again.content.type == "code_execution_result"
        assert again.content.stdout == "2\n"
        says(house, code("while True: pass"), SAYS)
        late = await client.beta.messages.create(**asked)
        stopped = late.content[1]
        assert stopped.type == "code_execution_tool_result"
        assert stopped.content.type == "code_execution_tool_result_error"
        assert stopped.content.error_code == "execution_time_exceeded"


async def test_gemini_is_told_how_code_has_ended(house: House) -> None:
    async with genai.Client(api_key="x", http_options=types.HttpOptions(base_url=house.url)).aio as client:
        config = types.GenerateContentConfig(tools=[types.Tool(code_execution=types.ToolCodeExecution())])
        for text, outcome in (
            ("print(6 * 7)", types.Outcome.OUTCOME_OK),
            ("1 / 0", types.Outcome.OUTCOME_FAILED),
            ("while True: pass", types.Outcome.OUTCOME_DEADLINE_EXCEEDED),
        ):
            says(house, code(text), SAYS)
            answer = await client.models.generate_content(model="sim", contents="?", config=config)
            parts = answer.candidates[0].content.parts
            assert parts[0].executable_code.code == text
            assert parts[1].code_execution_result.outcome == outcome

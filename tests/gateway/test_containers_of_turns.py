"""Containers of code over several turns, and files that Messages puts into one: with a small interpreter."""

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
from tests.gateway.conftest import House, over_http
from tests.gateway.test_containers import by_name
from tests.gateway.test_tool_loop import says
from tests.gateway.web_site import calls
from tests.interpreters import small_interpreter

from smg_core import Config
from smg_core.containers.settings import ContainersConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

CODE: Any = {"type": "code_interpreter", "container": {"type": "auto"}}
RUN, SAYS = calls("code_interpreter", code="1"), Reply("Done.")


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("turns")
    interpreter = str(small_interpreter(folder / "interpreter"))
    config = Config(containers=ContainersConfig(interpreter=interpreter, folder=str(folder / "kept")))
    async with over_http(SimulatorConfig(), config=config, identity=by_name) as house:
        yield house


def sdk(house: House, key: str = "acme") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key=key, base_url=f"{house.url}/v1", max_retries=0)


async def ran(house: House, client: openai.AsyncOpenAI, tool: Any = CODE, **fields: Any) -> tuple[str, str]:
    """The id of a response, and of the container that its code ran in."""
    says(house, RUN, SAYS)
    response = await client.responses.create(model="sim", input="Go", tools=[tool], **fields)
    call = response.output[0]
    assert call.type == "code_interpreter_call"
    assert call.status == "completed"
    return response.id, call.container_id


@pytest.mark.full
async def test_later_turns_have_the_container_of_the_first_until_it_is_gone(house: House) -> None:
    async with sdk(house) as client:
        first, container = await ran(house, client)
        second, again = await ran(house, client, previous_response_id=first)
        assert again == container
        _, other = await ran(house, client)
        assert other != container
        await client.containers.delete(container)
        _, fresh = await ran(house, client, previous_response_id=second)
        assert fresh not in (container, other)


async def test_a_later_turn_brings_more_files_and_leaves_those_that_are_there(house: House) -> None:
    async with sdk(house) as client:
        one = await client.files.create(file=("one.txt", b"1"), purpose="user_data")
        two = await client.files.create(file=("two.txt", b"2"), purpose="user_data")
        tool: Any = {**CODE, "container": {"type": "auto", "file_ids": [one.id]}}
        first, container = await ran(house, client, tool)
        before = {each.path: each.id async for each in client.containers.files.list(container)}
        tool["container"]["file_ids"].append(two.id)
        await ran(house, client, tool, previous_response_id=first)
        after = {each.path: each.id async for each in client.containers.files.list(container)}
    assert before.keys() == {"/mnt/data/one.txt"}
    assert after.keys() == {"/mnt/data/one.txt", "/mnt/data/two.txt"}
    assert before.items() <= after.items()


async def test_a_container_of_somebody_elses_conversation_is_not_used(house: House) -> None:
    async with sdk(house) as client, sdk(house, "globex") as other:
        _, container = await ran(house, client)
        call: Any = {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "container_id": container}
        call |= {"status": "completed", "outputs": []}
        says(house, RUN, SAYS)
        items: Any = [{"role": "user", "content": "Go"}, call, {"role": "user", "content": "Again"}]
        response = await other.responses.create(model="sim", input=items, tools=[CODE])
        made = response.output[0]
        assert made.type == "code_interpreter_call"
        assert made.container_id != container


async def test_messages_puts_uploads_into_the_container_of_its_code(house: House) -> None:
    async with sdk(house) as client, anthropic.AsyncAnthropic(auth_token="acme", base_url=house.url) as claude:
        file = await client.files.create(file=("a.csv", b"1,2"), purpose="user_data")
        upload: Any = {"type": "container_upload", "file_id": file.id}
        asked: Any = {
            "model": "sim",
            "max_tokens": 100,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Sum it"}, upload]}],
            "tools": [{"type": "code_execution_20250825", "name": "code_execution"}],
        }
        says(house, RUN, SAYS)
        answer = await claude.beta.messages.create(**asked)
        assert answer.container is not None
        files = [each.path async for each in client.containers.files.list(answer.container.id)]
        assert files == ["/mnt/data/a.csv"]
        for wrong in ("file-none", "", 5):
            upload["file_id"] = wrong
            with pytest.raises(anthropic.APIStatusError) as refused:
                await claude.beta.messages.create(**asked)
            assert refused.value.status_code in (400, 404)

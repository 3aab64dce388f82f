"""Built-in tools that clients run, on local models, as the official SDKs read them: shells, patches, the computer, editors."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
from tests.gateway.conftest import House, over_http
from tests.gateway.test_tool_loop import prompt, says
from tests.gateway.web_site import calls

from smg_core.apis.responses.wire.grammar import check_stream
from smg_simulator.answers.pictures import png_of
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SAYS = Reply("Done.")
SHOT = "data:image/png;base64," + base64.b64encode(png_of(64, 64, b"\0\1\2")).decode()
SCREEN: Any = {"type": "computer_screenshot", "image_url": SHOT}
CALLS: dict[str, tuple[dict[str, Any], str, dict[str, Any], dict[str, Any], Any]] = {
    "local_shell": (
        {"type": "local_shell"},
        "local_shell",
        {"command": ["ls", "-a"], "timeout_ms": 5},
        {"action": {"type": "exec", "command": ["ls", "-a"], "env": {}, "timeout_ms": 5}},
        "a file",
    ),
    "shell": (
        {"type": "shell", "environment": {"type": "local"}},
        "shell",
        {"commands": ["ls", "pwd"]},
        {
            "action": {"commands": ["ls", "pwd"], "timeout_ms": None, "max_output_length": None},
            "environment": {"type": "local"},
        },
        [{"stdout": "a file", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    ),
    "apply_patch": (
        {"type": "apply_patch"},
        "apply_patch",
        {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b"},
        {"operation": {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b"}},
        "a file",
    ),
    "computer_use_preview": (
        {"type": "computer_use_preview", "display_width": 800, "display_height": 600, "environment": "linux"},
        "computer",
        {"type": "click", "x": 5, "y": 6, "button": "left"},
        {"action": {"type": "click", "x": 5, "y": 6, "button": "left"}, "pending_safety_checks": []},
        "a file",
    ),
    "computer": (
        {"type": "computer"},
        "computer",
        {"type": "wait"},
        {"actions": [{"type": "wait"}], "pending_safety_checks": []},
        "a file",
    ),
}


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with over_http(SimulatorConfig()) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
        yield client


@pytest.mark.full
@pytest.mark.parametrize("kind", CALLS)
async def test_a_call_is_the_apis_own_item_and_its_output_goes_to_the_model(
    house: House, client: openai.AsyncOpenAI, kind: str
) -> None:
    tool, name, arguments, fields, output = CALLS[kind]
    says(house, calls(name, **arguments))
    raw = await client.responses.with_raw_response.create(model="sim", input="Go", tools=[tool])  # type: ignore[list-item]
    response: Any = raw.parse()
    assert "x-smg-not-offered" not in raw.headers
    assert response.tools[0].type == kind
    item = response.output[0].to_dict()
    assert (item["type"], item["status"]) == (response.output[0].type, "completed")
    assert {key: item[key] for key in fields} == fields
    says(house, SAYS)
    behind: Any = {"type": f"{item['type']}_output", "output": output, "status": "completed"}
    behind["id" if kind == "local_shell" else "call_id"] = item["call_id"]
    second = await client.responses.create(
        model="sim",
        previous_response_id=response.id,
        input=[behind],
        tools=[tool],  # type: ignore[list-item]
    )
    assert second.output_text == "Done."
    told = prompt(house)
    assert "a file" in told
    assert f'"name": "{name}"' in told
    says(house, SAYS)
    own = await client.responses.create(
        model="sim",
        input=[{"role": "user", "content": "Go"}, item, behind],
        tools=[tool],  # type: ignore[list-item]
    )
    assert own.output_text == "Done."
    assert f'"name": "{name}"' in prompt(house)


@pytest.mark.parametrize("kind", CALLS)
async def test_a_stream_has_the_item_whole_and_each_command_of_a_shell(
    house: House, client: openai.AsyncOpenAI, kind: str
) -> None:
    tool, name, arguments, fields, _ = CALLS[kind]
    says(house, calls(name, **arguments))
    stream = await client.responses.create(model="sim", input="Go", tools=[tool], stream=True)  # type: ignore[list-item]
    events: list[Any] = [event async for event in stream]
    check_stream([event.to_dict(mode="json") for event in events])
    done = next(event.item for event in events if event.type == "response.output_item.done")
    assert {key: done.to_dict()[key] for key in fields} == fields
    commands = [event.command for event in events if event.type == "response.shell_call_command.done"]
    assert commands == (["ls", "pwd"] if kind == "shell" else [])


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("said", [{}, {"command": 5, "commands": {"a": 1}, "type": "?", "path": None}])
async def test_a_call_with_odd_arguments_is_an_item_all_the_same(
    house: House, client: openai.AsyncOpenAI, kind: str, said: dict[str, Any]
) -> None:
    tool, name, *_ = CALLS[kind]
    says(house, calls(name, **said))
    response = await client.responses.create(model="sim", input="Go", tools=[tool])  # type: ignore[list-item]
    assert response.output[0].to_dict()["call_id"]


async def test_a_screenshot_reaches_a_model_as_a_picture_or_is_refused_by_its_place(
    client: openai.AsyncOpenAI,
) -> None:
    call: Any = {"type": "computer_call", "id": "cu_1", "call_id": "c", "status": "completed"}
    call |= {"action": {"type": "screenshot"}, "pending_safety_checks": []}
    output: Any = {"type": "computer_call_output", "call_id": "c", "output": SCREEN}
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="sim", input=[call, output], tools=[{"type": "computer"}])
    assert (refused.value.param or "").startswith("input[1].output")


async def test_demanded_tools_are_called_and_a_function_of_the_same_name_stays_apart(
    house: House, client: openai.AsyncOpenAI
) -> None:
    function: Any = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}}
    says(house, calls("shell_", commands=["ls"]))
    response = await client.responses.create(
        model="sim", input="Go", tools=[function, {"type": "shell"}], tool_choice={"type": "shell"}
    )
    assert response.output[0].type == "shell_call"
    says(house, calls("shell"))
    response = await client.responses.create(model="sim", input="Go", tools=[function, {"type": "shell"}])
    assert response.output[0].type == "function_call"


async def test_a_shell_in_a_container_and_programs_are_named_and_refused_where_they_are_demanded(
    house: House, client: openai.AsyncOpenAI
) -> None:
    hosted: list[Any] = [
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "programmatic_tool_calling"},
    ]
    says(house, SAYS)
    raw = await client.responses.with_raw_response.create(model="sim", input="Go", tools=hosted)
    assert raw.headers["x-smg-not-offered"] == "shell, programmatic_tool_calling"
    assert [each.type for each in raw.parse().tools] == ["shell", "programmatic_tool_calling"]
    for each in hosted:
        with pytest.raises(openai.BadRequestError, match="cannot be called here"):
            await client.responses.create(model="sim", input="Go", tools=hosted, tool_choice={"type": each["type"]})


async def test_a_search_of_tools_by_the_client_is_its_item_and_one_by_the_server_is_refused_by_name(
    house: House, client: openai.AsyncOpenAI
) -> None:
    search: Any = {"type": "tool_search", "execution": "client", "parameters": {"type": "object", "properties": {}}}
    says(house, calls("tool_search", query="mail"))
    response = await client.responses.create(model="sim", input="Go", tools=[search])
    assert response.output[0].type == "tool_search_call"
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="sim", input="Go", tools=[{"type": "tool_search", "execution": "server"}])
    assert refused.value.param == "tools[0].execution"


MESSAGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bash": ({"type": "bash_20250124"}, {"command": "ls"}),
    "str_replace_based_edit_tool": ({"type": "text_editor_20250728"}, {"command": "view", "path": "/a"}),
    "memory": ({"type": "memory_20250818"}, {"command": "view", "path": "/memories"}),
    "computer": (
        {"type": "computer_20250124", "display_width_px": 800, "display_height_px": 600},
        {"action": "left_click", "coordinate": [5, 6]},
    ),
}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("streams", [False, True])
async def test_messages_calls_the_clients_tools_and_takes_their_results(house: House, name: str, streams: bool) -> None:
    tool, arguments = MESSAGES[name]
    said: Any = [{"role": "user", "content": "Go"}]
    asked: Any = {"model": "sim", "max_tokens": 200, "messages": said, "tools": [{**tool, "name": name}]}
    async with anthropic.AsyncAnthropic(api_key="x", base_url=house.url, max_retries=0) as client:
        says(house, calls(name, **arguments))
        if streams:
            async with client.beta.messages.stream(**asked) as stream:
                answer = await stream.get_final_message()
        else:
            answer = await client.beta.messages.create(**asked)
        use = next(block for block in answer.content if block.type == "tool_use")
        assert (use.name, use.input, answer.stop_reason) == (name, arguments, "tool_use")
        result = {"type": "tool_result", "tool_use_id": use.id, "content": "a file"}
        asked["messages"] = [
            *said,
            {"role": "assistant", "content": [use.to_dict()]},
            {"role": "user", "content": [result]},
        ]
        says(house, SAYS)
        answer = await client.beta.messages.create(**asked)
    assert answer.content[0].type == "text"
    assert "a file" in prompt(house)
    if name == "computer":
        assert "800 x 600 pixels" in prompt(house)


async def test_tools_that_only_the_providers_models_know_are_refused_by_their_place(house: House) -> None:
    async with anthropic.AsyncAnthropic(api_key="x", base_url=house.url, max_retries=0) as client:
        with pytest.raises(anthropic.BadRequestError, match=r"computer_toolset_20260801"):
            await client.beta.messages.create(
                model="sim",
                max_tokens=5,
                messages=[{"role": "user", "content": "Go"}],
                tools=[{"type": "computer_toolset_20260801", "name": "c"}],  # type: ignore[typeddict-item, list-item]
            )

"""Tools that run in the gateway, by Chat Completions: an extension, with real servers of tools and the official SDK as client."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from tests.gateway.conftest import House, over_http
from tests.gateway.test_tool_loop import ADD, DONE, LOOK, NOTES, calls, configured, prompt, says
from tests.gateway.tool_server import ToolServer, tool_server

from smg_core import Config
from smg_core.history.settings import HistoryConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

MINE: Any = {"type": "function", "function": {"name": "mine", "parameters": LOOK["parameters"]}}
ASKS: Any = {"type": "mcp", "server_label": "notes"}
USER: Any = {"role": "user", "content": "Go!"}


def chat_config(folder: Path, tools: ToolServer, **sections: Any) -> Config:
    """The configuration of a gateway with the server "notes", which Chat may use."""
    config = configured(folder, tools, **sections)
    return attrs.evolve(config, mcp=attrs.evolve(config.mcp, chat=True))


@pytest.fixture(scope="module")
async def tools() -> AsyncIterator[ToolServer]:
    async with tool_server() as tools:
        yield tools


@pytest.fixture(scope="module")
async def house(tools: ToolServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    config = chat_config(tmp_path_factory.mktemp("mcp"), tools)
    async with over_http(SimulatorConfig(seed=1), config=config) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client:
        yield client


async def asked(client: openai.AsyncOpenAI, messages: Any, tools: Any, streams: bool, **fields: Any) -> Any:
    """The first choice as plain JSON, from a whole answer or from the SDK's sum of a stream."""
    if not streams:
        whole = await client.chat.completions.create(model="sim", messages=messages, tools=tools, **fields)
        return whole.to_dict(mode="json")["choices"][0]
    state: Any = ChatCompletionStreamState()
    stream = await client.chat.completions.create(model="sim", messages=messages, tools=tools, stream=True, **fields)
    async for chunk in stream:
        state.handle_chunk(chunk)
    return state.current_completion_snapshot.to_dict(mode="json")["choices"][0]


both_ways = pytest.mark.parametrize("streams", [False, True])


@both_ways
async def test_the_model_calls_a_tool_and_answers_with_its_result(
    house: House, client: openai.AsyncOpenAI, streams: bool
) -> None:
    says(house, ADD, DONE)
    choice = await asked(client, [USER], [NOTES], streams)
    (call,) = choice["message"]["mcp_calls"]
    assert (call["server_label"], call["name"], call["output"], call["error"]) == ("notes", "add", "SUM-5", None)
    assert json.loads(call["arguments"]) == {"a": 2, "b": 3}
    assert (choice["message"]["content"], choice["finish_reason"]) == ("It is done.", "stop")
    assert "SUM-5" in prompt(house)


@both_ways
@pytest.mark.parametrize("why", ["x HALT y", "whole"])
async def test_no_tool_runs_for_an_answer_that_a_stop_string_has_ended(
    house: House, client: openai.AsyncOpenAI, streams: bool, why: str
) -> None:
    """Neither for a call that it has cut nor for one that stands before it: the client wanted the answer to end there."""
    before = house.engine.counters["requests"]
    says(
        house, Reply(f'<tool_call>\n{{"name": "notes__fail", "arguments": {{"why": "{why}"}}}}\n</tool_call> and HALT')
    )
    choice = await asked(client, [USER], [NOTES], streams, stop=["HALT"])
    assert choice["finish_reason"] == "stop"
    assert not choice["message"].get("mcp_calls")
    assert house.engine.counters["requests"] == before + 1


@both_ways
async def test_what_ran_is_in_the_prompt_of_the_next_request(
    house: House, client: openai.AsyncOpenAI, streams: bool
) -> None:
    says(house, ADD, DONE, DONE)
    first = await asked(client, [USER], [NOTES], streams)
    await asked(client, [USER, first["message"], {"role": "user", "content": "And?"}], [NOTES], streams)
    text = prompt(house)
    assert text.index("SUM-5") < text.index("It is done.") < text.index("And?")


async def test_a_tools_failure_is_told_and_goes_back_to_the_model(house: House, client: openai.AsyncOpenAI) -> None:
    says(house, calls(("fail", {"why": "x"})), DONE, DONE)
    choice = await asked(client, [USER], [NOTES], False)
    (call,) = choice["message"]["mcp_calls"]
    assert (call["output"], "BROKEN-x" in call["error"]) == (None, True)
    assert "BROKEN-x" in prompt(house)
    await asked(client, [USER, choice["message"], USER], [NOTES], False)
    assert "BROKEN-x" in prompt(house)


@both_ways
async def test_a_clients_own_function_goes_to_the_client_while_hosted_calls_ran(
    house: House, client: openai.AsyncOpenAI, streams: bool
) -> None:
    says(house, Reply(tool_calls=(("mine", {}), ("notes__add", {"a": 4, "b": 4}))), DONE)
    first = await asked(client, [USER], [NOTES, MINE], streams)
    assert first["finish_reason"] == "tool_calls"
    (own,), (call,) = first["message"]["tool_calls"], first["message"]["mcp_calls"]
    assert (own["function"]["name"], call["output"]) == ("mine", "SUM-8")
    result = {"role": "tool", "tool_call_id": own["id"], "content": "MINE-1"}
    second = await asked(client, [USER, first["message"], result], [NOTES, MINE], streams)
    assert second["message"]["content"] == "It is done."
    assert "SUM-8" in prompt(house)
    assert "MINE-1" in prompt(house)


@pytest.mark.full
async def test_more_calls_than_the_bound_end_the_answer_as_cut_off(
    client: openai.AsyncOpenAI, tools: ToolServer, tmp_path: Path
) -> None:
    config = chat_config(tmp_path, tools)
    config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, calls=1))
    async with (
        over_http(SimulatorConfig(seed=1), config=config) as house,
        openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as near,
    ):
        says(house, ADD, ADD)
        choice = await asked(near, [USER], [NOTES], False)
    assert (choice["finish_reason"], len(choice["message"]["mcp_calls"])) == ("length", 1)


async def test_a_demanded_tool_of_a_server_is_called_in_the_first_turn_only(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, ADD, DONE)
    chosen = {"type": "mcp", "server_label": "notes", "name": "add"}
    choice = await asked(client, [USER], [NOTES], False, tool_choice=chosen)
    assert choice["message"]["content"] == "It is done."
    with pytest.raises(openai.BadRequestError) as refused:
        await asked(client, [USER], [NOTES], False, tool_choice=chosen | {"server_label": "other"})
    assert refused.value.param == "tool_choice.server_label"


# ------------------------------------------------------------------------------------------------------------- approval


def agrees(question: Any, approve: bool = True, content: str = "") -> Any:
    return {"role": "tool", "tool_call_id": question["id"], "approve": approve, "content": content}


async def question_for(house: House, client: openai.AsyncOpenAI, note: str, streams: bool = False) -> Any:
    """The message of an answer that asks whether a note may be written."""
    says(house, calls(("write", {"note": note})))
    choice = await asked(client, [USER], [ASKS], streams)
    assert choice["finish_reason"] == "stop"
    (question,) = choice["message"]["mcp_approval_requests"]
    assert (question["server_label"], question["name"], json.loads(question["arguments"])) == (
        "notes",
        "write",
        {"note": note},
    )
    return choice["message"]


@both_ways
async def test_a_call_waits_for_approval_and_runs_once_it_is_given(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer, streams: bool
) -> None:
    note = f"chat-{streams}"
    message = await question_for(house, client, note, streams)
    assert f"write {note}" not in tools.ran
    (question,) = message["mcp_approval_requests"]
    says(house, DONE, DONE)
    turns = [USER, message, agrees(question)]
    choice = await asked(client, turns, [ASKS], streams)
    (call,) = choice["message"]["mcp_calls"]
    assert (call["approval_request_id"], call["output"]) == (question["id"], f"KEPT-{note}")
    assert (choice["message"]["content"], choice["finish_reason"]) == ("It is done.", "stop")
    assert prompt(house).count(f"KEPT-{note}") == 1
    await asked(client, [*turns, choice["message"], USER], [ASKS], streams)
    assert prompt(house).count(f"KEPT-{note}") == 1
    assert tools.ran.count(f"write {note}") == 1


async def test_an_approval_is_used_once_whoever_brings_it_first(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    message = await question_for(house, client, "once")
    turns = [USER, message, agrees(message["mcp_approval_requests"][0])]
    says(house, DONE)
    found = await asyncio.gather(*(asked(client, turns, [ASKS], False) for _ in range(3)), return_exceptions=True)
    refused = [each for each in found if isinstance(each, openai.ConflictError)]
    assert [each.code for each in refused] == ["approval_already_used"] * 2
    assert tools.ran.count("write once") == 1


async def test_a_call_that_is_not_approved_does_not_run_and_the_model_is_told_why(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    message = await question_for(house, client, "never")
    says(house, DONE)
    answer = agrees(message["mcp_approval_requests"][0], approve=False, content="Not today.")
    await asked(client, [USER, message, answer], [ASKS], False)
    assert "did not approve this call. The user says: Not today." in prompt(house)
    assert "write never" not in tools.ran


async def test_a_refusal_answers_the_question_for_good(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    message = await question_for(house, client, "no, yes")
    (question,) = message["mcp_approval_requests"]
    says(house, DONE)
    turns = [USER, message, agrees(question, approve=False)]
    choice = await asked(client, turns, [ASKS], False)
    with pytest.raises(openai.ConflictError) as refused:
        await asked(client, [USER, message, agrees(question)], [ASKS], False)
    assert refused.value.code == "approval_already_used"
    says(house, DONE)
    await asked(client, [*turns, choice["message"], USER], [ASKS], False)
    assert "write no, yes" not in tools.ran


async def test_a_question_that_nobody_answered_is_not_in_the_prompt(house: House, client: openai.AsyncOpenAI) -> None:
    message = await question_for(house, client, "ignored")
    says(house, DONE)
    await asked(client, [USER, message, {"role": "user", "content": "Leave it."}], [ASKS], False)
    assert "ignored" not in prompt(house)


async def test_an_old_approval_whose_result_the_client_has_lost_runs_nothing(
    house: House, client: openai.AsyncOpenAI, tools: ToolServer
) -> None:
    message = await question_for(house, client, "lost")
    says(house, DONE)
    turns = [USER, message, agrees(message["mcp_approval_requests"][0]), {"role": "assistant", "content": "Hm."}, USER]
    await asked(client, turns, [ASKS], False)
    assert "its result is not known" in prompt(house)
    assert "write lost" not in tools.ran


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tool_call_id": "mcpr_other"}, "messages[2].tool_call_id"),
        ({"approve": None}, "messages[2].approve"),
    ],
)
async def test_an_answer_that_fits_no_question_is_refused_by_its_field(
    house: House, client: openai.AsyncOpenAI, change: Any, param: str
) -> None:
    message = await question_for(house, client, "fits")
    answer = agrees(message["mcp_approval_requests"][0]) | change
    with pytest.raises(openai.BadRequestError) as refused:
        await asked(client, [USER, message, answer], [ASKS], False)
    assert refused.value.param == param


async def test_a_refusal_needs_its_server_in_the_request(house: House, client: openai.AsyncOpenAI) -> None:
    message = await question_for(house, client, "gone")
    with pytest.raises(openai.BadRequestError) as refused:
        await asked(client, [USER, message, agrees(message["mcp_approval_requests"][0], False)], [MINE], False)
    assert refused.value.param == "messages[2].tool_call_id"


async def test_an_approval_needs_its_server_in_the_request(house: House, client: openai.AsyncOpenAI) -> None:
    message = await question_for(house, client, "gone")
    with pytest.raises(openai.BadRequestError) as refused:
        await asked(client, [USER, message, agrees(message["mcp_approval_requests"][0])], [MINE], False)
    assert refused.value.param == "messages[2].tool_call_id"


async def test_a_fault_behind_calls_that_ran_is_told_by_the_field_of_the_body(
    house: House, client: openai.AsyncOpenAI
) -> None:
    says(house, ADD, DONE)
    first = await asked(client, [USER], [NOTES], False)
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}
    with pytest.raises(openai.BadRequestError) as refused:
        await asked(client, [USER, first["message"], picture], [NOTES], False)
    assert str(refused.value.param).startswith("messages[2].content[0]")


@pytest.mark.full
async def test_an_approval_is_given_after_a_restart(tools: ToolServer, tmp_path: Path) -> None:
    history = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    config = chat_config(tmp_path, tools, history=history)
    turns: Any = []
    for lap in range(3):
        async with (
            over_http(SimulatorConfig(seed=1), config=config) as house,
            openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0) as client,
        ):
            if lap == 0:
                message = await question_for(house, client, "restart-chat")
                turns = [USER, message, agrees(message["mcp_approval_requests"][0])]
                continue
            says(house, DONE)
            if lap == 1:
                choice = await asked(client, turns, [ASKS], False)
                assert choice["message"]["mcp_calls"][0]["output"] == "KEPT-restart-chat"
            else:
                with pytest.raises(openai.ConflictError):
                    await asked(client, turns, [ASKS], False)
    assert tools.ran.count("write restart-chat") == 1


# ------------------------------------------------------------------------------------------------------------ switched off


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tools": [NOTES]}, "tools[0].type"),
        ({"messages": [USER, {"role": "assistant", "content": "", "mcp_calls": []}]}, None),
        (
            {
                "messages": [
                    USER,
                    {"role": "assistant", "mcp_calls": [{"id": "a", "server_label": "notes", "name": "add"}]},
                ]
            },
            "messages[1].mcp_calls",
        ),
        (
            {"messages": [USER, {"role": "tool", "tool_call_id": "a", "approve": True, "content": ""}]},
            "messages[1].approve",
        ),
    ],
)
async def test_without_the_setting_the_extension_is_refused_by_name(
    tools: ToolServer, tmp_path: Path, body: Any, param: str | None
) -> None:
    async with over_http(SimulatorConfig(seed=1), config=configured(tmp_path, tools)) as house:
        answer = await house.http.post("/v1/chat/completions", json={"model": "sim", "messages": [USER]} | body)
    assert answer.status_code == (200 if param is None else 400)
    assert param is None or answer.json()["error"]["param"] == param

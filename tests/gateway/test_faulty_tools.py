"""Servers of tools that go wrong, behind the gateway: the model is told, the response ends, and the server's next call works."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, over_http
from tests.gateway.fleet import CALM
from tests.gateway.test_chat_workers import Row, in_a_row
from tests.gateway.test_media_of_earlier_turns import prompt
from tests.gateway.vision_models import llava
from tests.mcp_servers.peers import FAULTY

from smg_core import Config
from smg_core.http.settings import ModelConfig
from smg_core.pipeline.settings import McpConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

BAD: Any = {"type": "mcp", "server_label": "bad", "require_approval": "never"}
FAULTS = {
    "hang": "did not answer within",
    "die": "lost",
    "flood": "notifications a second",
    "huge": "bytes at once",
    "wrong_id": "a request that it was not sent",
    "twice": "key twice",
    "lie": "does not fit the tool's output schema",
}
"""By the server's tool that does it: what the model is told."""


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("mcp")
    server = {"name": "bad", "protocol": "stdio", "command": sys.executable, "args": [str(FAULTY), str(folder / "log")]}
    limits = {"notifications_per_s": 1, "notifications_burst": 50, "message_bytes": 1_000_000}
    file = folder / "mcp.json"
    tools = {"hang": {"timeout_s": 0.2}, "echo": {"alias": "say"}}
    told = {"servers": [{**server, "tools": tools}], "limits": limits}
    file.write_text(json.dumps(told))
    async with over_http(SimulatorConfig(seed=1), config=Config(mcp=McpConfig(config=str(file)))) as house:
        yield house


def calls(tool: str, **arguments: Any) -> Reply:
    return Reply("", tool_calls=((f"bad__{tool}", arguments),))


async def outcomes(house: House, *replies: Reply) -> list[dict[str, Any]]:
    """The calls of one response in which the model says these things, and then ends."""
    house.engine.say(*replies, Reply("It is done."))
    answer = await house.http.post("/v1/responses", json={"model": "sim", "input": "Go!", "tools": [BAD]})
    told = answer.json()
    assert told["status"] == "completed", told
    assert told["output"][-1]["content"][0]["text"] == "It is done."
    return [item for item in told["output"] if item["type"] == "mcp_call"]


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("fault", list(FAULTS))
async def test_the_model_is_told_what_a_server_did_wrong_and_the_server_is_used_again(house: House, fault: str) -> None:
    first, second = await outcomes(house, calls(fault), calls("say", text="again"))
    assert FAULTS[fault] in json.dumps(first["error"])
    assert (first["output"], second["error"]) == (None, None)
    assert json.loads(second["output"]) == {"text": "again"}


async def test_a_picture_that_cannot_be_read_is_told_in_words_and_the_response_goes_on(house: House) -> None:
    (blurred,) = await outcomes(house, calls("blur"))
    assert blurred["error"] is None
    assert "image/png that cannot be read" in json.dumps(blurred["output"])


@pytest.mark.full
@pytest.mark.parametrize("reading", ["here", "by a server behind"])
async def test_a_picture_of_a_tool_that_is_damaged_has_a_note_in_its_place(tmp_path: Path, reading: str) -> None:
    server = {"name": "bad", "protocol": "stdio", "command": sys.executable, "args": [str(FAULTY), str(tmp_path / "l")]}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"servers": [server]}))
    simulator = SimulatorConfig(model_folder=str(llava(tmp_path / "model")))
    parser = ModelConfig(parser="hermes")
    config = attrs.evolve(CALM, mcp=McpConfig(config=str(file)), model=parser)
    far = Config(workers=WorkersConfig(dialect="vllm"), model=parser)
    called = Reply('<tool_call>\n{"name": "bad__tear", "arguments": {}}\n</tool_call>')
    async with (
        in_a_row(simulator, config=config, far_config=far)
        if reading != "here"
        else over_http(simulator, config=attrs.evolve(config, workers=far.workers))
    ) as house:
        (torn,) = await outcomes(house, called)
        said = prompt(house.far if isinstance(house, Row) else house)
    assert torn["error"] is None
    assert "[Here was a picture that cannot be shown.]" in said


async def test_a_tool_that_came_later_is_offered_in_the_next_response(house: House) -> None:
    (change,) = await outcomes(house, calls("change"))
    assert change["output"] == "changed"
    (added,) = await outcomes(house, calls("added"))
    assert added["output"] == "I am new"


@pytest.mark.parametrize("tool", ["ahead", "numbered"])
@pytest.mark.parametrize("mode", ["auto", "required", "named"])
async def test_a_tool_whose_schema_cannot_be_read_costs_no_request(house: House, tool: str, mode: str) -> None:
    choice = {"type": "mcp", "server_label": "bad", "name": tool} if mode == "named" else mode
    house.engine.say(calls(tool, text="xy"), Reply("It is done."))
    asked = {"model": "sim", "input": "Go!", "tools": [BAD], "tool_choice": choice}
    told = (await house.http.post("/v1/responses", json=asked)).json()
    listed, call, _ = told["output"]
    assert json.loads(call["output"]) == {"text": "xy"}
    assert {each["name"] for each in listed["unconstrained"]} == {"ahead", "numbered"}
    assert {each["name"] for each in listed["left_out"]} == {"no_schema", "far", "vast"}
    assert all(each["reason"] for each in listed["left_out"])


@pytest.mark.full
async def test_faults_of_tools_that_a_request_does_not_want_are_not_told(house: House) -> None:
    house.engine.say(Reply("It is done."))
    asked = {"model": "sim", "input": "Go!", "tools": [{**BAD, "allowed_tools": ["ahead", "say", "far"]}]}
    listed = (await house.http.post("/v1/responses", json=asked)).json()["output"][0]
    assert [each["name"] for each in listed["unconstrained"]] == ["ahead"]
    assert [each["name"] for each in listed["left_out"]] == ["far"]


@pytest.mark.full
async def test_a_stream_tells_of_the_tools_that_are_left_out_in_the_item_of_its_list(house: House) -> None:
    house.engine.say(Reply("It is done."))
    asked = {"model": "sim", "input": "Go!", "tools": [BAD], "stream": True}
    text = (await house.http.post("/v1/responses", json=asked)).text
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    (done,) = [
        event["item"]
        for event in events
        if event["type"] == "response.output_item.done" and event["item"]["type"] == "mcp_list_tools"
    ]
    assert {each["name"] for each in done["left_out"]} == {"no_schema", "far", "vast"}

"""Which parser reads an answer: per model, per request, and on its own over `/parse`."""

import json
from typing import Any

import pytest
from tests.gateway.conftest import CHAT, body, in_process

from smg_core.config.config import Config
from smg_core.http.settings import ModelConfig, ServerConfig
from smg_core.wire.settings import LimitsConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

PARSING = Config(server=ServerConfig(parse_routes=True))
CALL = 'Sure.\n<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call>'
CODER = "<tool_call>\n<function=add>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>"
ADD: dict[str, Any] = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}


@pytest.mark.parametrize("named", [{"parser": "hermes"}, {"tool_call_parser": "hermes"}, {"model": "sim"}])
async def test_calls_are_read_from_a_text(named: dict[str, str]) -> None:
    async with in_process(config=PARSING) as house:
        answer = await house.http.post("/parse/function_call", json={"text": CALL, "tools": [ADD], **named})
    told = answer.json()

    assert answer.status_code == 200
    assert told["remaining_text"].strip() == "Sure."
    assert told["family"] == "hermes"
    (call,) = told["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("add", {"x": 1})


async def test_values_take_the_types_of_the_tools_schema() -> None:
    async with in_process(config=PARSING) as house:
        asked = {"text": CODER, "tools": [ADD], "parser": "qwen3_coder"}
        answer = await house.http.post("/parse/function_call", json=asked)

    assert json.loads(answer.json()["tool_calls"][0]["function"]["arguments"]) == {"x": 1}


async def test_reasoning_is_read_from_a_text_and_calls_stay_in_it() -> None:
    async with in_process(config=PARSING) as house:
        asked = {"text": f"<think>hm</think>{CALL}", "model": "Qwen/Qwen3-8B"}
        answer = await house.http.post("/parse/reasoning", json=asked)

    assert answer.json() == {"normal_text": CALL, "reasoning_text": "hm", "family": "qwen3", "success": True}


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"text": "x"}, "parser"),
        ({"text": "x", "parser": "nobody"}, "parser"),
        ({"text": "x", "model": "nobody/knows"}, "model"),
        ({"parser": "hermes"}, "text"),
        ({"text": 3, "parser": "hermes"}, "text"),
        ({"text": "x", "parser": "hermes", "more": 1}, "more"),
    ],
)
@pytest.mark.parametrize("path", ["/parse/function_call", "/parse/reasoning"])
async def test_what_cannot_be_read_is_refused_by_name(path: str, asked: dict[str, Any], param: str) -> None:
    async with in_process(config=PARSING) as house:
        answer = await house.http.post(path, json=asked)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("path", ["/parse/function_call", "/parse/reasoning"])
async def test_texts_are_read_only_where_the_operator_allows_it(path: str) -> None:
    async with in_process() as house:
        answer = await house.http.post(path, json={"text": "x", "parser": "hermes"})

    assert answer.status_code == 404


async def test_a_text_over_the_bound_is_refused_before_it_is_read() -> None:
    small = Config(server=ServerConfig(parse_routes=True), limits=LimitsConfig(parse_characters=100))
    async with in_process(config=small) as house:
        asked = {"text": "[f(a=(" * 20, "parser": "pythonic"}
        answer = await house.http.post("/parse/function_call", json=asked)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "text"
    assert "100" in answer.json()["error"]["message"]


async def test_a_request_may_name_the_parser_of_its_own_answer() -> None:
    config = SimulatorConfig(replies=(Reply(CODER), Reply(CODER)))
    async with in_process(config, config=Config(model=ModelConfig(parser_header=True))) as house:
        named = await house.http.post(CHAT, json=body(tools=[ADD]), headers={"x-smg-parser": "qwen3_coder"})
        plain = await house.http.post(CHAT, json=body(), headers={"x-smg-parser": "none"})
        wrong = await house.http.post(CHAT, json=body(), headers={"x-smg-parser": "nobody"})

    (call,) = named.json()["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"x": 1}
    assert plain.json()["choices"][0]["message"]["content"] == CODER
    assert wrong.status_code == 400


async def test_the_parser_is_the_operators_to_name_unless_a_setting_says_otherwise() -> None:
    async with in_process() as house:
        answer = await house.http.post(CHAT, json=body(), headers={"x-smg-parser": "none"})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "x-smg-parser"
    assert answer.json()["error"]["code"] == "unsupported_parameter"


@pytest.mark.parametrize(
    ("settings", "family"),
    [
        (ModelConfig(), "hermes"),
        (ModelConfig(parser="qwen3"), "qwen3"),
        (ModelConfig(parsers=("sim=llama3", "other=qwen3"), parser="qwen3"), "llama3"),
    ],
)
async def test_the_config_may_name_the_parser_of_a_model(settings: ModelConfig, family: str) -> None:
    async with in_process(config=Config(model=settings)) as house:
        parser = house.gateway.models["sim"].parser

    assert parser is not None
    assert parser.name == family


async def test_tools_for_a_model_that_is_read_as_plain_text_are_refused() -> None:
    async with in_process(config=Config(model=ModelConfig(parser="none"))) as house:
        answer = await house.chat(tools=[ADD])

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tools"

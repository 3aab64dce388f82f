"""A format of the answer beside reasoning and tools, through every API and every dialect that takes structural tags."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, in_process
from tests.gateway.fleet import CALM, Member, Prefer, fleet
from tests.parsers.tags import Tag

import smg_simulator
from smg_core import Config
from smg_core.http.settings import ModelConfig
from smg_core.pipeline.settings import StructuredConfig
from smg_core.sse import SseReader
from smg_core.tokenizer.settings import TokenizerConfig
from smg_simulator.answers.faults import Fault, FaultKind
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

DIALECTS = ["vllm", "neutral", "sglang", "trtllm", "tokenspeed"]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ADA = '{"name": "Ada"}'
CALL = Reply(tool_calls=(("get_weather", {"city": "Paris"}),))
FUNCTION = {"name": "get_weather", "description": "The weather.", "parameters": CITY}


@attrs.define
class Heard:
    """What an answer says."""

    text: str = ""
    thought: str = ""
    calls: list[str] = attrs.field(factory=list)


def chat(tools: bool) -> tuple[str, dict[str, Any]]:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    body = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}], "response_format": form}
    return "/v1/chat/completions", {**body, "tools": [{"type": "function", "function": FUNCTION}]} if tools else body


def of_chat(answers: Sequence[dict[str, Any]]) -> Heard:
    heard = Heard()
    for answer in answers:
        for choice in answer.get("choices") or ():
            said = choice.get("delta") or choice.get("message") or {}
            heard.text += said.get("content") or ""
            heard.thought += said.get("reasoning_content") or ""
            heard.calls += [
                each["function"]["name"] for each in said.get("tool_calls") or () if each["function"].get("name")
            ]
    return heard


def responses(tools: bool) -> tuple[str, dict[str, Any]]:
    form = {"type": "json_schema", "name": "person", "schema": PERSON}
    body = {"model": "sim", "input": "Hello", "text": {"format": form}, "store": False}
    return "/v1/responses", {**body, "tools": [{"type": "function", **FUNCTION}]} if tools else body


def of_responses(answers: Sequence[dict[str, Any]]) -> Heard:
    heard = Heard()
    for item in answers[-1].get("response", answers[-1])["output"]:
        content = "".join(part["text"] for part in item.get("content") or ())
        heard.text += content if item["type"] == "message" else ""
        heard.thought += content if item["type"] == "reasoning" else ""
        heard.calls += [item["name"]] if item["type"] == "function_call" else []
    return heard


def messages(tools: bool) -> tuple[str, dict[str, Any]]:
    form = {"format": {"type": "json_schema", "schema": PERSON}}
    body = {"model": "sim", "max_tokens": 99, "messages": [{"role": "user", "content": "Hello"}], "output_config": form}
    tool = {"name": "get_weather", "description": "The weather.", "input_schema": CITY}
    return "/v1/messages", {**body, "tools": [tool]} if tools else body


def of_messages(answers: Sequence[dict[str, Any]]) -> Heard:
    heard = Heard()
    for answer in answers:
        for block in answer.get("content") or [answer.get("delta") or {}, answer.get("content_block") or {}]:
            heard.text += block.get("text") or ""
            heard.thought += block.get("thinking") or ""
            heard.calls += [block["name"]] if block.get("type") == "tool_use" else []
    return heard


def gemini(tools: bool) -> tuple[str, dict[str, Any]]:
    config = {
        "responseMimeType": "application/json",
        "responseJsonSchema": PERSON,
        "thinkingConfig": {"includeThoughts": True},
    }
    body = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}], "generationConfig": config}
    tool = {"name": "get_weather", "description": "The weather.", "parametersJsonSchema": CITY}
    path = "/v1beta/models/sim:generateContent"
    return path, {**body, "tools": [{"functionDeclarations": [tool]}]} if tools else body


def of_gemini(answers: Sequence[dict[str, Any]]) -> Heard:
    heard = Heard()
    for answer in answers:
        for part in answer["candidates"][0]["content"].get("parts") or ():
            heard.text += "" if part.get("thought") else part.get("text", "")
            heard.thought += part.get("text", "") if part.get("thought") else ""
            heard.calls += [part["functionCall"]["name"]] if "functionCall" in part else []
    return heard


APIS: dict[str, Any] = {
    "chat": (chat, of_chat),
    "responses": (responses, of_responses),
    "messages": (messages, of_messages),
    "generateContent": (gemini, of_gemini),
}


BUDGETS: dict[str, dict[str, Any]] = {
    "chat": {"thinking_budget": 1024},
    "messages": {"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 1024}},
    "generateContent": {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 1024}},
}
"""How the APIs whose budget the gateway keeps are told of one."""


async def ask(house: House, api: str, *, stream: bool, tools: bool = False, budget: bool = False) -> Heard:
    asked, heard = APIS[api]
    path, sent = asked(tools)
    if budget:
        sent.get("generationConfig", sent).update(BUDGETS[api])
    if not stream:
        answer = await house.http.post(path, json=sent)
        assert answer.status_code == 200, answer.text
        return heard([answer.json()])
    if api == "generateContent":
        path = path.replace(":generateContent", ":streamGenerateContent") + "?alt=sse"
    else:
        sent = {**sent, "stream": True}
    answer = await house.http.post(path, json=sent)
    assert answer.status_code == 200, answer.text
    events = SseReader().feed(answer.content)
    return heard([json.loads(event.data) for event in events if event.data and event.data != "[DONE]"])


def opened(folder: Path) -> Config:
    """For a model whose template opens the reasoning in every prompt."""
    own = Path(smg_simulator.__file__).parent / "model" / "chat_template.jinja"
    template = folder / "thinking.jinja"
    template.write_text(own.read_text().replace("enable_thinking is defined and enable_thinking", "true"))
    return attrs.evolve(
        CALM,
        tokenizer=TokenizerConfig(chat_template=str(template)),
        model=ModelConfig(parser="qwen3"),
        structured=StructuredConfig(on_violation="error"),
    )


@asynccontextmanager
async def thinking(dialect: str, folder: Path, *replies: Reply) -> AsyncIterator[House]:
    """A model whose template opens the reasoning in every prompt."""
    config = opened(folder)
    async with in_process(SimulatorConfig(dialects=(dialect,), replies=replies, seed=3), config=config) as house:
        yield house


@pytest.mark.full
@pytest.mark.sampled(per=("api",), keep=3)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_engine_that_is_held_to_a_format_ends_its_reasoning_first(
    dialect: str, stream: bool, api: str, tmp_path: Path
) -> None:
    async with thinking(dialect, tmp_path) as house:  # the engine writes what its constraint asks for
        heard = await ask(house, api, stream=stream)
        (asked,) = house.engine.requests

    assert set(json.loads(heard.text)) == {"name"}
    assert heard.thought
    assert heard.calls == []
    assert asked.constraint is not None
    assert Tag(asked.constraint.value).accepts(f"Who?</think>\n{ADA}")


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_model_that_thinks_and_then_answers_in_the_format_is_heard_as_it_is(
    stream: bool, api: str, tmp_path: Path
) -> None:
    async with thinking("vllm", tmp_path, Reply(ADA, reasoning="Who is it?")) as house:
        heard = await ask(house, api, stream=stream)

    assert (heard.text.strip(), heard.thought.strip(), heard.calls) == (ADA, "Who is it?", [])


@pytest.mark.full
@pytest.mark.sampled(per=("api",), keep=3)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_model_with_tools_and_a_format_may_call_and_may_answer(
    dialect: str, stream: bool, api: str, tmp_path: Path
) -> None:
    thought = "Paris, then?"
    replies = (attrs.evolve(CALL, reasoning=thought), Reply(ADA, reasoning=thought))
    async with thinking(dialect, tmp_path, *replies) as house:
        called = await ask(house, api, stream=stream, tools=True)
        answered = await ask(house, api, stream=stream, tools=True)
        sent = house.engine.requests

    assert (called.text.strip(), called.thought.strip(), called.calls) == ("", thought, ["get_weather"])
    assert (answered.text.strip(), answered.thought.strip(), answered.calls) == (ADA, thought, [])
    for each in sent:
        judge = Tag(each.constraint.value)
        for last in (ADA, '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'):
            assert judge.accepts(f"{thought}</think>\n\n{last}")
        assert not judge.accepts(f"{thought}</think>\n\nNo.")


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("api", BUDGETS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_what_follows_thinking_that_is_cut_short_is_held_to_the_format_at_once(
    stream: bool, api: str, tmp_path: Path
) -> None:
    async with thinking("vllm", tmp_path, Reply("never said", " ".join(["word"] * 1500))) as house:
        heard = await ask(house, api, stream=stream, budget=True)  # the second call is answered as its constraint asks
        first, second = house.engine.requests

    assert set(json.loads(heard.text)) == {"name"}
    assert (first.constraint.kind, second.constraint.kind) == ("structural_tag", "json_schema")


@pytest.mark.full
@pytest.mark.sampled(per=("api",))
@pytest.mark.parametrize("kind", ["refuse", "cut"])
@pytest.mark.parametrize("api", BUDGETS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_what_follows_thinking_that_is_cut_short_is_held_to_the_format_also_by_the_next_engine(
    stream: bool, api: str, kind: FaultKind, tmp_path: Path
) -> None:
    endless = Reply("never said", " ".join(["word"] * 1500))
    lost = SimulatorConfig(replies=(endless,), faults=(None, Fault(kind)), seed=3)
    members = Member("a", engine=lost), Member("b", engine=SimulatorConfig(seed=3))
    async with fleet(*members, config=opened(tmp_path), policy=Prefer("a")) as house:
        heard = await ask(house, api, stream=stream, budget=True)
        (asked,) = house.engines[1].requests

    assert set(json.loads(heard.text)) == {"name"}
    assert heard.thought.split()[:2] == ["word"] * 2
    assert asked.constraint.kind == "json_schema"


async def test_a_model_whose_template_knows_no_reasoning_is_held_to_the_format_alone_unless_it_is_asked_to_reason(
    tmp_path: Path,
) -> None:
    template = tmp_path / "plain.jinja"
    template.write_text("{{ messages[0].content }}<|im_end|>\n<|im_start|>assistant\n")
    config = Config(tokenizer=TokenizerConfig(chat_template=str(template)), model=ModelConfig(parser="qwen3"))
    path, sent = chat(tools=False)
    async with in_process(SimulatorConfig(seed=3), config=config) as house:
        for fields in ({}, {"reasoning_effort": "high"}):
            answer = await house.http.post(path, json={**sent, **fields})
            assert set(json.loads(answer.json()["choices"][0]["message"]["content"])) == {"name"}
        kinds = [each.constraint.kind for each in house.engine.requests]

    assert kinds == ["json_schema", "structural_tag"]


@pytest.mark.full
async def test_a_schema_that_does_not_bind_is_refused_by_no_engine_and_broken_by_no_answer() -> None:
    config = Config(structured=StructuredConfig(on_violation="error"))
    path, sent = chat(tools=False)
    sent["response_format"]["json_schema"]["strict"] = False
    for simulator in (SimulatorConfig(dialects=("mlx",)), SimulatorConfig()):
        async with in_process(attrs.evolve(simulator, replies=(Reply("No JSON."),)), config=config) as house:
            answer = await house.http.post(path, json=sent)
            (asked,) = house.engine.requests
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["message"]["content"] == "No JSON."
        assert "x-smg-format-violation" not in answer.headers
        assert (asked.constraint is None) == bool(simulator.dialects)

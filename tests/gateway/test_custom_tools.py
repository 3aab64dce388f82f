"""Tools that take free text: offered, called and answered through the official SDK, before engines that know only functions."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import lark
import openai
import pytest
from tests.gateway.conftest import CHAT, House, body, in_process
from tests.gateway.test_chat import parsing, sdk
from tests.gateway.test_chat_workers import in_a_row

from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.testing import tool_call

pytestmark = pytest.mark.anyio

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
SHELL: Any = {"type": "custom", "custom": {"name": "shell", "description": "Runs a script."}}
WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
SCRIPT = 'echo "München \\t 😀"\nls -l | wc'


def named(tool: Any) -> Any:
    kind = tool["type"]
    return {"type": kind, kind: {"name": tool[kind]["name"]}}


def regex(definition: str) -> Any:
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": definition}}
    return {"type": "custom", "custom": {"name": "held", "format": grammar}}


async def asked(client: openai.AsyncOpenAI, *, stream: bool, **fields: Any) -> Any:
    """The first choice of an answer; of a stream as a client puts it together from the deltas."""
    fields = {"model": "sim", "messages": HELLO, "tools": [SHELL, WEATHER], **fields}
    if not stream:
        return (await client.chat.completions.create(**fields)).choices[0].model_dump(exclude_none=True)
    calls: list[dict[str, Any]] = []
    content, finish = "", None
    async for chunk in await client.chat.completions.create(stream=True, **fields):
        (choice,) = chunk.choices
        content, finish = content + (choice.delta.content or ""), choice.finish_reason
        for delta in choice.delta.model_dump(exclude_none=True).get("tool_calls", ()):
            put_together(calls, delta)
    message = {"role": "assistant", **({"content": content} if content else {}), "tool_calls": calls}
    return {"finish_reason": finish, "message": message}


def put_together(calls: list[dict[str, Any]], delta: dict[str, Any]) -> None:
    at = delta.pop("index")
    if at == len(calls):
        calls.append(delta)
        return
    for kind in ("custom", "function"):
        for name, text in delta.get(kind, {}).items():
            calls[at][kind][name] += text


@asynccontextmanager
async def saying(family: str, text: str) -> AsyncIterator[House]:
    """A gateway whose model, of that family, writes `text` two characters at a time."""
    pieces = tuple(text[at : at + 2] for at in range(0, len(text), 2))
    async with in_process(SimulatorConfig(replies=(Reply(pieces=pieces),)), config=parsing(family)) as house:
        yield house


WRITTEN = {
    "qwen25": f'<tool_call>\n{{"name": "shell", "arguments": {json.dumps({"input": SCRIPT})}}}\n</tool_call>',
    "qwen3_coder": f"<tool_call>\n<function=shell>\n<parameter=input>\n{SCRIPT}\n</parameter>\n</function>\n</tool_call>",
    "pythonic": f"[shell(input={SCRIPT!r})]",
    "mistral": f'[TOOL_CALLS] [{{"name": "shell", "arguments": {json.dumps({"input": SCRIPT}, ensure_ascii=False)}}}]',
}


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("family", WRITTEN)
async def test_free_text_arrives_as_the_model_meant_it_in_every_way_of_writing_calls(family: str, stream: bool) -> None:
    async with saying(family, WRITTEN[family]) as house, sdk(house) as client:
        found = await asked(client, stream=stream)

    (call,) = found["message"]["tool_calls"]
    assert found["finish_reason"] == "tool_calls"
    assert (call["type"], call["custom"]) == ("custom", {"name": "shell", "input": SCRIPT})
    assert "function" not in call


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_of_both_kinds_come_in_one_answer_and_can_be_sent_back(stream: bool) -> None:
    calls = (("weather", {"city": "Bern"}), ("shell", {"input": SCRIPT}))
    script = SimulatorConfig(replies=(Reply(tool_calls=calls), Reply("Done.")))
    async with in_process(script) as house, sdk(house) as client:
        first = await asked(client, stream=stream)
        made = first["message"]["tool_calls"]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": f"result {call['id']}"} for call in made]
        turns = [*HELLO, first["message"], *results]
        last = await asked(client, stream=False, messages=turns)
        prompt = (await house.gateway.explain(body(messages=turns, tools=[SHELL, WEATHER]))).prompt

    assert [call["type"] for call in made] == ["function", "custom"]
    assert last["message"]["content"] == "Done."
    assert json.dumps(SCRIPT, ensure_ascii=False) in prompt  # as the argument that the model itself wrote
    assert all(f"result {call['id']}" in prompt for call in made)


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "choice",
    [
        named(SHELL),
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named(SHELL)]}},
    ],
)
async def test_a_custom_tool_that_must_be_called_is_called(choice: Any, stream: bool) -> None:
    async with in_process() as house, sdk(house) as client:
        found = await asked(client, stream=stream, tool_choice=choice, max_completion_tokens=200)

    (call,) = found["message"]["tool_calls"]
    assert (call["type"], call["custom"]["name"]) == ("custom", "shell")
    assert found["finish_reason"] == "tool_calls"
    assert "content" not in found["message"]


@pytest.mark.parametrize("family", ["qwen25", "qwen3_coder", "pythonic"])
async def test_the_engine_is_held_to_a_tools_expression(family: str) -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": r"^go \"(north|south)\" \d{2}$"}}
    walk: Any = {"type": "custom", "custom": {"name": "walk", "format": grammar}}
    async with in_process(config=parsing(family)) as house, sdk(house) as client:
        found = await asked(client, stream=True, tools=[walk], tool_choice=named(walk), max_completion_tokens=200)

    (call,) = found["message"]["tool_calls"]
    assert re.fullmatch(r'go "(north|south)" \d{2}', call["custom"]["input"])


PATCH = r"""
start: "*** Begin Patch" LF hunk+ "*** End Patch" LF?
hunk: "*** Delete File: " name LF | "*** Add File: " name LF line+
name: /[a-z]{1,8}(\.py)?/
line: "+" /[a-z "\\]{0,8}/ LF
%import common.LF
"""


def lark_tool(definition: str) -> Any:
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": definition}}
    return {"type": "custom", "custom": {"name": "patch", "format": grammar}}


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("family", ["qwen25", "qwen3_coder", "pythonic", "harmony", "kimi_k2"])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_engine_is_held_to_a_tools_lark_grammar(family: str, stream: bool) -> None:
    patch = lark_tool(PATCH)
    async with in_process(config=parsing(family)) as house, sdk(house) as client:
        found = await asked(client, stream=stream, tools=[patch], tool_choice=named(patch), max_completion_tokens=500)

    (call,) = found["message"]["tool_calls"]
    lark.Lark(PATCH.replace("{0,8}/", "{1,8}/?")).parse(call["custom"]["input"])


async def test_only_custom_tools_that_are_allowed_are_told_of_and_called() -> None:
    said = (("weather", {}), ("shell", {"input": "ls"}))
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named(SHELL)]}}
    async with in_process(SimulatorConfig(replies=(Reply(tool_calls=said),))) as house, sdk(house) as client:
        found = await asked(client, stream=False, tool_choice=allowed)
        prompt = (await house.gateway.explain(body(tools=[SHELL, WEATHER], tool_choice=allowed))).prompt

    assert [call["custom"]["name"] for call in found["message"]["tool_calls"]] == ["shell"]
    assert "weather" not in prompt


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_knows_only_functions_is_offered_a_function(stream: bool) -> None:
    script = SimulatorConfig(replies=(tool_call("shell", {"input": SCRIPT}), Reply("Done.")))
    async with in_a_row(script) as row, sdk(row) as client:
        first = await asked(client, stream=stream)
        (call,) = first["message"]["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "a result"}
        last = await asked(client, stream=stream, messages=[*HELLO, first["message"], result])

    assert (call["type"], call["custom"]) == ("custom", {"name": "shell", "input": SCRIPT})
    assert first["finish_reason"] == "tool_calls"
    assert last["message"]["content"] == "Done."


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["auto", "required"])
async def test_a_server_that_knows_no_allowed_tools_is_told_of_those_alone(mode: str, stream: bool) -> None:
    said = (("weather", {}), ("clock", {}), ("shell", {"input": "ls"}))
    clock = {"type": "function", "function": {"name": "clock", "parameters": {}}}
    tools = [named(clock), named(SHELL)]
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
    async with in_a_row(SimulatorConfig(replies=(Reply(tool_calls=said),))) as row, sdk(row) as client:
        found = await asked(client, stream=stream, tools=[WEATHER, clock, SHELL], tool_choice=allowed)

    names = [call[call["type"]]["name"] for call in found["message"]["tool_calls"]]
    assert "weather" not in names
    assert set(names) <= {"clock", "shell"}
    assert found["finish_reason"] == "tool_calls"


@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [SHELL, {"type": "function", "function": {"name": "shell"}}]}, "tools[1].function.name"),
        ({"tools": [WEATHER, {"type": "custom", "custom": {"name": "weather"}}]}, "tools[1].custom.name"),
        ({"tool_choice": {"type": "custom", "custom": {"name": "weather"}}}, "tool_choice.custom.name"),
        (
            {"tools": [{"type": "custom", "custom": {"name": "s", "format": {"type": "x"}}}]},
            "tools[0].custom.format.type",
        ),
        ({"tools": [regex("(?=a)")]}, "tools[0].custom.format.grammar.definition"),
        ({"tools": [regex("a" * 300_000)]}, "tools"),
        ({"tools": [regex("a" * 20_000)]}, "tools[0].custom.format.grammar.definition"),
        ({"tools": [lark_tool("start: a")]}, "tools[0].custom.format.grammar.definition"),
        ({"tools": [lark_tool("start: /(?!a)/")]}, "tools[0].custom.format.grammar.definition"),
    ],
)
async def test_what_cannot_be_done_is_refused_by_its_name(fields: dict[str, Any], param: str) -> None:
    async with in_process() as house:
        answer = await house.http.post(CHAT, json=body(**{"tools": [SHELL, WEATHER], **fields}))

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param

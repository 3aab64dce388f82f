"""What Claude Code sends, in the shapes that were recorded of it: every request is answered, and its prompt is what was meant."""

import json
from typing import Any

import pytest
from tests.gateway.conftest import House, in_process

from smg_core import Config
from smg_core.http.settings import ModelConfig
from smg_core.wire.settings import MessagesConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,from-the-future-2099-01-01",
    "x-api-key": "-",
}
MARK = {"cache_control": {"type": "ephemeral", "scope": "global"}}
TOOL: dict[str, Any] = {
    "name": "Bash",
    "description": "Runs a command.",
    "input_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
        "additionalProperties": False,
    },
}
TURN: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.c40; cc_entrypoint=sdk-cli;"},
        {"type": "text", "text": "You help.", **MARK},
        {"type": "text", "text": "Be brief.", **MARK},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "context"}, {"type": "text", "text": "run it", **MARK}]},
        {"role": "system", "content": "Tools: Bash."},
    ],
    "tools": [TOOL],
    "metadata": {"user_id": '{"device_id":"x","account_uuid":"","session_id":"y"}'},
    "max_tokens": 2000,
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
    "stream": True,
}
CONFIG = Config(model=ModelConfig(aliases=("claude-*=sim",)))
CALL = Reply(tool_calls=(("Bash", {"command": "echo hi"}),))


async def post(house: House, body: dict[str, Any], path: str = "/v1/messages") -> Any:
    answer = await house.http.post(f"{path}?beta=true", json=body, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    if not body.get("stream"):
        return answer.json()
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]


async def test_a_tool_turn_and_its_result_are_answered() -> None:
    async with in_process(SimulatorConfig(replies=(CALL, Reply("Done."))), config=CONFIG) as house:
        first = await post(house, TURN)
        (call,) = [event["content_block"] for event in first if event["type"] == "content_block_start"]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "hi", "is_error": False, **MARK}
        use = {"type": "tool_use", "id": call["id"], "name": "Bash", "input": {"command": "echo hi"}}
        thought = {"type": "thinking", "thinking": "let me think", "signature": "of-another-gateway"}
        turns = [
            *TURN["messages"],
            {"role": "assistant", "content": [thought, use]},
            {"role": "user", "content": [result]},
        ]
        second = await post(house, {**TURN, "messages": turns, "stream": False})

    assert call["name"] == "Bash"
    assert next(event for event in first if event["type"] == "message_delta")["delta"]["stop_reason"] == "tool_use"
    assert second["content"][-1]["text"].strip() == "Done."
    assert second["context_management"] == {"applied_edits": []}


async def test_what_changes_with_every_request_is_not_in_the_prompt() -> None:
    other = {**TURN, "system": [{"type": "text", "text": "x-anthropic-billing-header: cch=77"}, *TURN["system"][1:]]}
    other["messages"] = [{"role": "user", "content": "context"}, TURN["messages"][1]]
    async with in_process(SimulatorConfig(replies=(Reply("a"), Reply("b"))), config=CONFIG) as house:
        for body in (TURN, {**TURN, "system": other["system"]}):
            await post(house, body)
        first, second = house.engine.requests

    assert list(first.input_ids) == list(second.input_ids)


async def test_a_burst_of_counts_asks_no_engine() -> None:
    async with in_process(config=CONFIG) as house:
        foo: dict[str, Any] = {
            "model": "claude-sonnet-4-5",
            "messages": [{"role": "user", "content": "foo"}],
            "tools": [],
        }
        bare = await post(house, foo, "/v1/messages/count_tokens")
        tool = await post(house, {**foo, "tools": [TOOL]}, "/v1/messages/count_tokens")
        odd = {
            **foo,
            "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {}}]}],
        }
        slice_ = await post(house, odd, "/v1/messages/count_tokens")
        assert not house.engine.counters["requests"]

    assert 0 < bare["input_tokens"] < tool["input_tokens"]
    assert slice_["input_tokens"] > 0


@pytest.mark.full
async def test_its_web_search_is_answered_in_text() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    async with in_process(SimulatorConfig(replies=(Reply("No idea."),)), config=CONFIG) as house:
        events = await post(house, {**TURN, "tools": [search], "tool_choice": {"type": "auto"}})

    said = "".join(event["delta"]["text"] for event in events if event.get("delta", {}).get("type") == "text_delta")
    assert said.strip() == "No idea."


async def test_the_settings_of_messages_hold_for_what_is_generated_and_for_what_is_counted() -> None:
    prefilled = {
        **TURN,
        "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        "stream": False,
    }
    prefilled = {name: value for name, value in prefilled.items() if name not in {"thinking", "context_management"}}
    config = Config(model=CONFIG.model, messages=MessagesConfig(prefill="refuse"))
    async with in_process(config=config) as house:
        answers = [
            await house.http.post(f"/v1/messages{path}", json=prefilled, headers=HEADERS)
            for path in ("", "/count_tokens")
        ]
    assert [answer.status_code for answer in answers] == [400, 400]

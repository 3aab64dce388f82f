"""Values of a wrong type, in every API: those that say what kind of object it is are refused as every other, at the leaf."""

from typing import Any

import pytest
from tests.gateway.conftest import in_process

pytestmark = pytest.mark.anyio

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI, INTERACTIONS = "/v1beta/models/sim:generateContent", "/v1/interactions"
USER = {"role": "user", "content": "Hello"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}


def said(part: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [part]}]}


def used(given: Any) -> dict[str, Any]:
    use = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": given}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
    turns = [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return {"messages": turns, "tools": [TOOL], "max_tokens": 5}


CASES: list[tuple[str, dict[str, Any], str]] = [
    (CHAT, {"messages": [{"role": 5, "content": "x"}]}, "messages[0].role"),
    (CHAT, said({"type": 5, "text": "x"}), "messages[0].content[0].type"),
    (CHAT, said({"type": ["text"], "text": "x"}), "messages[0].content[0].type"),
    (CHAT, {"messages": [USER], "tools": [{"type": 5}]}, "tools[0].type"),
    (CHAT, {"messages": [USER], "tool_choice": {"type": 5}}, "tool_choice.type"),
    (CHAT, {"messages": [USER], "response_format": {"type": 5}}, "response_format.type"),
    (RESPONSES, {"input": [{"type": 5}]}, "input[0].type"),
    (RESPONSES, {"input": [{"role": "user", "content": [{"type": 5}]}]}, "input[0].content[0].type"),
    (RESPONSES, {"input": "x", "tools": [{"type": 5}]}, "tools[0].type"),
    (RESPONSES, {"input": "x", "tool_choice": {"type": 5}}, "tool_choice.type"),
    (RESPONSES, {"input": "x", "text": {"format": {"type": 5}}}, "text.format.type"),
    (MESSAGES, {"max_tokens": 5, "messages": [{"role": 5, "content": "x"}]}, "messages.0.role"),
    (MESSAGES, {"max_tokens": 5, **said({"type": 5})}, "messages.0.content.0.type"),
    (MESSAGES, {"max_tokens": 5, "messages": [USER], "thinking": {"type": 5}}, "thinking.type"),
    (MESSAGES, {"max_tokens": 5, "messages": [USER], "tools": [{**TOOL, "type": 5}]}, "tools.0.type"),
    *[(MESSAGES, used(given), "messages.1.content.0.input") for given in ("x", [1], 5, None, True)],
    (GEMINI, {"contents": [{"role": 5, "parts": [{"text": "x"}]}]}, "contents[0].role"),
    (INTERACTIONS, {"input": [{"type": 5}]}, "input[0].type"),
    (INTERACTIONS, {"input": {"type": 5}}, "input.type"),
    (INTERACTIONS, {"input": [{"type": "user_input", "content": [{"type": 5}]}]}, "input[0].content[0].type"),
    (INTERACTIONS, {"input": "x", "tools": [{"type": 5}]}, "tools[0].type"),
]


async def test_what_says_the_kind_of_an_object_is_refused_as_every_other_value_of_a_wrong_type() -> None:
    async with in_process() as house:
        for path, fields, place in CASES:
            answer = await house.http.post(path, json=fields if path == GEMINI else {"model": "sim", **fields})
            error = answer.json()["error"]
            assert answer.status_code == 400, (path, fields)
            assert "Invalid type for" in error["message"], error
            assert "expected" in error["message"]
            named = error.get("param") or answer.text.replace("[", ".").replace("]", "")
            assert place in named or place.replace("[", ".").replace("]", "") in named, answer.text


@pytest.mark.parametrize(
    "config",
    [
        {"maxOutputTokens": "5", "topK": "40", "seed": "1", "candidateCount": "1", "temperature": "0.5", "topP": "0.9"},
        {"maxOutputTokens": "1e1"},
        {"maxOutputTokens": "5.0"},
        {"thinkingConfig": {"thinkingBudget": "100"}},
        {"responseLogprobs": True, "logprobs": "2"},
        {
            "responseMimeType": "application/json",
            "responseSchema": {
                "type": "OBJECT",
                "properties": {"a": {"type": "INTEGER", "minimum": "1", "maximum": "3"}},
            },
        },
    ],
)
async def test_numbers_of_google_may_be_texts(config: dict[str, Any]) -> None:
    async with in_process() as house:
        body = {"contents": [{"parts": [{"text": "x"}]}], "generationConfig": config}
        answer = await house.http.post(GEMINI, json=body)
        for wrong in ("x", "1,5", "0x5", " 5", "NaN", "5" * 40):
            refused = await house.http.post(GEMINI, json={**body, "generationConfig": {"maxOutputTokens": wrong}})
            assert refused.status_code == 400
    assert answer.status_code == 200, answer.text

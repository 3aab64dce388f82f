"""What needs no translation reaches a server of Chat Completions as the client wrote it: every value, and the order of names."""

import json
from typing import Any

import pytest

from smg_core.engines.openai.body import write_body
from smg_core.protocols.base import Incoming
from smg_core.protocols.chat import decode_chat

ASKED = {"role": "user", "content": "q"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1.0,  "b":2}'}}
BROKEN = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "no JSON"}}
NUMBERS = {"minimum": 100.0, "maximum": 1.5, "multipleOf": 1e-7}
MESSAGES: dict[str, list[dict[str, Any]]] = {
    "system and user": [{"role": "system", "content": "a"}, ASKED],
    "developer and a name": [{"role": "developer", "content": "a"}, {"role": "user", "content": "b", "name": "joe"}],
    "one part": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
    "a picture": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}},
            ],
        }
    ],
    "a recording": [
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]}
    ],
    "a call with its spaces": [
        ASKED,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ],
    "a call that is no JSON, and a result in parts": [
        ASKED,
        {"role": "assistant", "content": "t", "tool_calls": [BROKEN]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "r"}]},
    ],
    "reasoning": [ASKED, {"role": "assistant", "content": "t", "reasoning_content": "hm"}, ASKED],
    "a refusal": [ASKED, {"role": "assistant", "content": None, "refusal": "no"}, ASKED],
    "any character": [{"role": "user", "content": "é\u2028😀\u0000\ufeff"}],
}
FIELDS: dict[str, Any] = {
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "d",
                "parameters": {"type": "object", "properties": {"b": {"type": "number", **NUMBERS}, "a": {}}},
                "strict": True,
            },
        },
        {"type": "function", "function": {"name": "g"}},
        {
            "type": "custom",
            "custom": {
                "name": "c",
                "description": "x",
                "format": {"type": "grammar", "grammar": {"definition": 'start: "a"', "syntax": "lark"}},
            },
        },
    ],
    "parallel_tool_calls": False,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "n", "strict": True, "schema": {"type": "object", "properties": {"z": {}, "a": {}}}},
    },
    "temperature": 0.7,
    "top_p": 1,
    "max_tokens": 5,
    "stop": ["x"],
    "seed": 2**62,
    "logit_bias": {"5": 1},
    "n": 2,
    "metadata": {"b": "1", "a": "2"},
}


def sent(body: dict[str, Any]) -> dict[str, Any]:
    """What the server is sent for `body`."""
    request = decode_chat(Incoming(body=json.dumps(body).encode(), request_id="r"))
    found: dict[str, Any] = json.loads(write_body(request.generation))
    return found


@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES)
def test_messages_are_sent_on_as_they_were_written(messages: list[dict[str, Any]]) -> None:
    assert sent({"model": "m", "messages": messages})["messages"] == messages


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_sent_on_as_it_was_written(name: str) -> None:
    asked = {"model": "m", "messages": [ASKED], name: FIELDS[name]}
    if name == "parallel_tool_calls":
        asked["tools"] = FIELDS["tools"]
    found = sent(asked)
    assert found[name] == FIELDS[name]
    assert set(found) - set(asked) == {"stream", "stream_options"}


def test_the_order_of_names_in_a_schema_is_kept() -> None:
    found = sent({"model": "m", "messages": [ASKED], "response_format": FIELDS["response_format"]})
    schema = found["response_format"]["json_schema"]["schema"]
    assert json.dumps(schema) == json.dumps(FIELDS["response_format"]["json_schema"]["schema"])

"""What needs no translation reaches a server of Chat Completions as the client wrote it: every value, and the order of names."""

import json
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from smg_core.apis.chat.decode import decode_chat
from smg_core.engines.openai.as_written import as_written
from smg_core.engines.openai.body import write_body
from smg_core.request import GenerationRequest
from smg_core.wire.base import Incoming
from smg_core.wire.settings import LimitsConfig

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
    "max_completion_tokens": 5,
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
    ours = {"max_tokens"} if name == "max_completion_tokens" else set()
    assert set(found) - set(asked) == {"stream", "stream_options"} | ours


def test_the_order_of_names_in_a_schema_is_kept() -> None:
    found = sent({"model": "m", "messages": [ASKED], "response_format": FIELDS["response_format"]})
    schema = found["response_format"]["json_schema"]["schema"]
    assert json.dumps(schema) == json.dumps(FIELDS["response_format"]["json_schema"]["schema"])


# ------------------------------------------------------------------------------------------------------------- the bytes

ODD = {"indent": 3, "ensure_ascii": True, "separators": (" ,", " :  ")}
"""How no encoder of ours writes: with many spaces, and escapes where none is needed."""
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


def read(body: bytes, **limits: Any) -> GenerationRequest:
    kept = attrs.evolve(LimitsConfig(), **limits)
    return decode_chat(Incoming(body, request_id="r", limits=kept, keeps_body=True)).generation


def raw(body: bytes) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in msgspec.json.decode(body, type=dict[str, msgspec.Raw]).items()}


@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES)
def test_messages_keep_their_bytes(messages: list[dict[str, Any]]) -> None:
    body = json.dumps({"messages": messages, "model": "m"}, **ODD).encode()

    assert raw(write_body(read(body)))["messages"] == raw(body)["messages"]


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_keeps_its_bytes(name: str) -> None:
    body = json.dumps({"model": "m", "messages": [ASKED], "tools": FIELDS["tools"], name: FIELDS[name]}, **ODD).encode()

    assert raw(write_body(read(body)))[name] == raw(body)[name]


def test_a_body_that_needs_no_translation_is_sent_whole() -> None:
    body = json.dumps({**FIELDS, **STREAMED, "messages": [ASKED], "model": "m"}, **ODD).encode()

    assert write_body(read(body)) == body


def test_only_what_the_gateway_says_otherwise_is_written_anew() -> None:
    body = b'{ "temperature" : 7e-1, "model":"ours" ,"stream": false,"messages":[ {"content":"caf\\u00e9" ,"role":"user"}]}'

    assert write_body(read(body), model="theirs") == (
        b'{"temperature":7e-1,"model":"theirs","stream":true,"messages":[ {"content":"caf\\u00e9" ,"role":"user"}],'
        b'"stream_options":{"include_usage":true}}'
    )


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","messages": [{"role":"user","content":"q"}],"messages": [{"role":"user","content":"q"}]}',
        b'{"model":"m","messages": [{"role":"user","name":"a","name":"b","content":"q"}]}',
        b'{"model":"m","messages": [{"role":"user","content":"q"}],"metadata": {"a":"1","a":"2"}}',
    ],
)
def test_nothing_is_kept_of_a_body_that_says_a_name_twice(body: bytes) -> None:
    request = read(body)

    assert request.written == body
    assert write_body(request) == write_body(replace(request, written=b""))


@pytest.mark.parametrize("names", [["max_tokens"], ["max_completion_tokens"], ["max_tokens", "max_completion_tokens"]])
@pytest.mark.parametrize("extras", [True, False])
@pytest.mark.parametrize("kept", [0, 10_000])
def test_the_bound_on_tokens_has_the_old_name_for_engines_and_only_the_client_s_for_openai(
    names: list[str], extras: bool, kept: int
) -> None:
    body = json.dumps({"model": "m", "messages": [ASKED], **dict.fromkeys(names, 7)}).encode()
    sent_now = json.loads(write_body(read(body, kept_body_bytes=kept), extras=extras))

    expected = {*names, "max_tokens"} if extras else {*names}
    assert {name: sent_now[name] for name in sent_now if name.startswith("max_")} == dict.fromkeys(expected, 7)


def test_what_was_changed_on_the_way_is_sent_as_it_is_now() -> None:
    body = json.dumps({"model": "m", "messages": [ASKED], "user": "u", "temperature": 0.5}, **ODD).encode()
    request = read(body)
    (message,) = request.messages
    changed = replace(request, messages=(replace(message, name="joe"),), user="other")

    sent_now = raw(write_body(changed))
    assert json.loads(sent_now["messages"]) == [{**ASKED, "name": "joe"}]
    assert sent_now["user"] == b'"other"'
    assert sent_now["temperature"] == raw(body)["temperature"]


def test_a_long_body_is_not_kept() -> None:
    body = json.dumps({"model": "m", "messages": [ASKED]}).encode()

    assert read(body, kept_body_bytes=len(body)).written == body
    assert read(body, kept_body_bytes=len(body) - 1).written == b""
    assert decode_chat(Incoming(body, request_id="r")).generation.written == b""


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["model", "messages", "tools", "n", "é"]), VALUES)


@given(OBJECTS, OBJECTS, st.booleans())
def test_whatever_was_written_the_server_is_told_what_the_gateway_says(
    wire: dict[str, object], theirs: dict[str, object], odd: bool
) -> None:
    written = json.dumps(theirs, **(ODD if odd else {})).encode()

    told = json.loads(as_written(wire, written))

    assert told == json.loads(msgspec.json.encode(wire))

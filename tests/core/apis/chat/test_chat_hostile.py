"""Whatever a client sends, the decoder answers with a request or with an error of the house, in bounded words."""

import copy
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smg_core.apis.chat.decode import ChatRequest, decode_chat
from smg_core.apis.chat.types import ChatBody
from smg_core.errors import InvalidRequest, SmgError
from smg_core.wire.base import Incoming
from smg_core.wire.errors import openai_error

RICH = {
    "model": "sim",
    "messages": [
        {"role": "system", "content": "Be brief.", "name": "boss"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look", "prompt_cache_breakpoint": {"mode": "explicit"}},
                {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                {"type": "file", "file": {"file_id": "f"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "4"}]},
    ],
    "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}},
        {"type": "custom", "custom": {"name": "g", "format": {"type": "text"}}},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
    },
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    "logit_bias": {"5": 1},
    "stop": ["a"],
    "stream": True,
    "stream_options": {"include_usage": True},
    "metadata": {"a": "b"},
    "documents": [{"a": "b"}],
    "chat_template_kwargs": {"a": 1},
    "n": 2,
    "temperature": 0.5,
    "logprobs": True,
    "top_logprobs": 3,
}

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20)
keys = st.text(max_size=6) | st.sampled_from(["role", "type", "content", "model", "x` - at `$.messages", "a.b[0]"])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4))


def outcome(body: bytes) -> ChatRequest | SmgError:
    try:
        return decode_chat(Incoming(body, request_id="r"))
    except SmgError as error:
        return error


def check(body: bytes) -> ChatRequest | None:
    """Decode; what is refused has an envelope in bounded words."""
    found = outcome(body)
    if isinstance(found, ChatRequest):
        return found
    assert 400 <= found.status < 500
    assert len(openai_error(found)) < 2500
    assert json.loads(openai_error(found))["error"]["message"]
    return None


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_in_good_order(body):
    assert check(body) is None


@pytest.mark.full
@given(values)
def test_arbitrary_json_is_refused_in_good_order(value):
    assert check(json.dumps(value).encode("utf-8", "surrogatepass")) is None


@pytest.mark.full
@given(st.dictionaries(st.sampled_from(ChatBody.__struct_fields__), values, max_size=6))
@example({"x` - at `$.messages": 1})
@example({'"': 1})
def test_arbitrary_values_in_known_fields_decode_or_are_refused(fields):
    body = {"model": "sim", "messages": [{"role": "user", "content": "a"}], **fields}
    check(json.dumps(body).encode("utf-8", "surrogatepass"))


def places(value, path=()):
    """Every path in a JSON value."""
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, (*path, name))
    elif isinstance(value, list):
        for order, inner in enumerate(value):
            yield from places(inner, (*path, order))


PLACES = [place for place in places(RICH) if place]


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(["set", "drop", "add"]), keys, values), max_size=3))
def test_a_rich_request_with_any_part_exchanged_decodes_or_is_refused(changes):
    body = copy.deepcopy(RICH)
    for path, change, key, value in changes:
        holder = body
        try:
            for step in path[:-1]:
                holder = holder[step]
            if change == "set":
                holder[path[-1]] = value
            elif change == "drop":
                del holder[path[-1]]
            elif isinstance(holder[path[-1]], dict):
                holder[path[-1]][key] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    check(json.dumps(body).encode("utf-8", "surrogatepass"))


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=3))
def test_a_rich_request_with_bytes_exchanged_decodes_or_is_refused(place, junk):
    body = bytearray(json.dumps(RICH).encode())
    place %= len(body)
    body[place : place + len(junk)] = junk
    check(bytes(body))


@given(st.integers(0, 2000))
def test_a_request_that_is_cut_off_is_refused(length):
    body = json.dumps(RICH).encode()
    assert check(body[: length % len(body)]) is None


def test_the_rich_request_is_a_good_one():
    assert check(json.dumps(RICH).encode()) is not None


@pytest.mark.parametrize("name", ["x` - at `$.messages", "a.b", "a[0]", "` - at `$", ", got `", "$", ""])
def test_a_field_name_that_looks_like_a_path_fools_nobody(name):
    body = json.dumps({"model": "sim", "messages": [{"role": "user", "content": "a"}], name: 1}).encode()
    with pytest.raises(InvalidRequest):
        decode_chat(Incoming(body, request_id="r"))
    check(body)

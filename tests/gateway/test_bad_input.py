"""What clients should not send: each is refused with the API's envelope, names its parameter, and harms nobody else."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gateway.conftest import CHAT, House, body, in_process, over_http, settled
from tests.peers import listening
from tests.tiers import examples

from smg_core import Config
from smg_core.hooks import RequestFinished
from smg_core.wire.settings import LimitsConfig
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER

pytestmark = pytest.mark.anyio

SMALL = Config(limits=LimitsConfig(body_bytes=64 * 1024))
USER = {"role": "user", "content": "a"}
INTERNAL = ("/tmp", "site-packages", "Traceback", ".py", "127.0.0.1", "unix:", ".sock", "smg_core", "Error(")


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    """One gateway that takes all the abuse of this module."""
    async with in_process(SimulatorConfig(context_length=500)) as house:
        yield house


def refused(answer: Any, status: int, param: str | None, *words: str) -> dict[str, Any]:
    """Check an error's status and envelope, and that it tells nothing of the inside; returns the error."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    (envelope,) = answer.json().values()
    error: dict[str, Any] = envelope
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param, error
    assert error["code"] or status != 400, error
    assert not [hint for hint in INTERNAL if hint in answer.text], answer.text
    for word in words:
        assert word in error["message"], error
    return error


async def still_serves(house: House) -> None:
    assert (await house.chat()).status_code == 200
    await settled(house)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"   ",
        b'{"model": ',
        b'{"model": "sim"',
        b"[]",
        b"null",
        b'"text"',
        b"\x00",
        b"\xef\xbb\xbf{}",
        json.dumps(body()).encode() + b" x",
        json.dumps(body()).encode("utf-16"),
        b'{"model":"sim","temperature":NaN,"messages":[{"role":"user","content":"a"}]}',
        b'{"model":"sim","messages":[{"role":"user","content":"\xff\xfe"}]}',
        b'{"model":"sim","messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"model":"sim","messages":[{"role":"user","content":"a"}],"stop":"\\udfff"}',
        b'{"model":"sim","messages":[{"role":"user","content":"\xed\xa0\x80"}]}',
        b'{"model":"sim","messages":[{"role":"user","content":"a\x00b"}]}',
    ],
)
async def test_what_is_not_the_json_of_a_request_is_400_and_blames_no_parameter(house: House, sent: bytes) -> None:
    refused(await house.http.post(CHAT, content=sent), 400, None)
    await still_serves(house)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"model": 7}, "model"),
    ({"model": None}, "model"),
    ({"messages": "hi"}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": [7]}, "messages[0]"),
    ({"messages": [{"content": "no role"}]}, "messages[0].role"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ({"messages": [USER, {"role": "user", "content": None}]}, "messages[1].content"),
    ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "messages[0].content[0].type"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": -1}, "temperature"),
    ({"temperature": 2.5}, "temperature"),
    ({"top_p": 1.5}, "top_p"),
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"n": 1 << 70}, "n"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_completion_tokens": -5}, "max_completion_tokens"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"stop": [""]}, "stop[0]"),
    ({"stop": "x" * 1025}, "stop"),
    ({"stop": [7]}, "stop[0]"),
    ({"tools": [{"type": "function", "function": {"name": f"f{n}"}} for n in range(257)]}, "tools"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logit_bias": {"999999": 1}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"stop_token_ids": [999_999]}, "stop_token_ids"),
    ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
    ({"frobnicate": 1}, "frobnicate"),
    ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "nonsense"}}}},
        "response_format.json_schema.schema",
    ),
    ({"audio": {"voice": "alloy", "format": "mp3"}}, "audio"),
    ({"chat_template": "{{ 7 * 7 }}"}, "chat_template"),
    ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
]


@pytest.mark.sampled(per=("param",))
@pytest.mark.parametrize(("fields", "param"), BAD, ids=[f"{param}-{n}" for n, (_, param) in enumerate(BAD)])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_wrong_parameter_is_400_and_named(
    house: House, fields: dict[str, Any], param: str, stream: bool
) -> None:
    if stream and param == "stream_options":
        fields = {"stream_options": 7}
    asked = house.engine.counters["requests"]
    error = refused(await house.http.post(CHAT, json=body("Hi", stream=stream, **fields) | fields), 400, param)

    assert error["type"] == "invalid_request_error"
    assert house.engine.counters["requests"] == asked
    await still_serves(house)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unknown_model_is_404_and_named(house: House, stream: bool) -> None:
    error = refused(await house.chat(model="nobody", stream=stream), 404, "model", "nobody")

    assert error["code"] == "model_not_found"


async def test_a_prompt_over_the_context_is_400_with_both_numbers(house: House) -> None:
    answer = await house.chat("word " * 600)
    tokens = len((await house.gateway.explain(body("word " * 10))).token_ids) + 590

    error = refused(answer, 400, "messages", " 500 ", str(tokens))
    assert error["code"] == "context_length_exceeded"
    await still_serves(house)


async def test_prompt_and_output_over_the_context_are_400_with_all_the_numbers(house: House) -> None:
    tokens = len((await house.gateway.explain(body("Hello"))).token_ids)
    fits = await house.chat(max_tokens=500 - tokens)
    error = refused(await house.chat(max_tokens=501 - tokens), 400, "max_tokens", "500", "501", str(tokens))

    assert fits.status_code == 200
    assert error["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "file:///etc/passwd"}},
    ],
)
async def test_media_that_the_model_does_not_take_are_refused_by_name(house: House, part: dict[str, Any]) -> None:
    refused(await house.chat(messages=[USER, {"role": "user", "content": [part]}]), 400, "messages[1].content[0]")


async def test_deep_json_is_refused_wherever_it_stands(house: House) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    places = (b'"messages":', b'"metadata":', b'"chat_template_kwargs":', b'"x":', b'"tools":')
    for place in places:
        sent = b'{"model":"sim","messages":[{"role":"user","content":"a"}],' + place + deep + b"}"
        answer = await house.http.post(CHAT, content=sent)
        assert answer.status_code == 400, (place, answer.text)
        assert len(answer.content) < 1000
    kwargs = b'{"model":"sim","messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"a":%s}}'
    refused(
        await house.http.post(CHAT, content=kwargs % (b"[" * 65 + b"]" * 65)), 400, "chat_template_kwargs", "64 levels"
    )
    await still_serves(house)


async def test_a_schema_that_refers_elsewhere_is_refused_and_nothing_is_fetched(house: House) -> None:
    visitors: list[object] = []

    async def visited(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visitors.append(1)
        writer.close()

    async with listening(visited) as port:
        schema = {"type": "object", "properties": {"a": {"$ref": f"http://localhost:{port}/schema.json"}}}
        answer = await house.chat(
            response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
        )

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "response_format.json_schema.schema"
    assert not visitors


async def test_an_unknown_route_is_404_and_a_wrong_method_405_with_the_right_ones(house: House) -> None:
    refused(await house.http.get("/v1/nowhere"), 404, None)
    refused(await house.http.post("/v1/chat/completions/extra", json=body()), 404, None)
    wrong = await house.http.get(CHAT)
    refused(wrong, 405, None, "GET", "POST")

    assert wrong.headers["allow"] == "POST"
    assert (await house.http.delete("/v1/models")).headers["allow"] == "GET"


@pytest.mark.parametrize("path", ["/liveness", "/v1/models", "/v1/nowhere", "/v1/responses/resp_1"])
async def test_a_query_of_more_fields_than_are_taken_is_400(house: House, path: str) -> None:
    taken = await house.http.get(f"{path}?{'a=1&' * 999}")
    assert taken.status_code == (await house.http.get(path)).status_code
    refused(await house.http.get(f"{path}?{'a=1&' * 1000}"), 400, None, "1000 fields")


async def test_a_refused_request_is_reported_too(house: House) -> None:
    house.observer.moments.clear()
    await house.chat(temperature=-1)
    await house.chat(model="nobody")

    assert [(each.outcome, each.status) for each in house.observer.of(RequestFinished)] == [
        ("InvalidRequest", 400),
        ("ModelNotFound", 404),
    ]


async def test_a_template_that_raises_is_400_with_its_words_and_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MODEL_FOLDER, folder)
    settings_file = folder / "tokenizer_config.json"
    told = json.loads(settings_file.read_text())
    told["chat_template"] = (
        "{% for message in messages %}{% if message.content == 'raise' %}"
        "{{ raise_exception('Roles must alternate.') }}{% elif message.content == 'break' %}{{ 1 / 0 }}"
        "{% elif message.content == 'pry' %}{{ message.__class__.__mro__ }}{% endif %}{{ message.content }}{% endfor %}"
    )
    settings_file.write_text(json.dumps(told))
    for path in folder.glob("*.jinja"):
        path.unlink()
    async with in_process(tokenizer=folder) as house:
        refused(await house.chat("raise"), 400, "messages", "Roles must alternate.")
        for text in ("break", "pry"):
            answer = await house.chat(text)
            assert answer.status_code == 400
            assert not [hint for hint in INTERNAL if hint in answer.text], answer.text
        await still_serves(house)


@pytest.mark.full
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_its_limit_is_413_and_the_answer_arrives(chunked: bool) -> None:
    sent = json.dumps(body("x" * 3_000_000)).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(sent), 50_000):
            yield sent[at : at + 50_000]

    async with over_http(config=SMALL) as house:
        for _ in range(3):
            refused(await house.http.post(CHAT, content=pieces() if chunked else sent), 413, None, "65536")
        await still_serves(house)


async def test_the_official_client_raises_its_own_errors() -> None:
    async with in_process(SimulatorConfig(context_length=100), config=SMALL) as house:
        client = openai.AsyncOpenAI(
            http_client=house.gateway.http_client(openai), base_url="http://gateway/v1", api_key="-", max_retries=0
        )
        hello: list[Any] = [USER]
        with pytest.raises(openai.BadRequestError) as wrong:
            await client.chat.completions.create(model="sim", messages=hello, temperature=9)
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="nobody", messages=hello)
        with pytest.raises(openai.BadRequestError) as long:
            await client.chat.completions.create(model="sim", messages=[{"role": "user", "content": "word " * 200}])
        with pytest.raises(openai.APIStatusError) as large:
            await client.chat.completions.create(model="sim", messages=[{"role": "user", "content": "x" * 70_000}])

    assert (wrong.value.param, wrong.value.type) == ("temperature", "invalid_request_error")
    assert long.value.code == "context_length_exceeded"
    assert large.value.status_code == 413
    assert wrong.value.request_id


# ------------------------------------------------------------------------------------------------------------- at random

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 65), 1 << 65)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["auto", "required", "function", "json_schema", "text", "sim", "user", "assistant", "tool"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "function", "name", "parameters", "role", "content", "schema", "json_schema", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("messages", "model", "stream", "n", "stop", "tools", "tool_choice", "response_format", "logit_bias", "seed"),
        *("logprobs", "top_logprobs", "max_tokens", "min_tokens", "temperature", "top_p", "top_k", "metadata"),
        *("stop_token_ids", "chat_template_kwargs", "documents", "continue_final_message", "functions", "user"),
        *("guided_json", "guided_regex", "guided_choice", "ignore_eos", "skip_special_tokens", "stream_options"),
        *("parallel_tool_calls", "reasoning_effort", "modalities", "cache_salt", "structural_tag", "regex", "ebnf"),
    ]
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"])},
        optional={
            "content": st.text(max_size=10) | VALUES,
            "tool_calls": VALUES,
            "tool_call_id": st.text(max_size=5),
            "name": st.text(max_size=5),
            "reasoning_content": st.text(max_size=5),
        },
    ),
    max_size=4,
)


SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([{}, True, False, {"type": "string"}, {"type": ["null", "number"]}, {"const": 1}, {"enum": []}])
    | st.fixed_dictionaries({"pattern": st.sampled_from(["(", "a*", "^(a+)+$", "(?=x)", "\\p{Greek}", "[", ""])})
    | st.fixed_dictionaries({"$ref": st.sampled_from(["#", "#/$defs/a", "#/nowhere", "http://x/", "", "other.json"])})
    | VALUES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "integer", 7, ["object"], []]),
            "properties": st.dictionaries(st.sampled_from(["a", "b", ""]), inner, max_size=2) | VALUES,
            "required": st.just(["a"]) | VALUES,
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "$defs": st.dictionaries(st.sampled_from(["a"]), inner, max_size=1),
            "minItems": st.integers(-1, 3) | VALUES,
            "additionalProperties": inner,
            "$schema": st.sampled_from(["http://json-schema.org/draft-07/schema#", "nonsense", 7]),
        },
    ),
    max_leaves=6,
)
TOOLS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["f", "g", "a b", "é", "x" * 65])},
        optional={"parameters": SCHEMAS, "strict": st.booleans(), "description": st.text(max_size=5)},
    ),
    min_size=1,
    max_size=2,
)
CHOICES = st.sampled_from(
    ["auto", "none", "required", "all", {"type": "function", "function": {"name": "f"}}, {"type": "function"}, 7]
)


@pytest.mark.full
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(tools=TOOLS, choice=CHOICES, schema=SCHEMAS, form=st.booleans(), stream=st.booleans())
async def test_no_schema_at_all_makes_the_gateway_fail(
    house: House, tools: list[Any], choice: Any, schema: Any, form: bool, stream: bool
) -> None:
    sent = body("Call f", max_tokens=200, stream=stream)
    if form:
        sent["response_format"] = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    else:
        sent |= {"tools": [{"type": "function", "function": tool} for tool in tools], "tool_choice": choice}
    answer = await house.http.post(CHAT, content=json.dumps(sent))

    assert answer.status_code in (200, 400, 502), (sent, answer.text)
    assert answer.status_code != 502 or "conform" in answer.text, (sent, answer.text)
    assert house.gateway.in_flight == 0


@pytest.mark.full
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(fields=st.dictionaries(FIELDS, VALUES, max_size=3), messages=st.none() | MESSAGES)
async def test_no_json_at_all_makes_the_gateway_fail(
    house: House, fields: dict[str, Any], messages: list[Any] | None
) -> None:
    """Whatever the fields hold, the answer is an answer or blames the request: never 500, never a hang."""
    sent = {**body("Hi", max_tokens=5), **({} if messages is None else {"messages": messages}), **fields}
    answer = await house.http.post(CHAT, content=json.dumps(sent))

    assert answer.status_code in (200, 400, 404), (sent, answer.text)
    assert house.gateway.in_flight == 0


_GOOGLE = [{"role": "user", "parts": [{"text": "a"}]}]
NAMELESS: list[tuple[str, dict[str, Any], str]] = [
    (
        CHAT,
        {"messages": [USER], "tools": [{"type": "function", "function": {"name": "a b"}}]},
        "tools[0].function.name",
    ),
    ("/v1/responses", {"input": "a", "tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
    (
        "/v1/messages",
        {"max_tokens": 5, "messages": [USER], "tools": [{"name": "a b", "input_schema": {"type": "object"}}]},
        "tools.0.name",
    ),
    (
        "/v1beta/models/sim:generateContent",
        {"contents": _GOOGLE, "tools": [{"functionDeclarations": [{"name": "a b"}]}]},
        "tools[0].functionDeclarations[0].name",
    ),
    ("/v1beta/interactions", {"input": "a", "tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
]


@pytest.mark.parametrize(("path", "sent", "field"), NAMELESS, ids=[path for path, _, _ in NAMELESS])
async def test_a_tool_whose_name_is_no_word_is_blamed_and_not_the_choice_of_tools(
    house: House, path: str, sent: dict[str, Any], field: str
) -> None:
    answer = await house.http.post(path, json=sent if ":" in path else {"model": "sim", **sent})

    assert answer.status_code == 400
    assert f'"{field}"' in answer.text or f"{field}:" in answer.text
    assert "tool_choice" not in answer.text

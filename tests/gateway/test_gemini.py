"""generateContent, end to end over real gRPC, with google-genai as the client."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from tests.gateway.conftest import House, eventually, in_process, over_http, settled

from smg_core.apis.gemini.decode import decode_generate
from smg_core.request import Image, Reasoning, ToolCall, ToolResult
from smg_core.wire.base import Incoming
from smg_multimodal.fetching.egress import data_url
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.testing import tool_call

pytestmark = pytest.mark.anyio

VERSIONS = ["v1", "v1beta", "v1alpha"]
HELLO = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]},
}
HOSTED = (
    "googleSearch",
    "googleSearchRetrieval",
    "codeExecution",
    "url_context",
    "fileSearch",
    "googleMaps",
    "computerUse",
)
THINKING = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True))


def client(house: House, version: str = "v1beta") -> genai.Client:
    return genai.Client(
        api_key="secret-key-of-a-test", http_options=types.HttpOptions(base_url=house.url, api_version=version)
    )


@asynccontextmanager
async def talking(*replies: Reply | str, version: str = "v1beta") -> AsyncIterator[tuple[House, Any]]:
    config = SimulatorConfig(replies=tuple(Reply(each) if isinstance(each, str) else each for each in replies), seed=1)
    async with over_http(config) as house, client(house, version).aio as made:
        yield house, made


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_thoughts_end_at_their_budget_and_the_answer_follows_with_its_own_logprobs(stream: bool) -> None:
    long = " ".join(["word"] * 100)
    asked = types.GenerateContentConfig(
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_budget=16),
        response_logprobs=True,
        logprobs=1,
    )
    async with talking(Reply("never said", long), "The answer.") as (house, made):
        if stream:
            asking = made.models.generate_content_stream(model="sim", contents="Hello", config=asked)
            answers = [chunk async for chunk in await asking]
        else:
            answers = [await made.models.generate_content(model="sim", contents="Hello", config=asked)]
        first, second = house.engine.requests

    parts = [part for answer in answers for part in (answer.candidates[0].content.parts or []) if part.text]
    scores = [answer.candidates[0].logprobs_result for answer in answers]
    tokens = [each.token for found in scores if found is not None for each in found.chosen_candidates]
    assert 0 < len("".join(part.text for part in parts if part.thought).split()) <= 16
    assert "".join(part.text for part in parts if not part.thought).strip() == "The answer."
    assert "".join(tokens).strip() == "The answer."
    assert answers[-1].usage_metadata.thoughts_token_count == 16
    assert len(second.input_ids) > len(first.input_ids) + 16


async def test_a_budget_for_several_candidates_is_refused_by_its_field() -> None:
    asked = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(thinking_budget=16), candidate_count=2)
    async with talking("Hello.") as (_, made):
        with pytest.raises(errors.ClientError) as caught:
            await made.models.generate_content(model="sim", contents="Hello", config=asked)

    assert caught.value.code == 400
    assert "thinkingBudget" in json.dumps(caught.value.details)


@pytest.mark.full
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_whole_answer_has_text_reason_and_usage(version: str) -> None:
    async with talking("Good day to you.", version=version) as (_, made):
        answer = await made.models.generate_content(model="sim", contents="Hello")
        counted = await made.models.count_tokens(model="sim", contents="Hello")

    assert answer.text == "Good day to you."
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP
    assert answer.model_version == "sim"
    assert answer.response_id
    usage = answer.usage_metadata
    assert usage.total_token_count == usage.prompt_token_count + usage.candidates_token_count
    assert counted.total_tokens == usage.prompt_token_count


async def test_a_stream_adds_up_to_the_whole_answer() -> None:
    text = "Grüße aus Zürich 🙂, 東京\u2028too."
    async with talking(text, text) as (_, made):
        whole = await made.models.generate_content(model="sim", contents="Hello")
        chunks = [chunk async for chunk in await made.models.generate_content_stream(model="sim", contents="Hello")]

    assert "".join(chunk.text or "" for chunk in chunks) == whole.text == text
    assert [chunk.candidates[0].finish_reason for chunk in chunks if chunk.candidates[0].finish_reason] == ["STOP"]
    assert chunks[-1].candidates[0].finish_reason == "STOP"
    assert chunks[-1].usage_metadata == whole.usage_metadata
    assert {chunk.usage_metadata.prompt_token_count for chunk in chunks} == {whole.usage_metadata.prompt_token_count}
    assert len({chunk.response_id for chunk in chunks}) == 1


async def test_thoughts_are_shown_where_they_are_asked_for_and_counted_in_any_case() -> None:
    reply = Reply("Yes.", reasoning="Let me see.")
    async with talking(*[reply] * 4) as (_, made):
        shown = await made.models.generate_content(model="sim", contents="Well?", config=THINKING)
        hidden = await made.models.generate_content(model="sim", contents="Well?")
        streams = []
        for config in (THINKING, None):
            stream = await made.models.generate_content_stream(model="sim", contents="Well?", config=config)
            streams.append([part async for chunk in stream for part in chunk.candidates[0].content.parts])

    parts = shown.candidates[0].content.parts
    assert [(part.text.strip(), bool(part.thought)) for part in parts] == [("Let me see.", True), ("Yes.", False)]
    assert parts[-1].thought_signature
    assert [part.text.strip() for part in hidden.candidates[0].content.parts] == ["Yes."]
    for answer in (shown, hidden):
        usage = answer.usage_metadata
        assert usage.thoughts_token_count > 0
        counts = usage.prompt_token_count + usage.candidates_token_count + usage.thoughts_token_count
        assert usage.total_token_count == counts
    assert "".join(part.text for part in streams[0] if part.thought).strip() == "Let me see."
    assert not any(part.thought for part in streams[1])
    for streamed in streams:
        assert "".join(part.text for part in streamed if not part.thought).strip() == "Yes."
        assert [bool(part.thought_signature) for part in streamed if part.thought_signature] == [True]


@pytest.mark.full
async def test_a_function_is_called_by_the_sdk_itself_and_its_result_answered() -> None:
    asked: list[str] = []

    def get_weather(city: str) -> dict[str, int]:
        """The weather in a city."""
        asked.append(city)
        return {"degrees": 3}

    config = types.GenerateContentConfig(tools=[get_weather])
    replies = [tool_call("get_weather", {"city": "Oslo"}), Reply("Three degrees.")]
    async with talking(*replies, *replies) as (house, made):
        answer = await made.models.generate_content(model="sim", contents="Weather in Oslo?", config=config)
        stream = await made.models.generate_content_stream(model="sim", contents="Weather in Oslo?", config=config)
        text = "".join([chunk.text or "" async for chunk in stream])
        await settled(house)

    assert answer.text == text == "Three degrees."
    assert asked == ["Oslo", "Oslo"]


async def test_a_chat_sends_its_history_back_with_its_signatures() -> None:
    replies = [Reply("One.", reasoning="Hm."), Reply("Two."), Reply("Three.")]
    async with talking(*replies) as (house, made):
        chat = made.chats.create(model="sim", config=THINKING)
        first = await chat.send_message("Count.")
        second = "".join([chunk.text or "" async for chunk in await chat.send_message_stream("Go on.")])
        third = await chat.send_message("And on.")
        history = chat.get_history(curated=True)
        await settled(house)

    assert (first.text.strip(), second.strip(), third.text.strip()) == ("One.", "Two.", "Three.")
    assert any(part.thought_signature for content in history for part in content.parts)
    assert third.usage_metadata.prompt_token_count > first.usage_metadata.prompt_token_count


async def test_an_answer_is_held_to_a_schema_and_to_an_enum() -> None:
    schema = {"type": "OBJECT", "properties": {"age": {"type": "INTEGER"}}, "required": ["age"]}
    async with talking() as (_, made):
        as_json = types.GenerateContentConfig(response_mime_type="application/json", response_schema=schema)
        answer = await made.models.generate_content(model="sim", contents="Who?", config=as_json)
        other = types.GenerateContentConfig(
            response_mime_type="application/json",
            response_json_schema={"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
        )
        by_json_schema = await made.models.generate_content(model="sim", contents="Who?", config=other)
        enum = types.GenerateContentConfig(
            response_mime_type="text/x.enum", response_schema={"type": "STRING", "enum": ["red", "green"]}
        )
        colour = await made.models.generate_content(model="sim", contents="Which?", config=enum)

    assert isinstance(json.loads(answer.text)["age"], int)
    assert isinstance(json.loads(by_json_schema.text)["a"], bool)
    assert colour.text in ("red", "green")


async def test_several_candidates_stops_and_limits() -> None:
    async with talking("one two three four", "one two three four", "one two three four") as (_, made):
        several = await made.models.generate_content(
            model="sim", contents="Go", config=types.GenerateContentConfig(candidate_count=2, temperature=1)
        )
        stopped = await made.models.generate_content(
            model="sim", contents="Go", config=types.GenerateContentConfig(stop_sequences=["three"])
        )
        cut = await made.models.generate_content(
            model="sim", contents="Go", config=types.GenerateContentConfig(max_output_tokens=2, top_k=5.0)
        )

    assert [candidate.index for candidate in several.candidates] == [0, 1]
    assert [candidate.content.parts[0].text for candidate in several.candidates] == ["one two three four"] * 2
    assert (stopped.text, stopped.candidates[0].finish_reason) == ("one two ", "STOP")
    assert cut.candidates[0].finish_reason == "MAX_TOKENS"


async def test_logprobs_are_listed_token_by_token() -> None:
    config = types.GenerateContentConfig(response_logprobs=True, logprobs=2)
    async with talking("one two", "one two") as (_, made):
        answer = await made.models.generate_content(model="sim", contents="Go", config=config)
        stream = await made.models.generate_content_stream(model="sim", contents="Go", config=config)
        results = [chunk.candidates[0].logprobs_result async for chunk in stream]

    chosen = answer.candidates[0].logprobs_result.chosen_candidates
    assert "".join(each.token for each in chosen) == "one two"
    assert len(answer.candidates[0].logprobs_result.top_candidates) == len(chosen)
    assert answer.candidates[0].avg_logprobs < 0
    assert "".join(each.token for result in results if result for each in result.chosen_candidates) == "one two"


@pytest.mark.full
async def test_models_are_listed_and_found() -> None:
    for version in VERSIONS:
        async with talking(version=version) as (_, made):
            names = [model.name async for model in await made.models.list()]
            one = await made.models.get(model="sim")
            with pytest.raises(errors.ClientError) as missing:
                await made.models.get(model="nobody")

        assert names == ["models/sim"]
        assert one.name == "models/sim"
        assert one.input_token_limit > 0
        assert "generateContent" in one.supported_actions
        assert (missing.value.code, missing.value.status) == (404, "NOT_FOUND")


# ---------------------------------------------------------------------------------------------------------- by hand


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with in_process() as made:
        yield made


def path(verb: str = "generateContent", model: str = "sim", version: str = "v1beta") -> str:
    return f"/{version}/models/{model}:{verb}"


async def test_a_stream_of_events_has_data_lines_only(house: House) -> None:
    answer = await house.http.post(path("streamGenerateContent") + "?alt=sse", json=HELLO)

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert all(line == "" or line.startswith("data: {") for line in answer.text.split("\n"))


async def test_without_alt_a_stream_is_one_json_array(house: House) -> None:
    answer = await house.http.post(path("streamGenerateContent"), json=HELLO)

    assert answer.headers["content-type"] == "application/json"
    chunks = answer.json()
    assert len(chunks) > 1
    assert [chunk["candidates"][0].get("finishReason") for chunk in chunks][-1] == "STOP"


async def test_both_spellings_any_case_and_numbers_as_texts_are_one_request(house: House) -> None:
    plain = {
        **HELLO,
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {"maxOutputTokens": 5, "topK": 3, "thinkingConfig": {"thinkingBudget": 0}},
        "tools": [{"functionDeclarations": [WEATHER]}],
        "toolConfig": {"functionCallingConfig": {"mode": "NONE"}},
    }
    other = {
        "contents": [{"role": "USER", "parts": [{"text": "Hello", "thought": None}]}],
        "system_instruction": {"parts": [{"text": "Be brief."}], "role": None},
        "generation_config": {"max_output_tokens": "5", "top_k": 3.0, "thinkingConfig": {"thinking_budget": "0"}},
        "tools": [{"function_declarations": [WEATHER]}],
        "tool_config": {"function_calling_config": {"mode": "none"}},
    }
    counts = []
    for body in (plain, other):
        answer = await house.http.post(path(), json=body)
        assert answer.status_code == 200, answer.text
        counts.append(answer.json()["usageMetadata"]["promptTokenCount"])

    assert counts[0] == counts[1]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"contents": []}, "contents", "not specified"),
    ({"contents": [{"role": "user", "parts": []}]}, "contents[0].parts", "must not be empty"),
    ({"contents": [{"role": "user", "parts": [{}]}]}, "contents[0].parts[0].data", "oneof field 'data'"),
    ({"nonsense": 1}, "nonsense", 'Unknown name "nonsense": Cannot find field.'),
    (
        {"contents": [{"parts": [{"text": "a", "foo": 1}]}]},
        "contents[0].parts[0].foo",
        "Unknown name \"foo\" at 'contents[0].parts[0]'",
    ),
    (
        {"contents": [{"role": "robot", "parts": [{"text": "a"}]}]},
        "contents[0].role",
        "Invalid value at 'contents[0].role'",
    ),
    ({"generationConfig": {"temperature": 9}}, "generationConfig.temperature", "Invalid value"),
    ({"generation_config": {"top_p": 9}}, "generationConfig.topP", "Invalid value"),
    ({"generationConfig": {"candidateCount": 1000}}, "generationConfig.candidateCount", "Invalid"),
    ({"generationConfig": {"maxOutputTokens": 10**9}}, "generationConfig.maxOutputTokens", "exceed"),
    ({"generationConfig": {"logprobs": 2}}, "generationConfig.logprobs", "responseLogprobs"),
    (
        {"generationConfig": {"responseModalities": ["AUDIO"]}},
        "generationConfig.responseModalities[0]",
        "not supported",
    ),
    ({"generationConfig": {"speechConfig": {}}}, "generationConfig.speechConfig", "not supported"),
    ({"generationConfig": {"responseMimeType": "text/html"}}, "generationConfig.responseMimeType", "mimetypes"),
    (
        {"generationConfig": {"responseSchema": {"type": "STRING"}, "responseMimeType": "text/plain"}},
        "generationConfig.responseSchema",
        "application/json",
    ),
    (
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 5, "thinkingLevel": "LOW"}}},
        "generationConfig.thinkingConfig.thinkingLevel",
        "only one",
    ),
    ({"generationConfig": {"stopSequences": [""]}}, "generationConfig.stopSequences[0]", "empty"),
    (
        {"tools": [{"urlContext": {}}], "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        "tools[0].urlContext",
        "not supported",
    ),
    (
        {"tools": [{"functionDeclarations": [{"name": "f", "behavior": "NON_BLOCKING"}]}]},
        "tools[0].functionDeclarations[0].behavior",
        "not supported",
    ),
    ({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "toolConfig.functionCallingConfig.mode", "ANY"),
    (
        {
            "tools": [{"functionDeclarations": [WEATHER]}],
            "toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["f"]}},
        },
        "toolConfig.functionCallingConfig.allowedFunctionNames",
        "ANY or VALIDATED",
    ),
    (
        {"contents": [{"parts": [{"fileData": {"fileUri": "files/abc"}}]}]},
        "contents[0].parts[0]",
        "No such File",
    ),
    (
        {
            "contents": [
                {"parts": [{"text": "x"}]},
                {"role": "model", "parts": [{"text": "a", "thoughtSignature": "$"}]},
            ]
        },
        "contents[1].parts[0].thoughtSignature",
        "Base64",
    ),
    (
        {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]}]},
        "contents[0].parts[0]",
        "image",
    ),
    (
        {"contents": [{"parts": [{"text": "x", "inlineData": {"mimeType": "image/png", "data": "AA=="}}]}]},
        "contents[0].parts[0].inlineData",
        "oneof field 'data' is already set",
    ),
    (
        {"contents": [{"role": "model", "parts": [{"text": "x", "functionCall": {"name": "f"}}]}]},
        "contents[0].parts[0].functionCall",
        "oneof field 'data' is already set",
    ),
    ({"continuationToken": "x"}, "continuationToken", "not supported"),
    ({"model": "models/other"}, "model", "path"),
    ({"generationConfig": {"topK": 0.5}}, "generationConfig.topK", "whole number"),
    ({"generationConfig": {"topK": 40.4}}, "generationConfig.topK", "whole number"),
]


@pytest.mark.parametrize(
    ("fields", "field", "words"), REFUSED, ids=[json.dumps(fields)[:70] for fields, _, _ in REFUSED]
)
async def test_a_refusal_is_in_googles_words_and_names_the_field(
    fields: dict[str, Any], field: str, words: str, house: House
) -> None:
    for verb in ("generateContent", "streamGenerateContent"):
        answer = await house.http.post(path(verb), json={**HELLO, **fields})
        error = answer.json()["error"]

        assert (answer.status_code, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT"), error
        violations = [each for detail in error["details"] for each in detail["fieldViolations"]]
        assert [each["field"] for each in violations] == [field]
        assert words in error["message"]


@pytest.mark.parametrize(
    ("method", "target", "status", "name"),
    [
        ("POST", "/v1beta/models/nobody:generateContent", 404, "NOT_FOUND"),
        ("POST", "/v1beta/models/a:b:c", 404, "NOT_FOUND"),
        ("POST", "/v1beta/models/a:b:generateContent", 404, "NOT_FOUND"),
        ("POST", "/v1beta/models/..%2fsim:generateContent", 404, "NOT_FOUND"),
        ("GET", "/v1beta/models/sim:generateContent", 404, "NOT_FOUND"),
        ("GET", "/v1beta/nothing", 404, "NOT_FOUND"),
        ("POST", "/v1alpha/models", 405, "UNIMPLEMENTED"),
        ("GET", "/v1beta/models/nobody", 404, "NOT_FOUND"),
        ("GET", "/v1beta/models?pageSize=x", 400, "INVALID_ARGUMENT"),
        ("GET", "/v1beta/models?pageSize=-1", 400, "INVALID_ARGUMENT"),
        ("GET", "/v1beta/models?pageToken=nobody", 400, "INVALID_ARGUMENT"),
        ("PUT", "/v1beta/models/sim", 405, "UNIMPLEMENTED"),
        ("POST", "/v1/models/nobody:countTokens", 404, "NOT_FOUND"),
    ],
)
async def test_every_error_below_the_apis_paths_has_googles_envelope(
    method: str, target: str, status: int, name: str, house: House
) -> None:
    answer = await house.http.request(method, target, json=HELLO if method == "POST" else None)

    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["status"]) == (
        status,
        status,
        name,
    )


@pytest.mark.parametrize("version", ["v1beta", "v1alpha"])
@pytest.mark.parametrize(("name", "verb"), [("sim", "predict"), ("a:b", "c")])
async def test_an_unknown_method_of_a_model_is_not_found_and_named(
    version: str, name: str, verb: str, house: House
) -> None:
    answer = await house.http.post(f"/{version}/models/{name}:{verb}", json=HELLO)
    error = answer.json()["error"]

    assert (answer.status_code, error["status"], "allow" in answer.headers) == (404, "NOT_FOUND", False)
    assert f"'{verb}'" in error["message"]


async def test_cached_content_is_not_found(house: House) -> None:
    answer = await house.http.post(path(), json={**HELLO, "cachedContent": "cachedContents/x"})

    assert (answer.status_code, answer.json()["error"]["status"]) == (404, "NOT_FOUND")


async def test_counting_takes_a_whole_request_and_asks_no_engine(house: House) -> None:
    tools = [{"functionDeclarations": [WEATHER]}]
    asked = {**HELLO, "systemInstruction": {"parts": [{"text": "Be brief."}]}, "tools": tools}
    answered = await house.http.post(path(), json=asked)
    await eventually(lambda: not house.engine.active)
    before = dict(house.engine.counters)
    counted = await house.http.post(
        path("countTokens"), json={"generateContentRequest": {"model": "models/sim", **asked}}
    )
    long = await house.http.post(path("countTokens"), json={"contents": [{"parts": [{"text": "word " * 50_000}]}]})

    assert counted.json()["totalTokens"] == answered.json()["usageMetadata"]["promptTokenCount"]
    assert long.json()["totalTokens"] >= 50_000
    assert dict(house.engine.counters) == before


async def test_a_thousand_parts_and_roles_in_odd_orders_are_taken(house: House) -> None:
    many = {"contents": [{"role": "user", "parts": [{"text": "a "}] * 1000}]}
    odd = {
        "contents": [
            {"role": role, "parts": [{"text": "a"}]} for role in ("model", "model", "user", "user", "model", "user")
        ]
    }
    for body in (many, odd):
        answer = await house.http.post(path(), json=body)
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_of_googles_servers_are_taken_and_the_model_answers_without_them(
    house: House, stream: bool
) -> None:
    hosted: dict[str, Any] = {name: {} for name in HOSTED}
    functions = {"functionDeclarations": [WEATHER]}
    verb = "streamGenerateContent" if stream else "generateContent"
    counts = []
    for tools in ([functions], [hosted, functions], [{"google_search": {}}, functions | hosted]):
        answer = await house.http.post(path(verb), json={**HELLO, "tools": tools})
        assert answer.status_code == 200, answer.text
        last = answer.json()[-1] if stream else answer.json()
        counts.append(last["usageMetadata"]["promptTokenCount"])
    demanded = {
        "tools": [hosted, functions],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["googleSearch"]}},
    }
    refused = await house.http.post(path(verb), json={**HELLO, **demanded})

    assert len(set(counts)) == 1
    assert refused.status_code == 400
    assert "googleSearch" in refused.json()["error"]["message"]


@pytest.mark.parametrize("alphabet", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("padded", [True, False])
def test_bytes_are_read_in_both_alphabets_with_and_without_padding(alphabet: Any, padded: bool) -> None:
    data = b"\xfb\xff\xfe" + b"data"
    text = alphabet(data).decode()
    part = {"inlineData": {"mimeType": "image/png", "data": text if padded else text.rstrip("=")}}
    body = json.dumps({"contents": [{"parts": [part]}]}).encode()

    request = decode_generate(Incoming(body, "r", path_values={"model": "sim"})).generation

    (picture,) = request.messages[0].parts
    assert isinstance(picture, Image)
    assert data_url(picture.source.url or "", max_bytes=99) == data


@pytest.mark.parametrize(
    ("results", "answered"),
    [
        ([("f", "1"), ("f", None)], ["1", "call_2_1"]),
        ([("f", None), ("f", None)], ["1", "call_2_1"]),
        ([("f", "9"), ("g", "1")], ["1", "1"]),
        ([("g", None), ("f", None)], ["call_2_2", "1"]),
        ([("nobody", "9"), ("f", None), ("f", None)], ["1", "call_2_1", "call_2_2"]),
    ],
)
def test_results_with_and_without_ids_are_matched_by_id_then_name_then_order(
    results: list[tuple[str, str | None]], answered: list[str]
) -> None:
    calls = [{"name": "f", "id": "1"}, {"name": "f"}, {"name": "g"}]
    told = [{"name": name, "response": {}, **({} if id_ is None else {"id": id_})} for name, id_ in results]
    contents = [
        {"role": "user", "parts": [{"text": "Go"}]},
        {"role": "model", "parts": [{"functionCall": call} for call in calls]},
        {"role": "user", "parts": [{"functionResponse": each} for each in told]},
    ]

    request = decode_generate(Incoming(json.dumps({"contents": contents}).encode(), "r", path_values={"model": "sim"}))

    parts = [part for message in request.generation.messages for part in message.parts]
    assert [part.call_id for part in parts if isinstance(part, ToolResult)] == answered


def test_a_result_without_an_id_is_of_the_last_turns_call_before_an_older_one_that_was_left() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "Go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "id": "old"}}]},
        {"role": "user", "parts": [{"text": "Never mind"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "id": "new"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
    ]
    request = decode_generate(Incoming(json.dumps({"contents": contents}).encode(), "r", path_values={"model": "sim"}))

    parts = [part for message in request.generation.messages for part in message.parts]
    assert [part.call_id for part in parts if isinstance(part, ToolResult)] == ["new"]


SEAL, OTHER_SEAL = "Z3cxLmFhYQ==", "Z3cxLmJiYg=="


@pytest.mark.parametrize(
    ("parts", "read"),
    [
        ([("t", "A"), ("x", "one"), ("", SEAL)], ["seal", "one"]),
        ([("t", "A"), ("t", "B"), ("x", "one", SEAL)], ["seal", "one"]),
        ([("t", "A"), ("x", "one"), ("f", "f", SEAL)], ["seal", "one", "f"]),
        ([("x", "one"), ("f", "f", SEAL)], ["seal", "one", "f"]),
        ([("t", "A"), ("x", "one", SEAL), ("t", "B"), ("x", "two"), ("", OTHER_SEAL)], ["seal", "one", "other", "two"]),
        ([("x", "one"), ("", SEAL), ("x", "two"), ("", OTHER_SEAL)], ["seal", "onetwo", "other"]),
        ([("t", "A"), ("x", "one", SEAL), ("t", "B"), ("x", "two")], ["seal", "one", "B", "two"]),
        ([("t", "A"), ("x", "one")], ["A", "one"]),
    ],
)
def test_reasoning_that_comes_in_the_clear_and_sealed_is_read_once(
    parts: list[tuple[str, ...]], read: list[str]
) -> None:
    def wire(kind: str, value: str, *seal: str) -> dict[str, Any]:
        if not kind:
            return {"text": "", "thoughtSignature": value}
        part: dict[str, Any] = {"functionCall": {"name": value}} if kind == "f" else {"text": value}
        return part | ({"thought": True} if kind == "t" else {}) | ({"thoughtSignature": seal[0]} if seal else {})

    def name(part: Any) -> str:
        if isinstance(part, Reasoning) and part.seal is not None:
            return {b"gw1.aaa": "seal", b"gw1.bbb": "other"}[part.seal]
        return str(part.name if isinstance(part, ToolCall) else part.text)

    contents = [
        {"role": "user", "parts": [{"text": "Go"}]},
        {"role": "model", "parts": [wire(*each) for each in parts]},
    ]
    body = json.dumps({"contents": contents}).encode()
    request = decode_generate(Incoming(body, "r", path_values={"model": "sim"})).generation

    assert [name(part) for part in request.messages[-1].parts] == read


@pytest.mark.full
async def test_a_chat_that_shows_its_thoughts_has_each_once_in_the_next_prompt() -> None:
    weather = types.Tool(function_declarations=[types.FunctionDeclaration(name="f", parameters_json_schema={})])
    config = types.GenerateContentConfig(tools=[weather], thinking_config=types.ThinkingConfig(include_thoughts=True))
    for stream in (False, True):
        replies = [Reply("Let me look.", "I think hard.", tool_calls=(("f", {}),)), Reply("Done.")]
        async with talking(*replies) as (house, made):
            chat = made.chats.create(model="sim", config=config)
            if stream:
                async for _ in await chat.send_message_stream("One"):
                    pass
            else:
                await chat.send_message("One")
            await chat.send_message(types.Part.from_function_response(name="f", response={"result": "ok"}))
            prompt = house.gateway.models["sim"].tokenizer.decode(house.engine.requests[-1].input_ids)
            await settled(house)

        assert prompt.count("I think hard.") <= 1
        assert prompt.count("Let me look.") == 1


async def test_one_object_stands_for_a_list_of_one_and_an_empty_system_instruction_for_none(house: House) -> None:
    alone = {
        "contents": {"parts": {"text": "Hello"}},
        "system_instruction": {"parts": {"text": "Be brief."}},
        "tools": {"functionDeclarations": WEATHER},
    }
    listed = {
        "contents": [{"parts": [{"text": "Hello"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [WEATHER]}],
    }
    prompts = []
    for body in (
        alone,
        listed,
        HELLO,
        {**HELLO, "systemInstruction": {"parts": []}},
        {**HELLO, "systemInstruction": {"parts": {"text": ""}}},
    ):
        assert (await house.http.post(path(), json=body)).status_code == 200
        prompts.append(list(house.engine.requests[-1].input_ids))

    assert prompts[0] == prompts[1]
    assert prompts[2] == prompts[3] == prompts[4]


async def test_results_find_their_calls_without_ids(house: House) -> None:
    def call(name: str, **more: str) -> dict[str, Any]:
        return {"functionCall": {"name": name, "args": {"a": 1}, **more}}

    def result(name: str, **more: str) -> dict[str, Any]:
        return {"functionResponse": {"name": name, "response": {"result": name}, **more}}

    user = {"role": "user", "parts": [{"text": "Go"}]}
    turns = [
        [
            user,
            {"role": "model", "parts": [call("f"), call("g")]},
            {"role": "user", "parts": [result("g"), result("f")]},
        ],
        [
            user,
            {"role": "model", "parts": [call("f", id="1"), call("g")]},
            {"role": "function", "parts": [result("g"), result("f", id="1")]},
        ],
        [
            user,
            {"role": "model", "parts": [call("f", id="1")]},
            {"role": "user", "parts": [result("f"), {"text": "And?"}]},
        ],
    ]
    for contents in turns:
        answer = await house.http.post(
            path(), json={"contents": contents, "tools": [{"functionDeclarations": [WEATHER]}]}
        )
        assert answer.status_code == 200, answer.text


@pytest.mark.full
async def test_the_key_is_nowhere_in_the_log_or_in_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    key = "AIza-very-secret"
    async with over_http() as house:
        for target in (
            path(),
            path(model="nobody"),
            "/v1beta/nothing",
            path("streamGenerateContent"),
            "/v1beta/models",
        ):
            for headers, query in (({"x-goog-api-key": key}, ""), ({}, f"?key={key}")):
                for body in (HELLO, {"contents": []}, {"bad": 1}):
                    answer = await house.http.post(target + query, json=body, headers=headers)
                    assert key not in answer.text
                    assert key not in str(answer.headers)
        moments = repr(house.observer.moments)

    ours = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    assert key not in "".join(ours)
    assert key not in moments


@pytest.mark.parametrize("field", ["responseSchema", "responseJsonSchema"])
def test_a_schema_is_refused_under_the_name_that_it_was_sent_with(field: str) -> None:
    config = {field: {"type": "object"}, "responseMimeType": "application/json"}
    body = json.dumps({"contents": [{"parts": [{"text": "a"}]}], "generationConfig": config}).encode()
    request = decode_generate(Incoming(body, "r", {"model": "m"}))

    assert request.locate("response_format") == f"generationConfig.{field}"
    assert request.locate("response_format.schema") == f"generationConfig.{field}"


async def test_a_field_in_both_of_its_spellings_is_refused_by_its_place() -> None:
    """One of the two values would be lost. One that is null says nothing."""
    settings = {"maxOutputTokens": 3}
    thinking = {"thinkingConfig": {"includeThoughts": True, "include_thoughts": False}}
    part = {"functionCall": {"name": "f"}, "function_call": {"name": "g"}}
    asked: list[tuple[dict[str, Any], str]] = [
        ({**HELLO, "generationConfig": settings, "generation_config": settings}, "generationConfig"),
        ({**HELLO, "generation_config": thinking}, "generationConfig.thinkingConfig.includeThoughts"),
        ({"contents": [{"role": "model", "parts": [part]}]}, "contents[0].parts[0].functionCall"),
    ]
    async with in_process() as house:
        for body, place in asked:
            answer = await house.http.post(path(), json=body)
            assert answer.status_code == 400, answer.text
            message = answer.json()["error"]["message"]
            assert message == f"Invalid value at '{place}': the field is given in both of its spellings."
        once = {**HELLO, "generation_config": settings, "generationConfig": None}
        assert (await house.http.post(path(), json=once)).status_code == 200

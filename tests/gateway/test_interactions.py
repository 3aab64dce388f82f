"""Interactions, end to end over real gRPC, with google-genai as the client."""

import asyncio
import json
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google import genai
from google.genai import types
from tests.gateway.conftest import House, in_process, over_http
from tests.shared import PATIENCE

from smg_core.apis.interactions.grammar import END, InteractionGrammar
from smg_core.sse import SseReader
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

STEPS, LEGACY = "/v1/interactions", "/v1beta/interactions"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
THINKS = Reply("Yes.", reasoning="Let me see.")


def client(house: House) -> genai.Client:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the API is experimental, the SDK says
        return genai.Client(api_key="secret-key-of-a-test", http_options=types.HttpOptions(base_url=house.url))


@asynccontextmanager
async def talking(*replies: Reply | str) -> AsyncIterator[tuple[House, Any]]:
    config = SimulatorConfig(replies=tuple(Reply(each) if isinstance(each, str) else each for each in replies), seed=1)
    async with over_http(config) as house, client(house).aio as made:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield house, made.interactions


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with in_process() as made:
        yield made


def events_of(data: bytes) -> list[Any]:
    reader = SseReader()
    found = [event.data for event in reader.feed(data)]
    assert found[-1] == "[DONE]"
    return [json.loads(each) for each in found[:-1]]


def check_interaction(events: list[Any]) -> InteractionGrammar:
    grammar = InteractionGrammar()
    for place, event in enumerate(events):
        assert grammar.take(event) is None, (place, event, grammar.state)
    assert grammar.state == END
    return grammar


async def streamed(house: House, path: str, reply: Reply, **body: Any) -> tuple[list[Any], InteractionGrammar]:
    """The events of a stream, which keep the grammar."""
    house.engine.say(reply)
    answer = await house.http.post(path, json={"model": "sim", "input": "Go", "stream": True, **body})
    assert answer.status_code == 200, answer.text
    events = events_of(answer.content)
    return events, check_interaction(events)


# ------------------------------------------------------------------------------------------------------- with the SDK


async def test_a_whole_interaction_has_text_status_and_usage_and_is_kept() -> None:
    async with talking("Good day to you.") as (_, made):
        answer = await made.create(model="sim", input="Hello")
        again = await made.get(answer.id, include_input=True)
        await made.delete(answer.id)
        with pytest.raises(Exception, match="not found") as missing:
            await made.get(answer.id)

    assert answer.output_text == again.output_text == "Good day to you."
    assert answer.status == again.status == "completed"
    assert again.usage.total_tokens == answer.usage.total_tokens
    assert again.input[0].content[0].text == "Hello"
    assert answer.usage.total_tokens == answer.usage.total_input_tokens + answer.usage.total_output_tokens
    assert missing.value.status_code == 404


@pytest.mark.full
async def test_a_stream_adds_up_to_what_is_kept_and_is_read_again_from_any_event() -> None:
    async with talking(THINKS) as (_, made):
        stream = await made.create(
            model="sim", input="Well?", stream=True, generation_config={"thinking_summaries": "auto"}
        )
        events = [event async for event in stream]
        id = events[0].interaction.id
        kept = await made.get(id)
        whole = [event async for event in await made.get(id, stream=True)]
        later = [event async for event in await made.get(id, stream=True, last_event_id=events[2].event_id)]

    texts = [event.delta.text for event in events if event.event_type == "step.delta" and event.delta.type == "text"]
    assert "".join(texts) == kept.output_text
    assert kept.output_text.strip() == "Yes."
    assert events[0].event_type == "interaction.created"
    assert [event.event_type for event in events].count("interaction.completed") == 1
    assert events[-1].interaction.status == "completed"
    assert events[-1].interaction.usage.model_dump() == kept.usage.model_dump()
    assert [each.event_id for each in whole] == [each.event_id for each in events]
    assert whole == events
    assert later == events[3:]
    assert kept.steps[0].summary[0].text.strip() == "Let me see."


@pytest.mark.full
async def test_a_call_is_answered_in_the_next_interaction_which_has_all_before_it() -> None:
    replies = (Reply("", reasoning="I look.", tool_calls=(("get_weather", {"city": "Oslo"}),)), "It is 3 degrees.")
    async with talking(*replies) as (house, made):
        first = await made.create(model="sim", input="Weather in Oslo?", tools=[WEATHER])
        call = first.steps[-1]
        result = {"type": "function_result", "call_id": call.id, "name": call.name, "result": {"degrees": 3}}
        second = await made.create(model="sim", input=[result], previous_interaction_id=first.id, tools=[WEATHER])
        model = house.gateway.models["sim"]
        prompt = model.tokenizer.decode(list(house.engine.requests[-1].input_ids), skip_special_tokens=False)

    assert first.status == "requires_action"
    assert (call.type, call.name, call.arguments) == ("function_call", "get_weather", {"city": "Oslo"})
    assert second.output_text == "It is 3 degrees."
    assert second.previous_interaction_id == first.id
    assert "Weather in Oslo?" in prompt
    assert "degrees" in prompt


@pytest.mark.full
async def test_an_interaction_in_the_background_is_followed_polled_and_ends() -> None:
    async with talking("One two three.", "Four.") as (_, made):
        waiting = await made.create(model="sim", input="Hello", background=True)
        stream = await made.create(model="sim", input="Hello", background=True, stream=True)
        events = [event async for event in stream]

        async with asyncio.timeout(PATIENCE):
            while (whole := await made.get(waiting.id)).status != "completed":
                await asyncio.sleep(0.02)
        again = [event async for event in await made.get(events[0].interaction.id, stream=True)]
        unchanged = await made.cancel(waiting.id)

    assert waiting.status in ("queued", "in_progress")
    assert {whole.output_text, "".join(e.delta.text for e in events if e.event_type == "step.delta")} == {
        "One two three.",
        "Four.",
    }
    assert again == events
    assert events[-1].event_type == "interaction.completed"
    assert unchanged.model_dump() == whole.model_dump()


# ----------------------------------------------------------------------------------------------------- the wire itself

REPLIES: dict[str, tuple[Reply, dict[str, Any], str]] = {
    "text": (Reply("Grüße 🙂 aus\u2028Zürich."), {}, "completed"),
    "thoughts": (THINKS, {"generation_config": {"thinking_summaries": "auto"}}, "completed"),
    "hidden thoughts": (THINKS, {}, "completed"),
    "calls": (
        Reply("I look.", reasoning="Hm.", tool_calls=(("get_weather", {"city": "A"}), ("get_weather", {"city": "B"}))),
        {"tools": [WEATHER]},
        "requires_action",
    ),
    "cut": (Reply("one two three four five six"), {"generation_config": {"max_output_tokens": 3}}, "incomplete"),
}


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("path", [STEPS, LEGACY])
async def test_a_stream_keeps_the_grammar_and_has_the_steps_of_the_whole_answer(
    house: House, path: str, reply: str
) -> None:
    said, more, status = REPLIES[reply]
    events, grammar = await streamed(house, path, said, **more)
    house.engine.say(said)
    whole = (await house.http.post(STEPS, json={"model": "sim", "input": "Go", **more})).json()
    kept = (await house.http.get(f"{STEPS}/{grammar.interaction_id}")).json()

    without_seals = [{name: value for name, value in step.items() if name != "signature"} for step in grammar.steps]
    assert grammar.status == whole["status"] == status
    assert kept["steps"] == grammar.steps
    assert [step["type"] for step in whole["steps"]] == [step["type"] for step in grammar.steps]
    calls = [step["id"] for step in grammar.steps if step["type"] == "function_call"]
    assert len(set(calls)) == len(calls)
    for step in (*without_seals, *whole["steps"]):
        step.pop("signature", None)
        step.pop("id", None)
    assert without_seals == whole["steps"]
    if reply == "hidden thoughts":
        assert "Let me see" not in json.dumps(events)
        assert kept["steps"][0]["signature"]


async def test_the_earlier_revision_has_outputs_and_can_be_asked_for_by_header(house: House) -> None:
    house.engine.say(Reply("Hello."))
    legacy = (await house.http.post(LEGACY, json={"model": "sim", "input": [{"role": "user", "content": "Hi"}]})).json()
    steps = await house.http.get(f"{LEGACY}/{legacy['id']}", headers={"Api-Revision": "2026-05-20"})
    wrong = await house.http.get(f"{LEGACY}/{legacy['id']}", headers={"Api-Revision": "new"})

    assert legacy["outputs"] == [{"type": "text", "text": "Hello."}]
    assert legacy["role"] == "model"
    assert "total_reasoning_tokens" in legacy["usage"]
    assert steps.json()["steps"] == [{"type": "model_output", "content": legacy["outputs"]}]
    assert wrong.status_code == 400


async def test_another_apis_ids_and_unknown_ones_are_not_found(house: House) -> None:
    house.engine.say(Reply("One."), Reply("Two."))
    mine = (await house.http.post(STEPS, json={"model": "sim", "input": "Hi"})).json()["id"]
    other = (await house.http.post("/v1/responses", json={"model": "sim", "input": "Hi"})).json()["id"]
    asked = [
        await house.http.get(f"{STEPS}/{other}"),
        await house.http.get(f"{STEPS}/v1_missing"),
        await house.http.delete(f"{STEPS}/v1_missing"),
        await house.http.post(f"{STEPS}/v1_missing/cancel"),
        await house.http.get(f"/v1/responses/{mine}"),
        await house.http.post(STEPS, json={"model": "sim", "input": "Hi", "previous_interaction_id": other}),
        await house.http.post(STEPS, json={"model": "sim", "input": "Hi", "previous_interaction_id": "v1_missing"}),
    ]

    assert [each.status_code for each in asked] == [404] * 7
    assert asked[0].json()["error"]["status"] == "NOT_FOUND"


async def test_what_is_not_stored_can_be_neither_read_nor_continued(house: House) -> None:
    house.engine.say(Reply("One."))
    answer = (await house.http.post(STEPS, json={"model": "sim", "input": "Hi", "store": False})).json()
    read = await house.http.get(f"{STEPS}/{answer['id']}")
    body = {"model": "sim", "input": "Hi", "previous_interaction_id": answer["id"]}
    continued = await house.http.post(STEPS, json=body)

    assert (read.status_code, continued.status_code) == (404, 404)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no input": ({"input": None}, "input"),
    "an empty input": ({"input": []}, "input"),
    "no model": ({"model": None}, "model"),
    "an agent": ({"agent": "deep-research"}, "agent"),
    "an unknown field": ({"inputs": "Hi"}, "inputs"),
    "an unknown step": ({"input": [{"type": "dream"}]}, "input[0].type"),
    "an unknown content": (
        {"input": [{"type": "user_input", "content": [{"type": "smell"}]}]},
        "input[0].content[0].type",
    ),
    "an empty step": ({"input": [{"type": "user_input", "content": []}]}, "input[0].content"),
    "a result without a call": (
        {"input": [{"type": "function_result", "call_id": "c", "result": "3"}]},
        "input[0].call_id",
    ),
    "a signature that is no base64": ({"input": [{"type": "thought", "signature": "%"}]}, "input[0].signature"),
    "an image without data": ({"input": {"type": "image"}}, "input"),
    "an unknown tool": ({"tools": [{"type": "spoon"}]}, "tools[0].type"),
    "a choice of no tool": (
        {"generation_config": {"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["f"]}}}},
        "generation_config.tool_choice",
    ),
    "an unknown level": ({"generation_config": {"thinking_level": "huge"}}, "generation_config.thinking_level"),
    "a temperature that is too high": ({"generation_config": {"temperature": 3}}, "generation_config.temperature"),
    "speech": ({"generation_config": {"speech_config": {}}}, "generation_config.speech_config"),
    "images out": ({"response_modalities": ["image"]}, "response_modalities[0]"),
    "a format of pictures": ({"response_format": {"type": "image"}}, "response_format.type"),
    "an unknown mime type": ({"response_mime_type": "text/html"}, "response_mime_type"),
    "a background that is not stored": ({"background": True, "store": False}, "background"),
    "a continuation": ({"continuation_token": "t"}, "continuation_token"),
}


@pytest.mark.parametrize("fault", WRONG)
async def test_bad_input_is_a_400_in_googles_envelope_that_names_the_field(house: House, fault: str) -> None:
    body, field = WRONG[fault]
    answer = await house.http.post(STEPS, json={"model": "sim", "input": "Hi", **body})

    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["status"] == "INVALID_ARGUMENT"
    assert error["details"][0]["fieldViolations"][0]["field"] == field


async def test_names_in_camel_case_are_read_too(house: House) -> None:
    house.engine.say(Reply("one two three four"))
    body = {"model": "sim", "input": {"type": "text", "text": "Hi"}, "generationConfig": {"maxOutputTokens": 2}}
    answer = await house.http.post(STEPS, json=body)

    assert answer.json()["status"] == "incomplete"


async def test_a_tool_that_servers_run_is_taken_and_not_offered(house: House) -> None:
    house.engine.say(Reply("I cannot search."))
    answer = await house.http.post(STEPS, json={"model": "sim", "input": "Hi", "tools": [{"type": "google_search"}]})

    assert answer.status_code == 200
    assert answer.json()["tools"] == [{"type": "google_search"}]


async def test_an_answer_is_held_to_a_schema_in_each_form_of_it(house: House) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    for form in (schema, {"type": "text", "mime_type": "application/json", "schema": schema}):
        house.engine.say(Reply('{"a": 1}'))
        answer = await house.http.post(STEPS, json={"model": "sim", "input": "Hi", "response_format": form})
        assert answer.status_code == 200, answer.text
        assert answer.json()["response_format"] == form


async def test_an_event_of_another_interaction_is_no_place_to_go_on_from(house: House) -> None:
    _, grammar = await streamed(house, STEPS, Reply("One."))
    path = f"{STEPS}/{grammar.interaction_id}?stream=true&last_event_id="
    wrong = [await house.http.get(path + last) for last in ("v1_other.1", f"{grammar.interaction_id}.x", "3")]

    assert [each.status_code for each in wrong] == [400] * 3

"""Realtime sessions: turns, items, tools, cancellation and settings, with every event held to the official SDK's types."""

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.clients.gateway import thoughtful_template
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.realtime import (
    SIMULATOR,
    in_order,
    opened,
    receive,
    respond,
    say,
    send,
    talk,
    until,
)

from smg_core.apis.realtime.settings import RealtimeConfig
from smg_core.config.config import Config
from smg_core.hooks import ExchangeEnded, RequestFinished
from smg_core.tokenizer.settings import TokenizerConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SLOW = SimulatorConfig(seed=1, reply_tokens=2000, timing=Timing(decode_rate=50))
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
CALL = Reply(tool_calls=(("get_weather", {"city": "Paris"}),))
CAPTURE = Path(__file__).parents[1] / "captures" / "realtime" / "openai-agents.json"


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[House]:
    """One gateway for the tests that leave nothing behind."""
    async with over_http(SIMULATOR) as house:
        yield house


def prompts(house: House) -> list[str]:
    """The prompts that the engine has seen."""
    decode = house.engine.engine.vocabulary.decode
    return [decode(list(each.input_ids), skip_special_tokens=False) for each in house.engine.requests]


def configured(**settings: Any) -> Config:
    return Config(realtime=RealtimeConfig(**settings))


async def error_of(socket: Any, kind: str, **fields: Any) -> Any:
    """The error that answers an event, which names that event."""
    await send(socket, kind, event_id="mine", **fields)
    error = (await until(socket, "error"))[-1]["error"]
    assert error["event_id"] == "mine"
    return error


# ---------------------------------------------------------------------------------------------------------------- turns


async def test_a_turn_is_answered_event_by_event() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        session = await opened(socket)
        asked = await say(socket, "Hello")
        events = in_order(await respond(socket, max_output_tokens=20))

    kinds = list(dict.fromkeys(event["type"] for event in events))
    assert (session["model"], session["output_modalities"]) == ("sim", ["text"])
    assert kinds == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    response = events[-1]["response"]
    (item,) = response["output"]
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert item["content"] == [{"type": "output_text", "text": text}]
    assert events[2]["previous_item_id"] == asked["id"]
    assert response["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}
    assert response["usage"]["output_tokens"] == 20
    assert len({event["event_id"] for event in events}) == len(events)


@pytest.mark.full
async def test_the_official_sdk_holds_a_session() -> None:
    async with over_http(SIMULATOR) as house:
        client = openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1")
        async with client, client.realtime.connect(model="sim") as connection:
            await connection.session.update(session={"type": "realtime", "instructions": "Be brief."})
            content = [{"type": "input_text", "text": "Hello"}]
            await connection.conversation.item.create(
                item={"type": "message", "role": "user", "content": content}  # type: ignore[typeddict-item]
            )
            await connection.response.create()
            events: list[Any] = []
            async for event in connection:
                events.append(event)
                if event.type == "response.done":
                    break
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said
    assert events[-1].response.output[0].content[0].text == said
    assert "Be brief." in prompts(house)[-1]


async def test_later_turns_read_what_was_said_before() -> None:
    replies = (Reply("I am Bob."), Reply("Yes."))
    async with over_http(SimulatorConfig(seed=1, replies=replies)) as house, talk(house) as socket:
        await opened(socket)
        await say(socket, "Who are you?")
        await respond(socket)
        await say(socket, "Really?")
        await respond(socket)
    last = prompts(house)[-1]
    assert last.index("Who are you?") < last.index("I am Bob.") < last.index("Really?")


@pytest.mark.full
async def test_a_turn_finds_what_the_one_before_has_left_in_the_engines_cache() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        await opened(socket)
        blocks = []
        for turn in range(5):
            await say(socket, f"Turn {turn}: tell me more of this, and do not leave anything out.")
            usage = (await respond(socket, max_output_tokens=60))[-1]["response"]["usage"]
            blocks.append((usage["total_tokens"], usage["input_token_details"]["cached_tokens"]))
    size = SIMULATOR.block_size
    for (before, _), (_, cached) in pairwise(blocks):
        assert cached >= 0.9 * (before // size * size)


@pytest.mark.full
async def test_reasoning_is_not_told_and_is_in_the_next_prompt(tmp_path: Path) -> None:
    replies = (Reply(text="Paris.", reasoning="SECRETLY-THOUGHT"), Reply("Fine."))
    config = Config(tokenizer=TokenizerConfig(chat_template=thoughtful_template(tmp_path)))
    async with over_http(SimulatorConfig(seed=1, replies=replies), config=config) as house, talk(house) as socket:
        await opened(socket)
        await say(socket, "Capital of France?")
        first = in_order(await respond(socket))
        item = first[-1]["response"]["output"][0]
        await send(socket, "conversation.item.retrieve", item_id=item["id"])
        retrieved = await receive(socket)
        await say(socket, "Thanks.")
        await respond(socket)
    assert "SECRETLY-THOUGHT" not in json.dumps([first, retrieved])
    assert [part["text"].strip() for part in item["content"]] == ["Paris."]
    usage = first[-1]["response"]["usage"]
    assert usage["output_token_details"]["text_tokens"] == usage["output_tokens"]
    assert "SECRETLY-THOUGHT" in prompts(house)[-1]


async def test_a_response_may_differ_from_its_session_and_be_outside_of_the_conversation() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        await opened(socket)
        said = await say(socket, "KEPT-HERE")
        other = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "ALONE"}]}
        events = in_order(
            await respond(
                socket,
                conversation="none",
                instructions="Classify.",
                input=[{"type": "item_reference", "id": said["id"]}, other],
                metadata={"topic": "x"},
                max_output_tokens=5,
            )
        )
        alone = in_order(await respond(socket, conversation="none", input=[other], max_output_tokens=5))
        await send(socket, "conversation.item.create", item=other)
        added = (await until(socket, "conversation.item.done"))[0]
    kinds = {event["type"] for event in events}
    assert not any(kind.startswith("conversation.") for kind in kinds)
    assert (events[-1]["response"]["conversation_id"], events[-1]["response"]["metadata"]) == (None, {"topic": "x"})
    assert all(each in prompts(house)[0] for each in ("Classify.", "KEPT-HERE", "ALONE"))
    assert "KEPT-HERE" not in prompts(house)[1]
    assert alone[-1]["response"]["status"] == "incomplete"
    assert added["previous_item_id"] == said["id"]  # nothing was added meanwhile


# ---------------------------------------------------------------------------------------------------------------- items


async def test_items_have_a_place_and_can_be_read_and_deleted() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        await opened(socket)
        first = await say(socket, "FIRST")
        last = await say(socket, "LAST")
        item = {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "FRONT"}], "id": "mine"}
        await send(socket, "conversation.item.create", item=item, previous_item_id="root")
        front = (await until(socket, "conversation.item.done"))[0]
        between = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "BETWEEN"}]}
        await send(socket, "conversation.item.create", item=between, previous_item_id=first["id"])
        placed = (await until(socket, "conversation.item.done"))[0]
        await send(socket, "conversation.item.retrieve", item_id="mine")
        retrieved = await receive(socket)
        await send(socket, "conversation.item.delete", item_id=last["id"])
        deleted = await receive(socket)
        await respond(socket, max_output_tokens=2)
        missing = await error_of(socket, "conversation.item.retrieve", item_id=last["id"])
    assert (front["previous_item_id"], front["item"]["id"]) == (None, "mine")
    assert placed["previous_item_id"] == first["id"]
    assert retrieved["item"]["content"] == item["content"]
    assert (deleted["type"], deleted["item_id"]) == ("conversation.item.deleted", last["id"])
    assert missing["code"] == "item_not_found"
    seen = prompts(house)[-1]
    assert seen.index("FRONT") < seen.index("FIRST") < seen.index("BETWEEN")
    assert "LAST" not in seen


async def test_a_function_is_called_and_its_output_answered() -> None:
    async with (
        over_http(SimulatorConfig(seed=1, replies=(CALL, Reply("It is sunny.")))) as house,
        talk(house) as socket,
    ):
        await opened(socket)
        await send(socket, "session.update", session={"type": "realtime", "tools": [WEATHER]})
        updated = await receive(socket)
        await say(socket, "Weather in Paris?")
        events = in_order(await respond(socket))
        (call,) = events[-1]["response"]["output"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "SUNNY-21"}
        await send(socket, "conversation.item.create", item=output)
        await until(socket, "conversation.item.done")
        answer = in_order(await respond(socket))
    assert updated["session"]["tools"] == [WEATHER]
    (done,) = [event for event in events if event["type"] == "response.output_item.done"]
    assert (done["item"]["type"], done["item"]["status"]) == ("function_call", "completed")
    deltas = [event for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert json.loads("".join(event["delta"] for event in deltas)) == {"city": "Paris"}
    assert {event["call_id"] for event in deltas} == {call["call_id"]}
    assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Paris"})
    assert answer[-1]["response"]["output"][0]["content"][0]["text"] == "It is sunny."
    assert "SUNNY-21" in prompts(house)[-1]


async def test_a_call_without_its_output_does_not_keep_the_conversation_from_going_on() -> None:
    async with over_http(SimulatorConfig(seed=1, replies=(CALL, Reply("Fine.")))) as house, talk(house) as socket:
        await opened(socket)
        await send(socket, "session.update", session={"type": "realtime", "tools": [WEATHER]})
        await receive(socket)
        await say(socket, "Weather in Paris?")
        await respond(socket)
        await say(socket, "Never mind.")
        events = in_order(await respond(socket))
        orphan = await error_of(
            socket, "conversation.item.create", item={"type": "function_call_output", "call_id": "none", "output": "x"}
        )
    assert events[-1]["response"]["status"] == "completed"
    assert orphan["code"] == "item_not_found"


# --------------------------------------------------------------------------------------------------------------- states


async def test_a_response_that_is_cancelled_frees_its_engine_and_keeps_what_was_said() -> None:
    async with over_http(SLOW) as house, talk(house) as socket:
        await opened(socket)
        await say(socket, "Tell me all.")
        await send(socket, "response.create")
        await until(socket, "response.output_text.delta")
        busy = await error_of(socket, "response.create")
        await send(socket, "response.cancel")
        rest = await until(socket, "response.done")
        await settled(house)
        idle = await error_of(socket, "response.cancel")
        response = rest[-1]["response"]
        await say(socket, "And now?")
        again = in_order(await respond(socket, max_output_tokens=2))
    assert busy["code"] == "conversation_already_has_active_response"
    assert idle["code"] == "response_cancel_not_active"
    assert response["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    assert response["output"][0]["status"] == "incomplete"
    assert 0 < response["usage"]["output_tokens"] < 2000
    assert response["output"][0]["content"][0]["text"] in prompts(house)[-1]
    assert again[-1]["response"]["status"] == "incomplete"
    outcomes = [each.outcome for each in house.observer.of(RequestFinished)]
    assert outcomes == ["client_gone", "ok"]


async def test_responses_outside_of_the_conversation_run_beside_the_one_in_it_and_are_bounded() -> None:
    async with over_http(SLOW, config=configured(responses=1)) as house, talk(house) as socket:
        await opened(socket)
        await say(socket, "Hello")
        await send(socket, "response.create")
        inside = (await until(socket, "response.created"))[-1]["response"]["id"]
        await send(socket, "response.create", response={"conversation": "none"})
        outside = (await until(socket, "response.created"))[-1]["response"]["id"]
        over = await error_of(socket, "response.create", response={"conversation": "none"})
        await send(socket, "response.cancel", response_id=outside)
        first = (await until(socket, "response.done"))[-1]["response"]
        await send(socket, "response.cancel", response_id=inside)
        second = (await until(socket, "response.done"))[-1]["response"]
    assert over["code"] == "too_many_active_responses"
    assert [first["id"], second["id"]] == [outside, inside]
    assert first["status"] == second["status"] == "cancelled"


async def test_a_client_that_leaves_cancels_its_responses() -> None:
    async with over_http(SLOW) as house:
        async with talk(house) as socket:
            await opened(socket)
            await say(socket, "Hello")
            await send(socket, "response.create")
            await until(socket, "response.output_text.delta")
        await settled(house)
        await eventually(lambda: len(house.observer.of(ExchangeEnded)) == 2)
    assert [each.outcome for each in house.observer.of(RequestFinished)] == ["client_gone"]


# ------------------------------------------------------------------------------------------------------------- settings


async def test_settings_are_merged_and_told_whole() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        before = await opened(socket)
        vad = {"type": "server_vad", "threshold": 0.8}
        transcription = {"model": "gpt-4o-mini-transcribe"}
        sound = {"input": {"turn_detection": vad, "transcription": transcription}, "output": {"voice": "ash"}}
        await send(socket, "session.update", session={"type": "realtime", "instructions": "A", "audio": sound})
        first = (await receive(socket))["session"]
        await send(
            socket,
            "session.update",
            session={"type": "realtime", "instructions": "", "audio": {"input": {"turn_detection": None}}},
        )
        second = (await receive(socket))["session"]
    detection = before["audio"]["input"]["turn_detection"]
    assert first["audio"]["input"]["turn_detection"] == {**detection, "threshold": 0.8}
    assert first["audio"]["input"]["transcription"] == transcription
    assert (first["instructions"], second["instructions"]) == ("A", "")
    assert second["audio"]["input"] == {**first["audio"]["input"], "turn_detection": None}
    assert second["audio"]["output"] == {**before["audio"]["output"], "voice": "ash"}
    assert second.keys() == before.keys()


@pytest.mark.parametrize(
    ("session", "param", "code"),
    [
        ({}, "session.type", "missing_required_parameter"),
        ({"type": "assistant"}, "session.type", "invalid_value"),
        ({"type": "transcription"}, "session.type", "invalid_value"),
        ({"type": "realtime", "model": "other"}, "session.model", "invalid_value"),
        ({"type": "realtime", "temperature": 1}, "session.temperature", "unknown_parameter"),
        ({"type": "realtime", "output_modalities": ["audio"]}, "session.output_modalities", "invalid_value"),
        ({"type": "realtime", "output_modalities": ["audio", "text"]}, "session.output_modalities", "invalid_value"),
        ({"type": "realtime", "prompt": {"id": "p"}}, "session.prompt", "unsupported_parameter"),
        ({"type": "realtime", "tools": [{"type": "web_search"}]}, "session.tools[0].type", "invalid_value"),
        ({"type": "realtime", "max_output_tokens": 0}, "session.max_output_tokens", "invalid_value"),
        (
            {"type": "realtime", "audio": {"input": {"format": {"type": "audio/pcm", "rate": 8000}}}},
            "session.audio.input.format.rate",
            "invalid_value",
        ),
    ],
)
async def test_settings_that_cannot_be_are_refused_and_change_nothing(
    shared: House, session: dict[str, Any], param: str, code: str
) -> None:
    async with talk(shared) as socket:
        before = await opened(socket)
        error = await error_of(socket, "session.update", session=session)
        await send(socket, "session.update", session={"type": "realtime"})
        after = (await receive(socket))["session"]
    assert (error["param"], error["code"], error["type"]) == (param, code, "invalid_request_error")
    assert after == before


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", "invalid_event"),
        ("[]", "invalid_event"),
        ("{}", "missing_required_parameter"),
        ('{"type": "response.make"}', "invalid_value"),
        ('{"type": "response.create", "response": {"input": 3}}', "invalid_type"),
        ('{"type": "response.create"}', "invalid_value"),  # nothing to respond to
        ('{"type": "conversation.item.create", "item": {"type": "note"}}', "invalid_value"),
        ('{"type": "input_audio_buffer.append", "audio": "A"}', "invalid_value"),
        ('{"type": "output_audio_buffer.clear"}', "output_audio_buffer_not_available"),
        ('{"type": "transcription_session.update", "session": {}}', "beta_api_shape_disabled"),
    ],
)
async def test_what_is_wrong_is_an_error_event_and_the_session_goes_on(shared: House, frame: str, code: str) -> None:
    async with talk(shared) as socket:
        await opened(socket)
        await socket.send(frame)
        error = await receive(socket)
        await say(socket, "Hello")
        events = await respond(socket, max_output_tokens=1)
    assert (error["type"], error["error"]["code"], error["error"]["event_id"]) == ("error", code, None)
    assert events[-1]["type"] == "response.done"


async def test_what_is_null_was_not_said() -> None:
    nothing = {"instructions": None, "tools": None, "tool_choice": None, "max_output_tokens": None, "audio": None}
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        await opened(socket)
        await send(socket, "session.update", session={"type": "realtime", "instructions": "Be brief."})
        before = (await receive(socket))["session"]
        await send(socket, "session.update", session={"type": "realtime", "model": None, **nothing})
        after = (await receive(socket))["session"]
        await say(socket, "Hello")
        events = in_order(await respond(socket, conversation=None, input=None, metadata=None, **nothing))
    assert after == before
    assert events[-1]["response"]["status"] == "completed"
    assert "Be brief." in prompts(house)[-1]


async def test_what_the_agents_sdk_sends_is_taken() -> None:
    exchanges = json.loads(CAPTURE.read_text())["exchanges"]
    frames = [each["client_frame"] for each in exchanges if "client_frame" in each]
    async with over_http(SimulatorConfig(seed=1, model="m")) as house, talk(house, "/v1/realtime?model=m") as socket:
        for frame in frames:
            await socket.send(json.dumps(frame))
        events = await until(socket, "response.done")
    assert not [event for event in events if event["type"] == "error"]
    assert events[-1]["response"]["status"] == "completed"

"""Sessions of the Realtime API on models of Gemini Live: translated, and what is lost is refused by name."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.gemini_live import PATH, SOUND, VERTEX_PATH, LiveServer, answers, content, live_server, tell
from tests.gateway.realtime import in_order, receive, respond, say, send, talk, until
from tests.gateway.test_realtime_relayed import CALM, LIVE
from tests.gateway.test_realtime_secrets import secret_of
from websockets.exceptions import InvalidStatus

from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.settings import EnginesConfig
from smg_core.hooks import RequestFinished
from smg_core.workers.worker import WorkerSpec

pytestmark = pytest.mark.anyio

ADD = {"type": "function", "name": "add", "description": "Adds.", "parameters": {"properties": {"a": {}, "b": {}}}}


def worker(server: LiveServer, **fields: Any) -> WorkerSpec:
    found = {"name": "there", "dialect": "gemini-live", "model": "live", "vendor_model": "gemini-live-1", **fields}
    return WorkerSpec(server.url + found.pop("path", ""), **found)


@asynccontextmanager
async def passing_to(server: LiveServer, **fields: Any) -> AsyncIterator[House]:
    spec = worker(server, credential=CredentialSpec(key="key-1"), **fields)
    async with over_http(workers=(spec,), config=CALM) as house:
        yield house


async def opened(socket: Any, **settings: Any) -> Any:
    """A session in text with these settings."""
    session = (await until(socket, "conversation.created"))[0]["session"]
    await send(socket, "session.update", session={"type": "realtime", "output_modalities": ["text"], **settings})
    updated = await receive(socket)
    assert updated["type"] == "session.updated", updated
    return session


def kinds(events: list[Any]) -> list[str]:
    return [event["type"] for event in events]


# ------------------------------------------------------------------------------------------------- the server of the tests


@pytest.mark.parametrize("modality", ["TEXT", "AUDIO"])
async def test_googles_own_client_holds_a_session_at_the_server_of_these_tests(
    modality: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google import genai
    from google.genai import live, types

    plain = live.ws_connect

    def without_tls(uri: str, **arguments: Any) -> Any:
        return plain(uri.replace("wss:", "ws:"), proxy=None, additional_headers=arguments["additional_headers"])

    monkeypatch.setattr(live, "ws_connect", without_tls)
    async with live_server() as server:
        client = genai.Client(api_key="key-1", http_options={"base_url": server.url})
        config: Any = {"response_modalities": [modality], "system_instruction": "Be brief."}
        async with client.aio.live.connect(model="gemini-live-1", config=config) as session:
            await session.send_client_content(turns=types.Content(role="user", parts=[types.Part(text="Hello")]))
            told = [message async for message in session.receive()]
            await session.send_realtime_input(audio=types.Blob(data=bytes(4800), mime_type="audio/pcm;rate=24000"))
            await session.send_realtime_input(audio_stream_end=True)
            heard = [message async for message in session.receive()]
    words = "".join(message.text or "" for message in told)
    assert words == ("So be it." if modality == "TEXT" else "")
    assert bool([message.data for message in told if message.data]) is (modality == "AUDIO")
    assert told[-1].usage_metadata is not None
    assert told[-1].usage_metadata.response_token_count == 12
    transcriptions = [each.server_content.input_transcription for each in heard if each.server_content]
    assert [each.text for each in transcriptions if each] == ["what was said"]
    assert server.heads[0].path.replace("//", "/") == PATH
    assert server.heads[0].headers["x-goog-api-key"] == "key-1"
    assert server.of("setup")[0]["systemInstruction"]["parts"] == [{"text": "Be brief."}]


# ---------------------------------------------------------------------------------------------------------- whole sessions


async def test_what_is_written_is_answered_in_text() -> None:
    async with live_server() as server, passing_to(server) as house, talk(house, LIVE) as socket:
        session = await opened(socket, instructions="Be brief.", max_output_tokens=50, truncation="disabled")
        await say(socket, "Hello")
        events = in_order(await respond(socket, metadata={"topic": "greeting"}))
        await say(socket, "Again")
        in_order(await respond(socket))
        await settled(house)
    assert session["model"] == "live"
    done = events[-1]["response"]
    assert (done["status"], done["metadata"]) == ("completed", {"topic": "greeting"})
    assert done["output"][0]["content"] == [{"type": "output_text", "text": "So be it."}]
    assert (done["usage"]["input_tokens"], done["usage"]["output_tokens"]) == (30, 12)
    assert done["usage"]["input_token_details"] == {
        "text_tokens": 22,
        "audio_tokens": 8,
        "image_tokens": 0,
        "cached_tokens": 20,
    }
    assert server.heads[0].headers["x-goog-api-key"] == "key-1"
    assert server.of("setup") == [
        {
            "model": "models/gemini-live-1",
            "generationConfig": {"responseModalities": ["TEXT"], "maxOutputTokens": 50},
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "realtimeInputConfig": {"automaticActivityDetection": {"silenceDurationMs": 500}},
            "sessionResumption": {},
        }
    ]
    assert server.of("clientContent")[1] == {
        "turnComplete": True,
        "turns": [{"role": "user", "parts": [{"text": "Again"}]}],
    }
    finished = house.observer.of(RequestFinished)
    assert [(each.outcome, each.prompt_tokens, each.cached_tokens) for each in finished] == [("ok", 30, 20)] * 2


async def test_a_client_of_the_sdk_hears_an_answer_in_sound() -> None:
    import openai

    async with live_server() as server, passing_to(server) as house:
        client = openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key="any")
        async with client, client.realtime.connect(model="live") as session:
            await session.response.create()
            events = []
            async for event in session:
                events.append(event)
                if event.type == "response.done":
                    break
    assert [event.delta for event in events if event.type == "response.output_audio.delta"] == [SOUND] * 2
    said = [event.transcript for event in events if event.type == "response.output_audio_transcript.done"]
    assert said == ["So be it."]
    assert server.of("setup")[0]["outputAudioTranscription"] == {}


async def test_a_function_is_called_and_its_answer_goes_to_the_server_as_that() -> None:
    async with live_server() as server, passing_to(server) as house, talk(house, LIVE) as socket:
        await opened(socket, tools=[ADD])
        await say(socket, "2 + 3?")
        called = in_order(await respond(socket))
        (call,) = called[-1]["response"]["output"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": '{"sum": 5}'}
        await send(socket, "conversation.item.create", item=output)
        await until(socket, "conversation.item.done")
        answered = in_order(await respond(socket))
    assert (call["type"], call["name"], json.loads(call["arguments"])) == ("function_call", "add", {"a": 2, "b": 3})
    assert called[-1]["response"]["usage"]["output_tokens"] == 12
    assert answered[-1]["response"]["output"][0]["content"][0]["text"] == "So be it."
    (declared,) = server.of("setup")[0]["tools"][0]["functionDeclarations"]
    assert declared["parametersJsonSchema"]["type"] == "object"
    assert server.of("toolResponse") == [
        {"functionResponses": [{"id": "call-1", "name": "add", "response": {"sum": 5}}]}
    ]


async def test_what_is_said_is_answered_by_the_servers_own_turns() -> None:
    async def hears(server: LiveServer, message: Any, connection: Any) -> None:
        if "audio" in message.get("realtimeInput", {}):
            await content(connection, inputTranscription={"text": "Hello "})
            await content(connection, inputTranscription={"text": "you."})
            await content(connection, modelTurn={"parts": [{"text": "Yes."}]})
            await content(connection, turnComplete=True)

    async with live_server(hears) as server, passing_to(server) as house, talk(house, LIVE) as socket:
        await opened(socket, audio={"input": {"transcription": {"model": "any"}}})
        await send(socket, "input_audio_buffer.append", audio=SOUND)
        events = await until(socket, "response.done")
        await settled(house)
    found = kinds(events)
    assert found[:3] == [
        "input_audio_buffer.speech_started",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.delta",
    ]
    assert found.index("input_audio_buffer.speech_stopped") < found.index("input_audio_buffer.committed")
    assert found.index("conversation.item.done") < found.index("response.created")
    (written,) = [each for each in events if each["type"].endswith("transcription.completed")]
    assert written["transcript"] == "Hello you."
    (item,) = [each["item"] for each in events if each["type"] == "conversation.item.done"][:1]
    assert written["item_id"] == item["id"]
    in_order([event for event in events if event["type"].startswith("response.")])
    assert server.of("realtimeInput")[0]["audio"] == {"mimeType": "audio/pcm;rate=24000", "data": SOUND}
    assert house.observer.of(RequestFinished)[0].outcome == "ok"


async def test_a_user_who_speaks_ends_the_answer_under_way() -> None:
    async def interrupted(server: LiveServer, message: Any, connection: Any) -> None:
        if "clientContent" in message:
            await content(connection, modelTurn={"parts": [{"text": "A long"}]})
        elif "realtimeInput" in message:
            await content(connection, interrupted=True)
            await content(connection, turnComplete=True)
            await content(connection, modelTurn={"parts": [{"text": "Pardon?"}]})
            await content(connection, turnComplete=True)

    async with live_server(interrupted) as server, passing_to(server) as house, talk(house, LIVE) as socket:
        await opened(socket)
        await send(socket, "response.create")
        await until(socket, "response.output_text.delta")
        await send(socket, "input_audio_buffer.append", audio=SOUND)
        first = await until(socket, "response.done")
        second = await until(socket, "response.done")
    done = first[-1]["response"]
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "turn_detected")
    assert first[0]["type"] == "input_audio_buffer.speech_started"
    assert second[-1]["response"]["output"][0]["content"][0]["text"] == "Pardon?"


async def test_what_the_client_commits_is_answered_when_it_asks() -> None:
    async with live_server() as server, passing_to(server) as house, talk(house, LIVE) as socket:
        await opened(socket, audio={"input": {"turn_detection": None}})
        await send(socket, "input_audio_buffer.commit", event_id="early")
        empty = await receive(socket)
        await send(socket, "input_audio_buffer.append", audio=SOUND)
        await send(socket, "input_audio_buffer.clear")
        await until(socket, "input_audio_buffer.cleared")
        await send(socket, "input_audio_buffer.append", audio=SOUND)
        await send(socket, "input_audio_buffer.commit")
        await until(socket, "conversation.item.done")
        in_order(await respond(socket))
    assert (empty["error"]["code"], empty["error"]["event_id"]) == ("input_audio_buffer_commit_empty", "early")
    assert [list(each) for each in server.of("realtimeInput")] == [["activityStart"], ["audio"], ["activityEnd"]]


async def test_a_response_that_is_cancelled_is_over_at_once_and_the_next_has_nothing_of_it() -> None:
    async def goes_on(server: LiveServer, message: Any, connection: Any) -> None:
        said = message.get("clientContent", {})
        if not said.get("turnComplete"):
            await content(connection, modelTurn={"parts": [{"text": "late"}]})
            await content(connection, interrupted=True)
            await content(connection, turnComplete=True)
            return
        await content(connection, modelTurn={"parts": [{"text": "word"}]})
        if len(server.of("clientContent")) > 1:
            await content(connection, turnComplete=True)

    async with live_server(goes_on) as server, passing_to(server) as house, talk(house, LIVE) as socket:
        await opened(socket)
        await send(socket, "response.create")
        await until(socket, "response.output_text.delta")
        await send(socket, "response.create", event_id="second")
        refused = await receive(socket)
        await send(socket, "response.cancel")
        cancelled = (await until(socket, "response.done"))[-1]["response"]
        await send(socket, "response.cancel")
        nothing = await receive(socket)
        again = in_order(await respond(socket))
    assert (refused["error"]["code"], refused["error"]["event_id"]) == (
        "conversation_already_has_active_response",
        "second",
    )
    assert (cancelled["status"], cancelled["status_details"]["reason"]) == ("cancelled", "client_cancelled")
    assert cancelled["output"][0]["status"] == "incomplete"
    assert nothing["error"]["code"] == "response_cancel_not_active"
    assert again[-1]["response"]["output"][0]["content"][0]["text"] == "word"


async def test_instructions_and_tools_change_while_a_session_lives_and_nothing_else_does() -> None:
    async with live_server() as server, passing_to(server) as house, talk(house, LIVE) as socket:
        await opened(socket)
        await respond(socket)
        for change in ({"instructions": "Speak up."}, {"tools": [ADD]}, {"tools": []}, {"tracing": "auto"}):
            await send(socket, "session.update", session={"type": "realtime", **change})
            assert (await receive(socket))["type"] == "session.updated"
        await send(socket, "session.update", session={"type": "realtime", "output_modalities": ["audio"]})
        refused = await receive(socket)
        await send(socket, "session.update", session={"type": "realtime"})
        kept = await receive(socket)
        await respond(socket)
    assert [list(each) for each in server.of("contextUpdate")] == [["systemInstruction"], ["tools"], ["tools"]]
    assert server.of("contextUpdate")[2] == {"tools": {"tools": []}}
    assert refused["error"]["param"] == "session"
    assert kept["session"]["output_modalities"] == ["text"]


# ------------------------------------------------------------------------------------------------- what cannot be translated


@pytest.mark.parametrize(
    ("kind", "fields", "param"),
    [
        ("session.update", {"session": {"type": "realtime", "output_modalities": ["text", "audio"]}}, None),
        ("session.update", {"session": {"type": "realtime", "tool_choice": "required"}}, None),
        ("session.update", {"session": {"type": "realtime", "tools": [{"type": "mcp"}]}}, None),
        ("session.update", {"session": {"type": "realtime", "tools": [{"type": "function"}]}}, None),
        ("session.update", {"session": {"type": "realtime", "parallel_tool_calls": False}}, None),
        ("session.update", {"session": {"type": "realtime", "truncation": {"type": "retention_ratio"}}}, None),
        ("session.update", {"session": {"type": "realtime", "prompt": {"id": "p"}}}, None),
        ("session.update", {"session": {"type": "realtime", "max_output_tokens": 0}}, None),
        ("session.update", {"session": {"type": "realtime", "reasoning": {"effort": "odd"}}}, None),
        ("session.update", {"session": {"type": "realtime", "unheard": 1}}, None),
        ("session.update", {"session": {"type": "realtime", "audio": {"output": {"speed": 1.5}}}}, None),
        (
            "session.update",
            {"session": {"type": "realtime", "audio": {"input": {"format": {"type": "audio/pcmu"}}}}},
            None,
        ),
        (
            "session.update",
            {
                "session": {
                    "type": "realtime",
                    "audio": {"input": {"turn_detection": {"type": "server_vad", "create_response": False}}},
                }
            },
            None,
        ),
        ("session.update", {"session": {"type": "transcription"}}, None),
        ("session.update", {"session": []}, "session"),
        ("session.update", {}, "session"),
        ("response.create", {"response": {"instructions": "Sing."}}, "response.instructions"),
        ("response.create", {"response": {"conversation": "none"}}, "response.conversation"),
        ("response.create", {"response": "now"}, "response"),
        ("conversation.item.create", {}, "item"),
        ("conversation.item.create", {"item": {"type": "message", "role": "system", "content": []}}, "item.role"),
        ("conversation.item.create", {"item": {"type": "message", "role": "user"}}, "item.content"),
        ("conversation.item.create", {"item": {"type": "odd"}}, "item.type"),
        ("conversation.item.create", {"item": {"type": "odd", "id": "x" * 33}}, "item.id"),
        (
            "conversation.item.create",
            {"item": {"type": "function_call_output", "call_id": "none", "output": ""}},
            "item.call_id",
        ),
        ("conversation.item.create", {"item": {"type": "message"}, "previous_item_id": "root"}, "previous_item_id"),
        ("conversation.item.truncate", {"item_id": "i", "content_index": 0, "audio_end_ms": 1}, "type"),
        ("conversation.item.delete", {"item_id": "i"}, "type"),
        ("conversation.item.retrieve", {"item_id": "i"}, "type"),
        ("input_audio_buffer.clear", {}, "type"),
        ("input_audio_buffer.append", {"audio": 5}, "audio"),
        ("input_audio_buffer.append", {"audio": "@@"}, "audio"),
        ("input_audio_buffer.append", {"audio": "A" * 100_001}, "audio"),
        ("output_audio_buffer.clear", {}, "type"),
        ("something.else", {}, "type"),
    ],
)
async def test_what_gemini_has_no_word_for_is_refused_and_the_session_lives(
    kind: str, fields: Any, param: str | None, living: Any
) -> None:
    server, socket = living
    before = len(server.heard)
    await send(socket, kind, event_id="mine", **fields)
    error = (await receive(socket))["error"]
    await say(socket, "Hello")
    assert error["event_id"] == "mine"
    assert error["message"]
    assert param is None or error["param"] == param
    assert param is not None or error["param"].startswith("session.")
    assert len(server.heard) == before


@pytest.fixture(scope="module")
async def living() -> AsyncIterator[Any]:
    async with live_server() as server, passing_to(server) as house, talk(house, LIVE) as socket:
        await opened(socket)
        yield server, socket


async def test_a_client_secret_whose_settings_gemini_cannot_have_opens_no_session() -> None:
    async with live_server() as server, passing_to(server) as house:
        sealed = await secret_of(house, instructions="Sealed.", output_modalities=["text"])
        async with talk(house, "/v1/realtime", subprotocols=sealed) as socket:
            await until(socket, "session.updated")
            await respond(socket)
        odd = await secret_of(house, tool_choice="required", tools=[ADD])
        with pytest.raises(InvalidStatus) as refused:
            async with talk(house, "/v1/realtime", subprotocols=odd):
                pass
    assert server.of("setup")[0]["systemInstruction"] == {"parts": [{"text": "Sealed."}]}
    assert refused.value.response.status_code == 400


# ---------------------------------------------------------------------------------------------------------- ends and losses


async def test_a_session_goes_on_over_another_connection_where_the_server_gives_a_handle() -> None:
    async def leaves(server: LiveServer, message: Any, connection: Any) -> None:
        await tell(connection, sessionResumptionUpdate={"newHandle": "handle-1", "resumable": True})
        await answers(server, message, connection)
        if len(server.connections) == 1:
            await tell(connection, goAway={"timeLeft": "1s"})
            await connection.close(1001)

    async with live_server(leaves) as server, passing_to(server) as house, talk(house, LIVE) as socket:
        await opened(socket)
        await say(socket, "Hello")
        in_order(await respond(socket))
        await eventually(lambda: len(server.of("setup")) == 2)
        await say(socket, "Again")
        events = in_order(await respond(socket))
    assert events[-1]["response"]["status"] == "completed"
    assert [each["sessionResumption"] for each in server.of("setup")] == [{}, {"handle": "handle-1"}]


async def test_a_server_that_refuses_a_setup_ends_the_session_with_what_it_says() -> None:
    async def never(server: LiveServer, message: Any, connection: Any) -> None:
        raise AssertionError

    async with live_server(never, setup=False) as server, passing_to(server) as house, talk(house, LIVE) as socket:
        await opened(socket)
        await send(socket, "response.create")
        await eventually(lambda: server.of("setup"))
        await server.connections[0].close(1007, "no such voice")
        events = await until(socket, "error")
        while events[-1]["type"] != "error":
            events += await until(socket, "error")
        await socket.wait_closed()
    assert socket.close_code == 1011
    assert events[-1]["error"]["type"] == "server_error"


@pytest.mark.full
async def test_a_server_that_answers_no_setup_is_left() -> None:
    async with live_server(setup=False) as server:
        config = attrs.evolve(CALM, engines=EnginesConfig(question_timeout_s=0.2))
        async with over_http(workers=(worker(server),), config=config) as house, talk(house, LIVE) as socket:
            await opened(socket)
            await send(socket, "response.create")
            await socket.wait_closed()
    assert socket.close_code == 1011


async def test_a_message_that_is_none_ends_the_session() -> None:
    async def babbles(server: LiveServer, message: Any, connection: Any) -> None:
        await connection.send('{"serverContent": {"turnComplete": "maybe"}}')

    async with live_server(babbles) as server, passing_to(server) as house, talk(house, LIVE) as socket:
        await opened(socket)
        await send(socket, "response.create")
        await socket.wait_closed()
    assert socket.close_code == 1011


@pytest.mark.full
async def test_vertex_has_the_model_of_its_project_and_its_own_path() -> None:
    path = "/v1/projects/p/locations/l"
    async with (
        live_server() as server,
        passing_to(server, dialect="vertex-live", path=path) as house,
        talk(house, LIVE) as socket,
    ):
        await opened(socket)
        in_order(await respond(socket))
    assert server.heads[0].path == VERTEX_PATH
    assert server.of("setup")[0]["model"] == f"{path[4:]}/publishers/google/models/gemini-live-1"


@pytest.mark.full
async def test_sound_that_nobody_takes_waits_at_the_client() -> None:
    go_on = asyncio.Event()

    async def waits(server: LiveServer, message: Any, connection: Any) -> None:
        await go_on.wait()

    async with live_server(waits) as server, passing_to(server) as house, talk(house, LIVE) as socket:
        await opened(socket)
        sent = 0

        async def speaks() -> None:
            nonlocal sent
            for _ in range(500):
                await send(socket, "input_audio_buffer.append", audio="A" * 64_000)
                sent += 1

        speaking = asyncio.create_task(speaks())
        await eventually(lambda: server.of("realtimeInput"))
        same = before = 0
        while same < 50:
            same, before = same + 1 if sent == before else 0, sent
            await asyncio.sleep(0.002)
        go_on.set()
        await speaking
        await eventually(lambda: len(server.of("realtimeInput")) == 500)
    assert before < 500

"""Answers of Realtime sessions that are spoken, by a server that speaks: sound, interruptions, and a server that fails."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.fleet import joined
from tests.gateway.realtime import SIMULATOR, in_order, opened, receive, respond, say, send, talk, until
from tests.gateway.speaking import SpeakingServer, sound_of, speaking_server
from tests.gateway.test_realtime_life import configured

from smg_core.apis.realtime.wire.g711 import LAWS, Law, ToPhone
from smg_core.hooks import RequestFinished
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SAID = "Hello to you. I hope that you are well today. Bye"


@asynccontextmanager
async def spoken(*replies: str) -> AsyncIterator[tuple[House, SpeakingServer]]:
    """A gateway whose sessions are spoken."""
    engine = SimulatorConfig(seed=1, replies=tuple(Reply(each) for each in replies)) if replies else SIMULATOR
    config = configured(speech_model="kokoro")
    async with over_http(engine, config=config) as house, speaking_server() as server:
        await joined(house.gateway, house.gateway.add_worker(WorkerSpec(server.url)).name)
        yield house, server


def heard(events: list[Any]) -> bytes:
    deltas = [event["delta"] for event in events if event["type"] == "response.output_audio.delta"]
    return b"".join(base64.b64decode(each) for each in deltas)


@pytest.mark.full
async def test_an_answer_is_spoken_sentence_by_sentence_and_told_as_its_transcript() -> None:
    async with spoken(SAID) as (house, server), talk(house) as socket:
        session = await opened(socket)
        await say(socket, "Hello")
        events = in_order(await respond(socket))
        await settled(house)
    assert session["output_modalities"] == ["audio"]
    assert heard(events) == sound_of(SAID)
    assert [each["input"] for each in server.asked] == ["Hello to you.", " I hope that you are well today.", " Bye"]
    assert {(each["voice"], each["response_format"]) for each in server.asked} == {("alloy", "pcm")}
    deltas = [base64.b64decode(each["delta"]) for each in events if each["type"] == "response.output_audio.delta"]
    assert max(map(len, deltas)) == 4800  # 100 ms
    response = events[-1]["response"]
    assert response["status"] == "completed"
    assert response["output"][0]["content"] == [{"type": "output_audio", "transcript": SAID}]
    kinds = [event["type"] for event in events]
    assert kinds.index("response.output_audio.done") > max(
        place for place, kind in enumerate(kinds) if kind == "response.output_audio.delta"
    )
    assert sorted({each.api for each in house.observer.of(RequestFinished)}) == ["realtime", "speech"]


@pytest.mark.full
@pytest.mark.parametrize("law", LAWS)
async def test_a_telephone_is_spoken_to_in_its_own_format_and_a_response_may_have_another(law: Law) -> None:
    async with spoken(SAID) as (house, _), talk(house) as socket:
        await opened(socket)
        audio = {"output": {"format": {"type": law}}}
        await send(socket, "session.update", session={"type": "realtime", "audio": audio})
        assert (await receive(socket))["session"]["audio"]["output"]["format"] == {"type": law}
        await say(socket, "Hello")
        events = in_order(await respond(socket))
        item = events[-1]["response"]["output"][0]["id"]
        length = len(sound_of(SAID)) // 48
        await send(socket, "conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=length)
        assert (await receive(socket))["type"] == "conversation.item.truncated"
        plain = in_order(await respond(socket, audio={"output": {"format": {"type": "audio/pcm"}}}))
    assert heard(events) == ToPhone(law).encoded(sound_of(SAID))
    said = plain[-1]["response"]["output"][0]["content"][0]["transcript"]
    assert heard(plain) == sound_of(said)


async def test_a_format_has_its_own_rate() -> None:
    async with spoken(SAID) as (house, _), talk(house) as socket:
        await opened(socket)
        for kind, rate in (("audio/pcmu", 24_000), ("audio/pcm", 8000)):
            audio = {"output": {"format": {"type": kind, "rate": rate}}}
            await send(socket, "session.update", session={"type": "realtime", "audio": audio})
            assert (await receive(socket))["error"]["param"] == "session.audio.output.format.rate"


async def test_a_response_may_be_text_where_the_session_is_spoken() -> None:
    async with spoken(SAID) as (house, server), talk(house) as socket:
        await opened(socket)
        await say(socket, "Hello")
        events = in_order(await respond(socket, output_modalities=["text"]))
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "output_text", "text": SAID}]
    assert server.asked == []


@pytest.mark.full
async def test_who_interrupts_ends_the_sound_and_cuts_what_was_not_heard() -> None:
    async with spoken(SAID, "Yes.") as (house, server), talk(house) as socket:
        await opened(socket)
        await say(socket, "Hello")
        server.held.clear()
        await send(socket, "response.create")
        first = await until(socket, "response.output_audio.delta")
        await send(socket, "response.cancel")
        events = first + await until(socket, "response.done")
        await eventually(lambda: server.left == 1)
        server.held.set()
        item = events[-1]["response"]["output"][0]
        told_ms = len(heard(events)) // 48
        where = {"item_id": item["id"], "content_index": 0}
        await send(socket, "conversation.item.truncate", **where, audio_end_ms=told_ms + 1)
        too_long = await receive(socket)
        await send(socket, "conversation.item.truncate", **where, audio_end_ms=told_ms // 2)
        truncated = await receive(socket)
        await send(socket, "conversation.item.retrieve", item_id=item["id"])
        kept = (await receive(socket))["item"]["content"][0]["transcript"]
        await say(socket, "Go on.")
        after = in_order(await respond(socket))
        seen = house.engine.requests[-1]
        prompt = house.engine.engine.vocabulary.decode(list(seen.input_ids), skip_special_tokens=False)
    in_order(events)
    assert events[-1]["response"]["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    assert too_long["error"]["param"] == "audio_end_ms"
    assert truncated["audio_end_ms"] == told_ms // 2
    assert kept
    assert SAID.startswith(kept)
    assert len(kept) < len("Hello to you.")
    assert "hope" not in prompt
    assert after[-1]["response"]["status"] == "completed"


async def test_speech_that_fails_is_told_and_the_rest_is_text() -> None:
    async with spoken(SAID, "Yes, that works again.") as (house, server), talk(house) as socket:
        await opened(socket)
        await say(socket, "Hello")
        server.refuses = True
        await send(socket, "response.create")
        events = await until(socket, "response.done")
        if events[-1]["type"] == "error":
            events += await until(socket, "response.done")
        server.refuses = False
        await say(socket, "And now?")
        after = in_order(await respond(socket))
    errors = [event["error"]["code"] for event in events if event["type"] == "error"]
    assert errors == ["speech_failed"]
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "output_audio", "transcript": SAID}]
    assert after[-1]["response"]["status"] == "completed"
    assert heard(after) == sound_of("Yes, that works again.")


@pytest.mark.full
async def test_a_voice_stays_once_it_was_heard() -> None:
    async with spoken("Yes.") as (house, _), talk(house) as socket:
        await opened(socket)
        await send(socket, "session.update", session={"type": "realtime", "audio": {"output": {"voice": "ash"}}})
        await receive(socket)
        await say(socket, "Hello")
        await respond(socket)
        await send(socket, "session.update", session={"type": "realtime", "audio": {"output": {"voice": "sage"}}})
        refused = await receive(socket)
        await send(socket, "session.update", session={"type": "realtime", "audio": {"output": {"voice": "ash"}}})
        same = await receive(socket)
    assert refused["error"]["code"] == "cannot_update_voice"
    assert same["type"] == "session.updated"

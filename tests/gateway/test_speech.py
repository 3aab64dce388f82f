"""POST /v1/audio/speech: by the official SDK, from a server that speaks, in bytes and in events."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from tests.gateway.conftest import JSON, House, in_process, settled
from tests.gateway.speaking import SpeakingServer, sound_of, speaking_server
from tests.gateway.test_vision import sdk

from smg_core import Gateway
from smg_core.hooks import RequestFinished
from smg_core.testing import MemoryObserver

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def speaking() -> AsyncIterator[tuple[House, SpeakingServer]]:
    """A gateway before a server that speaks."""
    import httpx

    observer = MemoryObserver()
    async with speaking_server() as server, Gateway([server.url], observer=observer) as gateway:
        await gateway.ready()
        async with gateway.http_client(httpx, base_url="http://gateway", headers=JSON) as http:
            yield House(gateway, http, observer), server


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[House]:
    """One such gateway for the tests that leave nothing behind."""
    async with speaking() as (house, _):
        yield house


async def test_a_text_is_spoken_by_the_official_sdk() -> None:
    async with speaking() as (house, server), sdk(house) as client:
        asked: Any = {"model": "kokoro", "input": "Hello you.", "voice": "ada", "speed": 1.5, "instructions": "Softly."}
        whole = await client.audio.speech.create(**asked, response_format="pcm")
        async with client.audio.speech.with_streaming_response.create(**asked) as answer:
            kind = answer.headers["content-type"]
            pieces = [piece async for piece in answer.iter_bytes()]
        await settled(house)
    assert whole.content == b"".join(pieces) == sound_of("Hello you.")
    assert whole.response.headers["content-type"] == "audio/pcm"
    assert kind == "audio/mpeg"
    assert server.asked[0] == {**asked, "response_format": "pcm"}
    (first, _) = house.observer.of(RequestFinished)
    assert (first.api, first.outcome, first.completion_tokens) == ("speech", "ok", 0)


async def test_sound_comes_as_events_where_that_is_asked_for() -> None:
    async with speaking() as (house, server):
        text = "Hello to you and to everybody else."
        body = {"model": "kokoro", "input": text, "voice": {"id": "v"}, "stream_format": "sse"}
        answer = await house.http.post("/v1/audio/speech", json=body)
        server.breaks_at = 1
        broken = await house.http.post("/v1/audio/speech", json=body)
    events = [json.loads(each[6:]) for each in answer.text.strip().split("\n\n") if each.startswith("data: ")]
    sound = b"".join(base64.b64decode(each["audio"]) for each in events[:-1])
    assert sound == sound_of(text)
    assert events[-1]["type"] == "speech.audio.done"
    assert server.asked[0]["voice"] == "v"
    last = json.loads(broken.text.strip().split("\n\n")[-1].removeprefix("data: "))
    assert last["error"]["type"] == "server_error"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": " "}, "input"),
        ({"input": ""}, "input"),
        ({"response_format": "midi"}, "response_format"),
        ({"speed": 5}, "speed"),
        ({"stream_format": "udp"}, "stream_format"),
        ({"pitch": 1}, "pitch"),
    ],
)
async def test_what_cannot_be_spoken_is_refused_by_its_field(shared: House, fields: dict[str, Any], param: str) -> None:
    answer = await shared.http.post("/v1/audio/speech", json={"model": "kokoro", "input": "Hello", **fields})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.full
async def test_a_model_whose_engine_makes_no_speech_says_so() -> None:
    async with in_process() as house, sdk(house) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.audio.speech.create(model="sim", input="Hello", voice="alloy")
    assert "makes no speech" in str(refused.value)


async def test_a_server_that_fails_is_told_before_any_sound() -> None:
    async with speaking() as (house, server):
        server.refuses = True
        answer = await house.http.post("/v1/audio/speech", json={"model": "kokoro", "input": "Hello"})
    assert answer.status_code >= 500

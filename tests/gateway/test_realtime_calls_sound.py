"""Sound over calls by WebRTC: what the caller says, what is played, and who interrupts whom."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.gateway.calls import Phone, call, loudness
from tests.gateway.conftest import House, eventually, over_http, settled
from tests.gateway.fleet import joined
from tests.gateway.realtime import in_order, receive, send, talk
from tests.gateway.speaking import sound_of, speaking_server
from tests.gateway.test_realtime_calls import taking
from tests.gateway.test_realtime_sound import SENTENCE, VAD, WHISPER, prompt
from tests.gateway.vision_models import qwen2_audio
from tests.shared import PATIENCE

from smg_core.apis.realtime.wire.g711 import LAWS, Law
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = [pytest.mark.anyio, pytest.mark.full]  # sound is said and heard in its own time

SAID = "Hello to you. I hope that you are well today. Bye"
LOUD = 0.02
PATIENT_VAD = {**VAD, "silence_duration_ms": 1_500}
"""With which a sentence is one, where a busy machine plays it with gaps."""


def hum(text: str) -> bytes:
    """A sound that Opus keeps, as long as that of the text."""
    return (struct.pack("<h", 8000) * 48 + struct.pack("<h", -8000) * 48) * (len(sound_of(text)) // 192)


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_audio(tmp_path_factory.mktemp("qwen-calls") / "model"))


@asynccontextmanager
async def with_voices(qwen: str, *said: str, words: str = "Weather in Paris?") -> AsyncIterator[tuple[House, Any]]:
    """A gateway with a model of text, one that writes down what is said, and a server that speaks."""
    engine = SimulatorConfig(seed=1, replies=tuple(Reply(each) for each in said))
    writer = SimulatorConfig(seed=1, model="whisper", model_folder=qwen, replies=(Reply(words), Reply(words)))
    config = taking(speech_model="kokoro")
    async with (
        over_http(engine, config=config) as house,
        SimulatedEngine(writer) as second,
        speaking_server() as server,
    ):
        await joined(house.gateway, house.gateway.add_worker(WorkerSpec(second.target, dialect="vllm")).name)
        server.voice = hum
        await joined(house.gateway, house.gateway.add_worker(WorkerSpec(server.url)).name)
        yield house, server


def settings(**sound: Any) -> Any:
    given = {"turn_detection": VAD, "transcription": WHISPER, **sound}
    return {"type": "realtime", "model": "sim", "audio": {"input": given}}


async def heard_loud(phone: Phone) -> None:
    """The caller hears that somebody speaks."""
    async with asyncio.timeout(PATIENCE):
        await eventually(lambda: loudness(phone.speaker[-9600:]) > LOUD, PATIENCE)


async def test_what_the_caller_says_is_answered_by_voice(qwen: str) -> None:
    async with with_voices(qwen, SAID) as (house, _), call(house, settings(turn_detection=PATIENT_VAD)) as phone:
        await phone.until("conversation.created")
        phone.microphone.waiting += SENTENCE
        events = in_order(await phone.until("output_audio_buffer.stopped"))
        await settled(house)
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"]
    (words,) = [each for each in events if each["type"] == "conversation.item.input_audio_transcription.completed"]
    assert words["transcript"] == "Weather in Paris?"
    assert "Weather in Paris?" in prompt(house)
    assert "response.output_audio.delta" not in kinds
    response = next(event["response"] for event in events if event["type"] == "response.done")
    assert response["output"][0]["content"] == [{"type": "output_audio", "transcript": SAID}]
    buffer = [event for event in events if event["type"].startswith("output_audio_buffer.")]
    assert [each["type"].rpartition(".")[2] for each in buffer] == ["started", "stopped"]
    assert {each["response_id"] for each in buffer} == {response["id"]}
    assert kinds.index("response.content_part.added") < kinds.index("output_audio_buffer.started")
    assert loudness(phone.speaker) > LOUD / 10


async def test_who_begins_to_speak_is_not_spoken_over_and_what_was_not_heard_is_cut(qwen: str) -> None:
    long = " ".join([SAID] * 8)
    async with with_voices(qwen, long, "Yes.") as (house, _), call(house, settings()) as phone:
        await phone.until("conversation.created")
        phone.microphone.waiting += SENTENCE
        await phone.until("output_audio_buffer.started")
        await heard_loud(phone)
        phone.microphone.waiting += SENTENCE
        events = await phone.until("conversation.item.truncated")
        item = events[-1]["item_id"]
        await phone.send("conversation.item.retrieve", item_id=item)
        retrieved = (await phone.until("conversation.item.retrieved"))[-1]["item"]
    kinds = [event["type"] for event in events]
    assert kinds.index("input_audio_buffer.speech_started") < kinds.index("output_audio_buffer.cleared")
    assert events[-1]["audio_end_ms"] > 0
    transcript = retrieved["content"][0]["transcript"]
    assert long.startswith(transcript)
    assert len(transcript) < len(long)


async def test_a_client_may_clear_what_is_played(qwen: str) -> None:
    async with (
        with_voices(qwen, " ".join([SAID] * 8)) as (house, _),
        call(house, settings(turn_detection=None)) as phone,
    ):
        await phone.until("conversation.created")
        await phone.send("output_audio_buffer.clear", event_id="early")
        early = (await phone.until("error"))[-1]["error"]
        await phone.say("Hello")
        await phone.send("response.create")
        await phone.until("output_audio_buffer.started")
        await heard_loud(phone)
        async with talk(house, f"/v1/realtime?call_id={phone.id}") as socket:
            await receive(socket)
            await send(socket, "output_audio_buffer.clear")
            events = await phone.until("output_audio_buffer.cleared")
            rest = await phone.until("response.done") if "response.done" not in str(events) else []
    assert (early["code"], early["event_id"]) == ("output_audio_buffer_empty", "early")
    assert "output_audio_buffer.stopped" not in [event["type"] for event in [*events, *rest]]


@pytest.mark.parametrize("law", LAWS)
async def test_the_format_of_a_session_does_not_change_the_sound_of_a_call(qwen: str, law: Law) -> None:
    async with with_voices(qwen, SAID) as (house, _), call(house, settings(format={"type": law})) as phone:
        await phone.until("conversation.created")
        out = {"output": {"format": {"type": law}}}
        await phone.send("session.update", session={"type": "realtime", "audio": out})
        await phone.until("session.updated")
        phone.microphone.waiting += SENTENCE
        events = await phone.until("output_audio_buffer.stopped")
    assert "input_audio_buffer.speech_stopped" in [event["type"] for event in events]
    assert LOUD / 10 < loudness(phone.speaker) < 0.9


async def test_a_session_that_transcribes_may_be_a_call(qwen: str) -> None:
    audio = {"input": {"transcription": WHISPER, "turn_detection": VAD}}
    async with (
        with_voices(qwen, words="One.") as (house, _),
        call(house, {"type": "transcription", "audio": audio}) as phone,
    ):
        await phone.until("session.created")
        phone.microphone.waiting += SENTENCE
        events = await phone.until("conversation.item.input_audio_transcription.completed")
    assert events[-1]["transcript"] == "One."
    assert not [event for event in events if event["type"].startswith("response.")]


async def test_sound_that_nobody_understands_is_told_once() -> None:
    async with over_http(SimulatorConfig(seed=1), config=taking()) as house, call(house) as phone:
        first = [await phone.receive() for _ in range(3)]
        await phone.send("session.update", session={"type": "realtime"})
        updated = [await phone.receive() for _ in range(2)]
    errors = [event["error"] for event in first if event["type"] == "error"]
    assert [(each["code"], each["event_id"]) for each in errors] == [("unsupported_content", None)]
    assert [event["type"] for event in updated] == ["session.updated", "error"]


async def test_a_session_of_another_server_may_be_a_call(qwen: str) -> None:
    async with with_voices(qwen, SAID) as (far, _), over_http(workers=[peer_of(far)], config=taking()) as house:
        await house.gateway.ready()
        async with call(house, settings()) as phone:
            await phone.until("session.updated")
            phone.microphone.waiting += SENTENCE
            events = await phone.until("output_audio_buffer.stopped")
            await settled(house)
    kinds = [event["type"] for event in events]
    assert "response.done" in kinds
    assert "response.output_audio.delta" not in kinds
    assert loudness(phone.speaker) > LOUD / 10


def peer_of(house: House) -> WorkerSpec:
    """A gateway as a server of sessions of its own."""
    return WorkerSpec(house.url, dialect="openai-realtime", model="sim")

"""Sound in Realtime sessions: turns that are found or committed, written down by another model, or heard by the model itself."""

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.core.apis.realtime.wire.test_hearing import speech
from tests.gateway.conftest import House, over_http, settled
from tests.gateway.fleet import joined
from tests.gateway.realtime import SIMULATOR, in_order, opened, receive, respond, say, send, talk, until
from tests.gateway.test_realtime_life import configured
from tests.gateway.test_responses_socket import SLOW
from tests.gateway.vision_models import qwen2_audio
from websockets.exceptions import InvalidStatus

from smg_core.apis.realtime.wire.g711 import LAWS, Law, ToPhone
from smg_core.config.config import Config
from smg_core.hooks import RequestFinished
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

SENTENCE = bytes(4800) + speech(0.8) + bytes(24_000)
VAD = {"type": "server_vad", "silence_duration_ms": 200, "prefix_padding_ms": 100}
WHISPER = {"model": "whisper", "language": "en", "prompt": "weather"}


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_audio(tmp_path_factory.mktemp("qwen-realtime") / "model"))


@asynccontextmanager
async def with_writer(
    qwen: str, *words: str, engine: SimulatorConfig = SIMULATOR, faults: Sequence[Fault] = (), **settings: Any
) -> AsyncIterator[House]:
    """A gateway with a model of text, and one that writes down what is said, which hears these words."""
    writer = SimulatorConfig(
        seed=1, model="whisper", model_folder=qwen, replies=tuple(Reply(each) for each in words), faults=tuple(faults)
    )
    async with over_http(engine, config=configured(**settings)) as house, SimulatedEngine(writer) as second:
        await joined(house.gateway, house.gateway.add_worker(WorkerSpec(second.target, dialect="vllm")).name)
        yield house


@asynccontextmanager
async def hearing(qwen: str, **fields: Any) -> AsyncIterator[House]:
    """A gateway with a model that takes sound."""
    config = Config(workers=WorkersConfig(dialect="vllm"))
    async with over_http(SimulatorConfig(seed=1, model_folder=qwen, **fields), config=config) as house:
        yield house


async def listens(socket: Any, **sound: Any) -> None:
    """Have the session take sound."""
    given = {"turn_detection": VAD, "transcription": WHISPER, **sound}
    await send(socket, "session.update", session={"type": "realtime", "audio": {"input": given}})
    assert (await receive(socket))["type"] == "session.updated"


async def speak(socket: Any, sound: bytes, piece: int = 4800) -> None:
    for at in range(0, len(sound), piece):
        audio = base64.b64encode(sound[at : at + piece]).decode()
        await send(socket, "input_audio_buffer.append", audio=audio)


def prompt(house: House) -> str:
    seen = house.engine.requests[-1]
    return house.engine.engine.vocabulary.decode(list(seen.input_ids), skip_special_tokens=False)


@pytest.mark.full
@pytest.mark.parametrize("piece", [4800, 1 << 20])
async def test_what_is_said_is_written_down_and_answered(qwen: str, piece: int) -> None:
    async with with_writer(qwen, "Weather in Paris?") as house, talk(house) as socket:
        await opened(socket)
        await listens(socket)
        await speak(socket, SENTENCE, piece)
        events = in_order(await until(socket, "response.done"))
        (item,) = {event["item_id"] for event in events if event["type"].startswith("input_audio_buffer.")}
        await send(socket, "conversation.item.retrieve", item_id=item)
        retrieved = (await receive(socket))["item"]
    kinds = [event["type"] for event in events]
    assert kinds[:5] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    (words,) = [each for each in events if each["type"] == "conversation.item.input_audio_transcription.completed"]
    assert words["transcript"] == "Weather in Paris?"
    assert words["usage"]["type"] == "tokens"
    assert retrieved["content"] == [{"type": "input_audio", "transcript": "Weather in Paris?"}]
    assert "Weather in Paris?" in prompt(house)
    assert events[-1]["response"]["status"] == "completed"
    assert [each.api for each in house.observer.of(RequestFinished)] == ["transcriptions", "realtime"]


@pytest.mark.full
@pytest.mark.parametrize("law", LAWS)
async def test_a_telephone_is_heard_as_any_other_microphone(qwen: str, law: Law) -> None:
    async with with_writer(qwen, "Weather in Paris?") as house, talk(house) as socket:
        await opened(socket)
        await listens(socket, format={"type": law})
        await speak(socket, ToPhone(law).encoded(SENTENCE), 801)  # a byte is a sample, so any number of them will do
        events = in_order(await until(socket, "response.done"))
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"]
    (words,) = [each for each in events if each["type"] == "conversation.item.input_audio_transcription.completed"]
    assert words["transcript"] == "Weather in Paris?"


@pytest.mark.full
async def test_turns_may_be_found_by_sileros_model(qwen: str) -> None:
    settings = {"turn_detector": "silero"}
    async with with_writer(qwen, "Weather in Paris?", **settings) as house, talk(house) as socket:
        await opened(socket)
        await listens(socket)
        await speak(socket, SENTENCE)
        events = in_order(await until(socket, "response.done"))
    assert [event["type"] for event in events[:2]] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
    ]


async def test_a_detector_that_is_not_installed_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smg_core.apis.realtime.socket.find_spec", lambda name: None)
    async with over_http(SIMULATOR, config=configured(turn_detector="silero")) as house:
        with pytest.raises(InvalidStatus) as refused:
            async with talk(house):
                pass
    answer = refused.value.response
    assert (answer.status_code, b"pip install 'smg-sdk[vad]'" in (answer.body or b"")) == (501, True)


@pytest.mark.full
async def test_a_turn_may_be_committed_by_the_client(qwen: str) -> None:
    async with with_writer(qwen, "Hello there.", "Again.") as house, talk(house) as socket:
        await opened(socket)
        await listens(socket, turn_detection=None)
        await send(socket, "input_audio_buffer.commit")
        empty = await receive(socket)
        await speak(socket, speech(0.5))
        await send(socket, "input_audio_buffer.clear")
        cleared = await receive(socket)
        await speak(socket, speech(0.5))
        await send(socket, "input_audio_buffer.commit")
        await send(socket, "response.create", response={"max_output_tokens": 3})
        events = in_order(await until(socket, "response.done"))
    assert empty["error"]["code"] == "input_audio_buffer_commit_empty"
    assert cleared["type"] == "input_audio_buffer.cleared"
    assert events[0]["type"] == "input_audio_buffer.committed"
    assert "Hello there." in prompt(house)


async def test_a_model_that_takes_sound_hears_it(qwen: str) -> None:
    async with hearing(qwen, replies=(Reply("I hear you."),)) as house, talk(house) as socket:
        await opened(socket)
        await listens(socket, transcription=None)
        await speak(socket, SENTENCE)
        events = in_order(await until(socket, "response.done"))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "I hear you."
    assert events[-1]["response"]["usage"]["input_token_details"]["audio_tokens"] > 0
    assert not [event for event in events if "transcription" in event["type"]]


@pytest.mark.full
async def test_an_item_may_be_sound_where_the_model_takes_it(qwen: str) -> None:
    item: Any = {"type": "message", "role": "user"}
    part = {"type": "input_audio", "audio": base64.b64encode(speech(0.5)).decode()}
    async with hearing(qwen) as house, talk(house) as socket:
        await opened(socket)
        await send(socket, "conversation.item.create", item={**item, "content": [part]})
        added = (await until(socket, "conversation.item.done"))[-1]["item"]
        response = in_order(await respond(socket, max_output_tokens=2))[-1]["response"]
        await send(socket, "conversation.item.create", item={**item, "content": [{**part, "audio": "AA=="}]})
        odd = await receive(socket)
        said = {**part, "transcript": "Hello."}
        await send(socket, "conversation.item.create", item={**item, "content": [said]})
        with_words = (await until(socket, "conversation.item.done"))[-1]["item"]
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        await opened(socket)
        await send(socket, "conversation.item.create", item={**item, "content": [part]})
        refused = await receive(socket)
    assert added["content"] == [{"type": "input_audio", "transcript": None}]
    assert response["usage"]["input_token_details"]["audio_tokens"] > 0
    assert odd["error"]["param"] == "item.content[0].audio"
    assert with_words["content"] == [{"type": "input_audio", "transcript": "Hello."}]
    assert refused["error"]["code"] == "unsupported_content"


@pytest.mark.full
async def test_who_begins_to_speak_ends_the_response_under_way(qwen: str) -> None:
    async with with_writer(qwen, "Stop.", engine=SLOW) as house, talk(house) as socket:
        await opened(socket)
        await listens(socket)
        await say(socket, "Tell me all.")
        await send(socket, "response.create")
        await until(socket, "response.output_text.delta")
        await speak(socket, SENTENCE)
        first = (await until(socket, "response.done"))[-1]["response"]
        second = await until(socket, "response.output_text.delta")
        await send(socket, "response.cancel")
        await until(socket, "response.done")
        await settled(house)
    assert first["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert "response.created" in [event["type"] for event in second]
    assert "Stop." in prompt(house)


@pytest.mark.full
async def test_turns_may_be_found_without_answering_or_interrupting(qwen: str) -> None:
    quiet = {**VAD, "create_response": False, "interrupt_response": False}
    async with with_writer(qwen, "Yes.", engine=SLOW) as house, talk(house) as socket:
        await opened(socket)
        await listens(socket, turn_detection=quiet)
        await say(socket, "Tell me all.")
        await send(socket, "response.create", response={"max_output_tokens": 60})
        await until(socket, "response.output_text.delta")
        await speak(socket, SENTENCE)
        events = await until(socket, "response.done")
        await send(socket, "session.update", session={"type": "realtime"})
        after = await receive(socket)
    assert "conversation.item.input_audio_transcription.completed" in [event["type"] for event in events]
    assert events[-1]["response"]["status"] == "incomplete"
    assert after["type"] == "session.updated"


@pytest.mark.full
async def test_a_transcription_that_fails_is_told_and_the_session_lives(qwen: str) -> None:
    async with with_writer(qwen, faults=[Fault("error", message="x")] * 3) as house, talk(house) as socket:
        await opened(socket)
        await listens(socket)
        await speak(socket, SENTENCE)
        events = await until(socket, "response.done")
        await say(socket, "In writing then.")
        after = in_order(await respond(socket, max_output_tokens=2))
    (failed,) = [each for each in events if each["type"] == "conversation.item.input_audio_transcription.failed"]
    assert failed["error"]["type"] == "server_error"
    assert events[-1]["response"]["status"] == "failed"
    assert after[-1]["response"]["status"] == "incomplete"


@pytest.mark.full
async def test_a_session_that_transcribes_writes_down_and_answers_nothing(qwen: str) -> None:
    async with with_writer(qwen, "One.", "Two.") as house, talk(house, "/v1/realtime?intent=transcription") as socket:
        await receive(socket)
        sound = {"input": {"transcription": WHISPER, "turn_detection": VAD}}
        await send(socket, "session.update", session={"type": "transcription", "audio": sound})
        await receive(socket)
        words = []
        for _ in range(2):
            await speak(socket, SENTENCE)
            kind = "conversation.item.input_audio_transcription.completed"
            events = await until(socket, kind)
            words.append(events[-1]["transcript"])
            assert not [event for event in events if event["type"].startswith("response.")]
    assert words == ["One.", "Two."]
    assert house.engine.counters["finished"] == 0


async def test_without_a_model_that_understands_sound_none_is_taken_and_the_rest_goes_on() -> None:
    async with over_http(SIMULATOR) as house, talk(house) as socket:
        await opened(socket)
        await listens(socket)
        await speak(socket, bytes(4800))
        refused = await receive(socket)
        await say(socket, "Hello")
        after = in_order(await respond(socket, max_output_tokens=2))
    assert refused["error"]["code"] == "unsupported_content"
    assert after[-1]["response"]["status"] == "incomplete"


async def test_sound_that_is_malformed_or_too_much_is_an_error_event(qwen: str) -> None:
    async with with_writer(qwen, kept_bytes=60_000) as house, talk(house) as socket:
        await opened(socket)
        await listens(socket, turn_detection=None)
        errors = []
        for audio in ("no base64!", base64.b64encode(b"\0").decode(), base64.b64encode(bytes(100_000)).decode()):
            await send(socket, "input_audio_buffer.append", audio=audio)
            errors.append((await receive(socket))["error"]["code"])
        await say(socket, "Hello")
    assert errors == ["invalid_value", "invalid_value", "session_too_large"]


async def test_only_so_many_turns_are_written_down_at_once(qwen: str) -> None:
    async with with_writer(qwen, faults=[Fault("stall")], transcriptions=1) as house, talk(house) as socket:
        await opened(socket)
        await listens(socket, turn_detection=None)
        await speak(socket, speech(0.3))
        await send(socket, "input_audio_buffer.commit")
        await until(socket, "conversation.item.done")
        await speak(socket, speech(0.3))
        await send(socket, "input_audio_buffer.commit")
        refused = await receive(socket)
    assert refused["error"]["code"] == "too_many_transcriptions"


async def test_a_client_that_leaves_gives_up_what_is_written_down(qwen: str) -> None:
    stall = [Fault("stall")]
    async with with_writer(qwen, faults=stall) as house:
        async with talk(house) as socket:
            await opened(socket)
            await listens(socket)
            await speak(socket, SENTENCE)
            await until(socket, "response.created")
        await settled(house)
    assert {each.outcome for each in house.observer.of(RequestFinished)} == {"client_gone"}

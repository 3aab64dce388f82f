"""Whatever takes long with the bytes of a medium is done in a thread, whichever API it came by and however it was sent.

The law is walked: every API that takes media, each with a large one, while every function that goes through all bytes of a medium
notes in which thread it was called and how long what it was given is. A new function joins by a row of `WORK`.
"""

import base64
import threading
import wave
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.gateway.conftest import House, in_process, settled
from tests.gateway.test_vision import sdk
from tests.gateway.vision_models import audio_part, data_url, image_part, qwen2_audio, qwen2_vl, text_part

import smg_multimodal.decoding.sounds
import smg_multimodal.fetching.fetch
import smg_multimodal.preparing.packaging
import smg_multimodal.processes.documents
from smg_core import Config
from smg_core.engines.codecs.neutral.codec import NeutralCodec
from smg_core.engines.codecs.sglang.codec import SglangCodec
from smg_core.engines.codecs.vllm.codec import VllmCodec
from smg_core.http.settings import MediaConfig
from smg_core.models import model_media
from smg_core.pipeline.prompt.media import MediaItem
from smg_core.request import MediaSource
from smg_core.workers.settings import WorkersConfig
from smg_multimodal.preparing.prepare import Preparer
from smg_multimodal.preparing.shm import SharedMemory
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

HERE = 256 * 1024
"""Bytes or characters of a medium that may be gone through on the event loop."""


def of_text(url: str, *_: Any) -> int:
    return len(url)


def of_tensors(codec: Any, request: Any) -> int:
    media = request.multimodal
    return 0 if media is None else sum(map(len, media_pieces(media)))


def media_pieces(media: Any) -> list[Any]:
    messages = media.messages() if hasattr(media, "messages") else [media.message()]
    return [piece for message in messages for piece in message.pieces]


WORK: tuple[tuple[Any, str, Callable[..., int]], ...] = (
    (smg_multimodal.fetching.fetch, "data_url", of_text),
    (smg_multimodal.fetching.fetch, "base64_bytes", of_text),
    (smg_multimodal.fetching.fetch, "digest_of", lambda data, known: len(data)),
    (smg_multimodal.processes.documents, "_sha256", len),
    (model_media, "wave_of_pcm16", len),
    (smg_multimodal.decoding.sounds.audio, "read_wave", lambda data, **_: len(data)),
    (smg_multimodal.preparing.packaging, "wire_tensor", lambda array, *_: array.nbytes),
    (Preparer, "features", lambda preparer, media, *_: len(media.data)),
    (SharedMemory, "write", lambda memory, shared, tensor: tensor.nbytes),
    (VllmCodec, "generate", of_tensors),
    (SglangCodec, "generate", of_tensors),
    (NeutralCodec, "generate", of_tensors),
)
"""Where, which function goes through all of a medium or of its tensors, and how long what it is given is."""


class Noted:
    """Which work was done, where and on how much."""

    def __init__(self) -> None:
        self.loop = threading.get_ident()
        self.done: list[tuple[str, int, bool]] = []

    def note(self, name: str, size: int) -> None:
        self.done.append((name, size, threading.get_ident() == self.loop))

    @property
    def on_the_loop(self) -> list[tuple[str, int]]:
        """What was done on the event loop and is too long for it."""
        return [(name, size) for name, size, here in self.done if here and size > HERE]

    @property
    def apart(self) -> set[str]:
        """Which long work was done in threads."""
        return {name for name, size, here in self.done if not here and size > HERE}


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    found = Noted()
    for place, name, size in WORK:
        own = getattr(place, name)

        def watched(*given: Any, own: Any = own, name: str = name, size: Any = size, **named: Any) -> Any:
            found.note(name, size(*given, **named))
            return own(*given, **named)

        monkeypatch.setattr(place, name, watched)
    return found


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_vl(tmp_path_factory.mktemp("seeing") / "model"))


@pytest.fixture(scope="module")
def hearing(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_audio(tmp_path_factory.mktemp("hearing") / "model"))


@asynccontextmanager
async def serving(folder: str, dialect: str = "vllm", shared_memory: str = "off") -> AsyncIterator[House]:
    media = MediaConfig(shared_memory=shared_memory)  # type: ignore[arg-type]
    config = Config(workers=WorkersConfig(dialect=dialect), media=media)
    async with in_process(SimulatorConfig(model_folder=folder), config=config) as house:
        yield house


def large_picture() -> bytes:
    out = BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (500, 500, 3), np.uint8)).save(out, "PNG")
    return out.getvalue()


def large_recording() -> bytes:
    out = BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24_000)
        file.writeframes(array("h", range(30_000)).tobytes() * 15)
    return out.getvalue()


PICTURE, RECORDING = large_picture(), large_recording()
ENCODED = base64.b64encode(PICTURE).decode()
SPOKEN = base64.b64encode(RECORDING).decode()
LINES = base64.encodebytes(PICTURE).decode()
NAMED = {"model": "sim", "max_tokens": 8}
GEMINI = "/v1beta/models/sim:generateContent"


def chat(*parts: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", NAMED | {"messages": [{"role": "user", "content": [*parts, text_part("What?")]}]}


def responses(part: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    content = [part, {"type": "input_text", "text": "What?"}]
    return "/v1/responses", {"model": "sim", "store": False, "input": [{"role": "user", "content": content}]}


def gemini(kind: str, data: str) -> tuple[str, dict[str, Any]]:
    parts = [{"text": "What?"}, {"inlineData": {"mimeType": kind, "data": data}}]
    return GEMINI, {"contents": [{"parts": parts}]}


def interactions(kind: str, media_type: str, data: str) -> tuple[str, dict[str, Any]]:
    content = [{"type": "text", "text": "What?"}, {"type": kind, "mime_type": media_type, "data": data}]
    return "/v1beta/interactions", {
        "model": "sim",
        "store": False,
        "input": [{"type": "user_input", "content": content}],
    }


def messages(data: str) -> tuple[str, dict[str, Any]]:
    source = {"type": "base64", "media_type": "image/png", "data": data}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "What?"}]
    return "/v1/messages", NAMED | {"messages": [{"role": "user", "content": content}]}


SEEN = {
    "chat": chat(image_part(PICTURE)),
    "chat in lines": chat(image_part(f"data:image/png;base64,{LINES}")),
    "chat bare": chat(image_part(ENCODED)),
    "chat escaped": chat(image_part("data:image/png;base64," + ENCODED.replace("+", "%2B"))),
    "responses": responses({"type": "input_image", "image_url": data_url(PICTURE)}),
    "messages": messages(ENCODED),
    "gemini": gemini("image/png", ENCODED),
    "interactions": interactions("image", "image/png", ENCODED),
}
HEARD = {
    "chat": chat(audio_part(RECORDING)),
    "chat pcm16": chat(audio_part(RECORDING[44:], "pcm16")),
    "chat url": chat({"type": "audio_url", "audio_url": {"url": data_url(RECORDING, "audio/wav")}}),
    "responses": responses({"type": "input_audio", "input_audio": {"data": SPOKEN, "format": "wav"}}),
    "gemini": gemini("audio/wav", SPOKEN),
    "interactions": interactions("audio", "audio/wav", SPOKEN),
}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("way", SEEN)
async def test_a_large_picture_is_worked_on_in_threads_whichever_way_it_comes(
    way: str, seeing: str, noted: Noted
) -> None:
    async with serving(seeing) as house:
        path, body = SEEN[way]
        answer = await house.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        await settled(house)
    assert noted.on_the_loop == []
    assert noted.apart >= {"digest_of", "features", "wire_tensor", "generate"}
    assert noted.apart & {"data_url", "base64_bytes"}


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("way", HEARD)
async def test_a_long_recording_is_worked_on_in_threads_whichever_way_it_comes(
    way: str, hearing: str, noted: Noted
) -> None:
    async with serving(hearing) as house:
        path, body = HEARD[way]
        answer = await house.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        await settled(house)
    assert noted.on_the_loop == []
    assert noted.apart >= {"digest_of", "features", "read_wave"}
    assert ("wave_of_pcm16" in noted.apart) == (way == "chat pcm16")


async def test_the_recording_of_a_transcription_is_worked_on_in_threads(hearing: str, noted: Noted) -> None:
    async with serving(hearing) as house, sdk(house) as client:
        file = ("speech.wav", RECORDING, "audio/wav")
        assert (await client.audio.transcriptions.create(model="sim", file=file)).text
    assert noted.on_the_loop == []
    assert noted.apart >= {"digest_of", "features", "read_wave"}


@pytest.mark.parametrize("dialect", ["sglang", "neutral"])
async def test_tensors_are_copied_into_a_request_in_threads_by_every_dialect(
    dialect: str, seeing: str, noted: Noted
) -> None:
    async with serving(seeing, dialect) as house:
        path, body = SEEN["chat"]
        assert (await house.http.post(path, json=body)).status_code == 200
    assert noted.on_the_loop == []
    assert "generate" in noted.apart


async def test_tensors_are_copied_into_shared_memory_in_threads(seeing: str, noted: Noted) -> None:
    async with serving(seeing, shared_memory="auto") as house:
        path, body = SEEN["chat"]
        assert (await house.http.post(path, json=body)).status_code == 200
    assert noted.on_the_loop == []
    assert noted.apart >= {"write"}


async def test_of_a_large_picture_that_comes_twice_the_address_is_not_hashed_and_its_tensors_are_made_once(
    seeing: str, noted: Noted
) -> None:
    """An address that has the file in itself is as long as the file, and a table of addresses would hash all of it."""
    async with serving(seeing) as house:
        path, body = chat(image_part(PICTURE), image_part(PICTURE), image_part(PICTURE))
        assert (await house.http.post(path, json=body)).status_code == 200
        (media,) = house.engine.requests[-1].multimodal
    assert len(media.placeholders) == 3
    assert [name for name, _, _ in noted.done].count("features") == 1
    assert noted.on_the_loop == []
    url = data_url(PICTURE)
    long, short = (MediaItem("image", MediaSource(url=each), "") for each in (url, "https://pictures.test/a"))
    assert (model_media._address(long), model_media._address(short)) == (id(url), "https://pictures.test/a")

"""Voices that are no test's own: espeak-ng says commands into a session, pocketsphinx writes them down, espeak-ng answers."""

import asyncio
import base64
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.gateway.conftest import House, over_http, settled
from tests.gateway.fleet import joined
from tests.gateway.realtime import in_order, opened, receive, send, talk, until
from tests.gateway.test_realtime_life import configured
from tests.shared import PATIENCE

from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = [pytest.mark.anyio, pytest.mark.services, pytest.mark.timeout(300)]

PYTHON = Path(__file__).parents[2] / "build" / "services" / "python" / "bin" / "python"
COMMANDS = [
    f"{verb} the {thing}"
    for verb, thing in product(("open", "close", "start", "stop"), ("door", "window", "music", "heating"))
]
ACCURACY = 0.9  # of the words; with espeak-ng 1.51 and pocketsphinx 5.1 it is 0.98
SILENCE = bytes(48_000)  # a second


@asynccontextmanager
async def voices() -> AsyncIterator[str]:
    """The server that speaks and listens: its URL."""
    assert shutil.which("espeak-ng"), "espeak-ng is not here; tools/services.sh installs it"
    program = str(Path(__file__).with_name("voices.py"))
    process = await asyncio.create_subprocess_exec(str(PYTHON), program, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def with_voices(*said: str) -> AsyncIterator[House]:
    engine = SimulatorConfig(seed=1, replies=tuple(Reply(each) for each in said))
    async with voices() as url, over_http(engine, config=configured(speech_model="voices")) as house:
        await joined(house.gateway, house.gateway.add_worker(WorkerSpec(url)).name)
        yield house


async def said(house: House, text: str) -> bytes:
    """The sound of a text, by the gateway's own route."""
    asked = {"model": "voices", "input": text, "voice": "alloy", "response_format": "pcm"}
    async with httpx.AsyncClient(base_url=house.url, timeout=PATIENCE, trust_env=False) as http:
        return (await http.post("/v1/audio/speech", json=asked)).content


async def hear(socket: Any, sound: bytes) -> None:
    """Say a sound into a session, in events of 100 ms."""
    for at in range(0, len(sound), 4800):
        await send(socket, "input_audio_buffer.append", audio=base64.b64encode(sound[at : at + 4800]).decode())


def right(wanted: str, found: str) -> int:
    return sum(one == other for one, other in zip(wanted.split(), found.split(), strict=False))


async def listens(socket: Any, *, answers: bool) -> None:
    """Have the session write down what it hears."""
    turns = {"type": "server_vad", "silence_duration_ms": 400, "create_response": answers}
    sound = {"input": {"turn_detection": turns, "transcription": {"model": "voices"}}}
    await opened(socket)
    await send(socket, "session.update", session={"type": "realtime", "audio": sound})
    await until(socket, "session.updated")


async def test_commands_that_are_spoken_are_written_down_with_the_accuracy_that_is_stated() -> None:
    async with with_voices() as house, talk(house) as socket:
        await listens(socket, answers=False)
        counted = 0
        for command in COMMANDS:
            await hear(socket, await said(house, command) + SILENCE)
            told = (await until(socket, "conversation.item.input_audio_transcription.completed"))[-1]
            counted += right(command, told["transcript"])
        await settled(house)
    assert counted / sum(len(command.split()) for command in COMMANDS) >= ACCURACY


async def test_an_answer_that_is_spoken_says_what_the_model_has_written() -> None:
    async with with_voices("close the window") as house, talk(house) as socket:
        await listens(socket, answers=True)
        await hear(socket, await said(house, "open the door") + SILENCE)
        events = []
        while not events or events[-1]["type"] != "response.done":
            events.append(await receive(socket))
        in_order(events)
        deltas = [each["delta"] for each in events if each["type"] == "response.output_audio.delta"]
        spoken = b"".join(base64.b64decode(each) for each in deltas)
        await send(socket, "session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
        await hear(socket, spoken)
        await send(socket, "input_audio_buffer.commit")
        written = (await until(socket, "conversation.item.input_audio_transcription.completed"))[-1]
        await settled(house)
    first = next(each for each in events if each["type"].endswith("transcription.completed"))
    assert first["transcript"] == "open the door"
    assert written["transcript"] == "close the window"

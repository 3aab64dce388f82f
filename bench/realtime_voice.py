"""How long a user waits for the first sound of an answer, from the end of what was said, part by part.

    python bench/realtime_voice.py [--turns 20] [--sessions 1] [--silence-ms 200] [--hear-ms 80] [--think-ms 50] [--speak-ms 60]

Three processes: servers of the parts, one that writes down what is said and one that speaks, which take the time that is given;
a gateway with an embedded engine, whose first token takes `--think-ms`; and this one, the load generator, with clients that send
100 ms of sound every 100 ms, as a microphone does. The sound is made here: syllables of a voice, then silence. What is over the
given times is the gateway's, its machine's, and up to 100 ms for the piece of silence that has to be full before it is sent.
"""

import argparse
import asyncio
import base64
import json
import math
import socket
import statistics
import struct
import subprocess
import sys
import time
from typing import Any

import uvicorn
from websockets.asyncio.client import ClientConnection, connect

from smg_core import Config, Gateway
from smg_core.config import RealtimeConfig, ServerConfig
from smg_core.server.http_server import HttpServer
from smg_core.workers.worker import WorkerSpec
from smg_simulator import SimulatorConfig, Timing
from smg_simulator.answers.replies import Reply

RATE, PIECE_S = 24_000, 0.1
PIECE = int(RATE * PIECE_S) * 2
SPOKEN_S = 0.8
ANSWER = "It is sunny in Paris today. Take a hat with you."
PARTS = ("the turn is found", "its words", "the first text", "the first sound")
EVENTS = (
    "input_audio_buffer.speech_stopped",
    "conversation.item.input_audio_transcription.completed",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
)


def syllables(seconds: float) -> bytes:
    """A voice of 120 Hz and its overtones, four times a second louder and softer; loud to the end."""
    samples = []
    for at in range(int(seconds * RATE)):
        moment = at / RATE
        loud = 0.2 * max(0.1, math.sin(2 * math.pi * 4 * moment + 1)) ** 0.5
        voice = sum(math.sin(2 * math.pi * 120 * number * moment) / number for number in range(1, 6))
        samples.append(int(32_767 * max(-1.0, min(1.0, loud * voice / 2))))
    return struct.pack(f"<{len(samples)}h", *samples)


class Part:
    """A server of one part: its model, its path, what it answers, and after how long."""

    def __init__(self, model: str, path: str, kind: bytes, body: bytes, seconds: float) -> None:
        self._model, self._path, self._kind, self._body, self._seconds = model, path, kind, body, seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body", False):
            pass
        kind, body = b"application/json", b""
        if scope["path"] == self._path:
            await asyncio.sleep(self._seconds)
            kind, body = self._kind, self._body
        elif scope["path"] == "/openapi.json":
            body = json.dumps({"paths": {self._path: {}}}).encode()
        else:
            body = json.dumps({"object": "list", "data": [{"id": self._model, "object": "model"}]}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": body})


def listening() -> socket.socket:
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.listen(1024)
    return made


def tell(*ports: int) -> None:
    sys.stdout.write(" ".join(map(str, ports)) + "\n")
    sys.stdout.flush()


async def parts(hear_s: float, speak_s: float) -> None:
    """Run the servers of the parts, and write their ports."""
    words = json.dumps({"text": "Weather in Paris?"}).encode()
    apps = (
        Part("ears", "/v1/audio/transcriptions", b"application/json", words, hear_s),
        Part("mouth", "/v1/audio/speech", b"audio/pcm", bytes(PIECE * 5), speak_s),
    )
    sockets = [listening() for _ in apps]
    servers = [uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off")) for app in apps]
    tell(*(each.getsockname()[1] for each in sockets))
    await asyncio.gather(*(one.serve(sockets=[at]) for one, at in zip(servers, sockets, strict=True)))


async def serve(ears: int, mouth: int, think_s: float) -> None:
    """Run the gateway, and write its port."""
    engine = SimulatorConfig(replies=(Reply(ANSWER),), timing=Timing(decode_rate=200, overhead=think_s))
    config = Config(server=ServerConfig(connections=20_000), realtime=RealtimeConfig(speech_model="mouth"))
    gateway = Gateway.simulated(engine, config=config)
    listener = listening()
    server = HttpServer(gateway, config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    for port in (ears, mouth):
        gateway.add_worker(WorkerSpec(f"http://127.0.0.1:{port}"))
    await gateway.ready()
    while not {"ears", "mouth"} <= set(gateway.services.models):
        await asyncio.sleep(0.05)
    tell(listener.getsockname()[1])
    await running


async def turn(session: ClientConnection, spoken: bytes) -> list[float]:
    """Speak once, and listen to the answer; returns the seconds from the end of speech to each event."""
    at: dict[str, float] = {}
    over = asyncio.Event()

    async def listen() -> None:
        while not over.is_set():
            event = json.loads(await session.recv())
            at.setdefault(event["type"], time.perf_counter())
            if event["type"] == "error":
                raise SystemExit(event)
            if event["type"] == "response.done":
                over.set()

    listening = asyncio.create_task(listen())
    began, number, ended = time.perf_counter(), 0, 0.0
    pieces = [spoken[place : place + PIECE] for place in range(0, len(spoken), PIECE)]
    while not over.is_set():
        await asyncio.sleep(max(0.0, began + (number + 1) * PIECE_S - time.perf_counter()))
        sound = pieces[number] if number < len(pieces) else bytes(PIECE)
        await session.send(json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(sound).decode()}))
        number += 1
        if number == len(pieces):
            ended = began + number * PIECE_S
    await listening
    return [at[kind] - ended for kind in EVENTS]


async def talk(url: str, turns: int, silence_ms: int, found: list[list[float]]) -> None:
    """One session."""
    spoken = syllables(SPOKEN_S)
    heard = {
        "turn_detection": {"type": "server_vad", "silence_duration_ms": silence_ms},
        "transcription": {"model": "ears"},
    }
    async with connect(url, proxy=None, ping_interval=None, compression=None, max_size=None) as session:
        settings = {"type": "realtime", "audio": {"input": heard}}
        await session.send(json.dumps({"type": "session.update", "session": settings}))
        while json.loads(await session.recv())["type"] != "session.updated":
            pass
        await turn(session, spoken)  # what is loaded first with the first turn
        found += [await turn(session, spoken) for _ in range(turns)]


def told_ports(process: "subprocess.Popen[str]") -> list[int]:
    if process.stdout is None or not (line := process.stdout.readline()):
        raise SystemExit("a process says nothing")
    return [int(each) for each in line.split()]


async def measure(given: argparse.Namespace) -> None:
    """Run all, and write the figures."""
    own = [sys.executable, __file__]
    times = [str(each / 1000) for each in (given.hear_ms, given.speak_ms)]
    found: list[list[float]] = []
    with subprocess.Popen([*own, "--parts", *times], stdout=subprocess.PIPE, text=True) as servers:
        ports = [str(each) for each in told_ports(servers)]
        command = [*own, "--serve", *ports, str(given.think_ms / 1000)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as gateway:
            try:
                url = f"ws://127.0.0.1:{told_ports(gateway)[0]}/v1/realtime?model=sim"
                talks = (talk(url, given.turns, given.silence_ms, found) for _ in range(given.sessions))
                await asyncio.gather(*talks)
            finally:
                gateway.terminate()
                servers.terminate()
    write(found, (given.silence_ms, given.hear_ms, given.think_ms, given.speak_ms))


def write(found: list[list[float]], given: tuple[float, ...]) -> None:
    """Write a line for each part: its own time as it was given, and how much more there was."""
    sys.stdout.write(f"{len(found)} turns; milliseconds, the median and 95 of 100\n")
    last = [0.0] * len(found)
    for place, (part, own) in enumerate(zip(PARTS, given, strict=True)):
        took = sorted(1000 * (each[place] - before) for each, before in zip(found, last, strict=True))
        last = [each[place] for each in found]
        middle, most = statistics.median(took), took[int(len(took) * 0.95)]
        sys.stdout.write(f"{part:18} {middle:7.1f} {most:7.1f}   given {own:5.1f}, more {middle - own:6.1f}\n")
    whole = sorted(1000 * each[-1] for each in found)
    middle, most = statistics.median(whole), whole[int(len(whole) * 0.95)]
    sys.stdout.write(
        f"{'all':18} {middle:7.1f} {most:7.1f}   given {sum(given):5.1f}, more {middle - sum(given):6.1f}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=1)
    for name, usual in (("silence", 200), ("hear", 80), ("think", 50), ("speak", 60)):
        parser.add_argument(f"--{name}-ms", type=int, default=usual)
    parser.add_argument("--parts", nargs=2, type=float, help=argparse.SUPPRESS)
    parser.add_argument("--serve", nargs=3, type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.parts:
        asyncio.run(parts(*given.parts))
    elif given.serve:
        ears, mouth, think_s = given.serve
        asyncio.run(serve(int(ears), int(mouth), think_s))
    else:
        asyncio.run(measure(given))


if __name__ == "__main__":
    main()

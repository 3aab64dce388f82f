"""What becomes of streams when an engine's process is killed under them.

    python bench/killed.py [--requests 144] [--engines 3] [--tokens 200] [--rate 50]

Processes of the embedded engine whose next token is a function of all tokens before it, the gateway's process before them, and a
client of /generate, which tells token ids. When every stream has begun, one engine's process gets SIGKILL. A stream is right if
its ids are exactly those that one engine alone gives; the longest pause is between two events of one stream.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import msgspec

from smg_core.engines.base import EngineRequest
from smg_core.request import Sampling
from smg_core.sse import SseReader
from smg_core.tokens import TokenIds
from smg_simulator.engine.engine import EngineCore, SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER, read_vocabulary

LENGTH = 1000
"""One token in so many would end an answer; the requests ignore that, so that all have the same length."""


@attrs.define
class Stream:
    """One request and what its client was told."""

    prompt: list[int]
    ids: list[int] = attrs.field(factory=list)
    events: int = 0
    pause: float = 0.0
    seconds: float = 0.0
    error: str = ""
    ends: int = 0
    usage: Any = None


def expected(prompt: list[int], tokens: int) -> list[int]:
    """The ids that one engine gives."""
    core = EngineCore(SimulatorConfig(chained=LENGTH), read_vocabulary(Path(MODEL_FOLDER)))
    plan = core.plan(EngineRequest("r", TokenIds(prompt), Sampling(max_tokens=tokens, ignore_eos=True)))
    return list(plan.choices[0].ids)


async def ask(http: httpx.AsyncClient, stream: Stream, tokens: int) -> None:
    sampling = {"max_new_tokens": tokens, "ignore_eos": True}
    body = {"input_ids": stream.prompt, "stream": True, "sampling_params": sampling}
    reader, began = SseReader(), time.perf_counter()
    last = began
    async with http.stream("POST", "/generate", json=body) as answer:
        async for piece in answer.aiter_bytes():
            for event in reader.feed(piece):
                now = time.perf_counter()
                stream.pause, last = max(stream.pause, now - last if stream.events else 0.0), now
                stream.events += 1
                if event.data == "[DONE]":
                    stream.ends += 1
                else:
                    told = msgspec.json.decode(event.data)
                    stream.error = stream.error or str(told.get("error", ""))
                    stream.ids, stream.usage = told.get("output_ids", stream.ids), told.get("meta_info", stream.usage)
    stream.seconds = time.perf_counter() - began


@contextmanager
def processes(folder: str, engines: int, rate: float) -> Iterator[tuple[list["subprocess.Popen[bytes]"], str]]:
    """The engines, and the URL of the gateway before them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SMG_")}
    with ExitStack() as stack:
        running, workers = [], []
        for number in range(engines):
            target = f"unix://{folder}/{number}.sock"
            flags = ["--listen", target, "--chained", str(LENGTH), "--decode-rate", str(rate)]
            running.append(_started(stack, ["simulate", *flags], environment))
            workers += ["--worker", target]
        gateway = _started(stack, ["serve", "--port", "0", *workers], environment)
        log = iter(gateway.stderr or ())
        line = next(line for line in log if b"listening on" in line)
        stack.callback(gateway.communicate)
        yield running, line.decode().split("listening on ")[1].split()[0]
        gateway.terminate()


def _started(stack: ExitStack, command: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-m", "smg_core", *command],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if command[0] == "serve" else subprocess.DEVNULL,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


async def measured(requests: int, engines: int, tokens: int, rate: float) -> tuple[list[Stream], float]:
    """The streams, and how long after the start the engine was killed."""
    with tempfile.TemporaryDirectory() as folder, processes(folder, engines, rate) as (running, url):
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False, limits=limits) as http:
            await _joined(http)
            streams = [Stream([100 + number, 7, 11, 13]) for number in range(requests)]
            began = time.perf_counter()
            tasks = [asyncio.create_task(ask(http, stream, tokens)) for stream in streams]
            while not all(stream.events > 1 for stream in streams):
                await asyncio.sleep(0.01)
            os.kill(running[0].pid, signal.SIGKILL)
            killed = time.perf_counter() - began
            await asyncio.gather(*tasks)
    return streams, killed


async def _joined(http: httpx.AsyncClient) -> None:
    """Return once the gateway is ready, and has had time to reach the other engines too."""
    while (await http.get("/readiness")).status_code != 200:
        await asyncio.sleep(0.05)
    await asyncio.sleep(2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=144)
    parser.add_argument("--engines", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rate", type=float, default=50.0, help="tokens a second of one stream")
    flags = parser.parse_args()
    streams, killed = asyncio.run(measured(flags.requests, flags.engines, flags.tokens, flags.rate))
    right = [stream for stream in streams if stream.ids == expected(stream.prompt, flags.tokens)]
    failed = [stream.error for stream in streams if stream.error]
    prompts = {stream.usage["prompt_tokens"] for stream in streams if stream.usage}
    print(f"killed 1 of {flags.engines} engines {killed:.2f} s after the start of {len(streams)} streams")
    print(f"complete with exactly the engine's ids: {len(right)} of {len(streams)}; with an error: {len(failed)}")
    print(f"prompt tokens counted: {sorted(prompts)}; longest pause {max(stream.pause for stream in streams):.2f} s")
    sys.exit(len(right) != len(streams))


if __name__ == "__main__":
    main()

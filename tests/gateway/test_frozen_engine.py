"""One of three engines stops as SIGSTOP or a hung device stops it: real processes, real time, requests at a steady pace."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, JSON, body
from tests.gateway.test_serve import ENVIRONMENT, read, ready, start
from tests.shared import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

RATE, SECONDS, FREEZE_AT = 25, 8.0, 2.0
FIRST_TOKEN = 2.0
MORE = 2.0
"""What the slowest request may wait beyond its bound, in seconds."""


@attrs.define
class Asked:
    """One streamed request, as its client saw it; times are seconds of this process's clock."""

    at: float
    first: float = 0.0
    ended: float = 0.0
    status: int = 0
    done: bool = False
    errors: int = 0


@attrs.define
class Lateness:
    """How late this process is called at most: what a busy machine adds to every wait."""

    most: float = 0.0

    async def watch(self) -> None:
        while True:
            due = time.monotonic() + 0.05
            await asyncio.sleep(0.05)
            self.most = max(self.most, time.monotonic() - due)


@contextmanager
def engines(count: int, folder: Path) -> Iterator[list[tuple[subprocess.Popen[bytes], str]]]:
    """Processes of the embedded engine that take a moment before the first token and none after, with their URLs."""
    with ExitStack() as stack:
        running = []
        for number in range(count):
            url = f"unix://{folder}/{number}.sock"
            command = [sys.executable, "-m", "smg_core", "simulate", "--listen", url, "--overhead", "0.1"]
            process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
            running.append((process, url))
        yield running


@asynccontextmanager
async def gateway(urls: Sequence[str], *arguments: str) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway's process before these engines, all of which have joined."""
    workers = [word for url in urls for word in ("--worker", url)]
    process = await start(*workers, "--port", "0", "--timeouts-first-token-s", f"{FIRST_TOKEN}", *arguments)
    log: list[str] = []
    reading = asyncio.create_task(read(process, log))
    try:
        async with asyncio.timeout(PATIENCE):
            while sum("-> ready" in line for line in log) < len(urls):
                await asyncio.sleep(0.02)
        url = next(line for line in log if "listening on" in line).split("listening on ")[1].split()[0]
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=url, timeout=PATIENCE, trust_env=False, headers=JSON, limits=limits
        ) as http:
            await ready(http)
            yield http
    finally:
        process.kill()
        await process.wait()
        await reading


async def ask(http: httpx.AsyncClient, number: int) -> Asked:
    asked, said = Asked(time.monotonic()), b""
    async with http.stream("POST", CHAT, json=body(f"{number}", stream=True, max_tokens=4)) as answer:
        asked.status = answer.status_code
        async for piece in answer.aiter_bytes():
            asked.first = asked.first or time.monotonic()
            said += piece
    asked.ended = time.monotonic()
    asked.done = said.endswith(b"data: [DONE]\n\n")
    asked.errors = sum("error" in json.loads(line[6:]) for line in said.splitlines() if line.startswith(b"data: {"))
    return asked


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--workers-health-interval-s", "3600"), id="no probe: the first missed token tells"),
        pytest.param(("--workers-health-interval-s", "0.5", "--workers-probe-timeout-s", "0.5"), id="probed"),
    ],
)
async def test_with_one_of_three_engines_frozen_no_request_is_lost_and_none_waits_long(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    lateness = Lateness()
    watching = asyncio.create_task(lateness.watch())
    with engines(3, tmp_path) as running:
        async with gateway([url for _, url in running], *arguments) as http:
            tasks, frozen, began = [], 0.0, time.monotonic()
            for number in range(int(RATE * SECONDS)):
                await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
                if not frozen and time.monotonic() - began >= FREEZE_AT:
                    os.kill(running[0][0].pid, signal.SIGSTOP)
                    frozen = time.monotonic()
                tasks.append(asyncio.create_task(ask(http, number)))
            requests = await asyncio.gather(*tasks)
    watching.cancel()

    cut = [each for each in requests if each.status == 200 and each.errors == 1 and each.first < frozen < each.ended]
    lost = [each for each in requests if each not in cut and not (each.status == 200 and each.done and not each.errors)]
    longest = max(each.first - each.at for each in requests)
    print(
        f"{len(requests)} requests, {len(cut)} cut in mid-stream, longest wait {longest:.2f} s, late {lateness.most:.2f} s"
    )
    assert not lost
    assert longest <= FIRST_TOKEN + MORE + lateness.most
    assert any(each.first - each.at >= 0.3 for each in requests)  # somebody waited for the frozen one

"""Ctrl-C in commands that run a while: what was measured until then is said, the status tells, and nobody reads a traceback."""

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.gateway.conftest import eventually, over_http, settled
from tests.shared import PATIENCE, free_port

from smg_simulator import SimulatorConfig, Timing

pytestmark = [pytest.mark.anyio, pytest.mark.full]  # starts processes

ENDLESS = SimulatorConfig(reply_tokens=20_000, timing=Timing(decode_rate=2.0))
"""An engine that gives its first words at once, and the last of an answer in hours."""
QUESTION = {"model": "sim", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 3}


@asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "smg_core", *arguments), stdout=PIPE, stderr=PIPE, env={**os.environ, "SMG_API_KEY": ""}
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def until(process: Process, words: str) -> None:
    """Wait for a line of standard error with these words."""
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        while words not in (line := (await process.stderr.readline()).decode()):
            assert line, f"it ended before it said {words!r}"


async def interrupted(process: Process) -> tuple[int | None, str, str]:
    """Its status behind Ctrl-C, and what it then said."""
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(PATIENCE):
        told, complained = await process.communicate()
    return process.returncode, told.decode(), complained.decode()


async def test_a_bench_says_what_it_has_measured(tmp_path: Path) -> None:
    report = tmp_path / "bench.html"
    load = ("--requests", "20", "--users", "1", "--output-tokens", "2", "--prompt-tokens", "4", "--report", str(report))
    async with (
        over_http(SimulatorConfig(timing=Timing(decode_rate=4.0))) as house,
        command("bench", house.url, *load) as process,
    ):
        await until(process, "4 of 20 requests (20 %), 0 failed")
        status, told, complained = await interrupted(process)

    assert status == 130
    assert "Traceback" not in complained
    assert re.search(r"Interrupted: (\d+) of 20 requests had come to their end\.\n\1 requests in .* 0 failed", told)
    assert re.search(r"^first token +0\.", told, re.MULTILINE)
    assert "Interrupted: " in report.read_text()


async def test_a_bench_waits_for_no_answer() -> None:
    async with (
        over_http(ENDLESS) as house,
        command("bench", house.url, "--output-tokens", "20000", "--json") as process,
    ):
        await eventually(lambda: house.gateway.in_flight, PATIENCE)
        status, told, complained = await interrupted(process)

    assert (status, complained) == (130, "")
    assert json.loads(told)["notes"] == ["Interrupted: 0 of 200 requests had come to their end."]


async def test_a_recorder_cuts_what_is_under_way_and_keeps_what_came_to_its_end(tmp_path: Path) -> None:
    out, place = tmp_path / "day.jsonl", f"127.0.0.1:{free_port()}"
    async with (
        over_http(ENDLESS) as house,
        command("record", house.url, str(out), "--listen", place) as process,
        httpx.AsyncClient(base_url=f"http://{place}", timeout=PATIENCE) as client,
    ):
        await until(process, "Ctrl-C ends it")
        await asked_once_it_listens(client)
        whole = asyncio.create_task(client.post("/v1/chat/completions", json={**QUESTION, "max_tokens": 20_000}))
        async with client.stream(
            "POST", "/v1/chat/completions", json={**QUESTION, "stream": True, "max_tokens": 20_000}
        ) as cut:
            pieces = cut.aiter_raw()
            await anext(pieces)
            await eventually(lambda: house.gateway.in_flight == 2, PATIENCE)
            status, _, complained = await interrupted(process)
            with pytest.raises(httpx.HTTPError):
                [each async for each in pieces]
        with pytest.raises(httpx.HTTPError):
            (await whole).raise_for_status()
        await settled(house)

    assert (status, complained) == (0, f"smg-gateway: 1 exchanges are in {out}\n")
    assert len(out.read_text().splitlines()) == 1


async def asked_once_it_listens(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/chat/completions", json=QUESTION)
    assert answer.status_code == 200


async def test_a_replay_says_what_was_different_until_then(tmp_path: Path) -> None:
    cassette = tmp_path / "day.jsonl"
    at = [0.0, 0.0, 0.0, 0.0, 86_400.0]
    lines = [
        {
            "at": each,
            "method": "POST",
            "path": "/v1/chat/completions",
            "body": json.dumps(QUESTION),
            "status": 404,
            "summary": {},
        }
        for each in at
    ]
    cassette.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    async with over_http(SimulatorConfig()) as house, command("replay", str(cassette), house.url) as process:
        await until(process, "4 of 5 requests")
        status, told, complained = await interrupted(process)

    assert (status, complained) == (130, "smg-gateway: interrupted: 4 of 5 requests had come to their end\n")
    assert "4 requests, 4 answered differently: status of 4" in told


async def test_top_does_not_wait_for_a_gateway_that_says_nothing() -> None:
    asked: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
    deaf = await asyncio.start_server(lambda _, writer: asked.set_result(writer), "127.0.0.1", 0)
    async with deaf:
        url = f"http://127.0.0.1:{deaf.sockets[0].getsockname()[1]}"
        async with command("top", "--admin", url, "--timeout", "3600") as process:
            writer = await asyncio.wait_for(asked, PATIENCE)
            ended = await interrupted(process)
        writer.close()
        await writer.wait_closed()

    assert ended == (0, "", "")  # that is how one leaves it

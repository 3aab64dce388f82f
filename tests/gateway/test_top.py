"""`smg-gateway top` over the admin door of a gateway in a process of its own."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.gateway.conftest import CHAT, body, eventually
from tests.gateway.test_serve import QUICK, Served, serving
from tests.shared import PATIENCE, free_port

from smg_core.cli import main
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

ADMIN, USER = "admin-key-0123456789", "user-key-0123456789"
ENDLESS = SimulatorConfig(reply_tokens=100_000, context_length=200_000, timing=Timing(decode_rate=20))
KEYS = {"SMG_AUTH_KEYS": f"{ADMIN} tenant=ops role=admin, {USER} tenant=acme"}


@asynccontextmanager
async def with_door(*arguments: str, config: SimulatorConfig = QUICK) -> AsyncIterator[tuple[Served, str]]:
    """A gateway with an admin door, and where that is."""
    async with serving(config, "--admin-port", "0", *arguments, env=KEYS) as served:
        await eventually(lambda: served.told("admin door is at"))
        yield served, next(line for line in served.log if "admin door is at" in line).split(" at ")[1].rstrip(",")


async def top(*arguments: str) -> int:
    return await asyncio.to_thread(main, ["top", "--once", "--interval", "0.3", *arguments])


@pytest.mark.full
async def test_one_frame_has_the_models_and_workers_and_a_stranger_gets_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_door("--metrics-admin") as (served, door):
        for _ in range(3):
            answer = await served.http.post(CHAT, json=body(), headers={"authorization": f"Bearer {USER}"})
            assert answer.status_code == 200
        monkeypatch.setenv("SMG_ADMIN_KEY", ADMIN)
        status = await top("--admin", door)
        frame = capsys.readouterr().out
        monkeypatch.setenv("SMG_ADMIN_KEY", USER)
        refused = await top("--admin", door)
        told = capsys.readouterr().err

    assert status == 0
    for word in ("smg-gateway", "MODEL", "sim", "TTFT P95", "WORKER", "ready", "IN FLIGHT", "grpc://127.0.0.1:"):
        assert word in frame
    assert "\x1b" not in frame
    assert refused == 1
    assert told.startswith("smg-gateway: 403: ")


@pytest.mark.full
async def test_into_a_pipe_one_frame_is_printed_and_that_is_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMG_ADMIN_KEY", ADMIN)
    async with with_door("--metrics-admin") as (_, door), asyncio.timeout(PATIENCE):
        status = await asyncio.to_thread(main, ["top", "--interval", "0.1", "--admin", door])
    frame = capsys.readouterr().out
    assert status == 0
    assert frame.count("MODEL") == 1
    assert "\x1b" not in frame


@pytest.mark.full
async def test_before_two_processes_every_frame_has_the_requests_of_both(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMG_ADMIN_KEY", ADMIN)
    streams, said = 8, re.compile(r"processes (\d+) +in flight (\d+) +connections (\d+)")
    flags = ("--processes", "2", "--metrics-admin", "--metrics-sample-s", "0.1")
    async with with_door(*flags, config=ENDLESS) as (served, door), AsyncExitStack() as stack:
        headers, pieces = {"authorization": f"Bearer {USER}"}, []  # an iterator that is dropped closes its connection
        for _ in range(streams):
            sent = served.http.stream("POST", CHAT, json=body(stream=True, max_tokens=100_000), headers=headers)
            answer = await stack.enter_async_context(sent)
            pieces.append(answer.aiter_bytes())
            await anext(pieces[-1])
        frames = []
        async with asyncio.timeout(PATIENCE):
            while len(frames) < 6:  # connections to the door go to either process
                assert await top("--admin", door, "--interval", "0.1") == 0
                frames.append(capsys.readouterr().out)
                _, in_flight, connections = map(int, said.search(frames[-1]).groups())  # type: ignore[union-attr]
                if in_flight != streams or connections < streams or "not ready" in frames[-1]:
                    frames.clear()  # a process tells of itself a moment late, and may still be joining the worker
        before = [row for frame in frames for row in frame.splitlines() if row.startswith("grpc://")]

    assert {said.search(frame)[1] for frame in frames} == {"2"}  # type: ignore[index]
    assert {row.split()[2] for row in before} == {str(streams)}


@pytest.mark.full
async def test_metrics_at_a_port_of_their_own_are_found_by_the_settings_and_read_without_a_door(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMG_ADMIN_KEY", ADMIN)
    monkeypatch.delenv("SMG_ADMIN", raising=False)
    port = free_port()
    async with with_door("--metrics-port", str(port)) as (_, door):
        found = [await top("--admin", door), await top("--metrics", f"http://127.0.0.1:{port}/metrics")]
        frames = capsys.readouterr().out
        wrong = [await top("--metrics", f"http://127.0.0.1:{port}/nothing"), await top("--metrics", door)]
    gone = await top("--metrics", f"http://127.0.0.1:{port}/metrics")

    assert (found, wrong, gone) == ([0, 0], [1, 1], 1)
    assert frames.count("MODEL") == 2
    assert "its health is told at the admin door" in frames
    assert capsys.readouterr().err.count("cannot be read") == 3


@pytest.mark.full
async def test_what_is_missing_is_said_in_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SMG_ADMIN", raising=False)
    monkeypatch.setenv("SMG_ADMIN_KEY", ADMIN)
    async with with_door() as (_, door):
        without = await top("--admin", door)
    async with with_door("--metrics-admin", "--metrics-names", "smg") as (_, door):
        others = await top("--admin", door)
    gone = await top("--admin", door)
    nowhere = [await top(), await top("--admin", door, "--rows", "0"), await top("--admin", door, "--interval", "-1")]

    told = capsys.readouterr().err.splitlines()
    assert (without, others, gone, nowhere) == (1, 1, 1, [2, 2, 2])
    assert "start it with --metrics-admin, or with --metrics-port" in told[0]
    assert "metrics.names" in told[1]
    assert "cannot be asked" in told[2]
    assert "where is the admin door?" in told[3]
    assert len(told) == 6

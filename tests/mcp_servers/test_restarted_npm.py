"""Servers of the official TypeScript package, as tools/services.sh installs it, killed and started anew under calls."""

import asyncio
import os
import shutil
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_servers.peers import eventually

from smg_mcp import McpTools, McpUnavailable

pytestmark = [pytest.mark.anyio, pytest.mark.services]

MODULES = Path(__file__).parents[2] / "build" / "services" / "node_modules"
PROGRAM = Path(__file__).with_name("restarted.mjs")
PATHS = {"many": "/mcp", "one": "/mcp", "sse": "/sse"}
"""The kinds of servers over HTTP: one with many sessions, one that has a single session, one of legacy SSE; and their paths."""


class Restarted:
    """The server of one kind, started and killed. Its first process keeps every call waiting."""

    def __init__(self, kind: str, folder: Path) -> None:
        assert (MODULES / "@modelcontextprotocol" / "sdk").exists(), "tools/services.sh installs the package"
        self.mark = folder / "mark"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        node = shutil.which("node") or "node"
        self.command = [node, str(PROGRAM), str(MODULES), kind, str(self.port), str(self.mark)]
        self._process: asyncio.subprocess.Process | None = None

    @property
    def said(self) -> list[str]:
        return self.mark.read_text().splitlines() if self.mark.exists() else []

    async def start(self) -> None:
        quiet = asyncio.subprocess.DEVNULL
        self._process = process = await asyncio.create_subprocess_exec(*self.command, stdout=quiet, stderr=quiet)
        await eventually(lambda: process.returncode is not None or self._answers())

    def _answers(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0

    async def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None


async def outcome_of_calls(tools: McpTools, server: Restarted, kill: Any) -> None:
    """What comes of calls that are under way when the server is killed, and of the next."""
    calls = [asyncio.ensure_future(tools.call(f"numbers.{name}", {})) for name in ("once", "again", "again")]
    await eventually(lambda: len(server.said) == 3)
    await kill()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results[0], McpUnavailable)
    assert results[0].may_have_run
    assert [getattr(each, "text", each) for each in results[1:]] == ["done", "done"]
    assert (await tools.call("numbers.once", {})).text == "done"
    assert sorted(server.said[3:]) == ["second again", "second again", "second once"]


@pytest.mark.parametrize("kind", list(PATHS))
async def test_a_server_killed_under_calls_runs_again_what_may_run_twice_and_nothing_else(
    kind: str, tmp_path: Path
) -> None:
    server = Restarted(kind, tmp_path)
    protocol, url = ("sse" if kind == "sse" else "streamable"), f"http://127.0.0.1:{server.port}{PATHS[kind]}"
    told = {"name": "numbers", "protocol": protocol, "url": url, "generation": "legacy"}
    pool = {"connect_tries": 20, "max_backoff": 1}

    async def restart() -> None:
        await server.kill()
        await server.start()

    await server.start()
    try:
        async with McpTools.from_config({"servers": [told], "pool": pool}) as tools:
            await outcome_of_calls(tools, server, restart)
    finally:
        await server.kill()


@pytest.mark.parametrize("kind", ["many", "one"])
async def test_calls_after_a_restart_find_the_session_forgotten_and_run_once(kind: str, tmp_path: Path) -> None:
    server = Restarted(kind, tmp_path)
    server.mark.touch()  # no call has to wait
    url = f"http://127.0.0.1:{server.port}/mcp"
    told = {"name": "numbers", "protocol": "streamable", "url": url, "generation": "legacy"}
    await server.start()
    try:
        async with McpTools.from_config({"servers": [told]}) as tools:
            assert (await tools.call("numbers.once", {})).text == "done"
            await server.kill()
            await server.start()
            together = asyncio.gather(*(tools.call("numbers.once", {}) for _ in range(10)))
            assert [each.text for each in await together] == ["done"] * 10
    finally:
        await server.kill()
    assert len(server.said) == 11


async def test_a_child_killed_under_calls_runs_again_what_may_run_twice_and_nothing_else(tmp_path: Path) -> None:
    server = Restarted("stdio", tmp_path)
    pids = tmp_path / "pids"
    script = f'echo $$ >> {pids}; exec "$@"'
    told = {"name": "numbers", "protocol": "stdio", "command": "sh", "args": ["-c", script, "sh", *server.command]}

    async def kill() -> None:
        os.kill(int(pids.read_text().split()[0]), signal.SIGKILL)

    async with McpTools.from_config({"servers": [told]}) as tools:
        await outcome_of_calls(tools, server, kill)
    assert len(pids.read_text().split()) == 2

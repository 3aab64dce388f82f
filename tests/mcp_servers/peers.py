"""The server that goes wrong, as tests start it, and waiting for what must come."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smg_mcp import McpTools

FAULTY = Path(__file__).parent / "faulty.py"


class Faulty:
    """The settings of the server that goes wrong, and what it was sent."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def server(self, **more: Any) -> dict[str, Any]:
        told = {"name": "bad", "protocol": "stdio", "command": sys.executable, "args": [str(FAULTY), str(self.log)]}
        return {**told, **more}

    def tools(
        self, server: dict[str, Any] | None = None, *, options: dict[str, Any] | None = None, **more: Any
    ) -> McpTools:
        return McpTools.from_config({"servers": [self.server(**(server or {}))], **more}, **(options or {}))

    @property
    def sent(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    @property
    def pids(self) -> list[int]:
        return [int(line[4:]) for line in self.sent.splitlines() if line.startswith("pid ")]


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds; the test's own time-out is what ends it."""
    while not holds():
        await asyncio.sleep(0.01)

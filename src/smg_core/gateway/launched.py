"""Starts an engine as a child process of a gateway, shows its progress, and stops it (edge).

`Gateway.launch` makes one, for a notebook or a script. Which command starts which engine is the table of `engine_commands`; any
other command does too. Above: `gateway.gateway`. `gateway.assembly` reaches the engine as it reaches any worker.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self, TextIO, Unpack

from smg_core.errors import WorkerGone
from smg_core.gateway.arguments import GatewayArguments
from smg_core.gateway.engine_commands import COMMANDS, command_line
from smg_core.gateway.gateway import Gateway
from smg_core.workers.worker import WorkerSpec

__all__ = ["LaunchArguments", "LaunchedGateway"]

LAST_LINES = 20  # of what the engine has written, for the error when it does not come up
LINE = 100  # characters of a line of the engine's that the progress shows


class LaunchArguments(GatewayArguments, total=False):
    """The keyword arguments of `LaunchedGateway` beside `model`."""

    python: str
    options: Sequence[str]
    environment: dict[str, str] | None
    timeout_s: float
    grace_s: float
    progress: TextIO | None


class LaunchedGateway(Gateway):
    """`command` is a name of `COMMANDS`, or the words of a command line, in which {port}, {model} and {python} are replaced.

    `model` is the model's name or folder; `python` is the interpreter of the environment that has the engine; `options` are added
    to the command, `environment` to this process's. The engine has `timeout_s` seconds to come up and `grace_s` to stop. Progress
    is written to `progress`, or nowhere where that is None. The other arguments are `Gateway`'s.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        model: str = "",
        python: str = sys.executable,
        options: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        timeout_s: float = 600.0,
        grace_s: float = 15.0,
        progress: TextIO | None = sys.stderr,
        **arguments: Unpack[GatewayArguments],
    ) -> None:
        super().__init__(**arguments)
        self._command = _words(command, model)
        self._options = tuple(options)
        self._model = model
        self._python = python
        self._environment = environment or {}
        self._timeout = timeout_s
        self._grace = grace_s
        self._progress = progress
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self.process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
            if self.process is not None:
                await self._come_up(self.process)
        except BaseException:
            await self.stop()
            raise
        return self

    async def _first_workers(self, stack: AsyncExitStack, scratch: Path) -> list[WorkerSpec]:
        port = _free_port()
        words = command_line((*self._command, *self._options), port=port, model=self._model, python=self._python)
        self._say(f"starting: {' '.join(words)}")
        process = self.process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **self._environment},
            start_new_session=True,  # its own processes are stopped with it, and Ctrl-C in a notebook does not reach it
        )
        reading = asyncio.create_task(self._read(process))
        stack.push_async_callback(self._stop_engine, process, reading)
        return [*await super()._first_workers(stack, scratch), WorkerSpec(f"grpc://127.0.0.1:{port}", name="launched")]

    @property
    def last_words(self) -> str:
        """The last lines that the engine has written."""
        return "\n".join(self._lines)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Keep the last lines that the engine writes, and show the newest."""
        while process.stdout is not None and (chunk := await process.stdout.read(65536)):
            for line in chunk.decode(errors="replace").replace("\r", "\n").splitlines():
                if line.strip():
                    self._lines.append(line.rstrip())
                    self._say(line.strip())

    def _say(self, text: str) -> None:
        if self._progress is not None:
            print(f"[engine] {text[:LINE]}", file=self._progress, flush=True)

    async def _come_up(self, process: asyncio.subprocess.Process) -> None:
        """Return once the engine has joined. Raises WorkerGone when it ends before that, or takes longer than `timeout_s`."""
        began = time.monotonic()
        ended = asyncio.create_task(process.wait())
        joined = asyncio.create_task(self.ready(None))
        try:
            await asyncio.wait([ended, joined], timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED)
            if joined.done():
                self._say(f"ready after {time.monotonic() - began:.1f} s, serves {', '.join(sorted(self.models))}")
                return
            why = f"ended with {ended.result()}" if ended.done() else f"has not come up within {self._timeout:g} s"
        finally:
            ended.cancel()
            joined.cancel()
            await asyncio.gather(ended, joined, return_exceptions=True)
        reasons = [worker.reason for worker in self.registry if worker.reason]
        raise WorkerGone(f"The engine {why}. It wrote:\n" + "\n".join([self.last_words, *reasons]))

    async def _stop_engine(self, process: asyncio.subprocess.Process, reading: "asyncio.Task[None]") -> None:
        """Ask the engine to end, and kill its processes that are left after `grace_s`."""
        _signal(process, signal.SIGTERM)
        try:
            async with asyncio.timeout(self._grace):
                await process.wait()
        except TimeoutError:
            self._say(f"still there after {self._grace:g} s; killed")
        _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        await process.wait()
        await reading


def _words(command: str | Sequence[str], model: str) -> tuple[str, ...]:
    """The words of a command. Raises ValueError for an unknown name, or if the command needs a model and none is given."""
    if not isinstance(command, str):
        return tuple(command)
    if command not in COMMANDS:
        raise ValueError(
            f"no engine is called {command!r}; there are {', '.join(COMMANDS)}, or give the words of a command"
        )
    if not model:
        raise ValueError(f"say which model {command} is to serve: model=...")
    return COMMANDS[command]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to the engine and the processes that it has started, if they still run."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)

"""Runs code in the interpreters of containers: each is a program, which is begun when code comes for it (edge).

Whichever process of a gateway has code for a container asks the program that is there, by a socket in the container's folder; the
process that began a program ends it when it ends itself. What the code has left in memory is lost with the program, and the next
answer says so. Above: the containers of tenants. Below: `program`.
"""

import asyncio
import contextlib
import json
import os
import struct
import sys
from asyncio.subprocess import Process
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

import attrs
import msgspec

from smg_core.errors import Overloaded, ToolServerFailed

__all__ = ["BEGUN", "InterpreterBounds", "Interpreters", "RanCode", "Stopped"]

Stopped = Literal["time", "memory", "trap", "files", "lost"]
"""Why an interpreter has ended amid a call: it took too long, wanted more memory, trapped, wrote too much, or ended by itself."""
BEGUN = "begun"
"""The file in a container's folder that says that earlier code has left something in memory."""

_PROGRAM = Path(__file__).with_name("program.py")
_SIZE = struct.Struct(">I")
_BUSY = b"busy\n"  # what a program says whose container has one already
_TRIES = 5  # how often a program is begun for a call, while others end
_START_S = 60.0  # seconds in which a program begins
_GRACE_S = 5.0  # seconds after its time in which a program says that it has ended
_LONGEST_PATH = 90  # bytes of the name of a folder with a socket, by the system's bound
_MOST_FRAME = 1 << 30


@attrs.frozen
class InterpreterBounds:
    """What a container may have: bytes of `memory`, bytes and number of `files`, `seconds` of one call, `characters` of its
    output. A program ends `idle_s` after its last call; a process has at most `running` of them."""

    memory: int
    bytes: int
    seconds: float
    idle_s: float
    running: int
    files: int = 2000
    characters: int = 100_000


class _Given(msgspec.Struct, frozen=True):
    """What the guest says of a call."""

    stdout: str
    stderr: str
    error: str | None = None
    cut: bool = False


class _Answered(msgspec.Struct, frozen=True):
    """What a program says of a call: how many there were before it, and what the guest gave, or why it has ended."""

    count: int = 0
    given: str = ""
    stopped: Stopped | None = None


@attrs.frozen
class RanCode:
    """What came of code: its outputs, the last line of what it raised, whether outputs were `cut`, why the interpreter was
    `stopped`, and whether what earlier code had left in memory was `lost` before this code ran."""

    stdout: str = ""
    stderr: str = ""
    error: str | None = None
    cut: bool = False
    stopped: Stopped | None = None
    lost: bool = False


@attrs.define(eq=False)
class _Running:
    """A program that this process has begun, and how many calls it is in here."""

    process: Process
    calls: int = 0


class Interpreters:
    """The interpreters that this process has begun. `component` is the compiled interpreter."""

    def __init__(self, component: Path, bounds: InterpreterBounds) -> None:
        self._component, self.bounds = component, bounds
        self._running: OrderedDict[Path, _Running] = OrderedDict()  # the one that was called last stands last
        self._starting: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    @property
    def running(self) -> int:
        """Programs of this process that there are."""
        return len(self._running)

    async def run(self, folder: Path, code: str) -> RanCode:
        """Run code in the container of this folder. Raises Overloaded where there may be no more interpreters, ToolServerFailed
        where there can be none. Who is cancelled amid it ends the interpreter."""
        bounds = self.bounds
        lost = await asyncio.to_thread((folder / BEGUN).exists)
        reader, writer = await self._connected(folder)
        with self._in_call(folder):
            try:
                asked = {"code": code, "characters": bounds.characters, "seconds": bounds.seconds}
                answered = await self._answer(reader, writer, json.dumps(asked).encode("utf-8", "replace"))
            finally:
                writer.close()
        if answered.stopped is not None:
            await self.end(folder)
            return RanCode(stopped=answered.stopped)
        try:
            given = msgspec.json.decode(answered.given, type=_Given)
        except msgspec.DecodeError:  # the guest has changed what answers for it
            await self.end(folder)
            return RanCode(stopped="trap")
        await asyncio.to_thread((folder / BEGUN).touch, 0o600)
        most = bounds.characters
        return RanCode(
            given.stdout[:most],
            given.stderr[:most],
            given.error[:most] if given.error is not None else None,
            given.cut or len(given.stdout) > most or len(given.stderr) > most,
            lost=lost and answered.count == 0,
        )

    async def end(self, folder: Path) -> None:
        """End the interpreter of a container, if this process has it, and forget that there was one."""
        await asyncio.to_thread((folder / BEGUN).unlink, missing_ok=True)
        running = self._running.pop(folder, None)
        if running is not None:
            await _killed(running.process)

    async def close(self) -> None:
        """End all interpreters of this process."""
        running, self._running = self._running, OrderedDict()
        await asyncio.gather(*[_killed(each.process) for each in running.values()])

    # ------------------------------------------------------------------------------------------------------------ a call

    @contextlib.contextmanager
    def _in_call(self, folder: Path) -> Iterator[None]:
        """The interpreter of the container, if it is of this process, is not ended for others meanwhile."""
        running = self._running.get(folder)
        if running is not None:
            self._running.move_to_end(folder)
            running.calls += 1
        try:
            yield
        finally:
            if running is not None:
                running.calls -= 1

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes) -> _Answered:
        """What a program says. One that says nothing has ended."""
        most_s = self.bounds.seconds
        try:
            writer.write(_SIZE.pack(len(frame)) + frame)
            await writer.drain()
            async with asyncio.timeout(_GRACE_S + 4 * most_s):  # others' calls are before it
                await reader.readexactly(1)
            async with asyncio.timeout(_GRACE_S + most_s):
                (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
                found = await reader.readexactly(min(size, _MOST_FRAME))
            return msgspec.json.decode(found, type=_Answered)
        except TimeoutError:
            return _Answered(stopped="time")
        except (asyncio.IncompleteReadError, OSError, msgspec.DecodeError):
            return _Answered(stopped="lost")

    async def _connected(self, folder: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the program of the container, which is begun where there is none."""
        async with self._starting.setdefault(folder, asyncio.Lock()):
            for _ in range(_TRIES):
                with contextlib.suppress(FileNotFoundError, ConnectionRefusedError), _short(folder) as place:
                    return await asyncio.open_unix_connection(f"{place}/socket")
                await self._begin(folder)
        raise ToolServerFailed("The interpreter of this container cannot be begun.", detail=f"{folder} answers nobody")

    # ------------------------------------------------------------------------------------------------------- programs

    async def _begin(self, folder: Path) -> None:
        """Begin a program for the container; another process may have been quicker."""
        await self._make_room()
        bounds = self.bounds
        settings = {
            "component": str(self._component),
            "folder": str(folder),
            "memory": bounds.memory,
            "bytes": bounds.bytes,
            "files": bounds.files,
            "idle_s": bounds.idle_s,
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", str(_PROGRAM), json.dumps(settings)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
        )
        line = b""
        try:
            async with asyncio.timeout(_START_S):
                line = await process.stdout.readline() if process.stdout is not None else b""
        except TimeoutError:
            line = b"it did not begin in time"
        finally:
            if line != b"ready\n":
                await _killed(process)
        if line == b"ready\n":
            self._running[folder] = _Running(process)
        elif line != _BUSY:
            reason = line.decode("utf-8", "replace").strip() or f"it ended with the status {process.returncode}"
            raise ToolServerFailed("Code cannot be run here.", detail=f"the interpreter: {reason}", outside_text=reason)

    async def _make_room(self) -> None:
        """End an interpreter that nobody calls, where there are as many as may be. Raises Overloaded where all are called."""
        for folder, each in list(self._running.items()):
            if each.process.returncode is not None:
                del self._running[folder]
        if len(self._running) < self.bounds.running:
            return
        idle = next((folder for folder, each in self._running.items() if not each.calls), None)
        if idle is None:
            raise Overloaded("As many interpreters run code as may; try again.", retry_after=1.0)
        await _killed(self._running.pop(idle).process)


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """The name of a folder with few enough bytes for that of a socket in it. Raises ToolServerFailed where there is none."""
    if len(os.fsencode(folder)) <= _LONGEST_PATH:
        yield str(folder)
        return
    if not Path("/proc/self/fd").is_dir():
        raise ToolServerFailed(
            "Code cannot be run here.", detail=f"containers.folder: {folder} is too long for a socket"
        )
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)


async def _killed(process: Process) -> None:
    """End a program, and wait for its end."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    await process.wait()

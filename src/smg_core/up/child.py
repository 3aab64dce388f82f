"""One program that `up` runs, in a session of its own: started, heard, and ended (edge).

Its lines are passed on with its name; what it has started ends with it. Above: `supervisor`. Below: the standard library.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence

__all__ = ["Child"]

LAST_LINES = 20
"""Lines that are kept, for whoever asks why it has ended."""
STILL_WRITING_S = 1.0
"""Seconds that an ended program's last lines may take: what it left in a session of its own may hold its output open for good."""
LONGEST_LINE = 8192
"""Characters of a line; what is longer is cut into several."""


class Child:
    """A program called `name`; `tell` is called with each line that it writes. `whole_group`: whether the signal to end goes to
    all that it has started, too, or to itself alone, which passes it on."""

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        environment: Mapping[str, str],
        tell: Callable[[str, str], None],
        *,
        whole_group: bool = True,
    ) -> None:
        self.name = name
        self._words, self._environment, self._tell, self._whole_group = words, environment, tell, whole_group
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def last_words(self) -> str:
        """The last lines that it has written."""
        return "\n".join(self._lines)

    @property
    def pid(self) -> int | None:
        """Its process, None before it is started."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start it. Raises OSError where there is no such program."""
        # a pipe of our own: asyncio takes a program to run for as long as anything that it left holds asyncio's
        lines, writing = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **self._environment},
                start_new_session=True,  # Ctrl-C reaches `up` alone, which ends all in order
            )
        except BaseException:
            os.close(lines)
            raise
        finally:
            os.close(writing)
        self._reading = asyncio.create_task(self._read(lines))

    async def ended(self) -> int:
        """Return once it has ended, with its status."""
        return await self._process.wait() if self._process is not None else 0

    async def stop(self, grace: float) -> bool:
        """Ask it to end, and kill what is left after `grace` seconds; whether it ended by itself."""
        process = self._process
        if process is None:
            return True
        if process.returncode is None:
            self._signal(signal.SIGTERM, self._whole_group)
        try:
            async with asyncio.timeout(grace):
                await process.wait()
        except TimeoutError:
            return False
        finally:
            await self.kill()
        return True

    async def kill(self) -> None:
        """End it and all that it has started, at once."""
        process, reading = self._process, self._reading
        if process is None:
            return
        self._process = self._reading = None
        self._signal_group(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        await process.wait()
        if reading is not None:
            await asyncio.wait([reading], timeout=STILL_WRITING_S)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _signal(self, number: signal.Signals, whole_group: bool) -> None:
        process = self._process
        if process is None:
            return
        if whole_group:
            self._signal_group(process, number)
        else:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    @staticmethod
    def _signal_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                process.send_signal(number)
            else:
                os.killpg(process.pid, number)

    async def _read(self, pipe: int) -> None:
        """Pass on what it writes, line by line, until its end and that of all that it has started."""
        reader, left = asyncio.StreamReader(), b""
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", buffering=0)
        )
        try:
            while chunk := await reader.read(65536):
                *lines, left = (left + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
                for line in lines:
                    self._pass_on(line)
                if len(left) > LONGEST_LINE:
                    self._pass_on(left)
                    left = b""
        finally:
            transport.close()
            self._pass_on(left)

    def _pass_on(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        for at in range(0, len(text), LONGEST_LINE):
            self._lines.append(text[at : at + LONGEST_LINE])
            self._tell(self.name, text[at : at + LONGEST_LINE])

"""Runs a program that writes a credential, within bounds of time and size (edge).

What it writes is a secret, and what it complains of may have one: neither reaches an error. Above: keys, the chains of AWS and
Google. Below: the standard library.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["MOST_BYTES", "output_of"]

MOST_BYTES = 64 * 1024
"""Most bytes that a program may write."""


async def output_of(
    command: Sequence[str], timeout_s: float, *, environment: Mapping[str, str] | None = None, most: int = MOST_BYTES
) -> bytes:
    """What `command` writes, which runs without a shell for at most `timeout_s` seconds; `environment` is added to this
    process's own. Raises ValueError, with the name of the program alone, where it fails, is late or writes more than `most`
    bytes; it and all that it has started are then killed."""
    name = Path(command[0]).name
    own = None if environment is None else {**os.environ, **environment}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=own,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ValueError(f"the command {name} cannot be run: {type(error).__name__}") from None
    written, status = None, 0
    try:
        async with asyncio.timeout(timeout_s):
            written = await _read(process.stdout, most)
            status = await process.wait() if written is not None else 0
    except TimeoutError:
        raise ValueError(f"the command {name} took more than {timeout_s:g} s") from None
    finally:
        if written is None or process.returncode is None:
            await _kill(process)
    if written is None:
        raise ValueError(f"the command {name} wrote more than {most} bytes")
    if status:
        raise ValueError(f"the command {name} ended with status {status}")
    return written


async def _read(stream: asyncio.StreamReader | None, most: int) -> bytes | None:
    """All that is written there; None where that is too much."""
    pieces = bytearray()
    while stream is not None and (piece := await stream.read(most + 1)):
        pieces += piece
        if len(pieces) > most:
            return None
    return bytes(pieces)


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill it, and what it has started, which may hold its output open when it has ended itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()

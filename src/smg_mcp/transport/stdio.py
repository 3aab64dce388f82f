"""A server that is a child process and speaks over its stdin and stdout (edge).

Above: `connection`. Below: `strict_json`, `screening`. In place of the mcp package's own transport, which puts no bound on a line
and takes a key twice. Only servers of the configuration are started, never one that a request names. The child is the head of a
process group: closing lets it go by itself, then asks the group to end, then kills it.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from smg_mcp.records.errors import McpUnavailable
from smg_mcp.records.settings import McpLimits, McpServer
from smg_mcp.transport.screening import ProtocolBreach
from smg_mcp.transport.strict_json import AmbiguousJson, NoObject, strict_object

__all__ = ["stdio_streams"]

log = logging.getLogger("smg.mcp")
words = logging.getLogger("mcp.stderr")  # may have what users said: no log of a gateway has it

_ELSEWHERE = 64 * 1024


@contextlib.asynccontextmanager
async def stdio_streams(server: McpServer, limits: McpLimits) -> AsyncIterator[tuple[Any, Any]]:
    """Start the server, give the pair of message streams, and end the server's process group afterwards.

    Raises McpUnavailable where the command cannot be started."""
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: asyncio.subprocess.SubprocessStreamProtocol(limits.message_bytes, loop),
            server.command or "",
            *server.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=get_default_environment() | server.envs,
            cwd=server.cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise McpUnavailable(f"the command of the server {server.name} cannot be started") from error
    process = asyncio.subprocess.Process(transport, protocol, loop)
    read_in, read_out = anyio.create_memory_object_stream[Any](0)
    write_in, write_out = anyio.create_memory_object_stream[Any](0)
    stderr_words = _Words(server.name, limits)
    tasks = [
        asyncio.ensure_future(_read(process, read_in, limits, lambda line: stderr_words.tell(line, "stdout as noise"))),
        asyncio.ensure_future(_write(process, write_out, read_in)),
        asyncio.ensure_future(_log_stderr(process, stderr_words)),
    ]
    try:
        yield read_out, write_in
    finally:
        for stream in (read_out, write_in):
            stream.close()
        await asyncio.shield(_end(process, tasks, limits.exit_grace))
        transport.close()  # a pipe that still had something in it would stay open
        for stream in (read_in, write_out):
            stream.close()


async def _read(
    process: asyncio.subprocess.Process, into: Any, limits: McpLimits, tell: Callable[[bytes], None]
) -> None:
    """Pass on the messages of the server's stdout. A line that is none is noise, of a program that forgets what that is for:
    it goes to the server's log, and only much of it between two messages ends the connection."""
    stdout = process.stdout
    if stdout is None:
        return
    noise = 0
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with into:
            while True:
                try:
                    line = await stdout.readuntil(b"\n")
                except asyncio.IncompleteReadError:
                    return
                except asyncio.LimitOverrunError:
                    await into.send(ProtocolBreach(f"the server sent more than {limits.message_bytes} bytes at once"))
                    return
                except OSError:
                    return
                if not line.strip():
                    continue
                message = await _message(line, limits)
                noise = 0 if message is not None else noise + len(line)
                if message is None:
                    tell(line)
                    if noise <= limits.noise_bytes:
                        continue
                    message = ProtocolBreach(
                        f"the server wrote more than {limits.noise_bytes} bytes that are no message"
                    )
                await into.send(message)


async def _message(line: bytes, limits: McpLimits) -> Any:
    """The message of a line, or what is wrong with it; None for a line that is noise. Long lines are read in a thread."""
    if len(line) > _ELSEWHERE:
        return await asyncio.to_thread(_parsed, line, limits)
    return _parsed(line, limits)


def _parsed(line: bytes, limits: McpLimits) -> Any:
    try:
        message = strict_object(line, limits.depth)
        if "jsonrpc" not in message and "id" not in message:
            return None  # a line of a log that is written as JSON
        return SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False))
    except NoObject:
        return None
    except AmbiguousJson as error:
        return ProtocolBreach(str(error))
    except ValidationError:
        return ProtocolBreach("the server sent a line that is no JSON-RPC message")


async def _write(process: asyncio.subprocess.Process, out_of: Any, into: Any) -> None:
    stdin = process.stdin
    if stdin is None:
        return
    try:
        async with out_of:
            async for item in out_of:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
    except (OSError, anyio.ClosedResourceError):
        into.close()  # the reader's side ends as well, so that nobody waits for a server that has gone


class _Words:
    """What a server writes that is no message goes to a log of its own at debug level, the first bytes of it; the rest is thrown
    away. Our own log says how much it is."""

    def __init__(self, name: str, limits: McpLimits) -> None:
        self._name, self._left = name, limits.stderr_bytes

    def tell(self, chunk: bytes, where: str = "stderr") -> None:
        log.debug("the MCP server %s wrote %d bytes to %s", self._name, len(chunk), where)
        if self._left > 0:
            words.debug("%s: %s", self._name, chunk[: self._left].decode("utf-8", "replace").rstrip())
            self._left -= len(chunk)


async def _log_stderr(process: asyncio.subprocess.Process, stderr_words: _Words) -> None:
    stderr = process.stderr
    if stderr is None:
        return
    with contextlib.suppress(OSError):
        while chunk := await stderr.read(_ELSEWHERE):
            stderr_words.tell(chunk)


async def _end(process: asyncio.subprocess.Process, tasks: Sequence["asyncio.Future[None]"], grace_s: float) -> None:
    if process.stdin is not None:
        process.stdin.close()
    for stop in (None, signal.SIGTERM, signal.SIGKILL):
        if stop is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, stop)
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
            break
        except TimeoutError:
            continue
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # what the server started itself
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

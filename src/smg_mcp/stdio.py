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
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from smg_mcp.errors import McpUnavailable
from smg_mcp.screening import ProtocolBreach
from smg_mcp.settings import McpLimits, McpServer
from smg_mcp.strict_json import AmbiguousJson, strict_object

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
    tasks = [
        asyncio.ensure_future(_read(process, read_in, limits)),
        asyncio.ensure_future(_write(process, write_out, read_in)),
        asyncio.ensure_future(_log_stderr(process, server.name, limits)),
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


async def _read(process: asyncio.subprocess.Process, into: Any, limits: McpLimits) -> None:
    stdout = process.stdout
    if stdout is None:
        return
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
                if line.strip():
                    await into.send(await _message(line, limits))


async def _message(line: bytes, limits: McpLimits) -> Any:
    """The message of a line, or what is wrong with it. Long lines are read in a thread."""
    if len(line) > _ELSEWHERE:
        return await asyncio.to_thread(_parsed, line, limits)
    return _parsed(line, limits)


def _parsed(line: bytes, limits: McpLimits) -> Any:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_python(strict_object(line, limits.depth), by_name=False))
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


async def _log_stderr(process: asyncio.subprocess.Process, name: str, limits: McpLimits) -> None:
    """What the server writes to stderr goes to a log of its own at debug level, the first bytes of it; the rest is thrown away.
    Our own log says how much it is."""
    stderr, left = process.stderr, limits.stderr_bytes
    if stderr is None:
        return
    with contextlib.suppress(OSError):
        while chunk := await stderr.read(_ELSEWHERE):
            log.debug("the MCP server %s wrote %d bytes to stderr", name, len(chunk))
            if left > 0:
                words.debug("%s: %s", name, chunk[:left].decode("utf-8", "replace").rstrip())
                left -= len(chunk)


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

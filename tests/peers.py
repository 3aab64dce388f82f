"""TCP servers that tests write themselves, for peers that say what no real server would."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Take = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def stop(server: asyncio.Server) -> None:
    """Have `server` take no connection any more. One that it has taken off its socket is nobody's for a few more rounds of the
    loop: wait for it, so that whoever closes what was accepted can close it too. Before that the socket is only no longer looked
    at: asyncio drops what it is about to hand over when the server is closed meanwhile."""
    for listener in server.sockets:
        asyncio.get_running_loop().remove_reader(listener.fileno())
    for _ in range(5):
        await asyncio.sleep(0)
    server.close()


@asynccontextmanager
async def listening(take: Take, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on a free port of the loopback, which is yielded; `take` is run for each connection.

    At the end every connection is cut, also one accepted so late that `take` has not begun: left open, it would be a warning
    in some later test.
    """
    writers: set[asyncio.StreamWriter] = set()
    tasks: set[asyncio.Future[None]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        tasks.add(asyncio.ensure_future(take(reader, writer)))

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await stop(server)
        for task in tasks:
            task.cancel()
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

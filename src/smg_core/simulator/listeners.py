"""How the embedded engine stops listening, so that no connection is left open (edge). Above: whatever of it listens by itself."""

import asyncio

__all__ = ["take_no_more"]

_ROUNDS = 5  # of the event loop, from an accepted socket to a connection


async def take_no_more(server: asyncio.Server) -> None:
    """Stop looking at the sockets of `server`, wait until what it has accepted is a connection, and close it. Called before the
    connections of a server are cut: asyncio leaves one open that is still on its way there when the server closes, and it would
    be a warning when its memory is freed. Other event loops than asyncio's own close it themselves."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for listener in server.sockets:
            loop.remove_reader(listener.fileno())
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
    server.close()

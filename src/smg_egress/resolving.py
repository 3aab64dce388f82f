"""A host's addresses, asked of the system's resolver (edge).

Above: the HTTP clients of `smg_multimodal.fetching.guarded` and `smg_mcp.transport.wire`, which bound how many names are
resolved at once. Below: the standard library. Knows no rules: `rules` judges the addresses.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence

__all__ = ["Resolver", "resolve_host"]

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Takes a host's name and a port, and returns its addresses."""


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """The addresses of `host` as the system's resolver gives them; none where it has none.

    The resolver blocks and cannot be stopped, so it runs in a thread of its own, which does not keep the process from ending.
    Who calls this bounds how many there are.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Sequence[str]] = loop.create_future()

    def answer(addresses: Sequence[str]) -> None:
        if not found.done():
            found.set_result(addresses)

    def look_up() -> None:
        try:
            addresses = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        except (OSError, UnicodeError):
            addresses = []
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(answer, addresses)

    threading.Thread(target=look_up, name="resolver", daemon=True).start()
    return await found

"""One request to an ASGI app in the same process (edge).

The app runs as a task of its own, and its answer is read as it writes it; who stops reading is seen by the app as a socket that
closed. Above: the clients of `app.inprocess`, and `app.direct`.
"""

import asyncio
from collections.abc import Sequence

from smg_core.http.scope import DISCONNECT, AsgiApp, AsgiMessage, Disconnect, Header, Receive, Scope, Send

__all__ = ["AppCall", "request_scope"]

BUFFERED = 64  # messages the app may be ahead of its reader before `send` waits


def request_scope(
    method: str,
    path: str,
    raw_path: bytes,
    headers: Sequence[Header],
    *,
    query: bytes = b"",
    scheme: str = "http",
    server: tuple[str, int | None],
) -> Scope:
    """The scope of a request that comes from this process; the names of `headers` are in lower case."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": path,
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": list(headers),
        "server": server,
        "client": None,
        DISCONNECT: Disconnect(),
    }


class AppCall:
    """One request to the app, running as a task: its head, then its body piece by piece."""

    def __init__(self, app: AsgiApp, scope: Scope, body: bytes) -> None:
        self._scope = scope
        self._body: bytes | None = body
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(BUFFERED)
        self._head: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        receive: Receive = self._receive
        send: Send = self._send
        self._task = asyncio.ensure_future(app(scope, receive, send))
        self._task.add_done_callback(self._finished)

    async def head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        try:
            return await self._head
        except asyncio.CancelledError:
            await self.close()
            raise

    async def read(self) -> bytes | None:
        """The next piece of the body, None at its end. Raises what the app raised."""
        if self._task.done() and self._pieces.empty():
            self._task.result()
            return None
        piece = await self._pieces.get()
        if piece is None and self._task.done():
            self._task.result()
        return piece

    async def close(self) -> None:
        """Stop listening, and wait until the app has noticed."""
        if not self._over.is_set():
            self.leave()
            await asyncio.wait([self._task])

    def leave(self) -> None:
        """Stop listening; the app is told as if a socket had closed. Called on the loop's thread."""
        if self._over.is_set():
            return
        self._over.set()
        while not self._pieces.empty():
            self._pieces.get_nowait()
        self._scope[DISCONNECT].happened()

    async def _receive(self) -> AsgiMessage:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: AsgiMessage) -> None:
        if self._over.is_set() or self._head.cancelled():  # cancelled: its client left while it waited for the head
            return
        if message["type"] == "http.response.start":
            self._head.set_result((message["status"], list(message["headers"])))
            return
        if message.get("body"):
            await self._pieces.put(message["body"])
        if not message.get("more_body", False):
            await self._pieces.put(None)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        failure = task.exception() if not task.cancelled() else None
        if not self._head.done():
            self._head.set_exception(failure or RuntimeError("the app ended without an answer"))
        if not self._pieces.full():
            self._pieces.put_nowait(None)

"""The app's own calls to receive and send on a connection of our server: no wait and no write more than it takes (edge).

A body that is here is received without a wait. A piece of a stream is written by a plain call, and an answer that is whole leaves
in one write, head and body together, as do the head and the first piece of a stream. In every other case uvicorn's own `receive`
and `send` do what they always do, and what is written is the same. Above: `http_protocol`, which has one of these for each
request. Below: uvicorn's cycle.
"""

from collections.abc import Awaitable, Sequence
from functools import partial

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

from smg_core.http.scope import AsgiApp, AsgiMessage, DirectSend, Header, Receive, Scope, Send

__all__ = ["with_direct_send"]


def with_direct_send(cycle: RequestResponseCycle, app: AsgiApp) -> AsgiApp:
    """`app`, called with a `DirectSend`. Its `write_now` writes a piece of a chunked response after its head, framed as
    `cycle.send` would do, if the socket takes more, and says how many bytes it has written. These are closures, not methods,
    since that runs for every token."""
    flow, write, written, taken = cycle.flow, cycle.transport.write, 0, False

    def write_now(data: bytes) -> bool:
        nonlocal written
        if flow.write_paused or cycle.disconnected or not cycle.chunked_encoding or cycle.response_complete:
            return False
        size = len(data)
        write(b"%x\r\n%b\r\n" % (size, data))
        written += size
        return True

    async def receive() -> AsgiMessage:
        nonlocal taken
        if cycle.more_body or taken or cycle.disconnected or cycle.response_complete or cycle.waiting_for_100_continue:
            return await cycle.receive()  # type: ignore[return-value]  # uvicorn's type has fewer keys
        taken = True
        cycle.message_event.clear()  # whoever asks again waits for the client to leave
        body, cycle.body = bytes(cycle.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": False}

    def answer(scope: Scope, _: Receive, send: Send) -> Awaitable[None]:
        return app(scope, receive, DirectSend(send, write_now, lambda: written, partial(_write_first, cycle)))

    return answer


def _write_first(cycle: RequestResponseCycle, status: int, headers: Sequence[Header], body: bytes, more: bool) -> bool:
    """Write the head of an answer and its body, of which `headers` tell the length, in one piece, if the socket takes it now. If
    there is `more`, `body` is the first chunk of an unknown length. False: nothing was written. Raises RuntimeError for what
    is no header."""
    if cycle.flow.write_paused or cycle.disconnected or cycle.response_started or cycle.access_log:
        return False
    if more and not body:  # a chunk of nothing would end the body
        return False
    cycle.response_started, cycle.waiting_for_100_continue, cycle.chunked_encoding = True, False, more
    content, closes = [STATUS_LINE[status]], False
    for name, value in (*cycle.default_headers, *headers):
        if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
            raise RuntimeError("Invalid HTTP header.")
        name = name.lower()
        if name == b"connection" and b"close" in [token.lower().strip() for token in value.split(b",")]:
            cycle.keep_alive, closes = False, True
        content += (name, b": ", value, b"\r\n")
    if not cycle.keep_alive and not closes:
        content.append(b"connection: close\r\n")
    content.append(b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(body), body) if more else b"\r\n" + body)
    cycle.transport.write(b"".join(content))
    if more:
        return True
    cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True

"""`HttpTransport`: engines that take token ids over HTTP, behind the same role as gRPC's transports (edge).

A path is "METHOD /path" below the root of the server's address, a message the body of a request in JSON. The messages of an
answer are the data of its server-sent events, or its body where it is no stream. Above: engines.token_ids.client. Below:
client. It knows no dialect.
"""

from collections.abc import Sequence

from smg_core.engines.base import Receiver
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.http.client import HttpCall, HttpClient
from smg_core.engines.openai.answers import error_from_http_status, retry_after
from smg_core.errors import EngineGarbled, ReadingFailed, SmgError
from smg_core.sse import DONE, DataReader

__all__ = ["HttpTransport"]

_EVENT_STREAM = "text/event-stream"
_JSON = (("content-type", "application/json"),)


class HttpTransport:
    """A `Transport` over `client`."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    @property
    def connections(self) -> int:
        """How many connections to the engine were made so far."""
        return self._client.connections

    @property
    def end_s(self) -> float:
        """Seconds that a whole answer is waited for until its call ends."""
        return self._client.limits.http_end_s

    async def start(
        self,
        path: str,
        message: bytes,
        receiver: Receiver,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> HttpCall:
        """See `Transport.start`. Raises as `HttpClient.start` does."""
        method, _, place = path.partition(" ")
        messages = _Messages(receiver, self._client)
        call = await self._client.start(
            method,
            self._client.address.root + place,
            message,
            messages,
            headers=(*_JSON, *metadata),
            timeout=timeout,
            connect_timeout=connect_timeout,
        )
        messages.call = call
        return call

    async def unary(
        self,
        path: str,
        message: bytes,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        work: bool = False,
    ) -> bytes:
        """See `Transport.unary`. Only what asks for something is sent twice if its connection turns out to be gone."""
        method, _, place = path.partition(" ")
        limits = self._client.limits
        seconds = limits.question_timeout_s if timeout is None else timeout
        headers = (*(_JSON if message else ()), *metadata)
        place = self._client.address.root + place
        reply = await self._client.ask(
            method, place, message, timeout=seconds, headers=headers, repeatable=method == "GET", question=not work
        )
        if reply.status != 200:
            raise self._client.headers.hide(_error_of(reply))
        return reply.body

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._client.close()


def _error_of(reply: HttpReply) -> SmgError:
    return error_from_http_status(reply.status, reply.body, retry_after(reply.headers))


class _Messages:
    """Receives the answer of one call (`HttpReceiver`) and passes its messages on."""

    __slots__ = ("_body", "_client", "_events", "_over", "_receiver", "_reply", "_size", "call")

    def __init__(self, receiver: Receiver, client: HttpClient) -> None:
        self._receiver = receiver
        self._client = client
        self._events: DataReader | None = None
        self._reply: HttpReply | None = None  # the head of an answer that is no stream
        self._body: list[bytes] = []
        self._size = 0
        self._over = False
        self.call: HttpCall | None = None

    def head(self, status: int, headers: dict[str, str]) -> None:
        if status == 200 and headers.get("content-type", "").lower().startswith(_EVENT_STREAM):
            self._events = DataReader(max_event_bytes=self._client.limits.http_event_bytes)
        else:
            self._reply = HttpReply(status, headers, b"")

    def body(self, piece: bytes) -> None:
        events = self._events
        if events is None:
            self._gather(piece)
            return
        try:
            found = events.feed(piece)
        except Exception as fault:  # noqa: BLE001  # a fault of the reader's is not the server's
            self._end(ReadingFailed.of(fault))
            return
        if found:
            last = found[-1] == DONE
            self._receiver.messages(found)
            if last and not self._over:
                self._over = True
                self._receiver.closed(None)
                if self.call is not None:
                    self.call.leave()

    def _gather(self, piece: bytes) -> None:
        limits = self._client.limits
        self._body.append(piece)
        self._size += len(piece)
        if self._reply is not None and self._reply.status != 200:
            if self._size > limits.http_error_bytes:
                self._end(self._refusal(self._reply))
        elif self._size > limits.message_bytes:
            self._end(EngineGarbled(f"The engine sent an answer of more than {limits.message_bytes} bytes."))

    def closed(self, error: SmgError | None) -> None:
        if self._over:
            return
        self._over = True
        if error is None and self._reply is not None:
            if self._reply.status != 200:
                error = self._refusal(self._reply)
            elif self._body:
                self._receiver.messages([b"".join(self._body)])
        self._receiver.closed(error)

    def _refusal(self, reply: HttpReply) -> SmgError:
        body = b"".join(self._body)[: self._client.limits.http_error_bytes]
        return self._client.headers.hide(_error_of(HttpReply(reply.status, reply.headers, body)))

    def _end(self, error: SmgError) -> None:
        """End the call on this side."""
        if not self._over:
            self._over = True
            if self.call is not None:
                self.call.cancel()
            self._receiver.closed(error)

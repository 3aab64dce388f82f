"""Holds the answer to the first request with an Idempotency-Key until its end, to store it (edge).

The request is answered to its end also where its client leaves, for a while: the client's next try, which waits for that
answer, is not run then. Above: `answering`. Below: `kept`, the exchange.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from smg_core.clock import CallLater, Handle
from smg_core.http.exchange import Exchange
from smg_core.http.scope import AsgiMessage, Header
from smg_core.idempotency.kept import BodyDigest, KeptAnswer, of_first_answer, target_of
from smg_core.serving.live import Live

__all__ = ["LARGE", "FirstAnswer", "Room", "body_digest", "fed"]

LARGE = 256 * 1024
"""Bytes that are digested or encoded on the event loop at most: more than a millisecond's are in a thread."""


class Room:
    """The memory of one process for answers that are not over yet."""

    def __init__(self, live: Live) -> None:
        self._live, self._pending = live, 0

    def has(self, size: int, more: int) -> bool:
        """Whether so many bytes more of an answer of `size` bytes can be held until it is over; they are taken then."""
        settings = self._live.config.idempotency
        if size + more > settings.answer_bytes or self._pending + more > settings.pending_bytes:
            return False
        self._pending += more
        return True

    def give_back(self, size: int) -> None:
        """So many bytes are held no more."""
        self._pending -= size


class FirstAnswer:
    """What one request reads and writes with: digests its body, and holds its answer until it is over.

    Also the exchange's `Keeper`: after its client has left, the request is answered for `left_seconds` more. `begun` keeps the id
    of an answer that is made elsewhere, and returns whether it could.
    """

    def __init__(
        self,
        room: Room,
        exchange: Exchange,
        call_later: CallLater,
        left_seconds: float,
        begun: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._room, self._call_later, self._left_seconds, self._begun = room, call_later, left_seconds, begun
        _, self._receive, self._send = exchange.ends()
        self._give_up, self._digest = exchange.give_up, body_digest(exchange)
        self._pieces: list[bytes] = []
        self._headers: Sequence[Header] = ()
        self._status = self._size = 0
        self._fits, self._ended, self._is_cut, self._goes_on = True, False, False, False
        self._has_left = False
        self._due: Handle | None = None

    @property
    def is_whole(self) -> bool:
        """Whether there is an answer to keep: it is over, and was sent whole or can be said to be too large."""
        return self._ended and not self._is_cut and (self._fits or not self._goes_on)

    def kept(self, exchange: Exchange, goes_on: str = "") -> KeptAnswer:
        """What is kept of the answer; of one that goes on under an id, that."""
        body = b"".join(self._pieces) if self._fits and not goes_on else None
        target = target_of(exchange.path, exchange.scope.get("query_string", b""))
        digest, headers = self._digest, of_first_answer(self._headers)
        return KeptAnswer.of(target, digest.text(), digest.whole_size, self._status, headers, body, goes_on)

    # --------------------------------------------------------------------------------------------- what is read and written

    async def receive(self) -> AsgiMessage:
        message = await self._receive()
        if message["type"] == "http.request":
            await fed(self._digest, message.get("body", b""))
        return message

    async def send(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], message.get("headers", ())
        elif message["type"] == "http.response.body":
            self._hold(message.get("body", b""))
            self._ended = not message.get("more_body", False)
        if not self._has_left:
            await self._send(message)

    def _hold(self, piece: bytes) -> None:
        if not self._fits or not piece:
            return
        if self._room.has(self._size, len(piece)):
            self._pieces.append(piece)
            self._size += len(piece)
        else:
            self.drop()
            self._fits = False

    def drop(self) -> None:
        """Hold nothing more of the answer."""
        self._room.give_back(self._size)
        self._pieces, self._size = [], 0

    # ------------------------------------------------------------------------------------------------- what becomes of it

    def client_left(self) -> bool:
        if not self._has_left and self._left_seconds and not self._goes_on:
            self._due = self._call_later(self._left_seconds, self._end)
        self._has_left = True
        return self._due is not None

    def _end(self) -> None:
        self._due = None
        self._give_up()

    async def goes_on_as(self, id: str) -> None:
        self._goes_on = await self._begun(id)

    def cut_off(self) -> None:
        self._is_cut = True

    def over(self) -> None:
        """The request is answered, or given up."""
        if self._due is not None:
            self._due.cancel()


def body_digest(exchange: Exchange) -> BodyDigest:
    """What digests the body of a request."""
    headers = exchange.headers
    return BodyDigest(headers.get("content-type", ""), headers.get("content-encoding", ""))


async def fed(digest: BodyDigest, piece: bytes) -> None:
    """Have the next piece of a body digested."""
    if len(piece) > LARGE:
        await asyncio.to_thread(digest.feed, piece)
    else:
        digest.feed(piece)

"""`ProvenCall`: one call of a provider, sent once more where it refuses a credential that can be renewed (edge).

Stands between the connection and whoever reads the answer, who hears of one answer alone: of the second where there are two.
Above: engine. Below: engines.http, the signer.
"""

import asyncio
from collections.abc import Awaitable, Callable

import attrs

from smg_core.credentials.renewal.signing import SentFields, Signer
from smg_core.engines.calls import AnswerCall
from smg_core.engines.http.answer import HttpReceiver
from smg_core.errors import SmgError

__all__ = ["ProvenCall", "SentCall"]

_REFUSALS = frozenset({400, 401, 403})
"""Statuses under which providers refuse credentials."""


@attrs.frozen
class SentCall:
    """A call that was sent, and the headers that prove who sent it."""

    call: AnswerCall
    proof: SentFields = attrs.field(repr=False)


class ProvenCall:
    """Sends by `send`, once or twice, and passes the answer on to `reader`. Of a refusal it looks at the first `most` bytes."""

    def __init__(
        self, reader: HttpReceiver, send: Callable[[HttpReceiver], Awaitable[SentCall]], signer: Signer, most: int
    ) -> None:
        self._reader = reader
        self._send = send
        self._signer = signer
        self._most = most
        self._sent: SentCall | None = None
        self._again: asyncio.Task[None] | None = None
        self._tried = False  # this is the second attempt
        self._status = 0  # of an answer that is held back
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._over = False
        self._paused = False

    async def start(self) -> None:
        """Send the request. Raises what kept it from being sent."""
        sent = await self._send(self)
        self._sent = sent
        if self._over:
            sent.call.cancel()

    # ----------------------------------------------------------------------------------------------- asked by the reader

    def cancel(self) -> None:
        """Close the connection; nothing is sent any more."""
        self._over = True
        if self._again is not None:
            self._again.cancel()
        if self._sent is not None:
            self._sent.call.cancel()

    def leave(self) -> None:
        """Leave the call to the server's own end of it."""
        self._over = True
        if self._sent is not None:
            self._sent.call.leave()

    def pause(self) -> None:
        """Stop reading."""
        self._paused = True
        if self._sent is not None:
            self._sent.call.pause()

    def resume(self) -> None:
        """Read again."""
        self._paused = False
        if self._sent is not None:
            self._sent.call.resume()

    # -------------------------------------------------------------------------------------------- pushed by the connection

    def head(self, status: int, headers: dict[str, str]) -> None:
        if status in _REFUSALS and not self._tried:
            self._status, self._headers = status, headers
        else:
            self._reader.head(status, headers)

    def body(self, piece: bytes) -> None:
        if not self._status:
            self._reader.body(piece)
            return
        self._body += piece
        if len(self._body) > self._most:
            self._pass_on()

    def closed(self, error: SmgError | None) -> None:
        status, sent = self._status, self._sent
        if not status or error is not None or sent is None:
            self._pass_on()
            self._reader.closed(error)
        elif self._signer.refused(sent.proof, status, self._headers, bytes(self._body)) and not self._over:
            self._tried, self._status = True, 0
            self._body.clear()
            self._again = asyncio.get_running_loop().create_task(self._send_again())
        else:
            self._pass_on()
            self._reader.closed(None)

    async def _send_again(self) -> None:
        try:
            await self.start()
        except SmgError as error:
            if not self._over:
                self._reader.closed(error)
        else:
            if self._paused and self._sent is not None:
                self._sent.call.pause()

    def _pass_on(self) -> None:
        """Give the reader the answer that was held back."""
        if self._status:
            status, self._status = self._status, 0
            self._reader.head(status, self._headers)
            if self._body:
                self._reader.body(bytes(self._body))
                self._body.clear()

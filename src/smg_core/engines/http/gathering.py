"""The whole answer to one HTTP request, for a caller that waits for it (edge).

Above: `client`, which pushes into it. Below: `answer`.
"""

import asyncio

from smg_core.engines.http.answer import HttpReply
from smg_core.errors import SmgError

__all__ = ["GatheredReply"]


class GatheredReply:
    """Receives one whole answer, up to `most` bytes of its body; `done` is the answer, or the error."""

    def __init__(self, most: int) -> None:
        self.done: asyncio.Future[HttpReply] = asyncio.get_running_loop().create_future()
        self._most = most
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    def head(self, status: int, headers: dict[str, str]) -> None:
        self._status, self._headers = status, headers

    def body(self, piece: bytes) -> None:
        self._body += piece
        if len(self._body) > self._most:
            self._set(cut=True)

    def closed(self, error: SmgError | None) -> None:
        if error is None:
            self._set(cut=False)
        elif not self.done.done():
            self.done.set_exception(error)

    def _set(self, *, cut: bool) -> None:
        if not self.done.done():
            self.done.set_result(HttpReply(self._status, self._headers, bytes(self._body[: self._most]), cut))

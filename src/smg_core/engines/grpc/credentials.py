"""A transport that sends one worker's headers with every call (edge).

Above: fleet.connect puts it around the transport of a worker that has headers of its own. Below: any `Transport`. What an
engine says in an error reaches no log with one of those headers in it.
"""

from collections.abc import Sequence

from smg_core.engines.base import Receiver, Transport
from smg_core.engines.calls import Call
from smg_core.engines.connections.secrets import SecretHeaders
from smg_core.errors import SmgError

__all__ = ["WithHeaders"]


class WithHeaders:
    """`transport` with `headers` sent first in the metadata of every call, the questions of health and model included."""

    def __init__(self, transport: Transport, headers: Sequence[tuple[str, str]]) -> None:
        self._transport = transport
        self._headers = SecretHeaders(headers)

    async def start(
        self,
        path: str,
        message: bytes,
        receiver: Receiver,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> Call:
        try:
            return await self._transport.start(
                path,
                message,
                _Hiding(receiver, self._headers),
                metadata=(*self._headers.fields, *metadata),
                timeout=timeout,
                connect_timeout=connect_timeout,
            )
        except SmgError as error:
            raise self._headers.hide(error) from None

    async def unary(
        self,
        path: str,
        message: bytes,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        work: bool = False,
    ) -> bytes:
        sent = (*self._headers.fields, *metadata)
        try:
            return await self._transport.unary(path, message, metadata=sent, timeout=timeout, work=work)
        except SmgError as error:
            raise self._headers.hide(error) from None

    async def close(self) -> None:
        await self._transport.close()


class _Hiding:
    """Passes a call's messages on, and its error without secrets."""

    __slots__ = ("_headers", "_receiver", "messages")

    def __init__(self, receiver: Receiver, headers: SecretHeaders) -> None:
        self.messages = receiver.messages
        self._receiver = receiver
        self._headers = headers

    def closed(self, error: SmgError | None) -> None:
        self._receiver.closed(None if error is None else self._headers.hide(error))

"""The scope between a server and the app: the types of ASGI, and what our own server puts in beside them.

Our HTTP protocol tells an exchange when its client leaves (`Disconnect`), shows the certificate of the client, and writes pieces
of an answer by a plain call (`DirectSend`). Decides nothing. Above: `exchange`, the server. Below: errors.
"""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, final

from smg_core.errors import SmgError

__all__ = [
    "CERTIFICATE",
    "DISCONNECT",
    "AsgiApp",
    "AsgiMessage",
    "DirectSend",
    "Disconnect",
    "Header",
    "Receive",
    "Scope",
    "Send",
    "WriteFirst",
    "WriteNow",
    "direct_of",
]


Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
WriteNow = Callable[[bytes], bool]
Header = tuple[bytes, bytes]
WriteFirst = Callable[[int, Sequence[Header], bytes, bool], bool]

CERTIFICATE = "smg.certificate"
"""Key of the scope under which our HTTP protocol puts the certificate that the client has shown."""

DISCONNECT = "smg.disconnect"
"""Key of the scope under which our HTTP protocol puts the `Disconnect` of a request."""


class Disconnect:
    """Whether the client of one request has left, and the function to call when it leaves.

    The server makes one for each request, puts it into the scope and calls `happened` when the connection is lost. The app sets
    the function with `tell`. It may set two bounds (None: the server's settings): `write_seconds`, how long the client may read
    nothing while data waits for it, before the connection is closed, and `discard_bytes`, how much of a refused body is read.
    `refused` is the error that the server itself has answered with, and its id, where a body broke off in another way. It is an
    object of its own so that it works with a middleware that passes on a copy of the scope.
    """

    __slots__ = ("_call", "_has_happened", "discard_bytes", "refused", "write_seconds")

    def __init__(self) -> None:
        self.refused: tuple[SmgError, str] | None = None
        self.discard_bytes: int | None = None
        self.write_seconds: float | None = None
        self._call: Callable[[], object] | None = None
        self._has_happened = False

    def tell(self, call: Callable[[], object]) -> None:
        """Call `call` when the client leaves, now if it has left already. It replaces the function that was set before."""
        self._call = call
        if self._has_happened:
            call()

    def forget(self) -> None:
        """Drop the function, when the exchange is over: it refers to the exchange, and the reference cycle would keep the memory
        of both until the next garbage collection."""
        self._call = None

    def happened(self) -> None:
        """The client has left."""
        self._has_happened = True
        if self._call is not None:
            self._call()


@final
class DirectSend:
    """The `send` of a server that can also write a piece of a response's body by a plain call.

    `write_now(data)` writes if that needs no waiting, and returns whether it did. `written` says how many bytes it has written so
    far; without it, whoever needs that number counts them. `write_first(status, headers, body, more)` does so
    with a head and what follows it: all of the body, or if there is `more`, the first piece of one of unknown length.
    """

    __slots__ = ("send", "write_first", "write_now", "written")

    def __init__(
        self,
        send: Send,
        write_now: WriteNow,
        written: Callable[[], int] | None = None,
        write_first: WriteFirst | None = None,
    ) -> None:
        self.send = send
        self.write_now = write_now
        self.written = written
        self.write_first = write_first

    def __call__(self, message: AsgiMessage) -> Awaitable[None]:
        return self.send(message)


def direct_of(send: Send) -> DirectSend | None:
    """`send`, if it can also write by a plain call; else None.

    Only the server's own `send` has one, and it is found only through that object. A middleware that wraps `send` passes on
    another callable, so it sees every byte of a response. `type(...) is` and not `isinstance`, since a proxy object can claim the
    class of the object that it wraps.
    """
    return send if type(send) is DirectSend else None

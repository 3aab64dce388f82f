"""Bodies that are too large for memory: they go into a temporary file as they come (edge).

The file has no name, so that nothing is left of it when the process ends, however it ends. Reading, writing and what is made of
the bytes are done in threads. Above: the handlers of files and of Message Batches. Below: the exchange.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from smg_core.errors import ClientGone, Overloaded
from smg_core.files.folder import store_failures
from smg_core.http.exchange import Exchange
from smg_core.request import Caller
from smg_core.serving.inference import take_back_cancellation
from smg_core.serving.services import Services
from smg_core.tokenizer.base import GivenUp

__all__ = ["Spool", "Spools", "read_through", "received"]

T = TypeVar("T")

_GONE = "The client left before its body was read."
_AT_ONCE = 1 << 20  # bytes that a thread is given at once


class Spool:
    """A temporary file in `folder`, without it in the system's. Raises StoreFailed where there is no room, or no such folder."""

    def __init__(self, folder: str | None) -> None:
        self.size = 0
        with store_failures("temporary file"):
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (`close` closes it)

    def write(self, data: bytes) -> None:
        """Put bytes at its end."""
        with store_failures("temporary file"):
            self._file.write(data)
        self.size += len(data)

    def rewind(self) -> None:
        """Read from the beginning from now on."""
        with store_failures("temporary file"):
            self._file.seek(0)

    def read(self, size: int) -> bytes:
        """The next bytes; none at the end."""
        with store_failures("temporary file"):
            return self._file.read(size)

    def close(self) -> None:
        """Drop the file."""
        self._file.close()


class Spools:
    """The temporary files of one process, as many at once as `batches.uploads` allows requests that bring them. A tenant with a
    name has all but one of these places at most."""

    def __init__(self, services: Services) -> None:
        self._services, self._settings = services, services.live.config.batches
        self._open: Counter[str] = Counter()  # by tenant

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """The place of one request of a caller, which counts as in flight meanwhile. Raises Overloaded where all are taken."""
        admission = self._services.admission
        admission.check_room()
        tenant, most = caller.tenant, self._settings.uploads
        if self._open.total() >= most or (tenant and self._open[tenant] >= max(1, most - 1)):
            raise Overloaded(
                "As many files are being uploaded as this server takes in at once; try again.",
                retry_after=admission.retry_after,
            )
        lease = admission.admit(caller, "file")
        self._open[tenant] += 1
        try:
            yield
        finally:
            lease.release()
            self._open[tenant] -= 1
            if not self._open[tenant]:
                del self._open[tenant]

    def new(self) -> Spool:
        """A temporary file; whoever asks for it closes it. Called in a thread."""
        return Spool(self._settings.folder)


async def received(exchange: Exchange, limit: int, take: Callable[[bytes], None]) -> None:
    """Have `take` have the whole body, some of it at a time and in a thread. Raises what `take` does, PayloadTooLarge, and
    ClientGone."""
    gathered: list[bytes] = []
    size = 0
    async for piece in exchange.pieces(limit):
        gathered.append(piece)
        size += len(piece)
        if size >= _AT_ONCE:
            await asyncio.to_thread(take, b"".join(gathered))
            gathered, size = [], 0
    if gathered:
        await asyncio.to_thread(take, b"".join(gathered))


async def read_through(
    services: Services, exchange: Exchange, spool: Spool, work: Callable[[Callable[[int], bytes]], T]
) -> T:
    """What `work` makes, in a thread, of the bytes in the file: `read(size)` gives it the next, from their beginning on. A client
    that leaves gives it up: the next read raises ClientGone."""

    def reading(given_up: GivenUp) -> T:
        def read(size: int) -> bytes:
            if given_up():
                raise ClientGone(_GONE)
            return spool.read(size)

        spool.rewind()
        return work(read)

    try:
        with exchange.watched():
            return await services.running.executor.run(reading, size=spool.size, caller=exchange.caller.tenant)
    except asyncio.CancelledError:
        if not exchange.gone:
            raise
        take_back_cancellation()
        raise ClientGone(_GONE) from None

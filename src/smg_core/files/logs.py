"""Logs of bytes in the history: the input and the results of batches, and files of earlier versions (edge).

A log is the events of an id, written some at a time from a spool. Also here: reading the lines of any contents, and answering
with them. Above: the kept files, batches. Below: the history.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from smg_core.errors import SmgError
from smg_core.files.blobs import ContentsGone
from smg_core.files.spool import Spool
from smg_core.history.store.base import AppendEvents, DeleteEvents, StoredEvent, StoreOperation
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header
from smg_core.request import Caller
from smg_core.serving.inference import take_back_cancellation
from smg_core.serving.offload import worked
from smg_core.serving.services import Services
from smg_core.wire.json_lines import Line, LineSplitter

__all__ = ["AS_DOWNLOAD", "keep_log", "lines_of", "log_contents", "send_contents"]

T = TypeVar("T")

AS_DOWNLOAD: Sequence[Header] = (
    (b"content-disposition", b"attachment"),
    (b"x-content-type-options", b"nosniff"),
)
"""Contents of the type that a client gave them are shown by no browser as a page of the gateway."""

_PIECE = 256 * 1024  # bytes of one event
_PIECES = 8  # events that are written, or read, at once
_WRITTEN = 1 << 18  # bytes of an answer that are written at once


async def keep_log(
    services: Services,
    caller: Caller,
    log: str,
    spool: Spool,
    until: float,
    last: Callable[[int], Sequence[StoreOperation]],
) -> None:
    """Keep the contents in `spool` as `log` until `until`. `last` makes the operations that are done with the last of them,
    of the number of pieces. Nothing stays where this fails."""
    history, tenant = services.running.history, caller.tenant
    number = 0
    kept = False
    try:
        await asyncio.to_thread(spool.rewind)
        data = await asyncio.to_thread(spool.read, _PIECE * _PIECES)
        while True:
            following = await asyncio.to_thread(spool.read, _PIECE * _PIECES)
            pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]
            events = tuple(StoredEvent(number + place, piece) for place, piece in enumerate(pieces))
            number += len(events)
            operations: list[StoreOperation] = []
            if events:
                operations.append(AppendEvents(log, events, None if following else until))
            if not following:
                operations += last(number)
            await history.write(tenant, operations, principal=caller.principal)
            if not following:
                break
            data = following
        kept = True
    finally:
        if not kept and number:
            with contextlib.suppress(SmgError):  # what it failed with is said, not this
                await history.write(tenant, [DeleteEvents(log)], principal=caller.principal)


async def log_contents(services: Services, tenant: str, log: str, pieces: int) -> AsyncIterator[bytes]:
    """The contents, piece by piece. Raises ContentsGone, also amid them."""
    number = 0
    while number < pieces:
        page = await services.running.history.events(tenant, log, after=number - 1, limit=_PIECES)
        if not page:
            raise ContentsGone
        for event in page:
            if event.number != number:
                raise ContentsGone
            number += 1
            yield event.data


async def lines_of(
    services: Services, tenant: str, pieces: AsyncIterator[bytes], most: int, read: Callable[[Sequence[Line]], T]
) -> AsyncIterator[T]:
    """What `read` makes of the lines of contents, of some at a time: they are cut and read together, off the event loop where
    that takes long. A line of more than `most` bytes is not kept."""
    splitter = LineSplitter(most)
    async for piece in pieces:
        size = splitter.held + len(piece)
        yield await worked(services, tenant, size, lambda piece=piece: read(splitter.feed(piece)))  # type: ignore[misc]
    yield await worked(services, tenant, splitter.held, lambda: read(splitter.end()))


async def send_contents(
    services: Services, exchange: Exchange, size: int, pieces: AsyncIterator[bytes], headers: Sequence[Header]
) -> None:
    """Answer with contents of `size` bytes. Raises ContentsGone where they are not there; where they go away meanwhile, the
    client sees that the answer is cut."""
    first = await anext(pieces, b"")
    exchange.watch(services.live.config.timeouts.write_s)
    try:
        await exchange.start(200, [*headers, (b"content-length", b"%d" % size)])
        if exchange.method != "HEAD":
            await _write(exchange, first)
            async for piece in pieces:
                await _write(exchange, piece)
        await exchange.write(b"", True)
    except SmgError:
        if not exchange.started:
            raise
        return  # the server closes a connection whose answer is not complete, so the client sees the cut
    except asyncio.CancelledError:
        if not exchange.gone:
            raise
        take_back_cancellation()
    finally:
        exchange.unwatch()


async def _write(exchange: Exchange, data: bytes) -> None:
    for at in range(0, len(data), _WRITTEN):
        await exchange.write(data[at : at + _WRITTEN], False)

"""Receives the contents of files from requests: a form, or a body that is one (edge).

A body goes into a temporary file, and only then to where contents are kept. Above: the handlers of the APIs. Below: the spool.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from smg_core.errors import PayloadTooLarge
from smg_core.files.kinds import BEGINNING
from smg_core.files.spool import Spool, Spools, received
from smg_core.http.exchange import Exchange
from smg_core.serving.services import Services
from smg_core.wire.multipart import FormReader

__all__ = ["FileReceiver", "beginning_of"]

_FORM_BYTES = 64 * 1024  # what a form may have beside its file


@attrs.frozen
class FileReceiver:
    """Receives bodies for one gateway."""

    services: Services
    spools: Spools

    @asynccontextmanager
    async def spool(self, exchange: Exchange) -> AsyncIterator[Spool]:
        """A temporary file for the body of a request, which has a place among the uploads as long as it is open."""
        with self.spools.place(exchange.caller):
            spool = await asyncio.to_thread(self.spools.new)
            try:
                yield spool
            finally:
                spool.close()

    async def form(self, exchange: Exchange, spool: Spool, most: int, field: str = "file") -> FormReader:
        """The form of a request, whose file is put into `spool`. Raises PayloadTooLarge where that has more than `most` bytes."""
        settings = self.services.live.config.batches

        def write(data: bytes) -> None:
            spool.write(data)
            if spool.size > most:
                raise PayloadTooLarge(f"The file is over the limit of {most} bytes.", param=field)

        content_type = exchange.headers.get("content-type", "")
        reader = FormReader(
            content_type, write, most=settings.form_fields, most_bytes=settings.form_field_bytes, file=field
        )
        await received(exchange, most + _FORM_BYTES, reader.feed)
        reader.end()
        return reader

    async def body(self, exchange: Exchange, spool: Spool, most: int) -> None:
        """Put the body of a request into `spool`. Raises PayloadTooLarge where it has more than `most` bytes."""
        await received(exchange, most, spool.write)


async def beginning_of(spool: Spool) -> bytes:
    """The first bytes of what is in `spool`."""

    def read() -> bytes:
        spool.rewind()
        return spool.read(BEGINNING)

    return await asyncio.to_thread(read)

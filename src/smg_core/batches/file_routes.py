"""The handlers of files: uploaded, listed, read, deleted (edge).

Every id is looked up among those of the caller's tenant; another's is as if it did not exist. Above: `work`.
Below: the spool, the kept files.
"""

import asyncio

from smg_core.batches.file_types import FileForm, KeptFile, file_list, file_object, read_file_form, read_file_query
from smg_core.batches.files import KeptFiles, contents, send_contents
from smg_core.batches.spool import Spool, Spools, received
from smg_core.errors import InvalidRequest, NotImplementedHere, PayloadTooLarge
from smg_core.http.exchange import Exchange
from smg_core.serving.services import Services
from smg_core.stored.answers import StoredHandlers
from smg_core.wire.multipart import FormReader

__all__ = ["FileHandlers"]

_FORM_BYTES = 64 * 1024  # what a form may have beside its file


class FileHandlers(StoredHandlers):
    """The handlers."""

    def __init__(self, services: Services, kept: KeptFiles, spools: Spools) -> None:
        super().__init__(services)
        self._kept, self._spools = kept, spools
        self._settings = services.live.config.batches

    async def create(self, exchange: Exchange) -> None:
        """POST /v1/files"""
        self._begin(exchange)
        with self._spools.place(exchange.caller):
            spool = await asyncio.to_thread(self._spools.new)
            try:
                form = await self._received(exchange, spool)
                kept = await self._kept.add(exchange.caller, self._file(form), spool, self._check_room)
            finally:
                spool.close()
        await self.answer(exchange, file_object(kept))

    async def _received(self, exchange: Exchange, spool: Spool) -> FileForm:
        settings = self._settings

        def write(data: bytes) -> None:
            spool.write(data)
            if spool.size > settings.file_bytes:
                raise PayloadTooLarge(f"The file is over the limit of {settings.file_bytes} bytes.", param="file")

        content_type = exchange.headers.get("content-type", "")
        reader = FormReader(content_type, write, most=settings.form_fields, most_bytes=settings.form_field_bytes)
        await received(exchange, settings.file_bytes + _FORM_BYTES, reader.feed)
        reader.end()
        return read_file_form(reader.fields, reader.filename)

    def _file(self, form: FileForm) -> KeptFile:
        now, id = self._services.clock.time(), self._services.ids("file-")
        seconds = self._settings.file_s if form.expires_after is None else form.expires_after.seconds
        return KeptFile(
            id=id,
            filename=form.filename,
            purpose=form.purpose,
            bytes=0,
            created_at=now,
            expires_at=now + seconds,
            log=id,
            pieces=0,
        )

    def _check_room(self, count: int) -> None:
        if count >= self._settings.files:
            raise InvalidRequest(f"There may be {self._settings.files:,} files; delete some.", param="file")

    async def list_page(self, exchange: Exchange) -> None:
        """GET /v1/files"""
        self._begin(exchange)
        page = await self._kept.page(exchange.caller.tenant, read_file_query(exchange.query))
        await self.answer_long(exchange, page.size, lambda: file_list(page.data, page.has_more))

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/files/{id}"""
        self._begin(exchange)
        await self.answer(exchange, file_object(await self._found(exchange)))

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/files/{id}"""
        self._begin(exchange)
        found = await self._found(exchange)
        await self._kept.delete(exchange.caller, found)
        await self.answer(exchange, {"id": found.id, "object": "file", "deleted": True})

    async def content(self, exchange: Exchange) -> None:
        """GET /v1/files/{id}/content"""
        self._begin(exchange)
        found = await self._found(exchange)
        pieces = contents(self._services, exchange.caller.tenant, found.log, found.pieces)
        head = [(b"content-type", b"application/octet-stream"), self._services.request_ids.header(exchange.name)]
        await send_contents(self._services, exchange, found.bytes, pieces, head)

    async def _found(self, exchange: Exchange) -> KeptFile:
        return await self._kept.find(exchange.caller.tenant, exchange.path_values["id"])

    def _begin(self, exchange: Exchange) -> None:
        exchange.take_id(self._services.ids, "req_")
        if "anthropic-version" in exchange.headers:
            raise NotImplementedHere("The files of the Messages API are not served here.")

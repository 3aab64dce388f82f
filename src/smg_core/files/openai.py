"""The handlers of OpenAI's files: uploaded, listed, read, deleted (edge).

Every id is looked up among those of the caller's tenant; another's is as if it did not exist. Above: `work`.
Below: what receives bodies, the kept files.
"""

from smg_core.files.kept import KeptFiles
from smg_core.files.kinds import checked_type
from smg_core.files.logs import send_contents
from smg_core.files.receiving import FileReceiver, beginning_of
from smg_core.files.types import KeptFile, file_list, file_object, read_file_form, read_file_query
from smg_core.http.exchange import Exchange
from smg_core.stored.answers import StoredHandlers

__all__ = ["FileHandlers"]


class FileHandlers(StoredHandlers):
    """The handlers."""

    def __init__(self, receiver: FileReceiver, kept: KeptFiles) -> None:
        super().__init__(receiver.services)
        self._receiver, self._kept = receiver, kept

    async def create(self, exchange: Exchange) -> None:
        """POST /v1/files"""
        exchange.take_id(self._services.ids, "req_")
        settings = self._services.live.config.batches
        async with self._receiver.spool(exchange) as spool:
            reader = await self._receiver.form(exchange, spool, settings.file_bytes)
            form = read_file_form(reader.fields, reader.filename)
            kind = checked_type(reader.media_type, form.filename, await beginning_of(spool))
            now = self._services.clock.time()
            file = KeptFile(
                id=self._services.ids("file-"),
                filename=form.filename,
                purpose=form.purpose,
                bytes=0,
                created_at=now,
                expires_at=now + (settings.file_s if form.expires_after is None else form.expires_after.seconds),
                media_type=kind,
            )
            kept = await self._kept.add(exchange.caller, file, spool)
        await self.answer(exchange, file_object(kept))

    async def list_page(self, exchange: Exchange) -> None:
        """GET /v1/files"""
        exchange.take_id(self._services.ids, "req_")
        page = await self._kept.page(exchange.caller.tenant, read_file_query(exchange.query))
        await self.answer_long(exchange, page.size, lambda: file_list(page.data, page.has_more))

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/files/{id}"""
        exchange.take_id(self._services.ids, "req_")
        await self.answer(exchange, file_object(await self._found(exchange)))

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/files/{id}"""
        exchange.take_id(self._services.ids, "req_")
        found = await self._found(exchange)
        await self._kept.delete(exchange.caller, found)
        await self.answer(exchange, {"id": found.id, "object": "file", "deleted": True})

    async def content(self, exchange: Exchange) -> None:
        """GET /v1/files/{id}/content"""
        exchange.take_id(self._services.ids, "req_")
        found = await self._found(exchange)
        pieces = self._kept.contents(exchange.caller.tenant, found)
        head = [(b"content-type", b"application/octet-stream"), self._services.request_ids.header(exchange.name)]
        await send_contents(self._services, exchange, found.bytes, pieces, head)

    async def _found(self, exchange: Exchange) -> KeptFile:
        return await self._kept.find(exchange.caller.tenant, exchange.path_values["id"])

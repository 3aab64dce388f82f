"""The handlers of files in the form of Anthropic's API: the same files as OpenAI's, for requests with `anthropic-version` (edge).

Above: `work`. Below: what receives bodies, the kept files.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from smg_core.errors import InvalidRequest
from smg_core.files.kept import KeptFiles
from smg_core.files.kinds import checked_type
from smg_core.files.logs import AS_DOWNLOAD, send_contents
from smg_core.files.receiving import FileReceiver, beginning_of
from smg_core.files.types import FileQuery, KeptFile, check_filename
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header
from smg_core.json_types import JsonObject
from smg_core.serving.json_handler import JSON_TYPE
from smg_core.stored.answers import StoredHandlers
from smg_core.wire.fields import not_in_list, read_limit

__all__ = ["MessageFileHandlers"]

_LISTED, _MOST_LISTED = 20, 1000
_PURPOSE = "user_data"


class MessageFileHandlers(StoredHandlers):
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
            for name in reader.fields:
                raise InvalidRequest(f"{name[:80]}: Extra inputs are not permitted", param=name[:80])
            if reader.filename is None:
                raise InvalidRequest("file: Field required", param="file")
            name = check_filename(reader.filename, "file")
            now = self._services.clock.time()
            file = KeptFile(
                id=self._services.ids("file-"),
                filename=name,
                purpose=_PURPOSE,
                bytes=0,
                created_at=now,
                expires_at=now + settings.file_s,
                media_type=checked_type(reader.media_type, name, await beginning_of(spool)),
            )
            kept = await self._kept.add(exchange.caller, file, spool)
        await self.answer(exchange, _file_object(kept))

    async def list_page(self, exchange: Exchange) -> None:
        """GET /v1/files"""
        exchange.take_id(self._services.ids, "req_")
        query, param = _read_page(exchange.query)
        try:
            page = await self._kept.page(exchange.caller.tenant, query)
        except InvalidRequest:
            raise not_in_list(query.after or "", param) from None
        found = page.data if query.newest_first else page.data[::-1]
        await self.answer_long(exchange, page.size, lambda: _file_list(found, page.has_more))

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/files/{id}"""
        exchange.take_id(self._services.ids, "req_")
        await self.answer(exchange, _file_object(await self._found(exchange)))

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/files/{id}"""
        exchange.take_id(self._services.ids, "req_")
        found = await self._found(exchange)
        await self._kept.delete(exchange.caller, found)
        await self.answer(exchange, {"id": _id(found), "type": "file_deleted"})

    async def content(self, exchange: Exchange) -> None:
        """GET /v1/files/{id}/content"""
        exchange.take_id(self._services.ids, "req_")
        found = await self._found(exchange)
        pieces = self._kept.contents(exchange.caller.tenant, found)
        head = [(b"content-type", _type(found).encode("latin-1", "replace")), *AS_DOWNLOAD, *self._names(exchange)]
        await send_contents(self._services, exchange, found.bytes, pieces, head)

    async def _found(self, exchange: Exchange) -> KeptFile:
        return await self._kept.find(exchange.caller.tenant, exchange.path_values["id"], "file_id")

    def _names(self, exchange: Exchange) -> list[Header]:
        return [self._services.request_ids.header(exchange.name), (b"request-id", exchange.request_id.encode())]

    async def respond(self, exchange: Exchange, body: bytes) -> None:
        await exchange.respond(200, body, [JSON_TYPE, *self._names(exchange)])


def _read_page(query: Mapping[str, tuple[str, ...]]) -> tuple[FileQuery, str]:
    """The page that is asked for, and the parameter that says where it begins. Raises InvalidRequest."""
    after, before = query.get("after_id", (None,))[-1], query.get("before_id", (None,))[-1]
    if after is not None and before is not None:
        raise InvalidRequest("Only one of 'after_id' and 'before_id' can be given.", param="before_id")
    limit = read_limit(query, usual=_LISTED, most=_MOST_LISTED)
    return FileQuery(before or after, limit, before is None, None), "after_id" if before is None else "before_id"


def _id(file: KeptFile) -> str:
    return f"file_{file.key}"


def _type(file: KeptFile) -> str:
    return file.media_type or "application/octet-stream"


def _file_object(file: KeptFile) -> JsonObject:
    return {
        "id": _id(file),
        "type": "file",
        "filename": file.filename,
        "mime_type": _type(file),
        "size_bytes": file.bytes,
        "created_at": datetime.fromtimestamp(file.created_at, UTC).isoformat().replace("+00:00", "Z"),
        "downloadable": True,
    }


def _file_list(files: tuple[KeptFile, ...], has_more: bool) -> JsonObject:
    return {
        "data": [_file_object(each) for each in files],
        "has_more": has_more,
        "first_id": _id(files[0]) if files else None,
        "last_id": _id(files[-1]) if files else None,
    }

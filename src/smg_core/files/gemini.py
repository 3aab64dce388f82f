"""The handlers of Google's files: uploaded in pieces as google-genai does it, listed, read, deleted (edge).

An upload begins with a request that is answered with an address, to which the pieces are sent. Above: `work`. Below: what
receives bodies, the kept files, the end of an upload.
"""

from urllib.parse import quote

from smg_core.errors import Conflict, InvalidRequest, NotFound, NotImplementedHere, SmgError
from smg_core.files.gemini_types import gemini_file, gemini_files, read_gemini_page, read_start, read_whole_number
from smg_core.files.kept import KeptFiles
from smg_core.files.logs import AS_DOWNLOAD, send_contents
from smg_core.files.receiving import FileReceiver
from smg_core.files.types import FileQuery, KeptFile, KeptUpload
from smg_core.files.uploads import completed
from smg_core.http.exchange import Exchange
from smg_core.stored.answers import StoredHandlers

__all__ = ["GeminiFileHandlers"]

_PURPOSE = "user_data"
_COMMAND, _STATUS, _RECEIVED = "x-goog-upload-command", b"x-goog-upload-status", b"x-goog-upload-size-received"
_OFFSET, _LENGTH = "x-goog-upload-offset", "x-goog-upload-header-content-length"
_TYPE, _PROTOCOL = "x-goog-upload-header-content-type", "x-goog-upload-protocol"
_LONGEST_TYPE = 255  # characters of a media type
_LONGEST_KEY = 512  # characters of a credential that goes into an address


class GeminiFileHandlers(StoredHandlers):
    """The handlers."""

    def __init__(self, receiver: FileReceiver, kept: KeptFiles) -> None:
        super().__init__(receiver.services)
        self._receiver, self._kept = receiver, kept

    async def upload(self, exchange: Exchange) -> None:
        """POST /upload/VERSION/files"""
        exchange.take_id(self._services.ids, "req_")
        commands = {each.strip().lower() for each in exchange.headers.get(_COMMAND, "").split(",")}
        if commands == {"start"}:
            await self._start(exchange)
            return
        try:
            await self._go_on(exchange, commands)
        except SmgError as error:
            if error.status < 500:  # the client is to send it no more
                exchange.always.append((_STATUS, b"final"))
            raise

    async def _start(self, exchange: Exchange) -> None:
        services, config = self._services, self._services.live.config
        if exchange.headers.get(_PROTOCOL, "resumable").lower() != "resumable":
            raise NotImplementedHere("Files are uploaded by the resumable protocol here.")
        file, key = read_start(await exchange.body(services.lookup.body_bytes), config.limits)
        length = exchange.headers.get(_LENGTH, str(file.size_bytes or ""))
        key = key or services.ids("")
        now = services.clock.time()
        kind = exchange.headers.get(_TYPE, "") or file.mime_type or ""
        if len(kind) > _LONGEST_TYPE:
            raise InvalidRequest(f"Invalid value of {_TYPE}: {_LONGEST_TYPE} characters at most.", param=_TYPE)
        upload = KeptUpload(
            id=f"upload_{key}",
            filename=file.display_name or "",
            purpose=_PURPOSE,
            bytes=read_whole_number(length, _LENGTH, config.batches.file_bytes),
            created_at=now,
            expires_at=now + config.files.upload_s,
            file=f"file-{key}",
            media_type=kind,
        )
        kept = await self._kept.begin(exchange.caller, upload)
        url = f"{_base(exchange)}{exchange.path}?upload_id={kept.id}&upload_protocol=resumable{_key(exchange)}"
        exchange.always += [(b"x-goog-upload-url", url.encode("latin-1", "replace")), (_STATUS, b"active")]
        await self.answer(exchange, {})

    async def _go_on(self, exchange: Exchange, commands: set[str]) -> None:
        caller = exchange.caller
        if not commands or not commands <= {"upload", "finalize", "query", "cancel"}:
            raise InvalidRequest(
                "Invalid value of x-goog-upload-command: start, upload, finalize, query or cancel.", param=_COMMAND
            )
        id = exchange.query.get("upload_id", ("",))[-1]
        upload, version = await self._kept.upload(caller.tenant, id)
        if upload.status == "completed" and "finalize" in commands:  # its answer was lost on the way
            await self._answer_file(exchange, await self._kept.find(caller.tenant, upload.file))
            return
        if "cancel" in commands:
            await self._kept.cancel(caller, upload, version)
        elif "upload" in commands:
            upload = await self._take(exchange, upload)
        if "finalize" in commands:
            upload, version = await self._kept.upload(caller.tenant, id)
            if upload.status != "pending":
                raise Conflict(f"The upload is {upload.status}.", param="upload_id")
            if upload.received != upload.bytes:
                raise InvalidRequest(
                    f"The upload has {upload.received} bytes, and was announced with {upload.bytes}.",
                    param=_OFFSET,
                    code="upload_incomplete",
                )
            _, file = await completed(self._receiver, self._kept, caller, upload, version, upload.parts)
            await self._answer_file(exchange, file)
            return
        over = "cancel" in commands or upload.status != "pending"
        received = (_RECEIVED, b"%d" % upload.received)
        exchange.always += [(_STATUS, b"final" if over else b"active"), received]
        await self.answer(exchange, {})

    async def _take(self, exchange: Exchange, upload: KeptUpload) -> KeptUpload:
        """Keep the piece that a request brings, unless it is the last one again, whose answer the client has not seen."""
        config = self._services.live.config
        at = read_whole_number(exchange.headers.get(_OFFSET, "0"), _OFFSET, config.batches.file_bytes)
        async with self._receiver.spool(exchange) as spool:
            await self._receiver.body(exchange, spool, config.files.part_bytes)
            last = upload.parts[-1].blob.bytes if upload.parts else -1
            if spool.size == 0 or (spool.size == last and at == upload.received - last):
                return upload
            upload, _ = await self._kept.add_part(exchange.caller, upload.id, spool, at)
        return upload

    async def _answer_file(self, exchange: Exchange, file: KeptFile) -> None:
        exchange.always.append((_STATUS, b"final"))
        await self.answer(exchange, {"file": gemini_file(file, _base(exchange))})

    async def list_page(self, exchange: Exchange) -> None:
        """GET /VERSION/files"""
        exchange.take_id(self._services.ids, "req_")
        limit, after = read_gemini_page(exchange.query)
        try:
            page = await self._kept.page(exchange.caller.tenant, FileQuery(after, limit, True, None))
        except InvalidRequest:
            raise InvalidRequest("Invalid value at 'page_token': no page begins there.", param="pageToken") from None
        base = _base(exchange)
        await self.answer_long(exchange, page.size, lambda: gemini_files(page.data, page.has_more, base))

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /VERSION/files/{id}"""
        exchange.take_id(self._services.ids, "req_")
        await self.answer(exchange, gemini_file(await self._found(exchange), _base(exchange)))

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /VERSION/files/{id}"""
        exchange.take_id(self._services.ids, "req_")
        await self._kept.delete(exchange.caller, await self._found(exchange))
        await self.answer(exchange, {})

    async def content(self, exchange: Exchange) -> None:
        """GET /VERSION/files/{id}:download"""
        exchange.take_id(self._services.ids, "req_")
        found = await self._found(exchange)
        pieces = self._kept.contents(exchange.caller.tenant, found)
        kind = (found.media_type or "application/octet-stream").encode("latin-1", "replace")
        head = [(b"content-type", kind), *AS_DOWNLOAD, self._services.request_ids.header(exchange.name)]
        await send_contents(self._services, exchange, found.bytes, pieces, head)

    async def _found(self, exchange: Exchange) -> KeptFile:
        key = exchange.path_values["id"]
        try:
            return await self._kept.find(exchange.caller.tenant, f"files/{key}")
        except NotFound:
            raise NotFound(f"The file files/{key[:100]} does not exist.", param="name") from None


def _base(exchange: Exchange) -> str:
    """The address of the gateway, as the client called it."""
    return f"{exchange.scope.get('scheme', 'http')}://{exchange.headers.get('host', 'localhost')}"


def _key(exchange: Exchange) -> str:
    """The client's key for the address that it sends the pieces to, where it is one of Google's: its SDK sends no header with
    them."""
    named = exchange.headers.get("x-goog-api-key") or exchange.query.get("key", ("",))[-1]
    return f"&key={quote(named, safe='')}" if named and len(named) <= _LONGEST_KEY else ""

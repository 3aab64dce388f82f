"""The handlers of OpenAI's uploads in parts: begun, continued, completed, cancelled (edge).

Above: `work`. Below: what receives bodies, the kept files.
"""

import hashlib
from collections.abc import Sequence

from smg_core.errors import Conflict, InvalidRequest
from smg_core.files.blobs import Blob
from smg_core.files.kept import KeptFiles
from smg_core.files.kinds import BEGINNING, checked_type
from smg_core.files.receiving import FileReceiver
from smg_core.files.types import KeptFile, KeptPart, KeptUpload
from smg_core.files.upload_types import part_object, parts_in_order, read_complete, read_upload, upload_object
from smg_core.http.exchange import Exchange
from smg_core.request import Caller
from smg_core.serving.json_handler import json_handler
from smg_core.stored.answers import StoredHandlers
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.errors import openai_error
from smg_core.wire.json_text import encode_body

__all__ = ["UploadHandlers", "completed"]


class UploadHandlers(StoredHandlers):
    """The handlers."""

    def __init__(self, receiver: FileReceiver, kept: KeptFiles) -> None:
        super().__init__(receiver.services)
        self._receiver, self._kept = receiver, kept
        self.create = json_handler(self._services, "req_", openai_error, self._create)

    async def _create(self, incoming: Incoming, located: list[Locate]) -> bytes:
        """POST /v1/uploads"""
        services, config = self._services, self._services.live.config
        wire = read_upload(incoming.body, incoming.limits, config.batches.file_bytes)
        now, id = services.clock.time(), services.ids("upload_")
        upload = KeptUpload(
            id=id,
            filename=wire.filename,
            purpose=wire.purpose,
            bytes=wire.bytes,
            created_at=now,
            expires_at=now + config.files.upload_s,
            file=f"file-{id.removeprefix('upload_')}",
            media_type=wire.mime_type,
            seconds=None if wire.expires_after is None else float(wire.expires_after.seconds),
        )
        return encode_body(upload_object(await self._kept.begin(incoming.caller, upload)))

    async def add_part(self, exchange: Exchange) -> None:
        """POST /v1/uploads/{id}/parts"""
        exchange.take_id(self._services.ids, "req_")
        caller, id = exchange.caller, exchange.path_values["id"]
        await self._kept.upload(caller.tenant, id)
        async with self._receiver.spool(exchange) as spool:
            reader = await self._receiver.form(exchange, spool, self._services.live.config.files.part_bytes, "data")
            for name in reader.fields:
                raise InvalidRequest(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
            if reader.filename is None:
                raise InvalidRequest(
                    "Missing required parameter: 'data'.", param="data", code="missing_required_parameter"
                )
            upload, part = await self._kept.add_part(caller, id, spool)
        await self.answer(exchange, part_object(upload, part, self._services.clock.time()))

    async def complete(self, exchange: Exchange) -> None:
        """POST /v1/uploads/{id}/complete"""
        exchange.take_id(self._services.ids, "req_")
        caller = exchange.caller
        body = await exchange.body(self._services.lookup.body_bytes)
        wire = read_complete(body, self._services.live.config.limits)
        upload, version = await self._kept.upload(caller.tenant, exchange.path_values["id"])
        if upload.status != "pending":
            raise Conflict(f"The upload is {upload.status}.", param="upload_id")
        parts = parts_in_order(upload, wire.part_ids)
        if wire.md5 is not None and await self._digest(upload, parts) != wire.md5.lower():
            raise InvalidRequest("The contents have another MD5 sum.", param="md5", code="checksum_mismatch")
        ended, file = await completed(self._receiver, self._kept, caller, upload, version, parts)
        await self.answer(exchange, upload_object(ended, file))

    async def _digest(self, upload: KeptUpload, parts: Sequence[KeptPart]) -> str:
        digest = hashlib.md5(usedforsecurity=False)
        async for piece in self._kept.blobs(tuple(each.blob for each in parts), upload.folder):
            digest.update(piece)
        return digest.hexdigest()

    async def cancel(self, exchange: Exchange) -> None:
        """POST /v1/uploads/{id}/cancel"""
        exchange.take_id(self._services.ids, "req_")
        upload, version = await self._kept.upload(exchange.caller.tenant, exchange.path_values["id"])
        if upload.status != "pending":
            raise Conflict(f"The upload is {upload.status}.", param="upload_id")
        await self.answer(exchange, upload_object(await self._kept.cancel(exchange.caller, upload, version)))


async def completed(
    receiver: FileReceiver, kept: KeptFiles, caller: Caller, upload: KeptUpload, version: int, parts: Sequence[KeptPart]
) -> tuple[KeptUpload, KeptFile]:
    """Make the file of an upload, of these of its parts. Raises InvalidRequest where their contents are not what its type
    says."""
    services = receiver.services
    now, batches = services.clock.time(), services.live.config.batches
    blobs: tuple[Blob, ...] = tuple(each.blob for each in parts)
    beginning = b""
    async for piece in kept.blobs(blobs, upload.folder):
        beginning += piece
        if len(beginning) >= BEGINNING:
            break
    file = KeptFile(
        id=upload.file,
        filename=upload.filename,
        purpose=upload.purpose,
        bytes=0,
        created_at=now,
        expires_at=now + (batches.file_s if upload.seconds is None else upload.seconds),
        media_type=checked_type(upload.media_type, upload.filename, beginning[:BEGINNING]),
    )
    return await kept.complete(caller, upload, version, parts, file)

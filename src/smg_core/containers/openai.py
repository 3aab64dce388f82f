"""The handlers of OpenAI's containers: made, listed, read, deleted, and the same of their files (edge).

Every id is looked up among those of the caller's tenant; another's is as if it did not exist. Above: `work`. Below: the
containers of tenants; what receives bodies and keeps files.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import BinaryIO

from smg_core.containers.kept import Containers
from smg_core.containers.records import CodeContainer, ContainerFile
from smg_core.containers.types import (
    container_file_object,
    container_object,
    list_object,
    listed_page,
    read_container,
    read_container_file,
)
from smg_core.errors import InvalidRequest, NotFound
from smg_core.files.kept import KeptFiles
from smg_core.files.logs import send_contents
from smg_core.files.receiving import FileReceiver
from smg_core.http.exchange import Exchange
from smg_core.request import Caller
from smg_core.serving.json_handler import json_handler
from smg_core.stored.answers import StoredHandlers
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.errors import openai_error
from smg_core.wire.json_text import encode_body

__all__ = ["ContainerHandlers", "copied_files"]

_READ = 1 << 18


async def copied_files(
    receiver: FileReceiver, files: KeptFiles, containers: Containers, caller: Caller, id: str, file_ids: tuple[str, ...]
) -> list[ContainerFile]:
    """Copy kept files into a container, by their names. Raises InvalidRequest for one that is not there."""
    copied = []
    for place, each in enumerate(file_ids):
        try:
            kept = await files.find(caller.tenant, each)
        except NotFound as error:
            raise InvalidRequest(error.message, param=f"file_ids[{place}]", code="file_not_found") from None
        with receiver.spools.place(caller):
            spool = await asyncio.to_thread(receiver.spools.new)
            try:
                async for piece in files.contents(caller.tenant, kept):
                    await asyncio.to_thread(spool.write, piece)
                await asyncio.to_thread(spool.rewind)
                copied.append(await containers.put(caller, id, kept.filename, spool, spool.size))
            finally:
                spool.close()
    return copied


class ContainerHandlers(StoredHandlers):
    """The handlers."""

    def __init__(self, receiver: FileReceiver, files: KeptFiles, containers: Containers) -> None:
        super().__init__(receiver.services)
        self._receiver, self._files, self._containers = receiver, files, containers
        self.create = json_handler(self._services, "req_", openai_error, self._create)

    async def _create(self, incoming: Incoming, located: list[Locate]) -> bytes:
        """POST /v1/containers"""
        caller, config = incoming.caller, self._services.live.config
        wire = read_container(incoming.body, incoming.limits, config.containers.memory_bytes)
        minutes = None if wire.expires_after is None else float(wire.expires_after.minutes)
        made = await self._containers.create(caller, self._services.ids("cntr_"), wire.name, minutes)
        try:
            await copied_files(self._receiver, self._files, self._containers, caller, made.id, wire.file_ids)
        except BaseException:
            await self._containers.delete(caller, made.id)
            raise
        return encode_body(container_object(made))

    async def list_page(self, exchange: Exchange) -> None:
        """GET /v1/containers"""
        found = await self._containers.all_of(exchange.caller)
        name = exchange.query.get("name", (None,))[-1]
        page, more = listed_page([each for each in found if name in (None, each.name)], exchange.query)
        await self.answer(exchange, list_object([container_object(each) for each in page], _ids(page), more))

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/containers/{id}"""
        await self.answer(exchange, container_object(await self._found(exchange)))

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/containers/{id}"""
        id = exchange.path_values["id"]
        await self._containers.delete(exchange.caller, id)
        await self.answer(exchange, {"id": id, "object": "container.deleted", "deleted": True})

    async def add_file(self, exchange: Exchange) -> None:
        """POST /v1/containers/{id}/files"""
        exchange.take_id(self._services.ids, "req_")
        caller, container = exchange.caller, await self._found(exchange)
        if exchange.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
            body = await exchange.body(self._services.lookup.body_bytes)
            wire = read_container_file(body, self._services.live.config.limits)
            given = (wire.file_id,)
            found = await copied_files(self._receiver, self._files, self._containers, caller, container.id, given)
            await self.answer(exchange, container_file_object(found[0]))
            return
        most = self._services.live.config.containers.file_bytes
        async with self._receiver.spool(exchange) as spool:
            reader = await self._receiver.form(exchange, spool, most)
            for name in reader.fields:
                raise InvalidRequest(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
            if reader.filename is None:
                raise InvalidRequest(
                    "Missing required parameter: 'file'.", param="file", code="missing_required_parameter"
                )
            await asyncio.to_thread(spool.rewind)
            made = await self._containers.put(caller, container.id, reader.filename, spool, spool.size)
        await self.answer(exchange, container_file_object(made))

    async def list_files(self, exchange: Exchange) -> None:
        """GET /v1/containers/{id}/files"""
        found = await self._containers.files(exchange.caller, exchange.path_values["id"])
        page, more = listed_page(found, exchange.query)
        await self.answer(exchange, list_object([container_file_object(each) for each in page], _ids(page), more))

    async def retrieve_file(self, exchange: Exchange) -> None:
        """GET /v1/containers/{id}/files/{file_id}"""
        values = exchange.path_values
        found = await self._containers.file(exchange.caller, values["id"], values["file_id"])
        await self.answer(exchange, container_file_object(found))

    async def delete_file(self, exchange: Exchange) -> None:
        """DELETE /v1/containers/{id}/files/{file_id}"""
        values = exchange.path_values
        found = await self._containers.file(exchange.caller, values["id"], values["file_id"])
        await self._containers.remove(exchange.caller, found)
        await self.answer(exchange, {"id": found.id, "object": "container.file.deleted", "deleted": True})

    async def content(self, exchange: Exchange) -> None:
        """GET /v1/containers/{id}/files/{file_id}/content"""
        exchange.take_id(self._services.ids, "req_")
        values = exchange.path_values
        found = await self._containers.file(exchange.caller, values["id"], values["file_id"])
        file = await self._containers.read(exchange.caller, found)
        head = [(b"content-type", b"application/octet-stream"), self._services.request_ids.header(exchange.name)]
        with file:
            await send_contents(self._services, exchange, found.file.bytes, _pieces(file, found.file.bytes), head)

    async def _found(self, exchange: Exchange) -> CodeContainer:
        return await self._containers.find(exchange.caller, exchange.path_values["id"])


def _ids(page: Sequence[CodeContainer] | Sequence[ContainerFile]) -> list[str]:
    return [each.id for each in page]


async def _pieces(file: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """The first `size` bytes of a file, which code may be writing meanwhile."""
    while size and (piece := await asyncio.to_thread(file.read, min(size, _READ))):
        size -= len(piece)
        yield piece

"""The handlers of OpenAI's batches: created, listed, read, cancelled (edge).

Above: `work`. Below: the queue of batches, the kept files.
"""

from smg_core.batches.queue import BatchQueue
from smg_core.batches.states import BATCH, BatchJob
from smg_core.batches.types import KeptBatch, batch_list, batch_object, read_batch
from smg_core.errors import InvalidRequest
from smg_core.files.kept import KeptFiles
from smg_core.http.exchange import Exchange
from smg_core.serving.json_handler import json_handler
from smg_core.serving.services import Services
from smg_core.stored.answers import StoredHandlers
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.errors import openai_error
from smg_core.wire.fields import read_limit
from smg_core.wire.json_text import encode_body

__all__ = ["BatchHandlers"]

_BATCH = "/v1/batches/{id}"
_OWN_HEADERS = "x-smg-"
_LISTED, _MOST_LISTED = 20, 100


class BatchHandlers(StoredHandlers):
    """The handlers."""

    def __init__(self, services: Services, queue: BatchQueue, files: KeptFiles) -> None:
        super().__init__(services)
        self._queue, self._files = queue, files
        self.create = json_handler(services, "req_", openai_error, self._create)

    async def _create(self, incoming: Incoming, located: list[Locate]) -> bytes:
        """POST /v1/batches"""
        services, tenant, settings = self._services, incoming.caller.tenant, self._services.live.config.batches
        wire = read_batch(incoming.body, incoming.limits)
        self._queue.check_permission(wire.endpoint, incoming.caller)
        file = await self._files.find(tenant, wire.input_file_id, "input_file_id")
        if file.purpose != "batch":
            raise InvalidRequest("The input file has another purpose than 'batch'.", param="input_file_id")
        await self._queue.check_room(tenant, file.bytes)
        now = services.clock.time()
        expiry = wire.output_expires_after
        batch = KeptBatch(
            id=services.ids("batch_"),
            endpoint=wire.endpoint,
            status="validating",
            created_at=now,
            expires_at=now + settings.window_s,
            input_file_id=file.id,
            metadata=wire.metadata,
            files_s=None if expiry is None else float(expiry.seconds),
        )
        kept = {name: value for name, value in incoming.headers.items() if name.startswith(_OWN_HEADERS)}
        caller = incoming.caller
        job = BatchJob(
            *(False, caller.principal, kept, file.log, file.pieces),
            grants=caller.grants,
            input_bytes=file.bytes,
            blobs=file.blobs,
            folder=file.folder,
        )
        operations = self._queue.operations(batch, job)
        await services.running.history.write(tenant, operations, principal=incoming.caller.principal)
        self._queue.added()
        return encode_body(batch_object(batch))

    async def list_page(self, exchange: Exchange) -> None:
        """GET /v1/batches"""
        tenant, limit = exchange.caller.tenant, read_limit(exchange.query, usual=_LISTED, most=_MOST_LISTED)
        after = exchange.query.get("after", (None,))[-1]
        page = await self._queue.page(tenant, BATCH, after=after, limit=limit)
        found = [await self._queue.progress(tenant, each) for each in page.data]
        await self.answer_long(exchange, page.size, lambda: batch_list(found, page.has_more))

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/batches/{id}"""
        tenant = exchange.caller.tenant
        found, _ = await self._queue.find(tenant, BATCH, exchange.path_values["id"])
        await self.answer(exchange, batch_object(await self._queue.progress(tenant, found)))

    async def cancel(self, exchange: Exchange) -> None:
        """POST /v1/batches/{id}/cancel"""
        found = await self._queue.cancel(exchange.caller, BATCH, exchange.path_values["id"])
        await self.answer(exchange, batch_object(await self._queue.progress(exchange.caller.tenant, found)))

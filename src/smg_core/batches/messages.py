"""The handlers of Message Batches: created, listed, read, cancelled, deleted, and their results (edge).

The body of a batch goes into a temporary file and is read from there request by request, in a thread. Above: `work`.
Below: the queue of batches, the kept files, the spool.
"""

import asyncio

import msgspec

from smg_core.batches.message_types import (
    message_batch_list,
    message_batch_object,
    read_page,
    write_lines,
)
from smg_core.batches.queue import BatchQueue
from smg_core.batches.states import MESSAGE_BATCH, BatchJob
from smg_core.batches.store import input_log, output_log
from smg_core.batches.types import KeptBatch
from smg_core.errors import InvalidRequest, NotFound
from smg_core.files.logs import keep_log, log_contents, send_contents
from smg_core.files.spool import Spool, Spools, read_through, received
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header
from smg_core.serving.json_handler import JSON_TYPE
from smg_core.serving.services import Services
from smg_core.stored.answers import StoredHandlers

__all__ = ["MessageBatchHandlers"]

_BATCHES = "/v1/messages/batches"
_BATCH = f"{_BATCHES}/{{id}}"
_ENDPOINT = "/v1/messages"
_HEADERS = ("anthropic-version", "anthropic-beta")
_OWN_HEADERS = "x-smg-"


class MessageBatchHandlers(StoredHandlers):
    """The handlers."""

    def __init__(self, services: Services, queue: BatchQueue, spools: Spools) -> None:
        super().__init__(services)
        self._queue, self._spools = queue, spools
        self._settings = services.live.config.batches

    async def create(self, exchange: Exchange) -> None:
        """POST /v1/messages/batches"""
        services, settings, caller = self._services, self._settings, exchange.caller
        self._queue.check_permission(_ENDPOINT, caller)
        exchange.request_id = exchange.request_id or services.ids("req_")
        with self._spools.place(caller):
            body, lines = await asyncio.to_thread(lambda: (self._spools.new(), self._spools.new()))
            try:
                await received(exchange, settings.body_bytes, body.write)
                count = await self._to_lines(exchange, body, lines)
                await self._queue.check_room(caller.tenant, lines.size)
                now, id = services.clock.time(), services.ids("msgbatch_")
                batch = KeptBatch(
                    id=id,
                    endpoint=_ENDPOINT,
                    status="in_progress",
                    created_at=now,
                    expires_at=now + settings.window_s,
                    total=count,
                    times={"in_progress": now},
                )
                job = BatchJob(
                    *(True, caller.principal, _kept_headers(exchange), input_log(id), 0),
                    grants=caller.grants,
                    input_bytes=lines.size,
                )
                until = batch.expires_at + settings.kept_s
                await keep_log(
                    services,
                    caller,
                    job.log,
                    lines,
                    until,
                    lambda pieces: self._queue.operations(batch, msgspec.structs.replace(job, pieces=pieces)),
                )
            finally:
                body.close()
                lines.close()
        self._queue.added()
        await self.answer(exchange, message_batch_object(batch))

    async def _to_lines(self, exchange: Exchange, body: Spool, lines: Spool) -> int:
        """Write the requests of a body as lines, and return how many there are. A client that leaves gives it up. Raises what is
        wrong with the body."""
        services = self._services
        limits, most, most_bytes = services.live.limits, self._settings.requests, services.lookup.body_bytes
        return await read_through(
            services,
            exchange,
            body,
            lambda read: write_lines(read, lines.write, limits, most=most, most_bytes=most_bytes),
        )

    async def list_page(self, exchange: Exchange) -> None:
        """GET /v1/messages/batches"""
        asked = read_page(exchange.query)
        page = await self._queue.page(
            exchange.caller.tenant,
            MESSAGE_BATCH,
            after=asked.behind,
            limit=asked.limit,
            newest_first=asked.newest_first,
            param="after_id" if asked.newest_first else "before_id",
        )
        found = page.data if asked.newest_first else page.data[::-1]
        await self.answer_long(exchange, page.size, lambda: message_batch_list(found, page.has_more))

    async def _found(self, exchange: Exchange) -> KeptBatch:
        found, _ = await self._queue.find(exchange.caller.tenant, MESSAGE_BATCH, exchange.path_values["id"])
        return found

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /v1/messages/batches/{id}"""
        await self.answer(exchange, message_batch_object(await self._found(exchange)))

    async def cancel(self, exchange: Exchange) -> None:
        """POST /v1/messages/batches/{id}/cancel"""
        found = await self._queue.cancel(exchange.caller, MESSAGE_BATCH, exchange.path_values["id"])
        await self.answer(exchange, message_batch_object(found))

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /v1/messages/batches/{id}"""
        found, caller = await self._found(exchange), exchange.caller
        if message_batch_object(found)["processing_status"] != "ended":
            raise InvalidRequest("A batch is deleted once it has ended; cancel it first.", param="message_batch_id")
        await self._queue.forget(caller, MESSAGE_BATCH, found.id)
        await self.answer(exchange, {"id": found.id, "type": "message_batch_deleted"})

    async def results(self, exchange: Exchange) -> None:
        """GET /v1/messages/batches/{id}/results"""
        found = await self._found(exchange)
        if message_batch_object(found)["results_url"] is None:
            raise NotFound("The results are there once the batch has ended.", param="message_batch_id")
        exchange.request_id = exchange.request_id or self._services.ids("req_")
        pieces = log_contents(self._services, exchange.caller.tenant, output_log(found.id), found.results)
        head = [(b"content-type", b"application/x-jsonl"), *self._names(exchange)]
        await send_contents(self._services, exchange, found.result_bytes, pieces, head)

    def _names(self, exchange: Exchange) -> list[Header]:
        return [self._services.request_ids.header(exchange.name), (b"request-id", exchange.request_id.encode())]

    async def respond(self, exchange: Exchange, body: bytes) -> None:
        exchange.request_id = exchange.request_id or self._services.ids("req_")
        await exchange.respond(200, body, [JSON_TYPE, *self._names(exchange)])


def _kept_headers(exchange: Exchange) -> dict[str, str]:
    """The headers by which a request is read, routed and timed; no other is kept, since some are secrets."""
    return {
        name: value for name, value in exchange.headers.items() if name in _HEADERS or name.startswith(_OWN_HEADERS)
    }

"""Batches of one gateway, loaded when one is first used (edge): by a request, or where batches may wait in the history.

Decides when. Above: `routes`, which has the table of handlers by name. Below: the handlers and the queue.
"""

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from smg_core.batches.calls import BatchEndpoint
from smg_core.files.work import FileRooms, FileWork
from smg_core.http.endpoint import Handler
from smg_core.http.exchange import Exchange
from smg_core.serving.services import Services

if TYPE_CHECKING:
    from smg_core.batches.queue import BatchQueue

__all__ = ["BatchWork"]

_LOADED = ("openai", "messages", "queue")


class BatchWork:
    """The handlers and the queue. `endpoints` are where the requests of batches may go, by their paths."""

    def __init__(self, services: Services, endpoints: Mapping[str, BatchEndpoint]) -> None:
        self._services, self._endpoints = services, endpoints
        self._handlers: Mapping[str, Handler] | None = None
        self._queue: BatchQueue | None = None

    async def run(self) -> None:
        """Work on batches once the history is open, until this is cancelled."""
        await self._services.running.history.until_open()
        queue, _ = await self._made()
        await queue.run()

    def handler(self, name: str) -> Handler:
        """The handler of this name, which is made when it is first called."""

        async def answer(exchange: Exchange) -> None:
            _, handlers = await self._made()
            await handlers[name](exchange)

        return answer

    async def _made(self) -> "tuple[BatchQueue, Mapping[str, Handler]]":
        rooms = await FileWork.of(self._services).rooms()
        if self._queue is None or self._handlers is None:
            await asyncio.to_thread(_load)
        if self._queue is None or self._handlers is None:  # nobody else has made them meanwhile
            self._queue, self._handlers = self._make(rooms)
        return self._queue, self._handlers

    def _make(self, rooms: FileRooms) -> "tuple[BatchQueue, Mapping[str, Handler]]":
        from smg_core.batches.messages import MessageBatchHandlers
        from smg_core.batches.openai import BatchHandlers
        from smg_core.batches.queue import BatchQueue

        services = self._services
        queue = BatchQueue(services, self._endpoints)
        batches = BatchHandlers(services, queue, rooms.kept)
        messages = MessageBatchHandlers(services, queue, rooms.spools)
        return queue, {
            "createBatch": batches.create,
            "listBatches": batches.list_page,
            "retrieveBatch": batches.retrieve,
            "cancelBatch": batches.cancel,
            "createMessageBatch": messages.create,
            "listMessageBatches": messages.list_page,
            "retrieveMessageBatch": messages.retrieve,
            "deleteMessageBatch": messages.delete,
            "cancelMessageBatch": messages.cancel,
            "messageBatchResults": messages.results,
        }


def _load() -> None:
    """Load the modules, which takes some 20 ms: not in the event loop."""
    for each in _LOADED:
        import_module(f"smg_core.batches.{each}")

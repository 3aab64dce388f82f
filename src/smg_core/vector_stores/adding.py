"""Files are added to vector stores: checked to be there, kept as files of the store with their work (edge).

Above: the handlers of stores and of their files. Below: the records, the kept files, the queue.
"""

from collections.abc import Sequence

from smg_core.errors import InvalidRequest, NotFound
from smg_core.request import Caller
from smg_core.vector_stores.indexing import IndexRooms
from smg_core.vector_stores.kept import FileChange
from smg_core.vector_stores.queue import IndexQueue
from smg_core.vector_stores.records import KeptFileBatch, KeptStoreFile
from smg_core.vector_stores.types import NewStoreFile

__all__ = ["FileAdding"]

_WRITTEN = 100  # files that are written together


class FileAdding:
    """Adds files."""

    def __init__(self, rooms: IndexRooms, queue: IndexQueue) -> None:
        self._rooms, self._queue = rooms, queue

    async def check(self, caller: Caller, files: Sequence[NewStoreFile]) -> None:
        """Raise InvalidRequest for a file that is not there."""
        for each in files:
            try:
                await self._rooms.files.find(caller.tenant, each.id, each.param)
            except NotFound as error:
                raise InvalidRequest(error.message, param=each.param, code="file_not_found") from None

    async def add(
        self, caller: Caller, store: str, files: Sequence[NewStoreFile], batch: KeptFileBatch | None = None
    ) -> list[KeptStoreFile]:
        """Add files that were checked, as a `batch` where there is one. Raises StoreUnknown, InvalidRequest."""
        added: list[KeptStoreFile] = []
        for at in range(0, len(files), _WRITTEN):
            changes = {each.id: self._new(each, batch) for each in files[at : at + _WRITTEN]}
            found = await self._rooms.kept.change(caller, store, changes, batch=batch)
            added += [each for each in found.values() if each is not None]
        self._queue.added()
        return added

    def _new(self, file: NewStoreFile, batch: KeptFileBatch | None) -> FileChange:
        services = self._rooms.services
        made = KeptStoreFile(
            id=file.id,
            created_at=services.clock.time(),
            turn=services.ids(""),
            attributes=file.attributes,
            max_tokens=file.chunking.max_tokens,
            overlap_tokens=file.chunking.overlap_tokens,
            batch="" if batch is None else batch.id,
        )
        return lambda _: made

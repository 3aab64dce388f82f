"""Reading documents for many requests: whose turn it is, in which process, and what was read before (edge).

Above: applications. Below: `places`, `workers`, `decoding.pdf` for the records. Each is read in a process that can be stopped.
One that several requests send at the same time is read once, and what was read is kept up to a size, since a conversation sends
its documents again with every turn. No tenant that has a name takes more than three quarters of the
processes.
"""

import asyncio
import hashlib
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from smg_multimodal.decoding.pdf import DocumentContents, DocumentLimits
from smg_multimodal.processes.places import Places
from smg_multimodal.processes.workers import DecoderProcesses
from smg_multimodal.records.errors import MediaBusy

__all__ = ["DocumentMemory", "DocumentReader"]

_HASHED_HERE = 256 * 1024
"""Files up to this length are hashed on the event loop: a fraction of a millisecond."""


class DocumentMemory:
    """What documents have, by a digest of their file, the least recently used dropped beyond `max_size`: characters of text, and
    bytes of pictures."""

    def __init__(self, max_size: int) -> None:
        self._most = max_size
        self._kept: OrderedDict[bytes, DocumentContents] = OrderedDict()
        self.size = 0

    def get(self, digest: bytes) -> DocumentContents | None:
        """What is kept under `digest`, or None."""
        found = self._kept.get(digest)
        if found is not None:
            self._kept.move_to_end(digest)
        return found

    def put(self, digest: bytes, contents: DocumentContents) -> None:
        """Keep `contents`, unless they alone are more than there is room for."""
        if contents.size > self._most:
            return
        before = self._kept.pop(digest, None)
        self.size += contents.size - (0 if before is None else before.size)
        self._kept[digest] = contents
        while self.size > self._most:
            _, dropped = self._kept.popitem(last=False)
            self.size -= dropped.size


@dataclass(eq=False, slots=True)
class _Reading:
    """A document that is being read: by which task, whether its turn has come, and how many requests wait for it."""

    task: "asyncio.Future[DocumentContents]" = field(init=False)
    begun: bool = False
    waiting: int = 0


class DocumentReader:
    """Reads documents in `processes` processes, each in at most `seconds`, within `limits`.

    A document waits `wait_seconds` for its turn. `kept_characters` is how much is kept of documents that were read: characters of
    text, bytes of pictures. `pool` may be given short work. Belongs to one event loop.
    """

    def __init__(
        self,
        *,
        limits: DocumentLimits,
        processes: int = 2,
        seconds: float = 30.0,
        wait_seconds: float = 10.0,
        kept_characters: int = 16 * 1024 * 1024,
    ) -> None:
        self._limits = limits
        self._wait_seconds = wait_seconds
        self.processes = DecoderProcesses(idle=processes, document_seconds=seconds)
        self.pool = ThreadPoolExecutor(
            processes + 1, "smg-documents"
        )  # the places bound what reads; one is for short work
        self._places = Places(processes, (max(1, processes * 3 // 4),))
        self.memory = DocumentMemory(kept_characters)
        self._running: dict[bytes, _Reading] = {}

    async def contents(self, data: bytes, *, tenant: str = "", pictures: bool = False) -> DocumentContents:
        """The text of the document, and its pictures where they are asked for. Raises BadDocument, MediaTooLarge, and MediaBusy
        where its turn does not come in time."""
        digest = await self._digest(data) + bytes([pictures])
        found = self.memory.get(digest)
        if found is not None:
            return found
        reading = self._running.get(digest) or self._started(digest, data, tenant, pictures)
        reading.waiting += 1
        try:
            return await asyncio.shield(reading.task)
        finally:
            reading.waiting -= 1
            if not reading.waiting and not reading.begun:
                self._running.pop(digest, None)  # nobody wants it any more, and it has only waited
                reading.task.cancel()

    def close(self) -> None:
        """Stop the processes, and take no more."""
        self.processes.close()
        self.pool.shutdown(wait=False, cancel_futures=True)

    async def _digest(self, data: bytes) -> bytes:
        if len(data) <= _HASHED_HERE:
            return _sha256(data)
        return await asyncio.get_running_loop().run_in_executor(self.pool, _sha256, data)

    def _started(self, digest: bytes, data: bytes, tenant: str, pictures: bool) -> _Reading:
        reading = _Reading()
        reading.task = asyncio.ensure_future(self._read(reading, digest, data, tenant, pictures))
        self._running[digest] = reading
        reading.task.add_done_callback(partial(self._ended, digest, reading))
        return reading

    def _ended(self, digest: bytes, reading: _Reading, task: "asyncio.Future[DocumentContents]") -> None:
        if self._running.get(digest) is reading:
            del self._running[digest]
        if not task.cancelled():
            task.exception()  # seen here, in case every request that waited for it has gone

    async def _read(
        self, reading: _Reading, digest: bytes, data: bytes, tenant: str, pictures: bool
    ) -> DocumentContents:
        try:
            async with asyncio.timeout(self._wait_seconds):
                place = await self._places.take(tenant)
        except TimeoutError as error:
            raise MediaBusy("the document had to wait too long for others to be read") from error
        reading.begun = True
        try:
            loop = asyncio.get_running_loop()
            reads = partial(self.processes.document, data, self._limits, pictures=pictures)
            contents = await loop.run_in_executor(self.pool, reads)
        finally:
            self._places.release(place)
        self.memory.put(digest, contents)
        return contents


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()

"""Reading documents for many requests: whose turn it is, in which process, and what was read before (edge).

Above: applications. Below: `places`, `workers`, `decoding.pdf` for the limits. Each is read in a process that can be stopped.
One that several requests send at the same time is read once, and texts are kept up to a number of characters, since a
conversation sends its documents again with every turn. No tenant that has a name takes more than three quarters of the
processes.
"""

import asyncio
import hashlib
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from smg_multimodal.decoding.pdf import DocumentLimits
from smg_multimodal.processes.places import Places
from smg_multimodal.processes.workers import DecoderProcesses
from smg_multimodal.records.errors import MediaBusy

__all__ = ["DocumentReader", "TextMemory"]

_HASHED_HERE = 256 * 1024
"""Files up to this length are hashed on the event loop: a fraction of a millisecond."""


class TextMemory:
    """Texts by the sha256 of their file, the least recently used dropped beyond `max_characters`."""

    def __init__(self, max_characters: int) -> None:
        self._most = max_characters
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self.characters = 0

    def get(self, digest: bytes) -> str | None:
        """The text under `digest`, or None."""
        found = self._texts.get(digest)
        if found is not None:
            self._texts.move_to_end(digest)
        return found

    def put(self, digest: bytes, text: str) -> None:
        """Keep `text`, unless it alone is more than there is room for."""
        if len(text) > self._most:
            return
        self.characters += len(text) - len(self._texts.pop(digest, ""))
        self._texts[digest] = text
        while self.characters > self._most:
            _, dropped = self._texts.popitem(last=False)
            self.characters -= len(dropped)


@dataclass(eq=False, slots=True)
class _Reading:
    """A document that is being read: by which task, whether its turn has come, and how many requests wait for it."""

    task: "asyncio.Future[str]" = field(init=False)
    begun: bool = False
    waiting: int = 0


class DocumentReader:
    """Reads documents in `processes` processes, each in at most `seconds`, within `limits`.

    A document waits `wait_seconds` for its turn. `kept_characters` is how much text is kept of documents that were read. `pool`
    may be given short work. Belongs to one event loop.
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
        self.memory = TextMemory(kept_characters)
        self._running: dict[bytes, _Reading] = {}

    async def text(self, data: bytes, *, tenant: str = "") -> str:
        """The text of the document. Raises BadDocument, MediaTooLarge, and MediaBusy where its turn does not come in time."""
        digest = await self._digest(data)
        found = self.memory.get(digest)
        if found is not None:
            return found
        reading = self._running.get(digest) or self._started(digest, data, tenant)
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

    def _started(self, digest: bytes, data: bytes, tenant: str) -> _Reading:
        reading = _Reading()
        reading.task = asyncio.ensure_future(self._read(reading, digest, data, tenant))
        self._running[digest] = reading
        reading.task.add_done_callback(partial(self._ended, digest, reading))
        return reading

    def _ended(self, digest: bytes, reading: _Reading, task: "asyncio.Future[str]") -> None:
        if self._running.get(digest) is reading:
            del self._running[digest]
        if not task.cancelled():
            task.exception()  # seen here, in case every request that waited for it has gone

    async def _read(self, reading: _Reading, digest: bytes, data: bytes, tenant: str) -> str:
        try:
            async with asyncio.timeout(self._wait_seconds):
                place = await self._places.take(tenant)
        except TimeoutError as error:
            raise MediaBusy("the document had to wait too long for others to be read") from error
        reading.begun = True
        try:
            loop = asyncio.get_running_loop()
            text = await loop.run_in_executor(self.pool, self.processes.document, data, self._limits)
        finally:
            self._places.release(place)
        self.memory.put(digest, text)
        return text


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()

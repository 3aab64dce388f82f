"""The file of workers, watched (edge).

The files are looked at in a thread, at an interval: that named by `workers.file`, and those that its entries name for their keys.
When one has changed and was then left alone for an interval, all are read. A file that is being written is therefore not read in
the middle, and one that cannot be read, or says something wrong, changes nothing. A file that is replaced by another of the same
name, or behind a symbolic link as in a ConfigMap, has changed. Above: operation.discovery. Below: the standard library.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path

import attrs

from smg_core.discovery.base import Missed, SourceAnswer, Wanted, WorkersSeen
from smg_core.discovery.waiting import Pause
from smg_core.regular_files import TooLong, read_regular
from smg_core.workers.worker import WorkerSpec

__all__ = ["FileReading", "WorkerFileSource", "text_of"]

_Stamp = tuple[tuple[str, int, int, int], ...]
"""What shows that a file has changed: path, inode, time of the change in nanoseconds, size; -1 for one that is not there."""


@attrs.frozen
class FileReading:
    """What the file says: its workers, and all files that were read for them."""

    workers: Sequence[WorkerSpec]
    files: tuple[Path, ...]


class WorkerFileSource:
    """The workers of a file. `read` reads it, in a thread, and raises ValueError or OSError for what is wrong with it; `pause`
    waits `interval` seconds between two looks; `most` is the number of workers that it may have."""

    name = "file"

    def __init__(
        self, path: Path, read: Callable[[], FileReading], pause: Pause, *, interval: float, most: int
    ) -> None:
        self._path = path
        self._read = read
        self._pause = pause
        self._interval = interval
        self._most = most

    async def answers(self) -> AsyncIterator[SourceAnswer]:
        """What the file says now, and then at each look."""
        files: tuple[Path, ...] = (self._path,)
        answer: SourceAnswer = Missed("")
        before: _Stamp | None = None
        stamp = await asyncio.to_thread(_stamp, files)
        while True:
            if stamp != before or isinstance(answer, Missed):
                answer, read = await self._answer(answer, files)
                before = stamp if read == files else None  # files that were not looked at before: once more
                files = read
            yield answer
            stamp = await self._settled(files, before)

    async def _settled(self, files: tuple[Path, ...], before: _Stamp | None) -> _Stamp:
        """Wait for an interval, and on while the files are being changed. Returns how they are then."""
        await self._pause(self._interval)
        stamp = await asyncio.to_thread(_stamp, files)
        while stamp != before:
            last = stamp
            await self._pause(self._interval)
            stamp = await asyncio.to_thread(_stamp, files)
            if stamp == last:
                break
        return stamp

    async def _answer(self, last: SourceAnswer, files: tuple[Path, ...]) -> tuple[SourceAnswer, tuple[Path, ...]]:
        """What the file says, and the files to look at from now on."""
        try:
            reading = await asyncio.to_thread(self._reading)
        except (ValueError, OSError) as error:
            return Missed(" ".join(str(error).split())), files
        wanted = tuple(Wanted(each) for each in reading.workers)
        if isinstance(last, WorkersSeen) and last.workers == wanted:
            return last, reading.files
        return WorkersSeen(wanted), reading.files

    def _reading(self) -> FileReading:
        reading = self._read()
        if len(reading.workers) > self._most:
            raise ValueError(f"it names {len(reading.workers)} workers; discovery.most allows {self._most}")
        return reading


def text_of(path: Path, most: int) -> str:
    """The text of the file at `path`, which has at most `most` bytes. Raises OSError, and ValueError for what is no file with an
    end, such as a pipe, whose reader would wait for its writer."""
    try:
        return read_regular(path, most).decode()
    except TooLong as error:
        raise ValueError(f"{error}; see discovery.file_bytes") from None


def _stamp(files: Iterable[Path]) -> _Stamp:
    found = []
    for path in files:
        try:
            now = path.stat()
        except OSError:
            found.append((str(path), -1, -1, -1))
        else:
            found.append((str(path), now.st_ino, now.st_mtime_ns, now.st_size))
    return tuple(found)

"""Blobs in a folder of the file system (edge): each is a file, which appears under its name once it is whole.

It is written under another name, brought to the disk, and renamed. Several processes, of one machine or of several, may use the
folder at once. Reading and writing are done in threads. Above: `place`, which opens it. Below: the file system.
"""

import asyncio
import errno
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from smg_core.disk_room import check_disk_room
from smg_core.errors import SmgError
from smg_core.files.blobs import ContentsGone, FilesFailed
from smg_core.history.store.blobs import WrittenBlob

__all__ = ["FolderBlobs", "store_failures"]

_INCOMING = ".incoming"
_PIECE = 256 * 1024  # bytes that are read at once
_SYNCED = 8 * 1024 * 1024  # bytes after which what was written is brought to the disk
_LISTED = 1000  # names that a thread looks up at once


class FolderBlobs:
    """The blobs below `root`, which is made when the first is written. `now` is the time that is noted of what is written; what
    is half written and older than `grace_s` is removed when the names are listed."""

    def __init__(self, root: Path, *, now: Callable[[], float], grace_s: float) -> None:
        self.root = root
        self._now, self._grace_s = now, grace_s

    def _path(self, name: str) -> Path:
        return self.root / name[:2] / name

    async def write(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        incoming = self.root / _INCOMING / secrets.token_hex(16)
        file = await asyncio.to_thread(_made, incoming)
        try:
            unsynced = 0
            async for piece in pieces:
                unsynced += len(piece)
                await asyncio.to_thread(_put, file, piece, unsynced >= _SYNCED)
                unsynced %= _SYNCED
            await asyncio.to_thread(self._finish, file, incoming, self._path(name))
        except BaseException:
            await asyncio.shield(asyncio.to_thread(_dropped, file, incoming))
            raise

    def _finish(self, file: FileIO, incoming: Path, path: Path) -> None:
        with store_failures():
            now = self._now()
            os.utime(file.fileno(), (now, now))
            os.fsync(file.fileno())
            file.close()
            path.parent.mkdir(mode=0o700, exist_ok=True)
            incoming.replace(path)
            if sys.platform != "win32":  # there a folder cannot be opened
                folder = os.open(path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)

    async def read(self, name: str) -> AsyncIterator[bytes]:
        path, at = self._path(name), 0
        while piece := await asyncio.to_thread(_got, path, at):
            at += len(piece)
            yield piece

    async def size(self, name: str) -> int | None:
        def look() -> int | None:
            with store_failures():
                try:
                    return self._path(name).stat().st_size
                except FileNotFoundError:
                    return None

        return await asyncio.to_thread(look)

    async def delete(self, name: str) -> None:
        def remove() -> None:
            with store_failures():
                self._path(name).unlink(missing_ok=True)

        await asyncio.to_thread(remove)

    async def names(self) -> AsyncIterator[WrittenBlob]:
        await asyncio.to_thread(self._sweep_incoming)
        for folder in await asyncio.to_thread(self._folders):
            found = await asyncio.to_thread(_listed, folder)
            for at in range(0, len(found), _LISTED):
                for each in await asyncio.to_thread(_dated, folder, found[at : at + _LISTED]):
                    yield each

    def _folders(self) -> list[Path]:
        with store_failures():
            if not self.root.is_dir():
                return []
            return sorted(each for each in self.root.iterdir() if len(each.name) == 2 and each.is_dir())

    def _sweep_incoming(self) -> None:
        folder = self.root / _INCOMING
        with store_failures():
            for each in list(folder.iterdir()) if folder.is_dir() else ():
                with suppress(FileNotFoundError):  # it is whole meanwhile, or another process has removed it
                    if each.stat().st_mtime < min(self._now(), time.time()) - self._grace_s:
                        each.unlink()


def _made(incoming: Path) -> FileIO:
    with store_failures():
        incoming.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileIO(incoming, "xb", opener=lambda path, flags: os.open(path, flags, 0o600))


def _put(file: FileIO, piece: bytes, sync: bool) -> None:
    with store_failures():
        check_disk_room(Path(os.fsdecode(file.name)), len(piece))
        rest = memoryview(piece)
        while rest:
            rest = rest[file.write(rest) or 0 :]
        if sync:
            os.fsync(file.fileno())


def _dropped(file: FileIO, incoming: Path) -> None:
    with suppress(OSError):  # what stays is swept
        file.close()
        incoming.unlink(missing_ok=True)


def _got(path: Path, at: int) -> bytes:
    """Some bytes of a file from `at` on. It is opened for each: nothing stays open where a reader gives up."""
    with store_failures():
        try:
            file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            raise ContentsGone from None
        try:
            os.lseek(file, at, os.SEEK_SET)
            return os.read(file, _PIECE)
        finally:
            os.close(file)


def _listed(folder: Path) -> list[str]:
    with store_failures():
        return sorted(each.name for each in folder.iterdir())


def _dated(folder: Path, names: list[str]) -> list[WrittenBlob]:
    found = []
    with store_failures():
        for name in names:
            with suppress(FileNotFoundError):  # deleted meanwhile
                found.append(WrittenBlob(name, (folder / name).stat().st_mtime))
    return found


@contextmanager
def store_failures(what: str = "folder of files") -> Iterator[None]:
    """What the file system refuses is a failure of the store."""
    try:
        yield
    except SmgError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise FilesFailed("full" if full else "failed", f"{what}: {error}") from error

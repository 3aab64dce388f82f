"""Items that all processes of a gateway remember together, in memory that they share (edge).

Above: `content.FeatureCache`, which asks here for what its own process has not made. Below: `records.types`. An item is a file in
a folder of /dev/shm that only this user may enter. It is written once, under its content key, and read by mapping it, so that
however many processes use it, its tensors are in memory once; what is removed stays readable for those who have it. Nobody counts
for all: a process looks at the folder before it writes what is large, one at a time, and after it has written its part of an
eighth of the bound in small items; so the bound holds, whatever process ends at what moment. The folder goes with the last
process that has it, or with the next one's start where all were killed.
"""

import contextlib
import errno
import json
import logging
import mmap
import os
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from smg_multimodal.records.types import Array, ItemFeatures, Modality, Size

__all__ = ["SharedItems"]

log = logging.getLogger(__name__)

_FOLDER = Path("/dev/shm")  # noqa: S108 - memory that processes share by name
_LOCK, _ROOM = ".lock", ".room"
_ALIGNED = 64
_PAGE = 4096
_COPIED = 64 * 1024
"""Bytes up to which a file is read; longer ones are mapped, each of which takes a descriptor."""
_KEPT_FREE = 8
"""Parts of the bound of which one is for what processes write before they look at the folder again."""


class SharedItems:
    """Items by content key, in the folder `name`, over at most `processes` processes; the least recently used are removed beyond
    `max_bytes`. `get` and `put` may be called in any thread. Raises OSError where there is no such memory."""

    def __init__(self, name: str, max_bytes: int, processes: int, folder: Path = _FOLDER) -> None:
        if not name or "/" in name or name.startswith("."):
            raise ValueError(f"{name!r} cannot be the name of a folder")
        if sys.platform == "win32":
            raise OSError(errno.ENOTSUP, "this system has no such memory")
        place = os.statvfs(folder)
        self._most = min(max_bytes, place.f_blocks * place.f_frsize // 2)
        self._unseen = self._most // (_KEPT_FREE * max(1, processes))
        self._written = 0
        self._path = folder / name
        self._names = count()
        self._guard = threading.Lock()
        self._lock = _joined(self._path)

    @staticmethod
    def sweep(beginning: str, folder: Path = _FOLDER) -> int:
        """Remove the folders whose names begin so and whose processes are gone; how many there were."""
        removed = 0
        for path in sorted(folder.glob(f"{beginning}*")):
            with contextlib.suppress(OSError):  # in use, another user's, or gone meanwhile
                lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    _hold(lock, alone=True)
                    shutil.rmtree(path)
                    removed += 1
                finally:
                    os.close(lock)
        return removed

    def get(self, key: bytes) -> ItemFeatures | None:
        """The item under `key`, with tensors that cannot be written to; None where there is none."""
        try:
            file = os.open(f"{self._path}/{key.hex()}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.utime(file)
                length = os.fstat(file).st_size
                if length > _COPIED:
                    return _read(memoryview(mmap.mmap(file, length, access=mmap.ACCESS_READ)))
                return _read(memoryview(os.read(file, length)))
            finally:
                os.close(file)
        except (OSError, ValueError, LookupError, TypeError):  # not there; or cut off by somebody
            return None

    def touch(self, key: bytes) -> None:
        """The item under `key` was used by a process that has it."""
        with contextlib.suppress(OSError):
            os.utime(self._path / key.hex())

    def put(self, key: bytes, features: ItemFeatures) -> ItemFeatures:
        """Keep `features` for all. Returns them as they lie there, or as they are where there is no room."""
        head, arrays, length = _laid_out(features)
        if length > self._most // 2 or self._lock < 0:
            return features
        path = self._path / key.hex()
        written = self._path / f".{os.getpid()}-{next(self._names)}"
        try:
            file = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                self._take_room(file, length)
                _write(file, head, arrays)
            finally:
                os.close(file)
            written.rename(path)
        except OSError as error:
            log.warning("an item of media is not shared with other processes: %s", error)
            written.unlink(missing_ok=True)
            return features
        return self.get(key) or features

    def close(self) -> None:
        """Let go of the folder, and remove it if no other process has it. Items that were read stay as they are."""
        with self._guard:
            lock, self._lock = self._lock, -1
        if lock < 0:
            return
        try:
            with contextlib.suppress(OSError):  # another process has it
                _hold(lock, alone=True)
                shutil.rmtree(self._path)
        finally:
            os.close(lock)

    def _take_room(self, file: int, length: int) -> None:
        """Make `file` as long as it will be, when all that is there is within the bound. Raises OSError without room."""
        with self._guard:
            self._written += _occupied(length)
            if self._written <= self._unseen:
                os.ftruncate(file, length)
                return
            with (self._path / _ROOM).open("ab") as room:
                _hold(room.fileno(), alone=True, waits=True)
                self._drop_beyond(self._most - self._most // _KEPT_FREE - _occupied(length))
                place = os.statvfs(self._path)
                if place.f_bavail * place.f_frsize < 2 * length:
                    raise OSError(errno.ENOSPC, "others have nearly all of the shared memory")
                os.ftruncate(file, length)
                self._written = 0

    def _drop_beyond(self, most: int) -> None:
        found = sorted(self._entries())
        total = sum(nbytes for _, nbytes, _ in found)
        for _, nbytes, path in found:
            if total <= most:
                return
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                path.unlink()
            total -= nbytes

    def _entries(self) -> Iterator[tuple[int, int, Path]]:
        """When each item was last used, the memory that it takes, and its path."""
        with os.scandir(self._path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.name not in (_LOCK, _ROOM):
                        facts = entry.stat(follow_symlinks=False)
                        yield facts.st_mtime_ns, _occupied(facts.st_size), self._path / entry.name


def _occupied(length: int) -> int:
    """What a file of that length takes, its own record in the system among it."""
    return -(-length // _PAGE) * _PAGE + _PAGE


def _hold(lock: int, *, alone: bool, waits: bool = False) -> None:
    """Hold the lock on a descriptor. Raises OSError where that cannot be now and it does not wait, or the system has none."""
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "this system has no locks on files")
    import fcntl

    fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if waits else fcntl.LOCK_NB))


def _joined(path: Path) -> int:
    """A descriptor that holds the folder's lock beside others; the folder is made where it is not there. One who sweeps may take
    it away meanwhile, and then it is made anew."""
    while True:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        facts = path.lstat()
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o170077 != 0o040000:
            raise PermissionError(errno.EPERM, "is not a folder of this user alone", str(path))
        try:
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue
        with contextlib.suppress(BlockingIOError):
            _hold(lock, alone=False)
            if os.fstat(lock).st_nlink:
                return lock
        os.close(lock)


def _laid_out(features: ItemFeatures) -> tuple[bytes, list[tuple[int, Array]], int]:
    """The beginning of an item's file, its arrays with where each begins, and how long the file is."""
    arrays = {name: np.ascontiguousarray(array) for name, array in features.tensors.items()}
    header = {
        "size": features.size,
        "tokens": features.tokens,
        "grid": features.grid,
        "modality": features.modality,
        "facts": features.facts,
        "tensors": [(name, array.dtype.str, array.shape) for name, array in arrays.items()],
    }
    words = json.dumps(header, default=_plain).encode()
    head = len(words).to_bytes(8, "little") + words
    at, placed = _aligned(len(head)), []
    for array in arrays.values():
        placed.append((at, array))
        at = _aligned(at + array.nbytes)
    return head, placed, at


def _plain(value: object) -> Any:
    """A number of numpy's as one of Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written")


def _aligned(at: int) -> int:
    return -(-at // _ALIGNED) * _ALIGNED


def _write(file: int, head: bytes, arrays: Iterable[tuple[int, Array]]) -> None:
    """All parts of an item's file, which is as long as it will be already: between them lie zeros."""
    _write_at(file, memoryview(head), 0)
    for at, array in arrays:
        if array.nbytes:
            _write_at(file, array.reshape(-1).view(np.uint8).data, at)


def _write_at(file: int, data: memoryview, at: int) -> None:
    while data.nbytes:
        count = os.pwrite(file, data, at)
        data, at = data[count:], at + count


def _read(file: memoryview) -> ItemFeatures:
    """The item of a file, whose arrays lie where the file does. Raises ValueError, LookupError or TypeError for what is none."""
    length = int.from_bytes(file[:8], "little")
    header: Mapping[str, Any] = json.loads(bytes(file[8 : 8 + length]))
    at, tensors = _aligned(8 + length), {}
    for name, kind, shape in header["tensors"]:
        dtype = np.dtype(kind)
        made = tensors[name] = np.ndarray(shape, dtype, file, at) if 0 not in shape else np.empty(shape, dtype)
        made.flags.writeable = False
        at = _aligned(at + made.nbytes)
    facts = {name: _tuples(value) for name, value in header["facts"].items()}
    size, grid = Size(*header["size"]), _tuples(header["grid"])
    return ItemFeatures(tensors, size, header["tokens"], grid, Modality(header["modality"]), facts)


def _tuples(value: Any) -> Any:
    """Sequences as items have them."""
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value

"""Tensors for an engine on the same host, in a file of /dev/shm instead of the message (edge).

Above: engine codecs. Below: `packaging`. An edge of its own: it writes files. The engine opens the file by name, reads it and
unlinks it. Usable only when gateway and engine see the same /dev/shm, which both say with a namespace id. What is written is
bounded, goes when the request is over, and when its process is: whoever comes next sweeps what one that was killed has left.
"""

import contextlib
import errno
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from smg_multimodal.preparing.wire_forms import WireTensor

__all__ = ["SharedMemory", "SharedTensor", "namespace_id", "sweep_orphans"]

_FOLDER = Path("/dev/shm")  # noqa: S108 - the engines' protocol names this place
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class SharedTensor:
    """A tensor in a file: `name` below /dev/shm, its bytes from `offset` on, shape and dtype."""

    name: str
    offset: int
    nbytes: int
    shape: tuple[int, ...]
    dtype: str


def namespace_id(folder: Path = _FOLDER, boot: Path = _BOOT) -> str:
    """`<boot id>:<device>` of the shared memory this process sees; engines report theirs in the same form. Raises OSError
    where there is none."""
    return f"{boot.read_text().strip()}:{folder.stat().st_dev}"


def _lock(file: int) -> None:
    """Hold the lock on the descriptor `file`. Raises OSError where another process holds it, or the system has none."""
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "this system has no locks on files")
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def sweep_orphans(beginning: str, folder: Path = _FOLDER) -> int:
    """Remove the files of every `SharedMemory` whose prefix starts so and whose process is gone; how many tensors there were.

    A process holds a lock as long as it lives, whatever namespace its id is from. Files of other users are left.
    """
    removed = 0
    for file in sorted(folder.glob(f"{beginning}*{_LOCK}")):
        with contextlib.suppress(OSError):  # held by one that lives, another user's, or gone meanwhile
            found = os.open(file, os.O_RDWR | os.O_NOFOLLOW)
            try:
                _lock(found)
                for path in sorted(folder.glob(f"{file.name.removesuffix(_LOCK)}-*")):
                    path.unlink(missing_ok=True)
                    removed += 1
                file.unlink(missing_ok=True)
            finally:
                os.close(found)
    return removed


class SharedMemory:
    """Writes tensors of at least `min_bytes` to files that only this user may read.

    `prefix` must be unique to the object. `max_bytes` bounds what is written and not yet forgotten; beyond it a tensor is
    declined and goes inline. `take` and `forget` belong to one thread; `write` may run in any. Raises OSError where the folder
    cannot be written to.
    """

    def __init__(
        self, prefix: str, *, min_bytes: int = 64 * 1024, max_bytes: int = 4 * 1024**3, folder: Path = _FOLDER
    ) -> None:
        if not prefix or "/" in prefix or "\0" in prefix:
            raise ValueError(f"{prefix!r} cannot begin a file name")
        self._prefix, self._folder = prefix, folder
        self._min_bytes, self._max_bytes = min_bytes, max_bytes
        self._count = 0
        self._live: dict[str, int] = {}
        self._nbytes = 0
        self._lock = self._locked(folder / f"{prefix}{_LOCK}")

    @staticmethod
    def _locked(file: Path) -> int:
        """A descriptor that holds the lock on `file`. A sweeper may have taken the file away before it was locked, or hold
        it for a moment; the first is tried again, the second is an OSError as any other."""
        while True:
            made = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            _lock(made)
            if os.fstat(made).st_nlink:
                return made
            os.close(made)

    @property
    def nbytes(self) -> int:
        """Bytes in files not yet forgotten."""
        return self._nbytes

    def take(self, tensor: WireTensor) -> SharedTensor | None:
        """A place for `tensor`, to be written; None when it is too small to be worth it or the budget is spent."""
        if tensor.nbytes < self._min_bytes or self._nbytes + tensor.nbytes > self._max_bytes:
            return None
        self._count += 1
        name = f"{self._prefix}-{self._count}"
        self._live[name] = tensor.nbytes
        self._nbytes += tensor.nbytes
        return SharedTensor(name, 0, tensor.nbytes, tensor.shape, tensor.dtype)

    def write(self, shared: SharedTensor, tensor: WireTensor) -> None:
        """Write `tensor` to the place that was taken for it. Raises OSError where there is no room, or when it was closed."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        path = self._folder / shared.name
        with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as file:
            if self._lock < 0:  # closed meanwhile, by another thread: nobody would sweep this
                path.unlink(missing_ok=True)
                raise OSError(errno.ESHUTDOWN, "the shared memory was closed")
            rest = tensor.data.cast("B")
            while rest.nbytes:
                rest = rest[file.write(rest) :]

    def share(self, tensor: WireTensor) -> SharedTensor | None:
        """`take` and `write`."""
        shared = self.take(tensor)
        if shared is not None:
            try:
                self.write(shared, tensor)
            except OSError:
                self._nbytes -= self._live.pop(shared.name)
                raise
        return shared

    def forget(self, shared: SharedTensor) -> None:
        """The request is over: remove the file if the engine has not. May be called again."""
        self._nbytes -= self._live.pop(shared.name, 0)
        (self._folder / shared.name).unlink(missing_ok=True)

    def sweep(self) -> int:
        """Remove every file of this prefix; how many there were."""
        left = sorted(self._folder.glob(f"{self._prefix}-*"))
        for path in left:
            path.unlink(missing_ok=True)
        self._live.clear()
        self._nbytes = 0
        return len(left)

    def close(self) -> None:
        """Remove everything, and let go of the lock. What is still being written goes too, and nothing is shared afterwards."""
        lock, self._lock = self._lock, -1
        self.sweep()
        (self._folder / f"{self._prefix}{_LOCK}").unlink(missing_ok=True)
        if lock >= 0:
            os.close(lock)

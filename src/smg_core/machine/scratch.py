"""A gateway's temporary folder, for unpacked tokenizers and sockets of embedded engines (edge).

It is removed when the gateway stops. A folder whose process was killed is removed when the next gateway of the same user
starts: a process holds a lock on its folder as long as it lives. On systems without such locks nothing is swept.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from itertools import islice
from pathlib import Path

__all__ = ["Scratch", "sweep"]

PREFIX = "smg-run-"
LOCK = ".lock"
SWEPT_AT_ONCE = 1000  # folders that one start looks at


class Scratch:
    """`path` is the folder; `parent`, what it lies in, is the system's temporary folder unless it is said. Raises OSError where
    it cannot be made."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent or Path(tempfile.gettempdir())
        sweep(self._parent)
        self.path, self._lock = self._made()

    def _made(self) -> tuple[Path, int | None]:
        """A new folder, and the descriptor that holds its lock. It is made again if another process swept it before the lock."""
        while True:
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self._parent))
            if sys.platform == "win32":
                return path, None
            lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(BlockingIOError):
                _hold(lock)
                if os.fstat(lock).st_nlink:
                    return path, lock
            os.close(lock)

    def close(self) -> None:
        """Remove the folder with all that is in it. Closing it again does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def sweep(parent: Path) -> int:
    """Remove the folders below `parent` whose processes are gone, and return how many there were. Those of other users stay."""
    if sys.platform == "win32":
        return 0
    removed = 0
    for file in islice(parent.glob(f"{PREFIX}*/{LOCK}"), SWEPT_AT_ONCE):
        with contextlib.suppress(OSError):  # its process lives, it is another user's, or it has gone meanwhile
            lock = os.open(file, os.O_RDWR | os.O_NOFOLLOW)
            try:
                _hold(lock)
                shutil.rmtree(file.parent)
                removed += 1
            finally:
                os.close(lock)
    return removed


def _hold(lock: int) -> None:
    """Lock the descriptor. Raises BlockingIOError where another process holds the lock."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

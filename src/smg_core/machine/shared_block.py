"""A block of memory shared by processes, with a lock released when its holder ends (edge).

It is a file without a name: no page of it exists before something is written there, and it is gone with the last process that has
it. Above: processes.telemetry makes it. Below: the lock.
"""

import mmap
import os
import tempfile
from collections.abc import Callable
from typing import Any

from smg_core.machine.process_lock import FileLock

__all__ = ["SharedBlock"]


class SharedBlock:
    """So many bytes, all zero at first. It can be handed to processes when they are started."""

    def __init__(self, file: int, size: int) -> None:
        self._file, self._size = file, size
        self._memory = mmap.mmap(file, size)
        self.lock = FileLock(os.dup(file))

    @classmethod
    def made(cls, size: int) -> "SharedBlock":
        """A new one. Raises OSError where no file can be made."""
        if hasattr(os, "memfd_create"):
            file = os.memfd_create("smg-block")
        else:
            with tempfile.TemporaryFile() as made:
                file = os.dup(made.fileno())
        os.ftruncate(file, size)
        return cls(file, size)

    def cells(self) -> memoryview:
        """The memory as whole numbers of 64 bits."""
        return memoryview(self._memory).cast("q")

    def __reduce__(self) -> tuple[Callable[..., "SharedBlock"], tuple[object, int]]:
        from multiprocessing.reduction import DupFd

        return _passed, (DupFd(self._file), self._size)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)


def _passed(file: Any, size: int) -> SharedBlock:
    """The block in a process that it was handed to."""
    return SharedBlock(file.detach(), size)

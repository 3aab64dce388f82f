"""A lock between the processes of a gateway, released when its holder ends in any way (edge).

A lock in shared memory stays locked when the process that holds it is killed; one on a file does not. Above: processes.supervisor
makes it, server.processes uses it. Below: nothing.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from multiprocessing import get_context
from types import TracebackType
from typing import Any

__all__ = ["FileLock", "process_lock"]


def process_lock() -> AbstractContextManager[object]:
    """A new lock, which can be handed to processes when they are started. On Windows it stays locked if a process is ended by
    force while it holds it. Raises OSError where no file can be made."""
    if sys.platform == "win32":
        return get_context("spawn").Lock()
    return FileLock(_file())


def _file() -> int:
    """A file that is gone when the last process that has it open is."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("smg-lock")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class FileLock:
    """A lock on an open file, between processes and not between the threads of one. Whoever waits for it blocks, so it is held
    for short work only."""

    def __init__(self, file: int) -> None:
        import fcntl  # not on every system

        self._file = file
        self._take: Callable[[], object] = partial(fcntl.lockf, file, fcntl.LOCK_EX)
        self._give_back: Callable[[], object] = partial(fcntl.lockf, file, fcntl.LOCK_UN)

    def __reduce__(self) -> tuple[Callable[..., "FileLock"], tuple[object]]:
        from multiprocessing.reduction import DupFd

        return _passed, (DupFd(self._file),)

    def __enter__(self) -> None:
        self._take()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    def __del__(self) -> None:
        os.close(self._file)


def _passed(file: Any) -> FileLock:
    """The lock in a process that it was handed to."""
    return FileLock(file.detach())

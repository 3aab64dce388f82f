"""Leaves room on a disk for what has to be written to delete something: without it a full disk could not be cleared (edge).

Above: what keeps large things in files. Below: the file system.
"""

import errno
import os
import shutil
from pathlib import Path

__all__ = ["check_disk_room"]

_SPARE = 4 * 1024 * 1024  # bytes


def check_disk_room(path: Path, more: int) -> None:
    """Raise OSError where less than the spare room would be left on the disk of `path` with so many bytes more."""
    if shutil.disk_usage(path).free - more < _SPARE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

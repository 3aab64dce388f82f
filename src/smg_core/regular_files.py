"""Reads a file of the operator that has an end (edge).

A pipe has none before its writer leaves, and a device may have none at all: whoever reads one waits for ever. Above: rooms that
read what the settings name. Below: nothing.
"""

import os
import stat
from pathlib import Path

__all__ = ["TooLong", "read_regular"]


class TooLong(ValueError):
    """A file with more bytes than its reader takes."""


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of the file at `path`, at most `most`. Raises OSError, TooLong for more bytes, and ValueError for what is no
    regular file."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is no regular file")
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLong(f"{path} has more than {most} bytes")
    return data

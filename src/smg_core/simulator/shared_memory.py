"""Tensors that a gateway on this host left in shared memory, read as engines' servicers read them (edge).

A name is a plain file name below /dev/shm; what it names must be a regular file, and is removed once it was read. Above:
simulator.server. It knows no message.
"""

import os
import stat
from pathlib import Path

from smg_core.simulator.refusal import Refused

__all__ = ["namespace", "read_shared"]

FOLDER = Path("/dev/shm")  # noqa: S108 - the engines' protocol names this place
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def namespace() -> str:
    """`<boot id>:<device>` of the shared memory this process sees; "" where there is none."""
    try:
        return f"{_BOOT.read_text().strip()}:{FOLDER.stat().st_dev}"
    except OSError:
        return ""


def read_shared(name: str, offset: int, nbytes: int) -> bytes:
    """`nbytes` from `offset` of the file called `name`, which is then gone. Raises Refused where that cannot be."""
    plain = name.lstrip("/")
    if not plain or "/" in plain or plain in (".", "..") or "\0" in plain:
        raise Refused(f"Invalid TensorData.shm name: {name!r}")
    try:
        found = os.open(FOLDER / plain, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(f"TensorData.shm cannot be read: {name!r}: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise Refused(f"TensorData.shm is not a regular file: {name!r}")
        data = os.pread(found, nbytes, offset)
    finally:
        os.close(found)
    (FOLDER / plain).unlink(missing_ok=True)
    if len(data) != nbytes:
        raise Refused(f"TensorData.shm has {len(data)} bytes, not {nbytes}: {name!r}")
    return data

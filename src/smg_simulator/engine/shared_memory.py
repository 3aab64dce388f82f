"""Reads tensors that a gateway on this host left in shared memory, as engines' servicers do (edge).

A name is a plain file name below /dev/shm; it must name a regular file, which is removed when it was read. Above:
server.grpc_server.
"""

import os
import stat
from pathlib import Path

from smg_simulator.engine.refusal import Refused

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
    """Read `nbytes` from `offset` of the file called `name`, and remove it. Raises Refused for a bad name, another kind of
    file, and too few bytes."""
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

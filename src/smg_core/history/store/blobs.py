"""The store of the contents of files: the interface that the gateway's folder has, and another store may have.

Pure. Above: the place of files, and programs that bring a store of their own. Below: nothing of the gateway.
"""

from collections.abc import AsyncIterator
from typing import Protocol

import attrs

__all__ = ["BlobStore", "WrittenBlob"]


@attrs.frozen
class WrittenBlob:
    """A blob as a list has it: `written_at` is when its last byte was written, in seconds since the epoch."""

    name: str
    written_at: float


class BlobStore(Protocol):
    """Keeps blobs. Names have lower-case letters, digits, "-" and "." only. All methods raise `files.blobs.FilesFailed` where
    the store does."""

    async def write(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        """Keep the bytes of `pieces` as `name`: all of them are there when this returns, and none where it fails."""
        ...

    def read(self, name: str) -> AsyncIterator[bytes]:
        """The bytes, some at a time. Raises `files.blobs.ContentsGone`, also where it is deleted meanwhile."""
        ...

    async def size(self, name: str) -> int | None:
        """How many bytes the blob has; None where there is no such blob."""
        ...

    async def delete(self, name: str) -> None:
        """Forget the blob, if there is one."""
        ...

    def names(self) -> AsyncIterator[WrittenBlob]:
        """All blobs, in any order. What was left half written is no blob; the store itself forgets it after `grace` seconds."""
        ...

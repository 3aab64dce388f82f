"""The names of contents, what a record says of them, and what can be wrong with them.

A blob is a row of bytes with a name. It is written whole and never changed. Pure. Above: the kept files, the sweep. Below:
errors.
"""

import re
from typing import Literal

import attrs
from msgspec import Struct

from smg_core.errors import NotFound, StoreFailed

__all__ = ["Blob", "BlobName", "ContentsGone", "FilesFailed"]


class ContentsGone(NotFound):
    """The contents of a file are not there any more: it was deleted, has expired, or the store had no room for it."""

    def __init__(self) -> None:
        super().__init__("The contents of this file are not kept any more.")


class FilesFailed(StoreFailed):
    """The contents of files cannot be read or written, or there is no room for more of them."""

    openai_code = "file_store_unavailable"

    def __init__(self, reason: Literal["full", "failed"], detail: str, message: str = "") -> None:
        super().__init__(reason, detail)
        usual = "There is no room for this file at the moment." if reason == "full" else _FAILED
        self.message = message or usual


_FAILED = "The contents of files cannot be read or written at the moment."


class Blob(Struct, frozen=True, omit_defaults=True):
    """What a record says of one blob: its name, how many bytes its contents have, and whether they are `sealed` (encrypted)."""

    name: str
    bytes: int
    sealed: bool = False


_NAME = re.compile(r"([0-9a-f]{32})\.([a-z0-9-]{1,64})\.([0-9a-f]{16})")
_OWNER = re.compile(r"([0-9a-f]{32})\.tenant")


@attrs.frozen
class BlobName:
    """The parts of a blob's name: a hash of its `tenant`, the `key` of the file that it belongs to, and random digits, so that a
    file of the same key gets other blobs."""

    tenant: str
    key: str
    random: str

    def __str__(self) -> str:
        return f"{self.tenant}.{self.key}.{self.random}"

    @classmethod
    def read(cls, name: str) -> "BlobName | None":
        """The parts of `name`; None where it is no contents' name."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(*found.groups())

    @property
    def owner(self) -> str:
        """The name of the blob that tells whose the contents are."""
        return f"{self.tenant}.tenant"

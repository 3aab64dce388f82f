"""Containers and their files, as they are kept and listed. Pure. Above: everything of the room. Below: nothing of the gateway."""

import attrs
import msgspec

__all__ = ["FILES_FOLDER", "CodeContainer", "ContainerFile", "FoundFile"]

FILES_FOLDER = "/mnt/data"
"""The folder of a container's files, as its code sees it."""


@attrs.frozen
class FoundFile:
    """A file of a container: its path below the folder, its size, and when it was changed last."""

    path: str
    bytes: int
    changed_at: float


class CodeContainer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A container: who made it, how many minutes after its last use it is removed, and the paths of what clients have put into
    it."""

    id: str
    name: str
    created_at: float
    minutes: float
    principal: str = ""
    given: tuple[str, ...] = ()
    used_at: float = 0.0


@attrs.frozen
class ContainerFile:
    """A file of a container; `given` by a client, else made by code."""

    id: str
    container: str
    file: FoundFile
    given: bool

    @property
    def path(self) -> str:
        """The path as the code sees it."""
        return f"{FILES_FOLDER}/{self.file.path}"

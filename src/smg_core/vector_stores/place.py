"""The files of the indexes of vector stores: a folder for each tenant, in a folder of this machine (edge).

All processes that share the history share the folder, since the history is a file of this machine, or in this process's memory.
Beside a history in PostgreSQL indexes are in that. One in Oracle or Redis may have gateways on other machines, which would find
no index: there stores are refused, by name. So they are where the history is sealed, since an index of words cannot be. Above:
`work`, `index_folder`. Below: the settings, the file system.
"""

import hashlib
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from smg_core.errors import NotImplementedHere
from smg_core.history.sql.sqlite_file import file_of
from smg_core.machine.scratch import Scratch
from smg_core.retrieval.indexes import IndexFailed, IndexName
from smg_core.serving.services import Services

__all__ = ["IndexPlace", "check_stores", "why_no_stores"]

_TENANT, _MARK = ".tenant", ".folder-id"
_NAME = re.compile(r"(vs_[A-Za-z0-9_-]{1,100})\.index")


def why_no_stores(services: Services) -> str:
    """Why there can be no vector stores here; "" where there can be."""
    config = services.live.config
    return config.vector_stores.why_not(config.history.url or "memory:", sealed=bool(config.history.keys))


def check_stores(services: Services) -> None:
    """Raise NotImplementedHere where there can be no vector stores."""
    if why := why_no_stores(services):
        raise NotImplementedHere(f"{why[0].upper()}{why[1:]}.")


class IndexPlace:
    """The folder of one gateway. Its methods wait for the disk and are called in threads, after `check_stores`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._scratch: Scratch | None = None
        self._making = threading.Lock()
        self._mark = ""

    @property
    def named(self) -> Path | None:
        """The folder that the settings name; None where it is one of this process alone."""
        config = self._services.live.config
        if config.vector_stores.folder is not None:
            return Path(config.vector_stores.folder)
        file = file_of(config.history.url or "memory:")
        return None if file is None else Path(f"{file}.search")

    def root(self) -> Path:
        """The folder. Raises IndexFailed."""
        named = self.named
        if named is not None:
            return named
        with (
            self._making
        ):  # a sweep and the first file come together, and an index in a folder of its own would be lost
            if self._scratch is None:
                try:
                    self._scratch = Scratch()
                except OSError as error:
                    raise IndexFailed("failed", f"the folder of vector stores: {error}") from error
            return self._scratch.path

    def path(self, of: IndexName) -> Path:
        """The file of an index."""
        return self.root() / hashlib.sha256(of.tenant.encode()).hexdigest()[:32] / f"{of.store}.index"

    def made(self, of: IndexName) -> Path:
        """The same; its folder is there then, with the tenant's name."""
        path = self.path(of)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = path.parent / _TENANT
            if not owner.exists():
                new = path.parent / f"{_TENANT}.{secrets.token_hex(8)}"
                new.write_text(of.tenant, encoding="utf-8")
                new.replace(owner)
        except OSError as error:
            raise IndexFailed("failed", f"{path.parent}: {error}") from error
        return path

    def mark(self) -> str:
        """The name of the folder, which the first process that asks gives: a store that another folder has is told by it."""
        if not self._mark:
            try:
                root = self.root()
                root.mkdir(mode=0o700, parents=True, exist_ok=True)
                mark, new = root / _MARK, root / f"{_MARK}.{secrets.token_hex(8)}"
                if not mark.exists():
                    new.write_text(secrets.token_hex(16), encoding="utf-8")
                    with suppress(FileExistsError):
                        mark.hardlink_to(new)
                    new.unlink()
                self._mark = mark.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise IndexFailed("failed", f"the folder of vector stores: {error}") from error
        return self._mark

    def names(self) -> Iterator[IndexName]:
        """The indexes that are there."""
        root = self.root()
        for folder in sorted(root.iterdir()) if root.is_dir() else ():
            try:
                tenant = (folder / _TENANT).read_text(encoding="utf-8")
            except OSError:  # no folder of a tenant
                continue
            for each in sorted(folder.iterdir()):
                if (found := _NAME.fullmatch(each.name)) is not None:
                    yield IndexName(tenant, found[1])

    def close(self) -> None:
        """Remove a folder that is of this process alone."""
        if self._scratch is not None:
            self._scratch.close()
        self._scratch, self._mark = None, ""

"""The containers of tenants: each a folder, which all processes of a gateway see (edge).

Below a folder for each tenant lies one for each container: `about.json`, the files in `data`, and what the interpreter has
(`interpreter.running`). When a container was used last is the time of `about.json`. Who adds one holds a lock of the tenant's
folder, so that the bound of containers is exact. Above: handlers, and what runs code for requests. Below: `contents`, the
interpreters.
"""

import asyncio
import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from weakref import WeakValueDictionary

import attrs
import msgspec

from smg_core.clock import Clock
from smg_core.containers.contents import (
    HasBytes,
    container_file_id,
    files_in,
    opened_file,
    put_file,
    remove_file,
    removed_tree,
    restore_files,
    safe_name,
)
from smg_core.containers.interpreter.running import Interpreters, RanCode
from smg_core.containers.records import CodeContainer, ContainerFile, FoundFile
from smg_core.containers.settings import ContainersConfig
from smg_core.errors import InvalidRequest, NotFound, RateLimited
from smg_core.files.folder import store_failures
from smg_core.request import Caller

__all__ = ["CodeRun", "Containers"]

_ID = re.compile(r"cntr_[0-9a-f]{16,64}\Z")
_ABOUT, _DATA = "about.json", "data"
_WHERE = "containers.folder"
_SWEEP_S = 60.0
_FILES = 1000  # files of a container that clients may have put there


@attrs.frozen
class CodeRun:
    """What came of a call: what the interpreter says, and the files that the code has made or changed."""

    ran: RanCode
    files: tuple[ContainerFile, ...] = ()


class Containers:
    """The containers of one gateway. `ids` makes the random part of an id."""

    def __init__(self, config: ContainersConfig, interpreters: Interpreters, clock: Clock) -> None:
        self._config, self._interpreters, self._clock = config, interpreters, clock
        self._root = _root(config.folder)
        self._calls: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # -------------------------------------------------------------------------------------------------------- containers

    async def create(self, caller: Caller, id: str, name: str, minutes: float | None = None) -> CodeContainer:
        """Make a container. Raises RateLimited where the tenant has as many as it may."""
        longest = self._config.idle_s / 60
        made = CodeContainer(
            id, name, self._clock.time(), longest if minutes is None else min(minutes, longest), caller.principal
        )
        await asyncio.to_thread(self._made, caller.tenant, made)
        return _used(made, made.created_at)

    async def find(self, caller: Caller, id: str, param: str = "container_id") -> CodeContainer:
        """The container of this id. Raises NotFound, also for one that has expired."""
        found = await asyncio.to_thread(self._found, caller.tenant, id)
        if found is None:
            raise NotFound(f"No such container, or it has expired: '{id[:100]}'.", param=param)
        return found

    async def all_of(self, caller: Caller) -> list[CodeContainer]:
        """The tenant's containers, the newest first."""
        return await asyncio.to_thread(self._all, caller.tenant)

    async def delete(self, caller: Caller, id: str) -> None:
        """Remove a container with its files. Raises NotFound."""
        found = await self.find(caller, id)
        folder = self._folder(caller.tenant, found.id)
        await self._interpreters.end(folder)
        await asyncio.to_thread(removed_tree, folder)

    # ------------------------------------------------------------------------------------------------------------- files

    async def files(self, caller: Caller, id: str) -> list[ContainerFile]:
        """The files of a container, the newest first. Raises NotFound."""
        container = await self.find(caller, id)
        found = await asyncio.to_thread(files_in, self._data(caller, container))
        listed = [_file(container, each) for each in found.values()]
        return sorted(listed, key=lambda each: (-each.file.changed_at, each.id))

    async def file(self, caller: Caller, id: str, file: str) -> ContainerFile:
        """One file of a container. Raises NotFound."""
        for each in await self.files(caller, id):
            if each.id == file:
                return each
        raise NotFound(f"No such file in this container: '{file[:100]}'.", param="file_id")

    async def put(self, caller: Caller, id: str, name: str, source: HasBytes, size: int) -> ContainerFile:
        """Put a file into a container. Raises NotFound, and InvalidRequest where there is no room."""
        container, name = await self.find(caller, id), safe_name(name)
        data = self._data(caller, container)
        there = await asyncio.to_thread(files_in, data)
        if sum(each.bytes for each in there.values()) + size > self._config.file_bytes or len(there) >= _FILES:
            raise InvalidRequest(
                f"The files of a container may be {_FILES}, with {self._config.file_bytes:,} bytes together.",
                param="file",
                code="container_full",
            )
        with store_failures(_WHERE):
            found = await asyncio.to_thread(put_file, data, name, source)
        if name not in container.given:
            container = msgspec.structs.replace(container, given=(*container.given, name))
        await asyncio.to_thread(self._write, caller.tenant, container)
        return _file(container, found)

    async def read(self, caller: Caller, file: ContainerFile) -> BinaryIO:
        """The contents of a file. Raises NotFound where it has gone."""
        try:
            return await asyncio.to_thread(
                opened_file, self._folder(caller.tenant, file.container) / _DATA, file.file.path
            )
        except OSError:
            raise NotFound(f"No such file in this container: '{file.id}'.", param="file_id") from None

    async def remove(self, caller: Caller, file: ContainerFile) -> None:
        """Remove a file."""
        with contextlib.suppress(FileNotFoundError), store_failures(_WHERE):
            await asyncio.to_thread(remove_file, self._folder(caller.tenant, file.container) / _DATA, file.file.path)

    # -------------------------------------------------------------------------------------------------------------- code

    async def run(self, caller: Caller, id: str, code: str) -> CodeRun:
        """Run code in a container. Raises NotFound, Overloaded and ToolServerFailed."""
        container = await self.find(caller, id)
        data = self._data(caller, container)
        async with self._calls.setdefault(id, asyncio.Lock()):
            before = await asyncio.to_thread(files_in, data)
            await asyncio.to_thread(self._write, caller.tenant, container)
            ran = await self._interpreters.run(data.parent, code)
            if ran.stopped == "files":
                await asyncio.to_thread(restore_files, data, before)
            after = await asyncio.to_thread(files_in, data)
        made = [_file(container, each) for path, each in sorted(after.items()) if before.get(path) != each]
        return CodeRun(ran, tuple(made))

    # ----------------------------------------------------------------------------------------------------------- sweeping

    async def sweep(self) -> None:
        """Remove containers that have expired, at intervals, until this is cancelled; then end the interpreters."""
        try:
            while True:
                await asyncio.to_thread(self._swept)
                await asyncio.sleep(_SWEEP_S)
        finally:
            await self._interpreters.close()

    def _swept(self) -> None:
        if not self._root.is_dir():
            return
        for tenant in list(self._root.iterdir()):
            for folder in list(tenant.glob("cntr_*")):
                if self._read(folder) is None:
                    removed_tree(folder)
            with contextlib.suppress(OSError):
                tenant.rmdir()

    # ------------------------------------------------------------------------------------------------------- what blocks

    def _folder(self, tenant: str, id: str) -> Path:
        return self._root / hashlib.sha256(tenant.encode()).hexdigest()[:16] / id

    def _data(self, caller: Caller, container: CodeContainer) -> Path:
        return self._folder(caller.tenant, container.id) / _DATA

    def _made(self, tenant: str, container: CodeContainer) -> None:
        folder = self._folder(tenant, container.id)
        with store_failures(_WHERE), _alone(folder.parent):
            if len(self._all(tenant)) >= self._config.tenant:
                raise RateLimited(
                    f"There may be {self._config.tenant:,} containers at the same time; delete some.", param="container"
                )
            (folder / _DATA).mkdir(mode=0o700, parents=True)
            self._write(tenant, container)

    def _write(self, tenant: str, container: CodeContainer) -> None:
        """Keep what is known of a container, which counts as used now."""
        about = self._folder(tenant, container.id) / _ABOUT
        now = self._clock.time()
        new = about.with_name(f"{_ABOUT}.{os.urandom(8).hex()}")
        with store_failures(_WHERE):
            new.write_bytes(msgspec.json.encode(container))
            os.utime(new, (now, now))
            new.replace(about)

    def _read(self, folder: Path) -> CodeContainer | None:
        """What is known of the container in a folder; None where it has expired, or is none."""
        try:
            used = (folder / _ABOUT).stat().st_mtime
            found = msgspec.json.decode((folder / _ABOUT).read_bytes(), type=CodeContainer)
        except (OSError, msgspec.DecodeError):
            return None
        return None if self._clock.time() >= used + found.minutes * 60 else _used(found, used)

    def _found(self, tenant: str, id: str) -> CodeContainer | None:
        return self._read(self._folder(tenant, id)) if _ID.match(id) else None

    def _all(self, tenant: str) -> list[CodeContainer]:
        folders = self._folder(tenant, "x").parent.glob("cntr_*")
        found = [each for folder in folders if (each := self._read(folder)) is not None]
        return sorted(found, key=lambda each: (-each.created_at, each.id))


def _used(container: CodeContainer, used_at: float) -> CodeContainer:
    """The container as it is when it was used last at this time."""
    return msgspec.structs.replace(container, used_at=used_at)


def _file(container: CodeContainer, found: FoundFile) -> ContainerFile:
    return ContainerFile(
        container_file_id(container.id, found.path), container.id, found, found.path in container.given
    )


def _root(folder: str | None) -> Path:
    """The folder of all containers, which is of this user alone."""
    if folder is not None:
        return Path(folder).expanduser()
    return Path(tempfile.gettempdir()) / f"smg-containers-{os.getuid()}"


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a tenant's folder, which is made where it is not there. Raises OSError."""
    import fcntl

    root = folder.parent
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = root.lstat()
    if about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise PermissionError(1, "others may write there", str(root))
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(root / f"{folder.name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)

"""The place of the contents of files of one gateway: a folder for each history, opened when it is first needed (edge).

Below the folder of the settings each history has one of its own, so that a sweep of one never sees contents of another. In it
lies a file with the folder's name, which every record of a file has too: a gateway that shares the history and not the folder
says so. Contents are sealed by the keys of the history, where it has some. Above: `work`. Below: `folder`, the history.
"""

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import attrs
import msgspec

from smg_core.files.blobs import Blob, BlobName, ContentsGone, FilesFailed
from smg_core.files.folder import FolderBlobs, store_failures
from smg_core.history.sql.sqlite_file import file_of
from smg_core.history.store.base import KEYS_OWNER, PutRecord, StaleVersion, Store, StoredRecord
from smg_core.history.store.blobs import BlobStore, WrittenBlob
from smg_core.machine.scratch import Scratch
from smg_core.serving.services import Services

__all__ = ["ContentsElsewhere", "FilePlace", "Opened"]

_KIND, _ID = "file_place", "files"
_CENTURY = 36_500 * 86400.0
_MARK, _GIVEN = "folder-id", "given"
_HEAD = 4  # bytes that say how long a sealed piece is
_LONGEST = 1 << 24  # bytes of a sealed piece
_ELSEWHERE = "The contents of this file lie in the folder of another gateway, which this one does not share."


class ContentsElsewhere(FilesFailed):
    """The file was kept by a gateway that shares the history, and not the folder."""

    openai_code = "file_elsewhere"

    def __init__(self) -> None:
        detail = "files.folder: this file lies in the folder of another gateway"
        super().__init__("failed", detail, _ELSEWHERE)


@attrs.frozen(eq=False)
class Opened:
    """The open place: its `blobs`, the name of its `folder`, and the `cipher` of contents, None where they are kept as they
    are."""

    blobs: BlobStore
    folder: str
    cipher: "_Cipher | None"

    async def write(self, tenant: str, key: str, pieces: AsyncIterator[bytes], size: int) -> Blob:
        """Keep `size` bytes of a file of this key."""
        name = BlobName(_hash(tenant), key, secrets.token_hex(8))
        if await self.blobs.size(name.owner) is None:
            await self.blobs.write(name.owner, _one(tenant.encode() or b"\0"))
        text = str(name)
        if self.cipher is not None:
            pieces = self.cipher.sealed(text, pieces)
        await self.blobs.write(text, pieces)
        return Blob(text, size, self.cipher is not None)

    async def read(self, blobs: tuple[Blob, ...], folder: str) -> AsyncIterator[bytes]:
        """The contents that lie in `blobs` one behind the other. Raises ContentsGone, ContentsElsewhere and FilesFailed."""
        if folder != self.folder:
            raise ContentsElsewhere
        for each in blobs:
            pieces, size = self.blobs.read(each.name), 0
            if each.sealed:
                if self.cipher is None:
                    raise FilesFailed("failed", "history.keys: the key of a file is missing")
                pieces = self.cipher.opened(each.name, pieces)
            async for piece in pieces:
                size += len(piece)
                yield piece
            if size != each.bytes:
                raise ContentsGone

    async def tenant_of(self, name: BlobName) -> str | None:
        """Whose a blob is; None where that is not known."""
        try:
            owner = b"".join([piece async for piece in self.blobs.read(name.owner)])
        except ContentsGone:
            return None
        tenant = "" if owner == b"\0" else owner.decode(errors="replace")
        return tenant if _hash(tenant) == name.tenant else None


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _hash(tenant: str) -> str:
    return hashlib.sha256(tenant.encode()).hexdigest()[:32]


class _Cipher:
    """Seals the pieces of contents one by one; each is bound to its blob and its place in it."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        from smg_core.history.sealing import Cipher

        self._cipher = Cipher(keys, os.urandom)

    async def sealed(self, name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        number = 0
        async for piece in pieces:
            for at in range(0, len(piece), _LONGEST // 2):
                text = self._cipher.seal(f"{name}/{number}", piece[at : at + _LONGEST // 2])
                number += 1
                yield len(text).to_bytes(_HEAD, "big") + text

    async def opened(self, name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        number, held = 0, bytearray()
        async for piece in pieces:
            held += piece
            while len(held) >= _HEAD and len(held) >= (end := _HEAD + int.from_bytes(held[:_HEAD], "big")):
                yield self._cipher.open(f"{name}/{number}", bytes(held[_HEAD:end]))
                del held[:end]
                number += 1
            if len(held) > _LONGEST:
                raise FilesFailed("failed", f"what is kept at {name!r} was changed or moved")


class _Within:
    """The blobs of one history in a store that others may use too: their names begin with that of the history."""

    def __init__(self, blobs: BlobStore, history: str) -> None:
        self._blobs, self._prefix = blobs, f"{history}."

    async def write(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        await self._blobs.write(self._prefix + name, pieces)

    def read(self, name: str) -> AsyncIterator[bytes]:
        return self._blobs.read(self._prefix + name)

    async def size(self, name: str) -> int | None:
        return await self._blobs.size(self._prefix + name)

    async def delete(self, name: str) -> None:
        await self._blobs.delete(self._prefix + name)

    async def names(self) -> AsyncIterator[WrittenBlob]:
        async for each in self._blobs.names():
            if each.name.startswith(self._prefix):
                yield attrs.evolve(each, name=each.name.removeprefix(self._prefix))


class FilePlace:
    """The place of one gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._opening: asyncio.Lock = asyncio.Lock()
        self._opened: Opened | None = None
        self._scratch: Scratch | None = None

    async def opened(self) -> Opened:
        """The place; it is opened when this is first called. Raises FilesFailed where there can be none."""
        async with self._opening:
            if self._opened is None:
                self._opened = await self._open()
            return self._opened

    async def _open(self) -> Opened:
        services, config = self._services, self._services.live.config
        history = await _history_id(services.running.history, services.clock.time())
        blobs: BlobStore
        if services.running.blobs is not None:
            blobs, folder = _Within(services.running.blobs, history), _GIVEN
        else:
            parent = await asyncio.to_thread(self._folder)
            blobs = FolderBlobs(parent / history, now=services.clock.time, grace_s=config.files.grace_s)
            folder = await asyncio.to_thread(_marked, blobs.root)
        cipher = await asyncio.to_thread(_Cipher, config.history.keys) if config.history.keys else None
        return Opened(blobs, folder, cipher)

    def _folder(self) -> Path:
        config = self._services.live.config
        if config.files.folder is not None:
            return Path(config.files.folder)
        url = config.history.url or "memory:"
        file = file_of(url)
        if file is not None:
            return Path(f"{file}.files")
        if url.startswith("memory:") or url.rstrip("/") == "sqlite:" or url == "sqlite:///:memory:":
            with store_failures():
                self._scratch = Scratch()
            return self._scratch.path
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        return state / "smg-gateway" / "files"

    @property
    def may_hold(self) -> bool:
        """Whether there may be contents to sweep: the place is open, or its folder is there."""
        config = self._services.live.config
        file = file_of(config.history.url or "memory:")
        named = config.files.folder or (f"{file}.files" if file is not None else None)
        if self._opened is not None or self._services.running.blobs is not None:
            return True
        return named is not None and Path(named).is_dir()

    async def close(self) -> None:
        """Remove a folder that is of this process alone."""
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.close)
        self._scratch = self._opened = None


async def _history_id(history: Store, now: float) -> str:
    """The name of a history, which the first gateway that asks for it gives."""
    body = msgspec.json.encode({"name": secrets.token_hex(16)})
    record = StoredRecord(kind=_KIND, id=_ID, body=body, created_at=now, expires_at=now + _CENTURY)
    with suppress(StaleVersion):  # it has one
        await history.write(KEYS_OWNER, [PutRecord(record, if_version=0)])
    found = await history.record(KEYS_OWNER, _KIND, _ID)
    name = msgspec.json.decode(found.body, type=dict[str, str]).get("name", "") if found is not None else ""
    if re.fullmatch(r"[0-9a-f]{32}", name) is None:
        raise FilesFailed("failed", "the history has no name for its folder of files")
    return name


def _marked(root: Path) -> str:
    """The name of a folder, which the first process that opens it gives."""
    with store_failures():
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark, new = root / _MARK, root / f"{_MARK}.{secrets.token_hex(8)}"
        if not mark.exists():
            new.write_text(secrets.token_hex(16), encoding="utf-8")
            with suppress(FileExistsError):
                os.link(new, mark)
            new.unlink()
        return mark.read_text(encoding="utf-8").strip()

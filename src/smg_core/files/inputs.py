"""Reads kept files for requests to models, within bounds of size and of memory (edge).

Above: `work`, which the pipeline asks. Below: the kept files.
"""

import asyncio
import weakref
from collections.abc import Sequence

from smg_core.errors import InvalidRequest, NotFound, Overloaded
from smg_core.files.kept import KeptFiles
from smg_core.files.types import KeptFile
from smg_core.pipeline.prompt.kept_files import FileContents, FilesInUse
from smg_core.pipeline.prompt.media import MediaItem
from smg_core.request import Caller
from smg_core.serving.services import Services
from smg_core.wire.documents import is_text_type

__all__ = ["FileInputs"]

_UNKNOWN = "application/octet-stream"


class FileInputs:
    """Reads files. What requests use at the same time counts towards `files.memory_bytes`."""

    def __init__(self, services: Services, kept: KeptFiles) -> None:
        self._services, self._kept = services, kept
        self._held = 0

    async def read(self, caller: Caller, items: Sequence[MediaItem]) -> FilesInUse:
        """The files that `items` name. Raises InvalidRequest naming one that is not there, is too large, or is no text where its
        type says so, and Overloaded."""
        files = await self._found(caller, items)
        size = sum(file.bytes for file, _ in files.values())
        settings = self._services.live.config.files
        if self._held + size > settings.memory_bytes:
            raise Overloaded("The files of requests take as much memory as they may.", retry_after=1.0)
        found = FilesInUse()
        self._held += size
        weakref.finalize(found, self._release, size)
        for id, (file, item) in files.items():
            found.by_id[id] = await self._contents(caller, file, item)
        return found

    def _release(self, size: int) -> None:
        self._held -= size

    async def _found(self, caller: Caller, items: Sequence[MediaItem]) -> dict[str, tuple[KeptFile, MediaItem]]:
        settings, size = self._services.live.config.files, 0
        found: dict[str, tuple[KeptFile, MediaItem]] = {}
        for count, item in enumerate(items):
            id = item.source.file_id or ""
            if count >= settings.request_files:
                raise InvalidRequest(
                    f"The request uses more than {settings.request_files} files.",
                    param=item.param,
                    code="too_many_files",
                )
            file = found[id][0] if id in found else await self._file(caller, item)
            size += file.bytes  # each time that it is used: each is a part of the prompt
            if file.bytes > settings.input_bytes or size > settings.request_bytes:
                most = settings.input_bytes if file.bytes > settings.input_bytes else settings.request_bytes
                whose = "A file" if file.bytes > settings.input_bytes else "All files"
                raise InvalidRequest(
                    f"{whose} that a request uses may have {most:,} bytes.", param=item.param, code="file_too_large"
                )
            found.setdefault(id, (file, item))
        return found

    async def _file(self, caller: Caller, item: MediaItem) -> KeptFile:
        try:
            return await self._kept.find(caller.tenant, item.source.file_id or "")
        except NotFound as error:
            raise InvalidRequest(error.message, param=item.param, code="file_not_found") from None

    async def _contents(self, caller: Caller, file: KeptFile, item: MediaItem) -> FileContents:
        try:
            pieces = [piece async for piece in self._kept.contents(caller.tenant, file)]
        except NotFound as error:  # it was deleted meanwhile
            raise InvalidRequest(error.message, param=item.param, code="file_not_found") from None
        data = await asyncio.to_thread(b"".join, pieces)
        kind = file.media_type or _UNKNOWN
        declared = is_text_type(kind)
        if not declared and kind != _UNKNOWN:
            return FileContents(file.filename, kind, data)
        text = await asyncio.to_thread(_text, data)
        if declared and text is None:
            raise InvalidRequest(
                f"The file in '{item.param}' is of type {kind}, and is no text in UTF-8.",
                param=item.param,
                code="invalid_file_type",
            )
        if text is None and data.startswith(b"%PDF-"):
            kind = "application/pdf"
        return FileContents(file.filename, kind, b"" if text is not None else data, text)


def _text(data: bytes) -> str | None:
    if data.startswith(b"%PDF-") or b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None

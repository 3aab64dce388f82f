"""Files of one gateway, loaded when one is first used (edge): by a request, or by a sweep where there may be contents.

Decides when. Above: `routes`, which has the table of handlers by name, and batches. Below: the handlers and the kept files.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import attrs

from smg_core.errors import SmgError
from smg_core.http.endpoint import Handler
from smg_core.http.exchange import Exchange
from smg_core.request import Caller
from smg_core.serving.services import Services

if TYPE_CHECKING:
    from smg_core.files.inputs import FileInputs
    from smg_core.files.kept import KeptFiles
    from smg_core.files.place import FilePlace
    from smg_core.files.spool import Spools
    from smg_core.pipeline.prompt.kept_files import FilesInUse
    from smg_core.pipeline.prompt.media import MediaItem

__all__ = ["FileRooms", "FileWork"]

log = logging.getLogger("smg.server")

_LOADED = ("openai", "uploads", "messages", "gemini", "sweep", "inputs")


@attrs.frozen(eq=False)
class FileRooms:
    """What there is once files are used: the kept files, the bodies that come, the place of contents, the handlers by name."""

    kept: "KeptFiles"
    spools: "Spools"
    place: "FilePlace"
    inputs: "FileInputs"
    handlers: Mapping[str, Handler]


class FileWork:
    """The files of one gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._rooms: FileRooms | None = None

    @classmethod
    def of(cls, services: Services) -> "FileWork":
        """The one of a gateway."""
        return services.side_tasks.one_of(cls, lambda: cls(services))

    async def run(self) -> None:
        """Sweep at intervals, until this is cancelled; then what is of this process alone is removed."""
        seconds = self._services.live.config.files.sweep_s
        try:
            await self._services.running.history.until_open()
            while True:
                await asyncio.sleep(seconds or 3600.0)
                if seconds:
                    await self._sweep()
        finally:
            if self._rooms is not None:
                await self._rooms.place.close()

    async def _sweep(self) -> None:
        if self._rooms is None and not await asyncio.to_thread(_may_hold, self._services):
            return
        rooms = await self.rooms()
        from smg_core.files.sweep import sweep_contents

        try:
            await sweep_contents(self._services, rooms.place)
        except SmgError as error:
            log.warning("contents that no file has any more stay for now: %s", error)

    def handler(self, name: str) -> Handler:
        """The handler of this name, which is made when it is first called. Requests of Anthropic's and of Google's clients have
        their own at the paths that all share."""
        name = name.partition("_")[0]

        async def answer(exchange: Exchange) -> None:
            handlers = (await self.rooms()).handlers
            own = name
            if "anthropic-version" in exchange.headers:
                own = f"{name} (Messages)"
            elif "x-goog-api-key" in exchange.headers:
                own = f"{name} (Gemini)"
            await handlers.get(own, handlers[name])(exchange)

        return answer

    async def contents(self, caller: Caller, items: "Sequence[MediaItem]") -> "FilesInUse":
        """Read the files that parts of a request to a model name. Raises InvalidRequest."""
        return await (await self.rooms()).inputs.read(caller, items)

    async def rooms(self) -> FileRooms:
        """What there is, made when it is first asked for."""
        if self._rooms is None:
            await asyncio.to_thread(_load)
        if self._rooms is None:  # nobody else has made them meanwhile
            self._rooms = self._make()
        return self._rooms

    def _make(self) -> FileRooms:
        from smg_core.files.gemini import GeminiFileHandlers
        from smg_core.files.inputs import FileInputs
        from smg_core.files.kept import KeptFiles
        from smg_core.files.messages import MessageFileHandlers
        from smg_core.files.openai import FileHandlers
        from smg_core.files.place import FilePlace
        from smg_core.files.receiving import FileReceiver
        from smg_core.files.spool import Spools
        from smg_core.files.uploads import UploadHandlers

        place, spools = FilePlace(self._services), Spools(self._services)
        kept, receiver = KeptFiles(self._services, place), FileReceiver(self._services, spools)
        files, uploads = FileHandlers(receiver, kept), UploadHandlers(receiver, kept)
        messages, gemini = MessageFileHandlers(receiver, kept), GeminiFileHandlers(receiver, kept)
        handlers = {
            "createFile": files.create,
            "listFiles": files.list_page,
            "retrieveFile": files.retrieve,
            "deleteFile": files.delete,
            "downloadFile": files.content,
            "createFile (Messages)": messages.create,
            "listFiles (Messages)": messages.list_page,
            "retrieveFile (Messages)": messages.retrieve,
            "deleteFile (Messages)": messages.delete,
            "downloadFile (Messages)": messages.content,
            "createUpload": uploads.create,
            "addUploadPart": uploads.add_part,
            "completeUpload": uploads.complete,
            "cancelUpload": uploads.cancel,
            "listFiles (Gemini)": gemini.list_page,
            "retrieveFile (Gemini)": gemini.retrieve,
            "deleteFile (Gemini)": gemini.delete,
            "geminiUploadFile": gemini.upload,
            "geminiListFiles": gemini.list_page,
            "geminiGetFile": gemini.retrieve,
            "geminiDeleteFile": gemini.delete,
            "geminiDownloadFile": gemini.content,
        }
        return FileRooms(kept, spools, place, FileInputs(self._services, kept), handlers)


def _may_hold(services: Services) -> bool:
    from smg_core.files.place import FilePlace

    return FilePlace(services).may_hold


def _load() -> None:
    """Load the modules, which takes some 20 ms: not in the event loop."""
    for each in _LOADED:
        import_module(f"smg_core.files.{each}")

"""Containers of one gateway, loaded when one is first used (edge).

Decides when, and whether there are any: only where an interpreter is set. Above: `routes`, the tools that run code. Below: the
handlers and the containers.
"""

import asyncio
import logging
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from smg_core.errors import NotFound, ToolServerFailed
from smg_core.files.work import FileRooms, FileWork
from smg_core.http.endpoint import Handler
from smg_core.http.exchange import Exchange
from smg_core.outside_words import in_log
from smg_core.serving.services import Services
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.containers.code import ContainerCode
    from smg_core.containers.kept import Containers
    from smg_core.files.kept import KeptFiles
    from smg_core.files.receiving import FileReceiver

__all__ = ["ContainerRooms", "ContainerWork"]

log = logging.getLogger("smg.server")


@attrs.frozen(eq=False)
class ContainerRooms:
    """What there is once containers are used: the containers, what receives and keeps files, and the handlers by name."""

    containers: "Containers"
    receiver: "FileReceiver"
    files: "KeptFiles"
    handlers: Mapping[str, Handler]


class ContainerWork:
    """The containers of one gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._rooms: ContainerRooms | None = None

    @classmethod
    def of(cls, services: Services) -> "ContainerWork":
        """The one of a gateway."""
        return services.side_tasks.one_of(cls, lambda: cls(services))

    @property
    def on(self) -> bool:
        """Whether there are containers here."""
        return self._services.live.config.containers.interpreter is not None

    @property
    def code(self) -> "ContainerCode | None":
        """What runs code in containers for tools, where there are any."""
        if not self.on:
            return None
        from smg_core.containers.code import ContainerCode

        return ContainerCode(self._services, self.rooms)

    async def run(self) -> None:
        """Remove containers that have expired, until this is cancelled; then interpreters end."""
        if not self.on:
            return
        try:
            rooms = await self.rooms()
        except ToolServerFailed as error:
            why = in_log(error.detail or "", error.outside_text)
            log.warning("no code is run here: %s", why)
            return
        await rooms.containers.sweep()

    def handler(self, name: str) -> Handler:
        """The handler of this name, which is made when it is first called."""

        async def answer(exchange: Exchange) -> None:
            if not self.on:
                raise NotFound("This gateway has no containers; containers.interpreter makes it have them.")
            await (await self.rooms()).handlers[name](exchange)

        return answer

    async def rooms(self) -> ContainerRooms:
        """What there is, made when it is first asked for. Raises ToolServerFailed where the interpreter is not there."""
        if self._rooms is None:
            files = await FileWork.of(self._services).rooms()
            folder = Path(self._services.live.config.containers.interpreter or "").expanduser()
            try:
                component = await asyncio.to_thread(_load, folder)
            except (ConfigError, ModuleNotFoundError) as error:
                raise ToolServerFailed(
                    "Code cannot be run here.", detail=str(error), outside_text=str(error)
                ) from error
            if self._rooms is None:
                self._rooms = self._made(component, files)
        return self._rooms

    def _made(self, component: Path, files: FileRooms) -> ContainerRooms:
        from smg_core.containers.interpreter.running import InterpreterBounds, Interpreters
        from smg_core.containers.kept import Containers
        from smg_core.containers.openai import ContainerHandlers
        from smg_core.files.receiving import FileReceiver

        config = self._services.live.config.containers
        bounds = InterpreterBounds(config.memory_bytes, config.file_bytes, config.call_s, config.idle_s, config.running)
        containers = Containers(config, Interpreters(component, bounds), self._services.clock)
        receiver = FileReceiver(self._services, files.spools)
        handlers = ContainerHandlers(receiver, files.kept, containers)
        return ContainerRooms(
            containers,
            receiver,
            files.kept,
            {
                "createContainer": handlers.create,
                "listContainers": handlers.list_page,
                "retrieveContainer": handlers.retrieve,
                "deleteContainer": handlers.delete,
                "createContainerFile": handlers.add_file,
                "listContainerFiles": handlers.list_files,
                "retrieveContainerFile": handlers.retrieve_file,
                "deleteContainerFile": handlers.delete_file,
                "downloadContainerFile": handlers.content,
            },
        )


def _load(folder: Path) -> Path:
    """Load the modules, not in the event loop, and find the interpreter. Raises ConfigError."""
    import_module("smg_core.containers.openai")
    from smg_core.containers.interpreter.building import compiled_interpreter

    return compiled_interpreter(folder)

"""The effect of SIGHUP in a process without a supervisor: its settings are read again, and what can change live does (edge).

With a supervisor the processes are replaced instead (`processes.supervisor`). Above: processes.telemetry. Below:
operation.control, machine.service_manager, server.http_server, which takes the signal.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from smg_core.errors import SmgError
from smg_core.machine.service_manager import ManagerNotices
from smg_core.operation.control import Control
from smg_core.server.http_server import HttpServer

__all__ = ["HangingUp", "managed"]

log = logging.getLogger("smg.server")


class HangingUp:
    """Called with each SIGHUP, on the event loop. One that comes while the settings are being read has them read once more."""

    def __init__(self, control: Control, manager: ManagerNotices) -> None:
        self._control = control
        self._manager = manager
        self._asked = False
        self._reading: asyncio.Task[None] | None = None

    def __call__(self) -> None:
        self._asked = True
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="settings after SIGHUP")

    async def _read(self) -> None:
        self._manager.reloading()
        try:
            while self._asked:
                self._asked = False
                await self._once()
        finally:
            self._manager.ready()

    async def _once(self) -> None:
        try:
            done = await self._control.reload()
        except (SmgError, ValueError, LookupError) as error:
            log.critical("the settings stay as they were: %s", error)
            return
        if done.needs_restart:
            log.warning(
                "these settings stay as they are until the gateway is started anew: %s", ", ".join(done.needs_restart)
            )

    async def close(self) -> None:
        """Read nothing more."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)


@contextlib.asynccontextmanager
async def managed(server: HttpServer, control: Control | None) -> AsyncIterator[None]:
    """A context in which `server` takes requests in a process without a supervisor: the manager of services is told so, and
    `control` reads the settings again on SIGHUP."""
    manager = ManagerNotices()
    manager.ready()
    telling = asyncio.create_task(manager.keep_telling(), name="manager of services")
    hanging_up = HangingUp(control, manager) if control is not None else None
    server.on_hangup = hanging_up
    try:
        yield
    finally:
        if hanging_up is not None:
            await hanging_up.close()
        manager.stopping()
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)

"""Serves the admin door beside the public listener, in one process (edge).

With several processes the first one has it. Decides nothing. Above: processes.telemetry. Below: server.second_listener.
"""

import contextlib
import socket
from collections.abc import AsyncIterator

from smg_core.admin.app import AdminApp
from smg_core.admin.metrics.meter import Meter
from smg_core.config.config import Config
from smg_core.gateway.gateway import Gateway
from smg_core.operation.control import Control
from smg_core.operation.process_table import ProcessTable
from smg_core.server.second_listener import background_listener

__all__ = ["administered"]


@contextlib.asynccontextmanager
async def administered(
    gateway: Gateway,
    config: Config,
    listener: socket.socket | None,
    processes: ProcessTable,
    meter: Meter | None = None,
    control: Control | None = None,
) -> AsyncIterator[None]:
    """A context in which the admin door answers at `listener`, if there is one; `meter` has the metrics that it shows,
    `control` changes the gateway."""
    if listener is None:
        yield
        return
    app = AdminApp(gateway, processes, meter, control)
    async with background_listener(gateway, config, listener, app, "admin door", plain=not config.admin.tls):
        yield

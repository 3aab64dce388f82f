"""How a worker's engine is reached: from its URL and settings to a client that speaks to it (edge).

Which door a URL means is its scheme's: gRPC for engines that take ids, HTTP for engines that speak chat. A gRPC engine whose
dialect is not said is asked in each, in the order of the table. Above: server.runtime hands `connect` to the monitor. Below:
engines.
"""

from smg_core.config import WorkersConfig
from smg_core.engines.base import Engine, Transport
from smg_core.engines.client import EngineClient
from smg_core.engines.dialects import dialect, dialects
from smg_core.engines.h2.frames import Limits
from smg_core.engines.target import Target, Tls, door
from smg_core.errors import SmgError, WorkerGone
from smg_core.workers.worker import Worker, WorkerSpec

__all__ = ["Reaching", "check_url"]

_AHEAD = Limits(stream_window=128 * 1024)
"""An engine's stream may run this far ahead of a client that does not read: thousands of tokens, each of which is some
fifteen bytes here and two hundred in the client's buffer."""


def check_url(url: str) -> None:
    """Raise ValueError for a worker's URL that is none."""
    if door(url) == "ids":
        Target.parse(url)


class Reaching:
    """Makes clients of engines by `settings`."""

    def __init__(self, settings: WorkersConfig) -> None:
        self._settings = settings

    async def connect(self, worker: Worker) -> Engine:
        """A client for the worker's engine, which has answered in its dialect. Raises SmgError while it has not."""
        ...

"""Adapters loaded or unloaded at the admin door, made known to all processes at once (edge).

The process that was asked tells the others on the channel which adapter of which engine is there now, or is gone. Each lets
clients ask for it accordingly, and has the monitor probe the engine's workers at once, which lists the adapters anew: so what a
process was reading from the engine at that moment, or did not take because its worker had not joined, is right after that probe.
The message is an event: a process that starts later asks the engine itself. Above: gateway.assembly, admin.workers. Below:
registry, onboarding, channel.
"""

import logging
from collections.abc import Callable

import attrs
import msgspec

from smg_core.channel.base import Channel, Notice
from smg_core.engines.base import Engine
from smg_core.errors import SmgError
from smg_core.models.onboarding import Onboarding
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker

__all__ = ["AdapterChanges"]

log = logging.getLogger("smg.workers")

KIND = "adapters"


class AdapterChange(msgspec.Struct, frozen=True):
    """What became of the adapter `name` of the engine at `url`: the engine's `id` for it, "" where it does not hold it."""

    url: str
    name: str
    id: str


@attrs.define(eq=False)
class AdapterChanges:
    """The changes of adapters of one process. `wake` has the monitor probe a worker now; `settle_s` are the seconds that a change
    may take to be known everywhere."""

    registry: Registry
    onboarding: Onboarding
    wake: Callable[[Worker], None]
    channel: Channel
    settle_s: float
    _closed: bool = False

    def listen(self) -> None:
        """Take up what other processes tell. Called once, when the first workers are there."""
        self.channel.subscribe(KIND, self._receive)

    def close(self) -> None:
        """Take up nothing more."""
        self._closed = True

    async def made(self, worker: Worker, engine: Engine, name: str) -> None:
        """To be called when the engine of `worker` was asked to load or unload the adapter `name`: returns when every process
        knows whether it holds it, or after `settle_s`. A process that could not be told finds out by its next health check."""
        for each in self._ranks(worker.spec.url):
            await self.onboarding.refresh_adapters(each, engine)
        change = AdapterChange(worker.spec.url, name, worker.adapters.get(name, ""))
        try:
            number = await self.channel.publish(KIND, msgspec.json.encode(change))
        except SmgError as error:  # the engine has done it all the same
            log.warning("worker %s: other processes were not told of the adapter %s: %s", worker.name, name, error)
            return
        if not await self.channel.settled(number, self.settle_s):
            log.warning("worker %s: not every process knows of the adapter %s yet", worker.name, name)

    def _ranks(self, url: str) -> list[Worker]:
        """The workers that are ranks of the engine at this URL."""
        return [each for each in self.registry if each.spec.url == url]

    def _receive(self, message: Notice) -> None:
        if self._closed:
            return
        change = msgspec.json.decode(message.body, type=AdapterChange)
        for worker in self._ranks(change.url):
            if self.onboarding.change_adapter(worker, change.name, change.id):
                self.wake(worker)

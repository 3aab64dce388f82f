"""Makes an engine's emptied caches known at once to all that count on them (edge).

An engine that was started again is noticed by each process of the gateway itself (`workers.monitor`). That an operator has had an
engine empty its caches is known to the process with the admin door alone: it tells the others on the channel. The message is an
event: a process that starts later has nothing to forget. Above: gateway.assembly, admin.workers. Below: the policies, what
listens to KV events, the channel.
"""

import logging
from collections.abc import Awaitable, Callable

import attrs
import msgspec

from smg_core.channel.base import Channel, Notice
from smg_core.clock import CallLater, Clock
from smg_core.config.config import Config
from smg_core.engines.base import Engine
from smg_core.errors import SmgError
from smg_core.fleet.kv_events import KvListening, listening
from smg_core.routing import Policies
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker

__all__ = ["CacheLosses", "cache_losses"]

log = logging.getLogger("smg.workers")

KIND = "caches"


class CachesEmptied(msgspec.Struct, frozen=True):
    """The engine at `url` has emptied its caches."""

    url: str


@attrs.define(eq=False)
class CacheLosses:
    """The losses that one process knows of. `kv_listening` is None where it listens to no engine; `settle_s` are the seconds that
    it may take until all processes know of a loss."""

    registry: Registry
    policies: Policies
    kv_listening: KvListening | None
    channel: Channel
    settle_s: float
    _closed: bool = False

    @property
    def listens(self) -> Callable[[Worker, Engine], Awaitable[None]] | None:
        """What listens to a worker's engine while the worker is joined, None where nobody wants to know."""
        return None if self.kv_listening is None else self.kv_listening.listen

    def listen(self) -> None:
        """Take up what other processes tell. Called once, when the first workers are there."""
        self.channel.subscribe(KIND, self._receive)

    def close(self) -> None:
        """Take up nothing more."""
        self._closed = True

    def restarted(self, worker: Worker) -> None:
        """The engine of `worker` is another process than before: nothing in this process expects anything in its caches any
        more. Called by the monitor."""
        self.policies.cache_lost(worker.name, worker.models)
        if self.kv_listening is not None:
            self.kv_listening.restarted(worker)

    def policies_changed(self) -> None:
        """Called when other policies choose from now on."""
        if self.kv_listening is not None:
            self.kv_listening.policies_changed()

    async def emptied(self, worker: Worker) -> None:
        """To be called when the engine of `worker` was told to empty its caches: returns when every process knows, or after
        `settle_s`."""
        try:
            number = await self.channel.publish(KIND, msgspec.json.encode(CachesEmptied(worker.spec.url)))
        except SmgError as error:  # the engine has done it all the same
            log.warning("worker %s: other processes were not told of its empty caches: %s", worker.name, error)
            self._forget(worker.spec.url)
            return
        if not await self.channel.settled(number, self.settle_s):
            log.warning("worker %s: not every process knows of its empty caches yet", worker.name)

    def _receive(self, message: Notice) -> None:
        if not self._closed:
            self._forget(msgspec.json.decode(message.body, type=CachesEmptied).url)

    def _forget(self, url: str) -> None:
        """Of all workers that are ranks of one engine."""
        for worker in self.registry:
            if worker.spec.url == url:
                self.policies.cache_lost(worker.name, worker.models)
                if self.kv_listening is not None:
                    self.kv_listening.emptied(worker)


def cache_losses(
    config: Config, registry: Registry, policies: Policies, clock: Clock, call_later: CallLater, channel: Channel
) -> CacheLosses:
    """What tells the losses of caches to the policies, and to what listens to the engines for them."""
    return CacheLosses(
        registry, policies, listening(config, policies, clock, call_later), channel, config.channel.publish_s
    )

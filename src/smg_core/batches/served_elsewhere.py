"""The models of other gateways that share a store with this one (edge).

Each process says in the store by what names its models can be asked for, and says it again before that has run out. So a batch is
left to those who serve its model. In memory nothing is said: nobody else reads there. Above: `batch_queue`, `batch_run`. Below:
the history.
"""

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec

from smg_core.errors import SmgError
from smg_core.history.store.base import KEYS_OWNER, SERVED_MODELS, DeleteRecord, PutRecord, StoredRecord
from smg_core.serving.services import Services

__all__ = ["ServedElsewhere", "served_names"]

_MOST = 1000  # processes that are read

_NAMES = msgspec.json.Decoder(tuple[str, ...])


def served_names(models: Sequence[str], aliases: Sequence[str], splits: Sequence[str]) -> tuple[str, ...]:
    """The names by which `models` can be asked for, sorted: their own, those of aliases (NAME=MODEL, also for one tenant; a NAME
    may end with *), and those that are split among models, also over several such steps."""
    found = set(models)
    steps = [each.rpartition(":")[2].partition("=")[::2] for each in aliases]
    steps += [
        (name, part.rpartition(":")[0])
        for name, _, shares in (each.partition("=") for each in splits)
        for part in shares.split(",")
    ]
    while more := {name for name, model in steps if model in found} - found:
        found |= more
    return tuple(sorted(found))


class ServedElsewhere:
    """What this process, `owner`, says of its models, and what others say."""

    def __init__(self, services: Services, owner: str) -> None:
        self._services, self._settings = services, services.live.config.batches
        self._shared = not (services.live.config.history.url or "memory:").startswith("memory:")
        self._owner = owner
        self._names: tuple[str, ...] = ()
        self._again = 0.0  # when it is to be said again
        self._others: frozenset[str] = frozenset()
        self._read = -1.0  # when it was last read
        self._reading = asyncio.Lock()

    async def tell(self) -> None:
        """Say what is served, where that is due or has changed."""
        if not self._shared:
            return
        now, services = self._services.clock.time(), self._services
        model, splits = services.live.config.model, services.live.config.routing.splits
        names = served_names([*services.models], [*model.aliases, *model.tenant_aliases], splits)
        if names == self._names and now < self._again:
            return
        record = StoredRecord(
            kind=SERVED_MODELS,
            id=self._owner,
            body=msgspec.json.encode(names),
            created_at=now,
            expires_at=now + 2 * self._settings.lease_s,
        )
        self._names, self._again = names, 0.0  # what is cancelled from here on may be said all the same
        await services.running.history.write(KEYS_OWNER, [PutRecord(record)])
        self._again = now + self._settings.lease_s / 2

    async def forget(self) -> None:
        """Say that this process serves nothing any more."""
        if self._names:
            self._names = ()
            with contextlib.suppress(SmgError):  # then it runs out
                await self._services.running.history.write(KEYS_OWNER, [DeleteRecord(SERVED_MODELS, self._owner)])

    async def names(self) -> frozenset[str]:
        """The names by which models of other processes can be asked for."""
        if not self._shared:
            return self._others
        async with self._reading:
            now = self._services.clock.monotonic()
            if self._read < 0 or now - self._read >= self._settings.poll_s:
                page = await self._services.running.history.records(KEYS_OWNER, SERVED_MODELS, limit=_MOST)
                lists = [_NAMES.decode(each.body) for each in page.data if each.id != self._owner]
                self._others, self._read = frozenset(name for names in lists for name in names), now
        return self._others

    async def serves(self, model: str) -> bool:
        """Whether another process can be asked for `model`."""
        names = await self.names()
        return model in names or any(name.endswith("*") and model.startswith(name[:-1]) for name in names)

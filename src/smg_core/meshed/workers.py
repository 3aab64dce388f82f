"""Makes one roster of the gateways' workers: what is added, changed, drained or removed at one is so at all (edge).

Each gateway keeps what all have said of each worker, and says it too: a worker stays when the gateway at which it was added goes.
Workers that the settings name are each gateway's own until somebody changes one of them. A worker with headers or certificates of
its own is told of where nobody but a member can read it. Above: the opening. Below: the roster, the state of the mesh.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence

import attrs
import msgspec

from smg_core.clock import Clock
from smg_core.errors import SmgError
from smg_core.fleet.roster import Roster
from smg_core.mesh.state.entries import MeshChange, Space
from smg_core.mesh.state.node import Node, SideStanding
from smg_core.mesh.state.roster_set import (
    Slot,
    read_slot,
    slot_added,
    slot_changed,
    slot_removed,
    slots_joined,
    written_slot,
)
from smg_core.mesh.state.stamps import HybridClock
from smg_core.workers.roster_entry import RosterEntry, read_entry, written_entry

__all__ = ["WorkersPart"]

_log = logging.getLogger("smg.mesh")

_LASTS_S, _AGAIN_S = 86_400.0, 21_600.0
"""For how long a removal is remembered, and how often what is so is said again."""
_MOST = 4096
"""Workers of which others are told."""


class WorkersPart:
    """The roster of one gateway in the mesh. `private`: nobody but members can read what is told. `on_news`, which may be
    set, is called when there is something to tell."""

    spaces = frozenset({Space.ROSTER})

    def __init__(self, roster: Roster, name: str, clock: Clock, *, private: bool) -> None:
        self._roster, self._name, self._clock, self._private = roster, name, clock, private
        self._stamps = HybridClock()
        self._slots: dict[str, Slot] = {}
        self._dirty: OrderedDict[str, None] = OrderedDict()
        self._wanted: OrderedDict[str, None] = OrderedDict()
        self._adopted: dict[str, bytes] = {}
        self._again_at = 0.0
        self._wake = asyncio.Event()
        self.on_news: Callable[[], None] = lambda: None
        roster.on_change = self._changed

    @property
    def skewed(self) -> int:
        """Stamps of others from too far in the future."""
        return self._stamps.skewed

    def stands(self, standing: SideStanding, now: float) -> None:
        """It makes no difference here how many there are."""

    # ---------------------------------------------------------------------------------------------------- what changed here

    def _changed(self, entry: RosterEntry) -> None:
        record = written_entry(entry) if entry.spec is not None else b""
        if self._adopted.get(entry.name) == _without_source(entry):
            return  # as others have said it
        self._adopted.pop(entry.name, None)
        if not record and _retires(self._slots.get(entry.name)):
            return  # each gateway sees it off when its own requests have ended
        secret = entry.spec is not None and bool(entry.spec.headers or entry.spec.tls is not None)
        if secret and not self._private:
            _log.warning("worker %s has headers or certificates of its own: the mesh is not told of it", entry.name)
            return
        if entry.name not in self._slots and len(self._slots) >= _MOST:
            _log.warning("worker %s: the mesh is told of no more than %d workers", entry.name, _MOST)
            return
        slot, stamp = self._slots.get(entry.name, Slot()), self._stamps.stamp(int(self._clock.time() * 1000))
        if not record:
            slot = slot_removed(slot, self._name, stamp)
        elif slot.present:
            slot = slot_changed(slot, self._name, stamp, record)
        else:
            slot = slot_added(slot, self._name, stamp, record)
        self._slots[entry.name] = slot
        self._dirty[entry.name] = None
        self.on_news()

    def tell(self, node: Node, now: float) -> None:
        """Say what has changed, and from time to time all."""
        if now >= self._again_at:
            self._again_at = now + _AGAIN_S
            lasting = (name for name, slot in self._slots.items() if slot.present and not _retires(slot))
            self._dirty |= dict.fromkeys(lasting)
        while self._dirty:
            name, _ = self._dirty.popitem(last=False)
            node.put(Space.ROSTER, name.encode(), written_slot(self._slots[name]), _LASTS_S, now)

    # -------------------------------------------------------------------------------------------------- what others changed

    def hear(self, changes: Sequence[MeshChange], now: float) -> None:
        """Others have changed a worker; what they said stays when they go."""
        for change in changes:
            if not change.value:
                continue
            try:
                name, slot = change.key.decode(), read_slot(change.value)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            stamp = self._stamps.seen(slot.stamp, int(self._clock.time() * 1000))
            before = self._slots.get(name)
            if before is None and len(self._slots) >= _MOST:
                continue
            after = slots_joined(before or Slot(), msgspec.structs.replace(slot, stamp=stamp))
            if after != before:
                self._slots[name] = after
                self._dirty[name] = None
                self._wanted[name] = None
                self._wake.set()

    async def run(self) -> None:
        """Make the workers here be what others have said, one after the other."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._wanted:
                name, _ = self._wanted.popitem(last=False)
                try:
                    await self._adopt(name, self._slots[name])
                except (ValueError, TypeError, LookupError, SmgError) as error:
                    _log.warning("worker %s: what another gateway has changed cannot be so here: %s", name, error)

    async def _adopt(self, name: str, slot: Slot) -> None:
        if slot.present and not slot.record:
            return  # an add that a removal did not see, of which the record comes with another word
        if not slot.present and self._roster.retires(name):
            return  # it leaves once its requests here have ended, whoever had none left first
        entry = read_entry(slot.record) if slot.present else RosterEntry(name, None)
        if entry.name != name:
            raise ValueError("it is told under another name")
        self._adopted[name] = _without_source(entry)
        await self._roster.adopt(entry)


def _without_source(entry: RosterEntry) -> bytes:
    """What a worker is to be, without whose it is, which each gateway knows for itself."""
    return written_entry(attrs.evolve(entry, source="")) if entry.spec is not None else b""


def _retires(slot: Slot | None) -> bool:
    """Whether a worker is to leave once its requests have ended."""
    if slot is None or not slot.present or not slot.record:
        return False
    try:
        return read_entry(slot.record).retire_s is not None
    except (ValueError, TypeError, KeyError, msgspec.MsgspecError):
        return False

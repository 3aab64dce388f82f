"""Makes a gateway a member of its mesh: the link that the settings name, the node, and the parts that take part (edge).

Above: the gateway, which loads this only where `mesh.kind` is not off. Below: the parts, the carriers.
"""

import asyncio
import contextlib
import multiprocessing
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import Any

import attrs

from smg_core.clock import Clock
from smg_core.config.config import Config
from smg_core.fleet.roster import Roster
from smg_core.fleet_moments import MeshSampled
from smg_core.identity.virtual_keys import VirtualKeys
from smg_core.mesh.base import MeshLink, SeenMember
from smg_core.mesh.carriers.rows import LinkTerms, mesh_link
from smg_core.mesh.member import MeshMember, MeshPart
from smg_core.mesh.mesh_keys import read_mesh_keys
from smg_core.mesh.settings import MeshConfig
from smg_core.mesh.state.entries import MeshBounds, MeshChange, Space
from smg_core.mesh.state.format import FORMATS
from smg_core.mesh.state.node import Node, NodeTerms, SideStanding
from smg_core.meshed.counters import MeshCounters
from smg_core.meshed.loads import LoadsPart
from smg_core.meshed.revoked import RevokedPart
from smg_core.meshed.settings_seen import SettingsPart
from smg_core.meshed.shared_counters import SharedSpeaker
from smg_core.meshed.siblings import Siblings
from smg_core.meshed.workers import WorkersPart
from smg_core.version import SDK_VERSION
from smg_core.workers.monitor import Monitor
from smg_core.workers.registry import Registry

__all__ = ["GatewayMesh", "MeshArguments", "mesh_link_of", "mesh_name", "opened_mesh"]


@attrs.frozen(eq=False)
class MeshArguments:
    """What of a gateway takes part. `config` are its settings as they are now, `counters` what counts its limits over the mesh,
    if anything does now."""

    config: Callable[[], Config]
    clock: Clock
    rng: Random
    registry: Registry
    monitor: Monitor
    roster: Roster
    virtual_keys: VirtualKeys | None
    counters: Callable[[], MeshCounters | None]


class _Limits:
    """The limits of a gateway as a part: those that it has now, which may come and go with its rules."""

    spaces = MeshCounters.spaces

    def __init__(self, counters: Callable[[], MeshCounters | None]) -> None:
        self._counters: Callable[[], MeshCounters | None] = counters
        self._of: MeshCounters | None = None
        self._standing = SideStanding(1, 1)
        self.on_news: Callable[[], None] = lambda: None

    def stands(self, standing: SideStanding, now: float) -> None:
        self._standing = standing
        if self._of is not None:
            self._of.stands(standing, now)

    def tell(self, node: Node, now: float) -> None:
        found = self._counters()
        if found is not self._of:
            self._of = found
            if found is not None:
                found.on_news = self.on_news
                found.stands(self._standing, now)
                known = [
                    MeshChange(writer, space, key, value)
                    for space in (Space.COUNTER, Space.LOAD)
                    for writer, key, value in node.replica.in_space(space)
                    if writer != node.own
                ]
                found.hear(known, now)
        if found is not None:
            found.tell(node, now)

    def hear(self, changes: Sequence[MeshChange], now: float) -> None:
        if self._of is not None:
            self._of.hear(changes, now)


_REFUSALS = ("unknown", "forged", "malformed", "other_kinds", "diverged", "rose")


class GatewayMesh:
    """The mesh as one gateway has it."""

    def __init__(self, member: MeshMember, workers: WorkersPart, settings: SettingsPart, kind: str) -> None:
        self.member, self.kind = member, kind
        self._workers, self._settings = workers, settings
        self._keys: tuple[str, ...] | None = None

    @property
    def differing(self) -> dict[str, tuple[str, ...]]:
        """The sections in which others have other settings, by gateway."""
        return dict(self._settings.differing)

    @property
    def skewed(self) -> int:
        """Stamps of others from too far in the future."""
        return self._workers.skewed

    @property
    def sampled(self) -> MeshSampled:
        """How the mesh is now, for metrics."""
        node, now = self.member.node, self.member.clock.monotonic()
        standing = node.standing(now)
        silent = max((now - peer.heard_at for peer in node.peers.values()), default=0.0)
        return MeshSampled(standing.here, standing.whole, node.replica.size, silent)

    @property
    def seen(self) -> dict[str, Any]:
        """How the mesh is now, for people, as the admin door names it."""
        member = self.member
        node, now = member.node, member.clock.monotonic()
        replica, standing, tally = node.replica, node.standing(now), node.tally
        others = {"entries": replica.refused, "unsealed": member.link.refused, "unsent": member.unsent}
        refused = {name: tally[name] for name in _REFUSALS} | others | {"skewed": self.skewed}
        return {
            "kind": self.kind,
            "name": member.name,
            "place": member.link.place,
            "here": standing.here,
            "whole": standing.whole,
            "majority": standing.majority,
            "format": node.format,
            "version": replica.version,
            "entries": replica.entries,
            "bytes": replica.size,
            **{name: tally[name] for name in ("sent", "sent_bytes", "received", "received_bytes")},
            "refused": {name: count for name, count in refused.items() if count},
            "members": [
                self._member_row(each, now) for each in sorted(member.link.members, key=lambda each: each.name)
            ],
        }

    def _member_row(self, seen: SeenMember, now: float) -> dict[str, Any]:
        node = self.member.node
        writer, peer = node.replica.latest(seen.name), node.peers.get(seen.name)
        return {
            "name": seen.name,
            "state": seen.state,
            "place": seen.place,
            "software": seen.version,
            "formats": seen.formats,
            "known": node.replica.version_of(writer) if writer is not None else 0,
            "acknowledged": peer.acked if peer is not None else 0,
            "silent_s": round(now - peer.heard_at, 3) if peer is not None else 0.0,
            "differing": list(self.differing.get(seen.name, ())),
        }

    async def adopt(self, settings: MeshConfig) -> None:
        """Use these keys from now on. Raises ConfigError for one that is none."""
        await self.member.link.adopt_keys(read_mesh_keys(settings.keys))


def _terms(settings: MeshConfig) -> NodeTerms:
    bounds = MeshBounds(entries=settings.entries, kept_bytes=settings.kept_bytes, writers=settings.members)
    return NodeTerms(
        period_s=settings.period_s,
        beat_s=settings.beat_s,
        sync_s=settings.sync_s,
        bytes_s=settings.bytes_s,
        remember_s=settings.remember_s,
        bounds=bounds,
    )


def mesh_name(settings: MeshConfig) -> str:
    """The name of this gateway in the mesh, the same in all its processes."""
    parent = multiprocessing.parent_process()
    number = os.getpid() if parent is None else parent.pid
    return settings.name or f"{socket.gethostname()[:32]}-{number}"


def mesh_link_of(arguments: MeshArguments) -> MeshLink:
    """The link that the settings name, not opened yet. Raises ConfigError."""
    config = arguments.config()
    name, keys = mesh_name(config.mesh), read_mesh_keys(config.mesh.keys)
    terms = LinkTerms(config.mesh, name, keys, FORMATS.text, SDK_VERSION, arguments.clock, config.limits.store)
    return mesh_link(terms)


@contextlib.asynccontextmanager
async def opened_mesh(
    arguments: MeshArguments, siblings: Siblings | None = None, speaker: SharedSpeaker | None = None
) -> AsyncIterator[GatewayMesh]:
    """A context in which the gateway is a member, for its other processes (`siblings`) too, of which `speaker` tells what they
    charge. Raises ConfigError and OSError."""
    settings, clock, monitor = arguments.config().mesh, arguments.clock, arguments.monitor
    name, keys, link = mesh_name(settings), read_mesh_keys(settings.keys), mesh_link_of(arguments)
    private = settings.kind == "local" or (settings.kind == "gossip" and bool(keys))
    workers = WorkersPart(arguments.roster, name, clock, private=private)
    compared = SettingsPart(arguments.config)
    registry = arguments.registry
    parts: list[MeshPart] = [
        speaker or _Limits(arguments.counters),
        LoadsPart(lambda: registry, monitor.wake, registry.breakers),
        workers,
        compared,
    ]
    virtual_keys = arguments.virtual_keys
    if virtual_keys is not None:
        revoked = RevokedPart(virtual_keys.forget if siblings is None else siblings.revoked_elsewhere)
        if siblings is None:
            virtual_keys.on_revoked = revoked.note
        else:
            siblings.note_revoked = revoked.note
        parts.append(revoked)
    if siblings is not None:
        parts.append(siblings)
    member = MeshMember(name, link, _terms(settings), clock, arguments.rng, parts)
    for part in parts:
        if isinstance(part, _Limits | WorkersPart | RevokedPart):
            part.on_news = member.stir
    applying = asyncio.create_task(workers.run(), name="mesh workers")
    try:
        async with member.joined(settings.join_s):
            if speaker is not None:
                speaker.knows = True
            yield GatewayMesh(member, workers, compared, settings.kind)
    finally:
        applying.cancel()
        await asyncio.gather(applying, return_exceptions=True)

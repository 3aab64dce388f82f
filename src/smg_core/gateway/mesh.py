"""Makes a gateway a member of its mesh while it runs, and has its limits counted there (edge).

Of several processes the one that leads is the member, for all of them; another one takes its place when it goes. A gateway
without a mesh loads nothing of it. Above: the assembly. Below: meshed, the limits.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from smg_core.channel.local import LocalChannel
from smg_core.config.config import Config
from smg_core.serving.services import Services
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.gateway.limits import LimitMemory
    from smg_core.meshed.counters import MeshCounters
    from smg_core.meshed.opening import MeshArguments
    from smg_core.meshed.shared_counters import SharedSpeaker
    from smg_core.meshed.siblings import Siblings
    from smg_core.serving.limiting import Counters

__all__ = ["adopt_mesh", "mesh_counters", "meshed", "shared_counter_count"]

_log = logging.getLogger("smg.mesh")

_AGAIN_S = 0.5
"""Seconds until a process that leads tries again to be the member of the mesh."""


def mesh_counters(services: Services) -> "Counters | None":
    """What counts limits over the mesh; None where there is none, or where a store counts them."""
    config = services.live.config
    if config.mesh.kind == "off" or config.limits.store is not None:
        return None
    from smg_core.limits.memory import MemoryCounters
    from smg_core.meshed.counters import MeshCounters

    held = MemoryCounters(config.limits.counters, config.limits.zone)
    mesh = config.mesh
    most, wall = shared_counter_count(config), services.clock.time
    return MeshCounters(held, config.limits.zone, mesh.guard, mesh.partition, most, wall)


def shared_counter_count(config: Config) -> int:
    """How many counters other gateways are told of: each takes two entries of the quarter that one gateway has."""
    return min(config.limits.counters, config.mesh.entries // 8)


def _counters_now(services: Services) -> "MeshCounters | None":
    from smg_core.meshed.counters import MeshCounters

    limiting = services.live.limiting
    found = limiting.counters if limiting is not None else None
    return found if isinstance(found, MeshCounters) else None


@contextlib.asynccontextmanager
async def meshed(services: Services, memory: "LimitMemory | None" = None) -> AsyncIterator[None]:
    """A context in which the gateway is a member of its mesh, if it has one; `memory` is that in which its processes count limits
    together. Raises ConfigError and OSError."""
    if services.live.config.mesh.kind == "off":
        yield
        return
    from smg_core.meshed.opening import MeshArguments, opened_mesh

    running = services.running
    arguments = MeshArguments(
        lambda: services.live.config,
        services.clock,
        services.rng,
        services.registry,
        running.monitor,
        running.roster,
        running.virtual_keys,
        lambda: _counters_now(services),
    )
    if not isinstance(services.channel, LocalChannel):
        async with _among_processes(services, arguments, memory):
            yield
        return
    async with opened_mesh(arguments) as mesh:
        running.mesh = mesh

        async def seen() -> dict[str, Any]:
            return mesh.seen

        running.mesh_seen = seen
        try:
            yield
        finally:
            running.mesh = running.mesh_seen = None


@contextlib.asynccontextmanager
async def _among_processes(
    services: Services, arguments: "MeshArguments", memory: "LimitMemory | None"
) -> AsyncIterator[None]:
    """A context in which this process is the member of the mesh while it leads. It begins once one of them is, or after
    `mesh.join_s`. Raises ConfigError."""
    from smg_core.meshed.siblings import Siblings
    from smg_core.meshed.siblings_asked import SiblingsAsked

    running = services.running
    siblings = Siblings(services.channel, services.registry, services.leading, arguments.virtual_keys)
    asking = SiblingsAsked(services.channel, services.ids, services.live.config, lambda: running.mesh)
    member = _MemberWhileLeading(services, arguments, memory, siblings)
    member.check()
    siblings.listen()
    asking.listen()
    running.mesh_seen = asking.member
    leading = asyncio.create_task(services.leading.while_leading(member.run), name="mesh while leading")
    leading.add_done_callback(lambda done: services.side_tasks.note_end("the mesh", done))
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(services.live.config.mesh.join_s):
                await siblings.begun.wait()
        yield
    finally:
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        siblings.close()
        asking.close()
        running.mesh_seen = None


class _MemberWhileLeading:
    """What the process of a gateway that leads does for all of them."""

    def __init__(
        self, services: Services, arguments: "MeshArguments", memory: "LimitMemory | None", siblings: "Siblings"
    ) -> None:
        self._services, self._arguments, self._memory, self._siblings = services, arguments, memory, siblings

    def check(self) -> None:
        """Raise ConfigError for settings by which no process can be a member."""
        from smg_core.meshed.opening import mesh_link_of

        mesh_link_of(self._arguments)

    async def run(self) -> None:
        """Be the member, until this is cancelled. The one before may still have the place for a while."""
        from smg_core.meshed.opening import mesh_name

        services, announced = self._services, False
        while True:
            config = services.live.config
            speaker = None
            if self._memory is not None:
                speaker = self._memory.speaker(config, mesh_name(config.mesh), services.clock)
            try:
                await self._be_member(speaker)
            except (OSError, ConfigError) as error:
                if not announced:
                    _log.warning("this process cannot speak in the mesh yet: %s", error)
                announced = True
            await asyncio.sleep(_AGAIN_S)

    async def _be_member(self, speaker: "SharedSpeaker | None") -> None:
        from smg_core.meshed.opening import opened_mesh

        running = self._services.running
        async with opened_mesh(self._arguments, self._siblings, speaker) as mesh:
            running.mesh = mesh
            try:
                await self._siblings.tell_others()
            finally:
                running.mesh = None


def adopt_mesh(services: Services) -> None:
    """Use the keys of the settings from now on."""
    mesh, keys = services.running.mesh, services.live.config.mesh
    if mesh is None:
        return

    async def adopt() -> None:
        try:
            await mesh.adopt(keys)
        except ConfigError as error:
            _log.error("the keys of the mesh stay as they were: %s", error)

    task = services.running.loop.create_task(adopt())
    task.add_done_callback(lambda done: services.side_tasks.note_end("the mesh's change of keys", done))

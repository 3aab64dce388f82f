"""Makes a gateway a member of its mesh while it runs, and has its limits counted there (edge).

A gateway without a mesh loads nothing of it. Above: the assembly. Below: meshed, the limits.
"""

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from smg_core.serving.services import Services
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.meshed.counters import MeshCounters
    from smg_core.serving.limiting import Counters

__all__ = ["adopt_mesh", "mesh_counters", "meshed"]

_log = logging.getLogger("smg.mesh")


def mesh_counters(services: Services) -> "Counters | None":
    """What counts limits over the mesh; None where there is none, or where a store counts them."""
    config = services.live.config
    if config.mesh.kind == "off" or config.limits.store is not None:
        return None
    from smg_core.limits.memory import MemoryCounters
    from smg_core.meshed.counters import MeshCounters

    held = MemoryCounters(config.limits.counters, config.limits.zone)
    mesh = config.mesh
    return MeshCounters(
        held, config.limits.zone, mesh.guard, mesh.partition, min(config.limits.counters, mesh.entries // 8)
    )


def _counters_now(services: Services) -> "MeshCounters | None":
    from smg_core.meshed.counters import MeshCounters

    limiting = services.live.limiting
    found = limiting.counters if limiting is not None else None
    return found if isinstance(found, MeshCounters) else None


@contextlib.asynccontextmanager
async def meshed(services: Services) -> AsyncIterator[None]:
    """A context in which the gateway is a member of its mesh, if it has one. Raises ConfigError and OSError."""
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
    async with opened_mesh(arguments) as mesh:
        running.mesh = mesh
        try:
            yield
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

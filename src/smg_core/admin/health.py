"""The health of a gateway and its processes, at the admin door (edge).

`/admin/liveness` and `/admin/readiness` are for probes and need no credential; `/admin/health` tells more. Above:
admin.app. Below: the table that the processes write.
"""

from collections import Counter
from typing import Literal

import msgspec
from msgspec import Struct

from smg_core.admin.discovery import discovery_routes
from smg_core.apis.status.routes import LIVENESS_OPERATION, READINESS_OPERATION, Status
from smg_core.auth.roles import PUBLIC
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.operation.process_table import ProcessState, ProcessTable
from smg_core.serving.services import Services
from smg_core.version import SDK_VERSION
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["HEALTH", "GatewayHealth", "ProcessHealth", "health_routes"]

SILENT_MS = 10_000
"""Milliseconds after which a process that has said nothing is called silent; it says something twice a second."""


class ProcessHealth(Struct):
    """One process: its id, how long it runs, how old what it says is, and what it has to do. `status` is "starting" until it has
    said something, "silent" once it says nothing more."""

    pid: int
    status: Literal["starting", "ready", "waiting", "draining", "silent"]
    up_s: float
    age_s: float
    in_flight: int
    connections: int


class GatewayHealth(Struct):
    """The gateway: "ok" where a process is ready; "draining" where it shuts down; else "waiting" for a worker. `workers` counts
    them by state, `models` names what is served."""

    status: Literal["ok", "waiting", "draining"]
    version: str
    models: list[str]
    workers: dict[str, int]
    processes: list[ProcessHealth]


HEALTH = Operation(
    "adminHealth",
    "The gateway and each of its processes.",
    "health",
    None,
    (OperationResponse(200, "How they are, whatever that is.", GatewayHealth),),
)


def health_routes(services: Services, processes: ProcessTable) -> tuple[Route[Endpoint], ...]:
    """The routes, over `gateway` in this process and the table of all; those of its sources of workers among them."""
    status, health = Status(services), _Health(services, processes)
    return (
        Route("GET", "/admin/liveness", Endpoint(status.liveness, PUBLIC, about=LIVENESS_OPERATION)),
        Route("GET", "/admin/readiness", Endpoint(status.readiness, PUBLIC, about=READINESS_OPERATION)),
        Route("GET", "/admin/health", Endpoint(health.answer, "admin.health", about=HEALTH)),
        *discovery_routes(services),
    )


class _Health:
    def __init__(self, services: Services, processes: ProcessTable) -> None:
        self._services = services
        self._processes = processes

    async def answer(self, exchange: Exchange) -> None:
        services, now = self._services, int(self._services.clock.time() * 1000)
        known = [each for each in self._processes.read() if each.pid]
        coming = self._processes.serving - sum(not each.draining for each in known)
        processes = [_process_row(each, now) for each in known] + [_STARTING] * max(0, coming)
        ready = any(each.status == "ready" for each in processes)
        health = GatewayHealth(
            "draining" if services.admission.draining or services.admission.held else "ok" if ready else "waiting",
            SDK_VERSION,
            sorted(services.models),
            dict(Counter(worker.state for worker in services.registry)),
            processes,
        )
        exchange.take_id(services.ids, "req_")
        headers = [(b"content-type", b"application/json"), services.request_ids.header(exchange.name)]
        await exchange.respond(200, msgspec.json.encode(health), headers)


_STARTING = ProcessHealth(0, "starting", 0.0, 0.0, 0, 0)


def _process_row(state: ProcessState, now: int) -> ProcessHealth:
    """A process as it is told, at the time `now` in milliseconds."""
    age_s = max(0, now - state.seen_at)
    up = max(0, now - state.started_at) / 1000
    if age_s > SILENT_MS:
        return ProcessHealth(state.pid, "silent", up, age_s / 1000, state.in_flight, state.connections)
    status = "draining" if state.draining else "ready" if state.ready else "waiting"
    return ProcessHealth(state.pid, status, up, age_s / 1000, state.in_flight, state.connections)  # type: ignore[arg-type]

"""The input and output of each route of the admin door, for its `/admin/openapi.json`. Above: the routes. Pure."""

from typing import Literal

from msgspec import Struct

from smg_core.protocols.operation import Operation, OperationResponse
from smg_core.server.descriptions import LIVENESS, READINESS

__all__ = ["HEALTH", "LIVENESS", "READINESS", "GatewayHealth", "ProcessHealth"]


class ProcessHealth(Struct):
    """One process: its id, how long it runs, how old what it says is, and what it has to do. `status` is "starting" until it has
    said something, "silent" once it says nothing more."""

    pid: int
    status: Literal["starting", "ready", "waiting", "draining", "silent"]
    up_s: float
    said_s: float
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

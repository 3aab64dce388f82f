"""The services of the embedded engine that belong to no dialect: grpc.health.v1, and the one that sets its faults (edge). Above:
server, which registers them."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import grpc
import grpc.aio

from smg_simulator.answers.faults import Faults
from smg_simulator.codecs.base import ServerCodec
from smg_simulator.server.control import SERVICE, apply_faults, fault_plan, parse_request
from smg_simulator.server.encode_worker import end_call

__all__ = ["ControlService", "HealthService"]

_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


class _Engine(Protocol):
    """What it needs of the engine."""

    healthy: bool
    faults: Faults
    counters: Counter[str]

    @property
    def codecs(self) -> Sequence[ServerCodec]: ...


class HealthService:
    """Answers for `engine` and for each of its services by name."""

    name = "grpc.health.v1.Health"

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine

    async def check(self, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """grpc.health.v1 Check: the request's one field is the service's name."""
        name = message[2:].decode("utf-8", "replace")
        if name and name not in {each.service for each in self._engine.codecs}:
            await end_call(context, "NOT_FOUND", "unknown service")
        return _SERVING if self._engine.healthy else _NOT_SERVING

    async def watch(self, message: bytes, context: grpc.aio.ServicerContext) -> None:
        """grpc.health.v1 Watch: sends the state once, since it does not change while the server runs."""
        name = message[2:].decode("utf-8", "replace")
        known = not name or name in {each.service for each in self._engine.codecs}
        await context.write(_SERVING if known else _SERVICE_UNKNOWN)
        await asyncio.Event().wait()


class ControlService:
    """Has the faults of `engine` set and told (`smg-gateway faults`)."""

    name = SERVICE

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine

    async def set_faults(self, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """Answer Control.SetFaults."""
        try:
            apply_faults(parse_request(message), self._engine.faults)
        except ValueError as error:
            await end_call(context, "INVALID_ARGUMENT", str(error))
        return bytes(fault_plan(self._engine.faults, self._engine.counters["faults"]).SerializeToString())

    async def get_faults(self, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """Answer Control.GetFaults."""
        return bytes(fault_plan(self._engine.faults, self._engine.counters["faults"]).SerializeToString())

"""The embedded engine as an encode worker of TokenSpeed: it answers Encode, and keeps embeddings for the engine that asks (edge).

Waits where a fault says so. What the messages mean is decided by `tokenspeed_encoder`, who gets an embedding by `kv_exchange`.
Above: server.
"""

import asyncio
from collections import Counter, deque
from typing import Protocol

import grpc
import grpc.aio

from smg_simulator.answers.faults import Fault
from smg_simulator.codecs.tokenspeed_encoder import ACCEPTED, DECLINED, ENCODE, REFUSED_GENERATE, encode_request
from smg_simulator.engine.refusal import Refused
from smg_simulator.server.kv_exchange import KvExchange
from smg_simulator.server.restarts import Restarts

__all__ = ["EncodeWorker", "end_call", "refuse_generate"]

_GARBAGE = b"\xff\xff\xff\xff this is no message"


class _Engine(Protocol):
    """What it needs of the engine that it is part of."""

    exchange: KvExchange
    counters: Counter[str]
    aborted: deque[str]
    restarts: Restarts

    async def admitted(self, context: grpc.aio.ServicerContext) -> Fault | None: ...

    async def restart(self, away: float = 0.0) -> None: ...


class EncodeWorker:
    """Answers for `engine`, whose counters "encoded" and "stalled" it keeps, the method `path`."""

    path = ENCODE

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine

    async def encode(self, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """Answer Encode. Of the faults, "silence" means here that the medium is not accepted, "stall" and "drip" that there is no
        answer."""
        engine = self._engine
        fault = await engine.admitted(context)
        try:
            request_id, item, room = encode_request(message)
        except Refused as refusal:
            engine.counters["refused"] += 1
            await end_call(context, refusal.code, refusal.message)
            raise
        if fault is None:
            engine.counters["encoded"] += 1
            engine.exchange.embedded(item, room)
            return ACCEPTED
        if fault.kind in ("cut", "error"):
            await end_call(context, fault.code, fault.message)
        if fault.kind == "restart":
            engine.restarts.begin(engine.restart(fault.seconds or 0.0))
        if fault.kind in ("stall", "drip", "restart"):
            await self._stall(request_id)
        return _GARBAGE if fault.kind == "garbage" else DECLINED

    async def _stall(self, request_id: str) -> None:
        """Wait until the client gives up."""
        counters = self._engine.counters
        counters["stalled"] += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            counters["cancelled"] += 1
            self._engine.aborted.append(request_id)
            raise
        finally:
            counters["stalled"] -= 1


async def refuse_generate(context: grpc.aio.ServicerContext) -> None:
    """End a call of Generate: an encode worker writes no text. Never returns."""
    await end_call(context, "FAILED_PRECONDITION", REFUSED_GENERATE)


async def end_call(context: grpc.aio.ServicerContext, code: str, message: str) -> None:
    """End the call with a status. Never returns: grpcio raises."""
    await context.abort(getattr(grpc.StatusCode, code), message)

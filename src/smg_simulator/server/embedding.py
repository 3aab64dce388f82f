"""The embedded engine's Embed calls: a vector for a prompt, when the timing says that the prompt is computed (edge).

Beside it stand the calls of an encode worker, which makes vectors of media: `server` takes both from here, with what both
share. Waits for the prompt's
turn, and where a fault says so. The vector is made by `engine`, the time by `clockwork`. Above: server.
"""

import asyncio
from collections import Counter
from typing import Protocol

import grpc.aio

from smg_simulator.answers.faults import Fault
from smg_simulator.codecs.base import FullServerCodec
from smg_simulator.engine.clockwork import Clockwork, Ticket
from smg_simulator.engine.engine import EngineCore
from smg_simulator.engine.refusal import Refused
from smg_simulator.engine.timer import Timer
from smg_simulator.server.encode_worker import end_call
from smg_simulator.server.restarts import Restarts

__all__ = ["Embedding"]

_GARBAGE = b"\xff\xff\xff\xff this is no message"


class _Engine(Protocol):
    """What it needs of the engine that it is part of."""

    engine: EngineCore
    clockwork: Clockwork
    timer: Timer
    counters: Counter[str]
    restarts: Restarts

    async def admitted(self, context: grpc.aio.ServicerContext) -> Fault | None: ...

    async def restart(self, away: float = 0.0) -> None: ...


class Embedding:
    """Answers Embed for `engine`, whose counters "embedded", "refused", "cancelled" and "stalled" it keeps. Vectors take a place
    in the batch for as long as their prompts are computed, and wait in the queue before."""

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine
        self._waiting: dict[int, asyncio.Event] = {}

    async def embed(self, codec: FullServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """Answer Embed."""
        engine = self._engine
        fault = await engine.admitted(context)
        try:
            ids, types = codec.embed_request(message)
            vector = engine.engine.pooled(ids, types)
            engine.clockwork.check_room()
            if fault is not None and not await self._meet(fault, context):
                return _GARBAGE
            await self._computed(len(ids))
        except Refused as refusal:
            engine.counters["refused"] += 1
            await end_call(context, refusal.code, refusal.message)
            raise
        except asyncio.CancelledError:
            engine.counters["cancelled"] += 1
            raise
        engine.counters["embedded"] += 1
        return codec.embed_answer(vector, len(ids))

    async def _computed(self, tokens: int) -> None:
        """Wait until a prompt of so many tokens is computed, by the timing of the engine."""
        clockwork = self._engine.clockwork
        ticket = clockwork.arrive(tokens)
        try:
            if not ticket.running:
                turn = self._waiting[id(ticket)] = asyncio.Event()
                await turn.wait()
            await self._until(ticket.due)
        finally:
            self._waiting.pop(id(ticket), None)
            self._wake(clockwork.leave(ticket))

    def _wake(self, following: Ticket | None) -> None:
        if following is not None and (turn := self._waiting.get(id(following))) is not None:
            turn.set()

    async def _until(self, moment: float) -> None:
        timer = self._engine.timer
        if moment <= timer.monotonic():
            return
        done = asyncio.Event()
        wakeup = timer.call_at(moment, done.set)
        try:
            await done.wait()
        finally:
            wakeup.cancel()

    async def _meet(self, fault: Fault, context: grpc.aio.ServicerContext) -> bool:
        """Let the fault happen. False if what is answered then is no message of the protocol."""
        engine = self._engine
        if fault.kind in ("cut", "error"):
            await end_call(context, fault.code, fault.message)
        if fault.kind in ("silence", "garbage"):
            return False
        if fault.kind == "restart":
            engine.restarts.begin(engine.restart(fault.seconds or 0.0))
            await asyncio.Event().wait()
        if fault.kind in ("stall", "drip"):
            engine.counters["stalled"] += 1
            try:
                if fault.seconds is None:
                    await asyncio.Event().wait()
                await self._until(engine.timer.monotonic() + (fault.seconds or 0.0))
            finally:
                engine.counters["stalled"] -= 1
        return True

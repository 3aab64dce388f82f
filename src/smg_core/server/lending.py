"""Tensors lent to engines on this host through memory that both see (edge).

Decides nothing about requests: `Lender.lend` is called once per engine call, and the tensors are released when that call is
over. Above: server.model_media. Below: smg_multimodal's shared memory.
"""

import asyncio
import logging
import secrets
from concurrent.futures import Executor

import attrs

from smg_core.engines.base import EngineFacts, RequestMedia
from smg_multimodal.packaging import WireTensor
from smg_multimodal.shm import SharedMemory, SharedTensor, namespace_id, sweep_orphans

__all__ = ["Lender", "SharedTensors", "shared_memory"]

log = logging.getLogger("smg.media")

_SHARED = "smg-media-"


@attrs.define(eq=False)
class SharedTensors:
    """Tensors of one call in shared memory, until the call is over."""

    inputs: RequestMedia
    memory: SharedMemory
    taken: tuple[tuple[SharedTensor, WireTensor], ...]

    def write(self) -> None:
        """Copy the tensors into their places; may run in any thread."""
        for place, tensor in self.taken:
            self.memory.write(place, tensor)

    def release(self) -> None:
        taken, self.taken = self.taken, ()
        for place, _ in taken:
            self.memory.forget(place)


@attrs.frozen
class Lender:
    """Shared memory for engines that report the same `namespace`, which means that they can open it. Files are written in
    `pool`."""

    memory: SharedMemory
    namespace: str
    pool: Executor

    async def lend(self, inputs: RequestMedia, facts: EngineFacts) -> SharedTensors | None:
        """Copy the tensors of `inputs` into files that the engine reads. None if it cannot open them or there is no room."""
        if facts.shared_memory != self.namespace:
            return None
        loan = _loan(inputs, self.memory)
        if loan is None:
            return None
        writing = asyncio.get_running_loop().run_in_executor(self.pool, loan.write)
        try:
            await asyncio.shield(writing)
        except OSError as error:
            log.warning("media are sent inline: shared memory cannot be written to: %s", error)
            loan.release()
            return None
        except asyncio.CancelledError:
            writing.add_done_callback(lambda done: _given_up(done, loan))
            raise
        return loan


def shared_memory(pool: Executor, max_bytes: int) -> Lender | None:
    """The memory for shared tensors; None, with a line in the log, on a system without shared memory."""
    try:
        sweep_orphans(_SHARED)
        memory = SharedMemory(f"{_SHARED}{secrets.token_hex(8)}", max_bytes=max_bytes)
        return Lender(memory, namespace_id(), pool)
    except OSError as error:
        log.warning("media are sent inline: there is no shared memory here: %s", error)
        return None


def _loan(inputs: RequestMedia, memory: SharedMemory) -> SharedTensors | None:
    """Places for as many tensors as there is room for; None when there is none for any."""
    tensors = [WireTensor(each.data, tuple(each.shape), each.dtype) for each in inputs.lendable]
    places = [memory.take(each) for each in tensors]
    taken = tuple((place, tensor) for place, tensor in zip(places, tensors, strict=True) if place is not None)
    return SharedTensors(inputs.lent(places), memory, taken) if taken else None


def _given_up(writing: "asyncio.Future[None]", loan: SharedTensors) -> None:
    """Release the tensors of a call that was given up while they were written."""
    if not writing.cancelled():
        writing.exception()
    loan.release()

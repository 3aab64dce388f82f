"""Tensors for engines on this host, in shared memory instead of in the message (edge).

Decides nothing about requests: `TensorSharing.share` is called once per engine call, and the tensors are released when that call
is over. Above: models.model_media. Below: smg_multimodal's shared memory.
"""

import asyncio
import logging
import secrets
from concurrent.futures import Executor

import attrs

from smg_core.engines.base import EngineFacts, RequestMedia
from smg_multimodal.preparing.shm import SharedMemory, SharedTensor, namespace_id, sweep_orphans
from smg_multimodal.preparing.wire_forms import WireTensor

__all__ = ["SharedTensors", "TensorSharing", "shared_memory"]

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
class TensorSharing:
    """Shared memory for engines that report the same `namespace`, which means that they can open it. Files are written in
    `pool`."""

    memory: SharedMemory
    namespace: str
    pool: Executor

    async def share(self, inputs: RequestMedia, facts: EngineFacts) -> SharedTensors | None:
        """Copy the tensors of `inputs` into files that the engine reads. None if it cannot open them or there is no room."""
        if facts.shared_memory != self.namespace:
            return None
        shared = _placed(inputs, self.memory)
        if shared is None:
            return None
        writing = asyncio.get_running_loop().run_in_executor(self.pool, shared.write)
        try:
            await asyncio.shield(writing)
        except OSError as error:
            log.warning("media are sent inline: shared memory cannot be written to: %s", error)
            shared.release()
            return None
        except asyncio.CancelledError:
            writing.add_done_callback(lambda done: _given_up(done, shared))
            raise
        return shared


def shared_memory(pool: Executor, max_bytes: int) -> TensorSharing | None:
    """The memory for shared tensors; None, with a line in the log, on a system without shared memory."""
    try:
        sweep_orphans(_SHARED)
        memory = SharedMemory(f"{_SHARED}{secrets.token_hex(8)}", max_bytes=max_bytes)
        return TensorSharing(memory, namespace_id(), pool)
    except OSError as error:
        log.warning("media are sent inline: there is no shared memory here: %s", error)
        return None


def _placed(inputs: RequestMedia, memory: SharedMemory) -> SharedTensors | None:
    """Places for as many tensors as there is room for; None if there is room for none."""
    tensors = [WireTensor(each.data, tuple(each.shape), each.dtype) for each in inputs.shareable]
    places = [memory.take(each) for each in tensors]
    taken = tuple((place, tensor) for place, tensor in zip(places, tensors, strict=True) if place is not None)
    return SharedTensors(inputs.with_shared(places), memory, taken) if taken else None


def _given_up(writing: "asyncio.Future[None]", shared: SharedTensors) -> None:
    """Release the tensors of a call that was given up while they were written."""
    if not writing.cancelled():
        writing.exception()
    shared.release()

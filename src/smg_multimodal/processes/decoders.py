"""Places and turns of items to decode and process, and the bytes of tensors at once (edge).

Above: `fetching.fetch.MediaLoader` and applications. Below: `places`, `workers`. What is short has threads; what might be long
has others, each of which drives a process that can be stopped, so that it holds up nothing short. Bytes in between are bounded
over all of them, and so are the tensors of all requests, which are reserved for a whole request before anything of it is
decoded: a request that holds some waits for more only where an engine wants them in another form, and then nobody who holds
none goes before it. No tenant that has a name takes more than three quarters of anything.
"""

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import Executor, ThreadPoolExecutor

from smg_multimodal.decoding.costs import Cost
from smg_multimodal.pixels.kernel import keep
from smg_multimodal.processes.budget import Claim
from smg_multimodal.processes.places import Places
from smg_multimodal.processes.workers import DecoderProcesses
from smg_multimodal.records.errors import MediaBusy

__all__ = ["Decoders", "Reservation"]


class Reservation:
    """Bytes of tensors that one request may have. Released once, by `release` or when what it is for has gone."""

    def __init__(self, places: Places, claim: Claim) -> None:
        self._places = places
        self._claim = claim
        self._loop = asyncio.get_running_loop()

    def shrink(self, amount: int) -> None:
        """No more than `amount` bytes are needed."""
        self._places.shrink(self._claim, amount)

    def release(self) -> None:
        """The bytes are free. May be called again."""
        self._places.release(self._claim)

    def live_as_long_as(self, owner: object) -> None:
        """Release when `owner` has gone, in whichever thread that happens and however its request ended."""
        weakref.finalize(owner, self._places.release_later, self._loop, self._claim).atexit = False


class Decoders:
    """`threads` for what is short, `processes` for what might be long, `memory` bytes for what is in between while they work,
    `tensors` bytes for what is made.

    `seconds` is what decoding one picture in a process may take, `clip_seconds` a clip or a recording, `wait_seconds` how long
    an item waits for its turn. `pool` has the threads; short work of other kinds may be done there too. `processes` is what a
    `Preparer` reads with, in the threads that `place` gives.
    """

    def __init__(
        self,
        *,
        threads: int = 2,
        processes: int = 2,
        memory: int = 1024 * 1024 * 1024,
        tensors: int = 2048 * 1024 * 1024,
        seconds: float = 10.0,
        clip_seconds: float = 30.0,
        wait_seconds: float = 10.0,
    ) -> None:
        keep(threads)
        self.pool = ThreadPoolExecutor(threads, "smg-media")
        self._isolated = ThreadPoolExecutor(processes, "smg-media-isolated")
        self.processes = DecoderProcesses(idle=processes, seconds=seconds, clip_seconds=clip_seconds)
        self._short = Places(threads, (max(1, threads * 3 // 4),))
        self._long = Places(processes, (max(1, processes * 3 // 4),))
        self.memory = Places(memory, (memory * 3 // 4,))
        self.tensors = Places(tensors, (tensors * 3 // 4,))
        self._wait_seconds = wait_seconds

    @contextlib.asynccontextmanager
    async def place(self, cost: Cost, tenant: str) -> AsyncIterator[Executor]:
        """Where to process an item of that cost, when it is its turn. Raises MediaBusy where that does not come in time. What
        takes all the memory there is, or a little more, is processed alone; `ImageLimits.max_memory` refuses the rest."""
        memory = min(cost.memory, self.memory.allotment.total)
        places, pool = (self._long, self._isolated) if cost.isolated else (self._short, self.pool)
        async with contextlib.AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await held.enter_async_context(places.held(tenant))
                    await held.enter_async_context(self.memory.held(tenant, amount=memory))
            except TimeoutError as error:
                raise MediaBusy("the media had to wait too long for others to be decoded") from error
            yield pool

    async def reserve(self, amount: int, tenant: str, *, continues: bool = False) -> Reservation:
        """Room for `amount` bytes of tensors; `continues`: of a request that holds some. Raises MediaBusy where there is none in
        time, MediaTooLarge where never."""
        try:
            async with asyncio.timeout(self._wait_seconds):
                return Reservation(self.tensors, await self.tensors.take(tenant, amount=amount, continues=continues))
        except TimeoutError as error:
            raise MediaBusy("the media of others take all the memory there is") from error

    def close(self) -> None:
        """Stop the processes, and take no more."""
        self.processes.close()
        self.pool.shutdown(wait=False, cancel_futures=True)
        self._isolated.shutdown(wait=False, cancel_futures=True)

"""Threads for long work off the event loop, shared fairly between callers and sizes (edge).

Decides which piece of work is next. There are two lanes, by size: large work never has all threads, so small work never waits for
large work only. Within a lane callers take turns with one piece each, so a caller with many pieces does not keep out one with
few. Work whose caller leaves before it has begun is removed; work that has begun can ask (`given_up`) and end early.

Above: the server decodes large bodies with it, `preparing` renders and encodes. It does not know what the work is.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from smg_core.tokenizer.base import GivenUp

__all__ = ["INLINE", "FairExecutor"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_SETTLED_S = 1.0

INLINE = 32 * 1024
"""Bytes of JSON that are read or written on the event loop: that takes about a millisecond at most, whatever they hold."""


class _Work(Generic[T_co]):
    """A piece of work, and the future of its caller."""

    __slots__ = ("abandoned", "call", "caller", "done", "large")

    def __init__(self, call: Callable[[GivenUp], T_co], caller: str, large: bool, done: "asyncio.Future[T_co]") -> None:
        self.call = call
        self.caller = caller
        self.large = large
        self.done = done
        self.abandoned = False

    def given_up(self) -> bool:
        return self.abandoned

    def run(self) -> T_co:
        """Do the work; called in a thread."""
        return self.call(self.given_up)


class _Lane:
    """Waiting work by caller; the caller whose turn is next comes first."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[_Work[object]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, work: _Work[object]) -> None:
        self._waiting.setdefault(work.caller, deque()).append(work)

    def take(self) -> _Work[object] | None:
        """Remove and return the next piece; its caller goes to the end of the queue."""
        if not self._waiting:
            return None
        caller, pieces = self._waiting.popitem(last=False)
        work = pieces.popleft()
        if pieces:
            self._waiting[caller] = pieces
        return work

    def remove(self, work: _Work[object]) -> None:
        """Remove a piece whose caller has left, if it has not begun."""
        pieces = self._waiting.get(work.caller)
        if pieces is not None and work in pieces:
            pieces.remove(work)
            if not pieces:
                del self._waiting[work.caller]


class FairExecutor:
    """A pool of `threads` threads, at least two. Work of more than `large` (bytes or characters, as the caller counts) gets all
    but one of them. `after_large` is called in a thread one second after the last large work has ended, when its memory is free.
    The number of waiting pieces is bounded by the number of requests that a gateway takes. Use it from one event loop, and close
    it."""

    def __init__(self, threads: int, *, large: int = 1 << 18, after_large: Callable[[], None] | None = None) -> None:
        self._threads = max(2, threads)
        self._large = large
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="smg-work")
        self._lanes = {False: _Lane(), True: _Lane()}
        self._running = {False: 0, True: 0}
        self._closed = False
        self._after_large = after_large
        self._tidying: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many pieces of work have not begun."""
        return sum(map(len, self._lanes.values()))

    async def run(self, call: Callable[[GivenUp], T], *, size: int, caller: str = "") -> T:
        """Run `call` in a thread; returns its result or raises its error. If this call is cancelled, the work is removed, or its
        `given_up` returns True from then on."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        work = _Work(call, caller, size > self._large, done)
        self._lanes[work.large].add(work)
        self._begin()
        try:
            return await done
        except asyncio.CancelledError:
            work.abandoned = True
            self._lanes[work.large].remove(work)
            raise
        finally:
            # An error's traceback holds this frame: without this, the work's data would live on in a reference cycle.
            del done, work, call

    async def offload(self, work: Callable[[], T], size: int, tenant: str) -> T:
        """What `work` makes of texts of `size` bytes of a tenant: on the event loop where they are short, else in a thread."""
        if size <= INLINE:
            return work()
        return await self.run(lambda _: work(), size=size, caller=tenant)

    def close(self) -> None:
        """Begin no further work; work under way goes on."""
        self._closed = True
        if self._tidying is not None:
            self._tidying.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> None:
        """Start the next pieces in the free threads."""
        while not self._closed and sum(self._running.values()) < self._threads:
            work = self._next()
            if work is None:
                return
            self._running[work.large] += 1
            loop = work.done.get_loop()
            future = self._pool.submit(work.run)
            future.add_done_callback(lambda ended, work=work, loop=loop: _tell(loop, self._ended, work, ended))  # type: ignore[misc]

    def _next(self) -> _Work[object] | None:
        """Remove and return the piece to begin now: large work if none is under way, so that it is not starved; then small work;
        then further large work if one thread stays free."""
        small, large = self._lanes[False], self._lanes[True]
        if not self._running[True] and (work := large.take()) is not None:
            return work
        if (work := small.take()) is not None:
            return work
        return large.take() if self._running[True] < self._threads - 1 else None

    def _ended(self, work: _Work[object], ended: "Future[object]") -> None:
        """Called on the event loop when a piece has ended and its thread is free."""
        self._running[work.large] -= 1
        if not work.done.done() and not ended.cancelled():
            fault = ended.exception()
            if fault is not None:
                work.done.set_exception(fault)
            else:
                work.done.set_result(ended.result())
        self._begin()
        if work.large:
            self.large_ended()

    def large_ended(self) -> None:
        """Called when large work has ended, here or elsewhere in the gateway: `after_large` is due in a second."""
        if self._after_large is None or self._closed:
            return
        if self._tidying is not None:
            self._tidying.cancel()
        self._tidying = asyncio.get_running_loop().call_later(_SETTLED_S, self._tidy, self._after_large)

    def _tidy(self, call: Callable[[], None]) -> None:
        self._tidying = None
        if not self._closed and not self._running[True]:
            self._pool.submit(call)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: object) -> None:
    """Schedule `call` on the event loop, from a thread; does nothing if the loop is closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(call, *arguments)

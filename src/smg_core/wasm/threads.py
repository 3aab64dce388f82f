"""The threads of one component: its calls run there in the order that `instances.Threads` says (edge).

Above: `plugin`, `loading`. Below: `instances`.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from smg_core.wasm.instances import Threads

__all__ = ["GuestThreads", "StartClaim"]


class StartClaim:
    """Who has a piece of work that waits for a thread: the thread that begins it, or who gives it up on the event loop. What a
    future says of itself does not tell: one that is cancelled in the moment in which its thread begins counts as cancelled, and
    runs."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether this is the first that asks. Safe in all threads."""
        return self._lock.acquire(blocking=False)

    @property
    def taken(self) -> bool:
        """Whether anybody has it."""
        return self._lock.locked()


@attrs.frozen(eq=False)
class _Turn:
    """A call that waits for a thread: `done` is its end, or is over already where it was given up."""

    call: Callable[[], Any]
    tenant: str
    done: "asyncio.Future[Any]"


class GuestThreads:
    """`shared` threads for whoever comes, and beyond these one for each tenant that has none, `most` together. They begin when
    they are needed, and end with this. Made and used on one event loop, but for `close`."""

    def __init__(self, shared: int, most: int) -> None:
        self._turns: Threads[_Turn] = Threads(shared, most)
        self._pool = ThreadPoolExecutor(max(shared, most), thread_name_prefix="smg-wasm")

    @property
    def running(self) -> int:
        """Calls that run."""
        return self._turns.running

    def close(self) -> None:
        """Wait for the calls that run; no other one begins. Blocks."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def run(self, call: Callable[[], Any], tenant: str) -> "asyncio.Future[Any]":
        """Run something that blocks in a thread, when the tenant may have one. What is cancelled while it waits for its turn
        never runs; what is cancelled in the moment in which it begins may run all the same: see `StartClaim`."""
        if self._turns.begins(tenant):
            return self._run(call, tenant)
        turn = _Turn(call, tenant, asyncio.get_running_loop().create_future())
        self._turns.wait(tenant, turn)
        return turn.done

    def _run(self, call: Callable[[], Any], tenant: str) -> "asyncio.Future[Any]":
        running = asyncio.get_running_loop().run_in_executor(self._pool, call)
        running.add_done_callback(lambda _: self._ended(tenant))
        return running

    def _ended(self, tenant: str) -> None:
        over = [tenant]
        while over:
            for turn in self._turns.ended(over.pop()):
                if turn.done.done():  # it was given up while it waited
                    over.append(turn.tenant)
                else:
                    self._begin(turn)

    def _begin(self, turn: _Turn) -> None:
        self._run(turn.call, turn.tenant).add_done_callback(lambda running: _copy(running, turn.done))


def _copy(running: "asyncio.Future[Any]", done: "asyncio.Future[Any]") -> None:
    """Pass on how a call ended."""
    error = asyncio.CancelledError() if running.cancelled() else running.exception()
    if done.done():
        return
    if error is None:
        done.set_result(running.result())
    elif isinstance(error, asyncio.CancelledError):
        done.cancel()
    else:
        done.set_exception(error)

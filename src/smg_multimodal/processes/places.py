"""Waiting for a place in an `Allotment` (edge).

Above: `fetching.fetch`, and applications with budgets of their own. Below: `budget`, which decides whose turn it is. Belongs to
one event loop; `release_later` alone may be called in any thread.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from smg_multimodal.processes.budget import Allotment, Claim

__all__ = ["Places"]


class Places:
    """An `Allotment` that can be waited for. Waiting ends with the caller's own time-out or cancellation."""

    def __init__(self, total: int, shares: Sequence[int] = (), *, waiting: int = 1024) -> None:
        self.allotment = Allotment(total, shares, waiting=waiting)
        self._turns: dict[Claim, asyncio.Future[None]] = {}

    async def take(self, *keys: str, amount: int = 1, continues: bool = False) -> Claim:
        """A claim that is held; the caller gives it back. Raises MediaTooLarge and MediaBusy as `Allotment.ask` does."""
        claim = Claim(amount, keys, continues=continues)
        self.allotment.ask(claim)
        if not claim.held:
            turn = self._turns[claim] = asyncio.get_running_loop().create_future()
            try:
                await turn
            except BaseException:
                self._turns.pop(claim, None)
                self.release(claim)
                raise
        return claim

    def release(self, claim: Claim) -> None:
        """Whoever is next has it. May be called again."""
        self._wake(self.allotment.release(claim))

    def shrink(self, claim: Claim, amount: int) -> None:
        """`claim` goes on with `amount`."""
        self._wake(self.allotment.shrink(claim, amount))

    def release_later(self, loop: asyncio.AbstractEventLoop, claim: Claim) -> None:
        """`release` from any thread; nothing where `loop` is closed, and with it whoever waited."""
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self.release, claim)

    @contextlib.asynccontextmanager
    async def held(self, *keys: str, amount: int = 1) -> AsyncIterator[Claim]:
        """A claim for the length of a block."""
        claim = await self.take(*keys, amount=amount)
        try:
            yield claim
        finally:
            self.release(claim)

    def _wake(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            turn = self._turns.pop(claim, None)
            if turn is not None and not turn.done():
                turn.set_result(None)

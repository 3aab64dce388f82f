"""The expiry of the links of a chain of responses or interactions: as long as the newest of them (edge).

A link that is continued is kept for as long as what continues it, by an operation of the same write. The links before it are kept
longer by the first request that continues the chain in each sixteenth of `history.responses_s`, so that most requests write
nothing to them. Above: the memories of both APIs, the background. Below: the history.
"""

import logging
import math

from smg_core.errors import SmgError, StoreFailed
from smg_core.history.store.base import Chain, ExtendExpiry, StoreOperation
from smg_core.observability.repeats import Repeats
from smg_core.serving.services import Services

__all__ = ["ChainTimes", "chain_is_due", "chain_kept_until", "continued_kept"]

log = logging.getLogger("smg.server")

_PARTS = 16


def chain_kept_until(now: float, seconds: float) -> float:
    """Until when the links of a chain are kept that is continued now, where a link alone is kept for `seconds`: to the end of the
    next part of the time, and so long from there. What is answered until then is in the store for no longer than they are."""
    part = seconds / _PARTS
    return (math.floor(now / part) + 2) * part + seconds


def chain_is_due(continued_at: float, now: float, seconds: float) -> bool:
    """Whether the links of a chain, whose newest was made at `continued_at`, are to be kept longer."""
    part = seconds / _PARTS
    return math.floor(continued_at / part) != math.floor(now / part)


def continued_kept(services: Services, previous_id: str | None) -> list[StoreOperation]:
    """The operation that keeps what an answer continues for as long as the answer; it stands in the write of that."""
    seconds = services.live.config.history.responses_s
    if previous_id is None or seconds is None:
        return []
    return [ExtendExpiry("response", previous_id, chain_kept_until(services.clock.time(), seconds))]


class ChainTimes:
    """Keeps the chains of one API that are continued."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._failures = Repeats(
            services.live.config.observability.repeat_s, services.live.config.observability.repeats
        )

    async def keep(self, tenant: str, principal: str, chain: Chain) -> None:
        """Keep all links of a chain that is continued, where that is due. Where the store fails, the request goes on without."""
        seconds, now = self._services.live.config.history.responses_s, self._services.clock.time()
        if seconds is None or not chain_is_due(chain.links[-1].created_at, now, seconds):
            return
        until = chain_kept_until(now, seconds)
        operations = [ExtendExpiry("response", link.id, until) for link in chain.links]
        try:
            await self._services.running.history.write(tenant, operations, principal=principal)
        except SmgError as error:
            self._tell(chain.links[-1].id, error)

    def _tell(self, id: str, error: SmgError) -> None:
        """Log that a chain is not kept longer; the same failure is logged only now and then."""
        why = error.cause if isinstance(error, StoreFailed) else error.message
        again = self._failures.note((type(error).__name__, why), self._services.clock.monotonic())
        if again is not None:
            more = f", {again} more like it since the last time" if again else ""
            log.error("what leads to %s could not be kept longer: %s%s", id, why, more)

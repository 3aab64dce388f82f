"""Work on JSON texts, off the event loop where they are long (edge).

Above: the handlers that read bodies and stored objects. Below: the gateway's executor, in which tenants take turns.
"""

from collections.abc import Callable
from typing import TypeVar

from smg_core.pipeline.calls.executor import INLINE
from smg_core.serving.services import Services

__all__ = ["worked"]

T = TypeVar("T")


async def worked(services: Services, tenant: str, size: int, work: Callable[[], T]) -> T:
    """What `work` makes of texts of `size` bytes of this tenant."""
    if size <= INLINE:  # also where a gateway has no threads yet, since it was not started
        return work()
    return await services.running.executor.offload(work, size, tenant)

"""Reads the records of a list, off the event loop where they are long (edge).

Above: the handlers of files and of batches. Below: the history's pages, the gateway's executor.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from smg_core.history.store.base import Page, StoredRecord
from smg_core.serving.offload import worked
from smg_core.serving.services import Services

__all__ = ["StoredList", "read_list"]

T = TypeVar("T")


@attrs.frozen
class StoredList(Generic[T]):
    """What a page of a list has, whether there is more behind it, and of how many stored bytes it was read."""

    data: tuple[T, ...]
    has_more: bool
    size: int


async def read_list(
    services: Services, tenant: str, page: Page[StoredRecord], read: Callable[[bytes], T]
) -> StoredList[T]:
    """What `read` makes of each record of a page."""
    size = sum(len(record.body) for record in page.data)
    data = await worked(services, tenant, size, lambda: tuple(read(record.body) for record in page.data))
    return StoredList(data, page.has_more, size)

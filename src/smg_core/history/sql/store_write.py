"""One call of `Store.write`, as it waits to be put into a transaction with others.

Decides what can be merged, and how many bytes wait. Pure. Above: the stores in SQL. Below: `store.base`.
"""

from collections.abc import Sequence

import attrs

from smg_core.history.store.base import (
    AppendEvents,
    AppendItems,
    DeleteConversation,
    DeleteEvents,
    DeleteRecord,
    DeleteResponse,
    ExtendExpiry,
    Lease,
    PutConversation,
    PutRecord,
    PutResponse,
    StoreOperation,
)

__all__ = ["StoreWrite", "can_be_merged"]


@attrs.frozen(eq=False)
class StoreWrite:
    """One call of `Store.write`."""

    tenant: str
    operations: Sequence[StoreOperation]
    lease: Lease | None

    @property
    def plain(self) -> bool:
        """Whether it can be merged with others."""
        return self.lease is None and all(can_be_merged(each) for each in self.operations)

    @property
    def bytes(self) -> int:
        """How many bytes of contents it holds while it waits."""
        return sum([_bytes(each) for each in self.operations])


def can_be_merged(operation: StoreOperation) -> bool:
    """Whether an operation has no condition, and no order among those of others."""
    match operation:
        case PutResponse(if_version=version) | PutRecord(if_version=version) | DeleteRecord(if_version=version):
            return version is None
        case AppendEvents() | DeleteResponse() | DeleteEvents() | DeleteConversation() | ExtendExpiry():
            return True
        case _:
            return False


def _bytes(operation: StoreOperation) -> int:
    match operation:
        case PutResponse(response=kept):
            return len(kept.body) + len(kept.input) + len(kept.output)
        case PutConversation(conversation=conversation):
            return len(conversation.metadata)
        case AppendItems(items=items):
            return sum([len(item.body) for item in items])
        case AppendEvents(events=events):
            return sum([len(event.data) for event in events])
        case PutRecord(record=record):
            return len(record.body)
        case _:
            return 0

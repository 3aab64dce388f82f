"""What a backend of the history is to the conformance suite: how it is opened, again and again, on the same data."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from smg_core.history.store.base import (
    PutConversation,
    PutRecord,
    PutResponse,
    Store,
    StoredConversation,
    StoredItem,
    StoredRecord,
    StoredResponse,
    Upkeep,
)
from smg_core.testing import FakeClock

__all__ = ["PAGE_BYTES", "Backend", "Open", "conversation", "item", "record", "response"]


PAGE_BYTES = 20_000
"""Bytes of a page of every store that the suite opens."""


class Backend(Store, Upkeep, Protocol):
    """A store as the gateway opens it."""


Open = Callable[[], AbstractAsyncContextManager[Backend]]
"""Opens the store on what was there before."""


def response(clock: FakeClock, id: str = "resp_1", **fields) -> PutResponse:
    if_version = fields.pop("if_version", None)
    values = {
        "body": b'{"id":"%s"}' % id.encode(errors="replace"),
        "created_at": clock.time(),
        "status": "completed",
        "model": "sim",
    }
    return PutResponse(StoredResponse(**{"id": id, **values, **fields}), if_version)


def conversation(clock: FakeClock, id: str = "conv_1", **fields) -> PutConversation:
    if_version = fields.pop("if_version", None)
    return PutConversation(StoredConversation(**{"id": id, "created_at": clock.time(), **fields}), if_version)


def record(clock: FakeClock, id: str, kind: str = "batch", **fields) -> PutRecord:
    if_version = fields.pop("if_version", None)
    values = {"id": id, "kind": kind, "body": b"{}", "created_at": clock.time()}
    return PutRecord(StoredRecord(**{**values, **fields}), if_version)


def item(clock: FakeClock, id: str, body: bytes = b"{}", **fields) -> StoredItem:
    return StoredItem(id=id, body=body, created_at=clock.time(), **fields)

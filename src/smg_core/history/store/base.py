"""The records that a store of the history keeps, and `Store`, the role that every store fulfils.

Everything belongs to a tenant ("" where the gateway does not tell callers apart), and every method of `Store` takes
the tenant first: an id of another tenant is not found. There are five kinds of things:

    response      `StoredResponse`: an answered request of an API with history (a response, an interaction). Three JSON texts:
                  `body` (the object as clients get it, without its output), `input` and `output` (arrays of items).
                  `previous_id` makes chains, which `chain` loads whole in one query.
    conversation  `StoredConversation` with ordered `StoredItem`s, which are paged by item id.
    event         `StoredEvent`: one numbered event of a response's stream, kept so that the stream can be resumed.
    record        `StoredRecord`: any small object of another kind (a batch, a file's metadata, a key), by kind and id.
    lease         `Lease`: the right of one owner, for some seconds, to work on one thing.

Writing. `write` takes a list of operations and does all of them or none: there is no open transaction. Two writers are kept
apart in one of two ways. `if_version` lets an operation succeed only on the version that its writer has read (0: the object must
not exist yet); after it the version is one higher, and who comes second gets `StaleVersion`. A `lease` lets a whole write succeed
only while its owner holds it; else the write is `LeaseLost`.

Absence. What does not exist, has expired or belongs to somebody else is None when it is read, and no error when it is deleted.
What has expired is not there for any operation, whether it was swept or not: it has no version, no items and no events, is in no
list, and is not counted.

Errors: `errors.StoreFailed` when the store cannot be reached, is full or fails, which is no fault of the request and need not
fail its answer; the classes below for what the caller asked.

Size. Every read is bounded in bytes before anything is loaded: a chain by its own bound, above which it is refused; a list by
the bound of a page, where it ends early. A page has one thing at least, however large that is.

Bytes are JSON texts that the store does not look into. Times are seconds since the Unix epoch; `expires_at` None means that the
store's settings decide (`guard` fills it in).

Pure. Above: `server`, which opens a store and gives it to the handlers. Below: `errors`.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Generic, Literal, Protocol, TypeVar

import attrs

from smg_core.errors import Conflict, InvalidRequest, NotFound, PermissionDenied

__all__ = [
    "KEYS_OWNER",
    "LEASE_KEPT_S",
    "SERVED_MODELS",
    "AppendEvents",
    "AppendItems",
    "Chain",
    "ChainBroken",
    "ChainLink",
    "DeleteConversation",
    "DeleteEvents",
    "DeleteItem",
    "DeleteRecord",
    "DeleteResponse",
    "Exported",
    "ExtendExpiry",
    "ItemExists",
    "ItemPosition",
    "Lease",
    "LeaseLost",
    "NoConversation",
    "NotKept",
    "Owned",
    "Page",
    "PutConversation",
    "PutRecord",
    "PutResponse",
    "RecordPosition",
    "StaleVersion",
    "Store",
    "StoreOperation",
    "StoredConversation",
    "StoredEvent",
    "StoredItem",
    "StoredRecord",
    "StoredResponse",
    "Upkeep",
]

T = TypeVar("T")


KEYS_OWNER = "~keys"
"""In place of a tenant: whose the virtual keys of the gateway are. No caller has this tenant (`identity.identity` sees to it),
and settings about tenants do not hold for it."""
SERVED_MODELS = "served_models"
"""The kind of the records, of `KEYS_OWNER`, in which each process that has opened a store says which models it serves."""
LEASE_KEPT_S = 86400.0
"""Seconds after its end that a store on disk or in another process still knows of a lease: the next one gets a higher token."""


# ------------------------------------------------------------------------------------------------------------ what is kept


@attrs.frozen(kw_only=True)
class StoredResponse:
    """An answered request that can be read again and continued.

    `body` is the object as clients get it, without its output; `input` and `output` are arrays of items. `status` and `model` are
    the object's own, for lists and for finding work. `item_ids` are the ids of all items in `input` and `output`, by which
    `holding` finds the response; they are written and not read back. `pending`: some process still has to work on it (a
    background response that has not ended); `Upkeep.abandoned` finds those that nobody works on.
    """

    id: str
    body: bytes
    created_at: float
    input: bytes = b"[]"
    output: bytes = b"[]"
    status: str = ""
    model: str = ""
    previous_id: str | None = None
    conversation_id: str | None = None
    pending: bool = False
    expires_at: float | None = None
    version: int = 0
    item_ids: tuple[str, ...] = attrs.field(default=(), eq=False)


@attrs.frozen(kw_only=True)
class ChainLink:
    """What one response of a chain adds to the history."""

    id: str
    previous_id: str | None
    status: str
    model: str
    created_at: float
    input: bytes
    output: bytes


@attrs.frozen
class Chain:
    """A response and those before it, oldest first. `missing` is the id of the response that the oldest link continues and that
    is not there any more; None where the chain is whole."""

    links: tuple[ChainLink, ...]
    missing: str | None = None


@attrs.frozen(kw_only=True)
class StoredConversation:
    """A conversation without its items. `version` grows with every change of it or of its items."""

    id: str
    created_at: float
    metadata: bytes = b"{}"
    expires_at: float | None = None
    version: int = 0


@attrs.frozen
class ItemPosition:
    """The place of an item among those of its conversation, which grows with every item. A walk over them goes on from it also
    where the item is gone meanwhile."""

    number: int


@attrs.frozen(kw_only=True)
class StoredItem:
    """One item of a conversation; `response_id` is the response that it came with, if any. `position` is told by `Store.items`;
    it is not written."""

    id: str
    body: bytes
    created_at: float
    response_id: str | None = None
    position: ItemPosition | None = attrs.field(default=None, eq=False)


@attrs.frozen
class StoredEvent:
    """One event of a response's stream: its sequence number and its JSON text."""

    number: int
    data: bytes


@attrs.frozen
class RecordPosition:
    """The place of a record in the list of its kind: when it was created, and its id. A walk over the list goes on from it also
    where the record is gone meanwhile."""

    created_at: float
    id: str


@attrs.frozen(kw_only=True)
class StoredRecord:
    """An object of another kind ("batch", "file", "key"). `pending` as in `StoredResponse`."""

    kind: str
    id: str
    body: bytes
    created_at: float
    pending: bool = False
    expires_at: float | None = None
    version: int = 0

    @property
    def position(self) -> RecordPosition:
        return RecordPosition(self.created_at, self.id)


@attrs.frozen(kw_only=True)
class Lease:
    """The right of `owner` to work on the thing of this kind and id until `expires_at`. `token` grows with every owner, so that
    an earlier one can be told from a later one of the same name. The lease on a response is of kind "response"."""

    kind: str
    id: str
    owner: str
    token: int
    expires_at: float


@attrs.frozen
class Page(Generic[T]):
    """Some of a list, in the order that was asked for, and whether there is more behind the last: then it is not empty."""

    data: tuple[T, ...]
    has_more: bool


@attrs.frozen
class Exported:
    """One thing of a tenant, as `Store.export` gives it. `owner` is the conversation of an item, the response of an event and the
    kind of a record, else ""; `parts` are its JSON texts by name."""

    table: Literal["response", "conversation", "item", "event", "record"]
    owner: str
    id: str
    created_at: float | None
    parts: dict[str, bytes]


@attrs.frozen
class Owned:
    """The name of a thing and whose it is."""

    tenant: str
    id: str


# -------------------------------------------------------------------------------------------------------------- operations


@attrs.frozen
class PutResponse:
    """Keep a response, in place of an earlier one of the same id."""

    response: StoredResponse
    if_version: int | None = None


@attrs.frozen
class DeleteResponse:
    """Forget a response with its events. Responses that continue it stay, and have a chain with a `missing` parent."""

    id: str


@attrs.frozen
class PutConversation:
    """Keep a conversation, in place of an earlier state of it; its items stay."""

    conversation: StoredConversation
    if_version: int | None = None


@attrs.frozen
class DeleteConversation:
    """Forget a conversation and its items; the responses made in it stay."""

    id: str


@attrs.frozen
class AppendItems:
    """Put items at the end of a conversation, in this order. NoConversation without it, ItemExists for an id that it has."""

    conversation_id: str
    items: tuple[StoredItem, ...]
    if_version: int | None = None


@attrs.frozen
class DeleteItem:
    """Take one item out of a conversation."""

    conversation_id: str
    id: str


@attrs.frozen
class AppendEvents:
    """Keep events of a response's stream. StaleVersion if a number is taken: what was stored first may have been sent."""

    response_id: str
    events: tuple[StoredEvent, ...]
    expires_at: float | None = None


@attrs.frozen
class DeleteEvents:
    """Forget all events of a response."""

    response_id: str


@attrs.frozen
class PutRecord:
    """Keep a record, in place of an earlier one of the same kind and id."""

    record: StoredRecord
    if_version: int | None = None


@attrs.frozen
class DeleteRecord:
    """Forget a record."""

    kind: str
    id: str
    if_version: int | None = None


@attrs.frozen
class ExtendExpiry:
    """Keep a response, the events of one, or a record until `expires_at`, where it is there and its time would be up earlier. Its
    version stays, so it is no change for those who have read it."""

    what: Literal["response", "events", "record"]
    id: str
    expires_at: float
    kind: str = ""


StoreOperation = (
    PutResponse
    | DeleteResponse
    | PutConversation
    | DeleteConversation
    | AppendItems
    | DeleteItem
    | AppendEvents
    | DeleteEvents
    | PutRecord
    | DeleteRecord
    | ExtendExpiry
)


# ------------------------------------------------------------------------------------------------------------------ errors


class StaleVersion(Conflict):
    """Somebody else has changed, made or deleted the object since it was read. `id` names it."""

    def __init__(self, id: str) -> None:
        super().__init__(f"'{id}' was changed by another request.")
        self.id = id


class ItemExists(Conflict):
    """The conversation already has an item of this id."""

    openai_code = "item_already_in_conversation"

    def __init__(self, id: str) -> None:
        super().__init__(f"The item '{id}' is already in the conversation.")
        self.id = id


class LeaseLost(Conflict):
    """The lease under which this was to be done has expired or is somebody else's: the work is theirs now."""

    def __init__(self, id: str) -> None:
        super().__init__(f"'{id}' is being worked on elsewhere.")
        self.id = id


class NoConversation(NotFound):
    """There is no conversation of this id."""

    def __init__(self, id: str) -> None:
        super().__init__(f"Conversation with id '{id}' not found.")
        self.id = id


class ChainBroken(InvalidRequest):
    """The responses that this one continues cannot be loaded: they are too many, too large, or lead back to themselves."""

    openai_code = "previous_response_not_usable"

    def __init__(self, id: str, reason: Literal["too_long", "too_large", "cycle"], most: int = 0) -> None:
        what = {
            "too_long": f"continues more than {most:,} responses",
            "too_large": f"continues responses of more than {most:,} bytes",
            "cycle": "continues itself",
        }
        super().__init__(f"The response '{id}' {what[reason]}.")
        self.id = id
        self.reason = reason


class NotKept(PermissionDenied):
    """Nothing of this tenant or key is kept (zero retention). `Store.keeps` says so beforehand."""

    def __init__(self) -> None:
        super().__init__("Storage is disabled for this account.", code="zero_data_retention")


# ------------------------------------------------------------------------------------------------------------------- roles


class Store(Protocol):
    """The store of the history of all tenants. Each method sees one tenant's."""

    def keeps(self, tenant: str, principal: str = "") -> bool:
        """Whether anything is kept of this tenant, or of this key of it. Where not, `write` and `acquire` raise NotKept; an API
        answers as if the client had asked for nothing to be stored."""
        ...

    async def write(
        self, tenant: str, operations: Sequence[StoreOperation], *, lease: Lease | None = None, principal: str = ""
    ) -> None:
        """Do all of the operations or none; when it returns, they are kept. With a `lease`, only while it is held.

        Raises StaleVersion, ItemExists, NoConversation, LeaseLost, NotKept, and InvalidRequest for an id that cannot be kept.
        """
        ...

    async def response(self, tenant: str, id: str) -> StoredResponse | None: ...

    async def chain(self, tenant: str, id: str) -> Chain | None:
        """The response and all that it continues; None if there is no such response. Raises ChainBroken."""
        ...

    async def holding(self, tenant: str, item_ids: Sequence[str]) -> tuple[StoredResponse, ...]:
        """The newest responses that have any of these items, newest first: as many as one page has bytes for."""
        ...

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None: ...

    async def items(
        self,
        tenant: str,
        conversation_id: str,
        *,
        after: str | ItemPosition | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> Page[StoredItem]:
        """Items in the order asked for: at most `limit`, and as many as one page has bytes for. `after` is a position, or the id
        of an item. Empty for a conversation or an item that is not there. Where each page begins behind the position of the last
        item of the one before, an item that is there all the time is in exactly one page, whatever is written meanwhile."""
        ...

    async def item(self, tenant: str, conversation_id: str, id: str) -> StoredItem | None: ...

    async def events(
        self, tenant: str, response_id: str, *, after: int = -1, limit: int = 1000
    ) -> tuple[StoredEvent, ...]:
        """Events with a number above `after`, in order: at most `limit`, and as many as one page has bytes for. None are left
        where it is empty."""
        ...

    async def last_event(self, tenant: str, response_id: str) -> int:
        """The highest number of a stored event; -1 without any."""
        ...

    async def record(self, tenant: str, kind: str, id: str) -> StoredRecord | None: ...

    async def records(
        self,
        tenant: str,
        kind: str,
        *,
        after: str | RecordPosition | None = None,
        limit: int = 100,
        newest_first: bool = True,
    ) -> Page[StoredRecord]:
        """Records of a kind by time of creation, and those of one moment by id: at most `limit`, and as many as one page has
        bytes for. `after` is a position, or the id of a record; behind a record that is not there is nothing. Where each page
        begins behind the position of the last record of the one before, a record that is there all the time is in exactly one
        page, whatever is written meanwhile."""
        ...

    async def acquire(self, tenant: str, kind: str, id: str, owner: str, seconds: float) -> Lease | None:
        """The lease on a thing, for `seconds`; None while another owner, or an earlier lease of this one, holds it."""
        ...

    async def renew(self, tenant: str, lease: Lease, seconds: float) -> Lease:
        """The same lease, until `seconds` from now. Raises LeaseLost."""
        ...

    async def release(self, tenant: str, lease: Lease) -> None:
        """End the lease before its time. Does nothing if it is not held any more."""
        ...

    def export(self, tenant: str) -> AsyncIterator[Exported]:
        """Everything that is kept of a tenant, leases excepted."""
        ...

    async def erase(self, tenant: str) -> int:
        """Delete everything of a tenant. Returns the number of things deleted, without those that had expired."""
        ...


class Upkeep(Protocol):
    """What the gateway does for all tenants at once. It learns names and no contents; no request's handler is given it."""

    async def abandoned(self, kind: str, limit: int = 100) -> tuple[Owned, ...]:
        """Pending responses (kind "response") or records of a kind that nobody holds a lease on, oldest first."""
        ...

    async def sweep(self, limit: int = 1000) -> int:
        """Delete what has expired, at most about `limit` things. Returns how many were deleted."""
        ...

    async def close(self) -> None:
        """Finish what is being written and let go of files and connections."""
        ...

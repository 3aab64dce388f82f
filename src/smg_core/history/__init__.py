"""The history: responses, conversations and other stored objects.

    from smg_core.history import PutRecord, StoredRecord, open_store

    async with open_store("sqlite:////var/lib/notes.db") as store:
        await store.write("acme", [PutRecord(StoredRecord(kind="note", id="n-1", body=b"{}", created_at=0.0))])

Begin with `store.base`: the records, and the role of a store. `opening` opens the one that a URL names: `memory` in this process,
`sqlite` in a file, `sql` in PostgreSQL or Oracle, `redis` in Redis or Valkey. `guard` is what the gateway holds: a store behind
its `rules` (names, retention, zero retention), encryption (`sealing`) and `hooks`. Nothing here knows an API. The names below
load their modules when they are first used.
"""

from typing import TYPE_CHECKING

from smg_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from smg_core.history.guard import GuardedStore as GuardedStore
    from smg_core.history.hooks import Hook as Hook
    from smg_core.history.hooks import StoreCall as StoreCall
    from smg_core.history.opening import open_history as open_history
    from smg_core.history.opening import open_store as open_store
    from smg_core.history.settings import HistoryConfig as HistoryConfig
    from smg_core.history.store.base import AppendEvents as AppendEvents
    from smg_core.history.store.base import AppendItems as AppendItems
    from smg_core.history.store.base import Chain as Chain
    from smg_core.history.store.base import DeleteConversation as DeleteConversation
    from smg_core.history.store.base import DeleteItem as DeleteItem
    from smg_core.history.store.base import DeleteRecord as DeleteRecord
    from smg_core.history.store.base import DeleteResponse as DeleteResponse
    from smg_core.history.store.base import ItemExists as ItemExists
    from smg_core.history.store.base import ItemPosition as ItemPosition
    from smg_core.history.store.base import Lease as Lease
    from smg_core.history.store.base import LeaseLost as LeaseLost
    from smg_core.history.store.base import NoConversation as NoConversation
    from smg_core.history.store.base import NotKept as NotKept
    from smg_core.history.store.base import Page as Page
    from smg_core.history.store.base import PutConversation as PutConversation
    from smg_core.history.store.base import PutRecord as PutRecord
    from smg_core.history.store.base import PutResponse as PutResponse
    from smg_core.history.store.base import RecordPosition as RecordPosition
    from smg_core.history.store.base import StaleVersion as StaleVersion
    from smg_core.history.store.base import Store as Store
    from smg_core.history.store.base import StoredConversation as StoredConversation
    from smg_core.history.store.base import StoredEvent as StoredEvent
    from smg_core.history.store.base import StoredItem as StoredItem
    from smg_core.history.store.base import StoredRecord as StoredRecord
    from smg_core.history.store.base import StoredResponse as StoredResponse

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "smg_core.history.guard": ("GuardedStore",),
        "smg_core.history.hooks": ("Hook", "StoreCall"),
        "smg_core.history.opening": ("open_history", "open_store"),
        "smg_core.history.settings": ("HistoryConfig",),
        "smg_core.history.store.base": (
            *("AppendEvents", "AppendItems", "Chain", "DeleteConversation", "DeleteItem"),
            *("DeleteRecord", "DeleteResponse", "ItemExists", "ItemPosition", "Lease"),
            *("LeaseLost", "NoConversation", "NotKept", "Page", "PutConversation"),
            *("PutRecord", "PutResponse", "RecordPosition", "StaleVersion", "Store"),
            *("StoredConversation", "StoredEvent", "StoredItem", "StoredRecord", "StoredResponse"),
        ),
    },
)

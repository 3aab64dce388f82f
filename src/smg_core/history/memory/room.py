"""The bytes of each tenant's objects in memory, and the choice of those to drop.

The tenant that has most loses what it wrote longest ago, until all fits: so nobody loses anything to a tenant that has more.
Virtual keys never go. Decides only. Above: `tables`. Below: `store.base`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from smg_core.errors import StoreFailed
from smg_core.history.store.base import KEYS_OWNER

__all__ = ["ENTRY_BYTES", "MemoryRoom", "Root"]

Table = Literal["response", "conversation", "events", "record"]
Root = tuple[Table, str, str, str]
"""What lives and dies as one: table, tenant, kind ("" but for records), id."""

ENTRY_BYTES = 1024  # what an object costs beside its texts, about


class MemoryRoom:
    """The sizes of all objects, together at most `most_bytes` once what `leaving` names is gone."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._sizes: dict[Root, int] = {}
        self._roots: dict[str, dict[Root, None]] = {}  # by tenant, in the order of their last write
        self._bytes_of: Counter[str] = Counter()  # by tenant

    def __contains__(self, root: Root) -> bool:
        return root in self._sizes

    def __iter__(self) -> Iterator[Root]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def size(self, root: Root) -> int:
        """The bytes of an object's texts."""
        return self._sizes[root] - ENTRY_BYTES

    def roots(self, tenant: str) -> list[Root]:
        """All objects of a tenant, those first that were written longest ago."""
        return [*self._roots.get(tenant, ())]

    def resize(self, root: Root, size: int) -> None:
        """An object was written, and has texts of so many bytes."""
        tenant = root[1]
        self._count(tenant, size + ENTRY_BYTES - self._sizes.get(root, 0))
        self._sizes[root] = size + ENTRY_BYTES
        roots = self._roots.setdefault(tenant, {})
        roots.pop(root, None)
        roots[root] = None

    def forget(self, root: Root) -> None:
        """An object is gone."""
        tenant = root[1]
        self._count(tenant, -self._sizes.pop(root))
        del self._roots[tenant][root]
        if not self._roots[tenant]:
            del self._roots[tenant]

    def _count(self, tenant: str, change: int) -> None:
        self._bytes_of[tenant] += change
        if not self._bytes_of[tenant]:
            del self._bytes_of[tenant]

    def leaving(self, writer: str, stays: Callable[[Root], bool]) -> list[Root]:
        """What has to go after the tenant `writer` wrote something; nothing of which `stays` is true. Raises StoreFailed where
        the writer has more than anybody else, and nothing that may go."""
        surplus, going = self._bytes_of.total() - self._most_bytes, []
        has = {tenant: count for tenant, count in self._bytes_of.items() if tenant != KEYS_OWNER}
        may_go: dict[str, Iterator[Root]] = {}
        while surplus > 0:
            most = max(has, key=has.__getitem__, default=writer)
            if most not in may_go:
                may_go[most] = (root for root in self._roots.get(most, ()) if not stays(root))
            root = next(may_go[most], None)
            if root is not None:
                going.append(root)
                surplus -= self._sizes[root]
                has[most] -= self._sizes[root]
            elif most == writer:
                few = f"{self._most_bytes} bytes (history.memory_bytes) are too few for what is kept"
                raise StoreFailed("full", few)
            else:
                del has[most]
        return going

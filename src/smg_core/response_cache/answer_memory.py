"""Answers that a process keeps in its memory: bounded by bytes and age, the least recently used goes first.

Those of a tenant that is erased are not found from then on; their bytes are given back bit by bit. Pure: the time is an argument.
Above: `caching`. Below: `keys`.
"""

from collections import OrderedDict

import attrs

from smg_core.response_cache.keys import tenant_of

__all__ = ["AnswerMemory"]

_OVERHEAD = 320
"""Bytes that an answer takes beside its own."""


@attrs.frozen(eq=False)
class _Kept:
    data: bytes
    until: float


_NOTHING: dict[bytes, _Kept] = {}


class AnswerMemory:
    """The answers of one process, of `most` bytes together; `size` is how many there are."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._tenants: dict[bytes, dict[bytes, _Kept]] = {}
        self._erased: list[dict[bytes, _Kept]] = []

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: bytes, now: float) -> bytes | None:
        """The answer of a key, None where there is none that is young enough."""
        kept = self._tenants.get(tenant_of(key), _NOTHING).get(key)
        if kept is None:
            return None
        if kept.until <= now:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return kept.data

    def keep(self, key: bytes, data: bytes, until: float) -> None:
        """Keep an answer until that time. One that is larger than all that may be kept is not."""
        self._drop(key)
        if len(data) + _OVERHEAD > self.most:
            return
        self._kept[key] = self._tenants.setdefault(tenant_of(key), {})[key] = _Kept(data, until)
        self.size += len(data) + _OVERHEAD
        self.shrink()

    def shrink(self) -> None:
        """Let go of what is over the bound."""
        while self.size > self.most:
            self._drop(next(iter(self._kept)))

    def erase(self, tenant: bytes | None) -> None:
        """Find no answer of a tenant any more, which is meant by its mark (None: of any); `sweep` lets go of them."""
        if tenant is None:
            self._erased += self._tenants.values()
            self._tenants = {}
        elif (kept := self._tenants.pop(tenant, None)) is not None:
            self._erased.append(kept)

    def sweep(self, most: int) -> bool:
        """Let go of so many answers of tenants that were erased; whether there are more."""
        while self._erased:
            answers = self._erased[-1]
            while answers and most:
                most -= 1
                key, kept = answers.popitem()
                if self._kept.get(key) is kept:
                    self._drop(key)
            if answers:
                return True
            self._erased.pop()
        return False

    def _drop(self, key: bytes) -> None:
        kept = self._kept.pop(key, None)
        if kept is None:
            return
        self.size -= len(kept.data) + _OVERHEAD
        tenant = tenant_of(key)
        others = self._tenants.get(tenant, _NOTHING)
        if others.get(key) is kept:
            del others[key]
            if not others:
                del self._tenants[tenant]

"""Tells other gateways of virtual keys revoked here, so that none takes one from its cache.

Pure: the time is an argument. Each gateway says again what it has heard, so that one that comes later knows it too. A key that is
named here is looked up in the store before it is taken. Above: the opening. Below: the virtual keys, the state of the mesh.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from smg_core.auth.virtual_keys import is_id
from smg_core.mesh.state.entries import MeshChange, Space
from smg_core.mesh.state.node import Node, SideStanding

__all__ = ["RevokedPart"]

_LASTS_S = 3600.0
"""A key is remembered for seconds; an hour is longer than any member is away and still remembered."""
_MOST = 8192
_MOST_A_PERIOD = 200
"""Keys that are told of in one period."""


class RevokedPart:
    """The keys that were revoked. `forget` is called with the id of each that another gateway names; `on_news`, which may be
    set, when there is something to tell."""

    spaces = frozenset({Space.REVOKED})

    def __init__(self, forget: Callable[[str], None]) -> None:
        self._forget = forget
        self.on_news: Callable[[], None] = lambda: None
        self._known: OrderedDict[str, None] = OrderedDict()
        self._dirty: OrderedDict[str, None] = OrderedDict()

    def note(self, id: str) -> None:
        """A key was revoked here."""
        if id in self._known:
            return
        self._known[id] = self._dirty[id] = None
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        self.on_news()

    def stands(self, standing: SideStanding, now: float) -> None:
        """It makes no difference here how many there are."""

    def tell(self, node: Node, now: float) -> None:
        """Say which keys were revoked."""
        for _ in range(min(len(self._dirty), _MOST_A_PERIOD)):
            id, _ = self._dirty.popitem(last=False)
            node.put(Space.REVOKED, id.encode(), b"1", _LASTS_S, now)

    def hear(self, changes: Sequence[MeshChange], now: float) -> None:
        """Others have revoked keys."""
        for change in changes:
            id = change.key.decode(errors="replace")
            if change.value and id not in self._known and is_id(id):
                self.note(id)
                self._forget(id)

"""Arguments that several plugins are called with, written once.

The plugins of an exchange are shown the same head, one after the other, until one changes it. What was written for the first is
there for the next, as long as the head itself is. Calls nothing. Above: `plugin`. Below: `cells`, `worlds`.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar
from weakref import ReferenceType, ref

from smg_core.wasm.cells import Arguments
from smg_core.wasm.worlds import OURS

__all__ = ["Written"]

T = TypeVar("T")


class Written:
    """What was written last, for each function by its name: a record, and the arguments of a call with it."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[ReferenceType[object], Arguments]] = {}

    def __len__(self) -> int:
        """Functions for which something is kept."""
        return len(self._last)

    def arguments(self, name: str, record: T, value: Callable[[T], object]) -> Arguments:
        """The arguments of a call of a function of our world with a record, whose value is `value(shown)`. The same record has
        the same ones, and they are forgotten with it: they hold what a client sent."""
        kept = self._last.get(name)
        if kept is not None and kept[0]() is record:
            return kept[1]
        made = Arguments(OURS.functions[name].pack(value(record)))
        self._last[name] = ref(record, partial(self._forget, name)), made
        return made

    def _forget(self, name: str, gone: "ReferenceType[object]") -> None:
        kept = self._last.get(name)
        if kept is not None and kept[0] is gone:
            self._last.pop(name, None)

"""Arguments that several plugins are called with, written once.

The plugins of an exchange are shown the same head, one after the other, until one changes it. What was written for the first is
there for the next, as long as the exchange is; where the head was changed, what is the same in it is not written again. Calls
nothing. Above: `plugin`. Below: `values`, `worlds`.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar
from weakref import ReferenceType, ref

import attrs

from smg_core.middleware.base import About
from smg_core.wasm.values import Arguments
from smg_core.wasm.worlds import OURS

__all__ = ["Written"]

T = TypeVar("T")


@attrs.frozen
class _Last:
    """What was written last for a function: the exchange, the record that was shown in it, and the arguments. Who shows the same
    record shows the same object; neither is kept by this."""

    exchange: ReferenceType[About]
    shown: ReferenceType[object]
    arguments: Arguments


class Written:
    """What was written last, for each function by its name."""

    def __init__(self) -> None:
        self._last: dict[str, _Last] = {}

    def __len__(self) -> int:
        """Functions for which something is kept."""
        return len(self._last)

    def arguments(self, name: str, exchange: About, shown: T, value: Callable[[T], object]) -> Arguments:
        """The arguments of a call of a function of our world with a record, whose value is `value(shown)`. The same record has
        the same ones. They are forgotten with the exchange: they hold what a client sent."""
        last, before = self._last.get(name), None
        if last is not None and last.exchange() is exchange:
            before = last.arguments
            if last.shown() is shown:
                return before
        made = Arguments(OURS.functions[name].parameters, (value(shown),), before)
        self._last[name] = _Last(ref(exchange, partial(self._forget, name)), ref(shown), made)
        return made

    def _forget(self, name: str, gone: ReferenceType[About]) -> None:
        last = self._last.get(name)
        if last is not None and last.exchange is gone:
            del self._last[name]

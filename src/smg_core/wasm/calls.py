"""Calls of one instance, one after the other: a part on the event loop, the rest in a thread (edge).

Above: `plugin`, `loading`. Below: `running`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from smg_core.wasm.plans import Unusable
from smg_core.wasm.running import Guest

__all__ = ["STEPS", "STEPS_S", "GuestCall", "GuestCalls", "configured", "rest_of_call"]

STEPS, STEPS_S = 5, 0.0003
"""Steps of a call on the event loop, and seconds in which they begin."""
GuestCall = tuple[str, tuple[object, ...]]
"""A call of a function, by its name, with its arguments."""


def configured(guest: Guest, config: str) -> Guest:
    """An instance that has taken its configuration. Blocks. Raises Unusable with the guest's own words, and MiddlewareFault."""
    if guest.has("configure"):
        good, why = guest.call("configure", config)
        if not good:
            raise Unusable(f"refuses its configuration: {str(why)[:300]}")
    elif config not in ("", "{}"):
        raise Unusable("takes no configuration, and is given one")
    return guest


class GuestCalls:
    """Calls of one instance, one after the other. The answer is the last one's."""

    __slots__ = ("_begun", "_calls", "answer", "at", "guest")

    def __init__(self, guest: Guest, calls: Sequence[GuestCall], begun: str = "") -> None:
        """`begun`: the call that is under way, none that has begun yet if empty."""
        self.guest = guest
        self.answer: Any = None
        self.at = begun
        self._calls = [each for each in calls if guest.has(each[0])]
        self._begun = bool(begun)

    def briefly(self) -> bool:
        """On the event loop: a few steps. Returns whether all is done. Raises MiddlewareFault."""
        guest = self.guest
        for name, values in self._calls:
            self.at = name
            guest.begin(name, *values, short=True)
            if not guest.advance(STEPS, STEPS_S):
                self._begun = True
                return False
            self.answer = guest.answer()
        return True

    def rest(self) -> Any:
        """In a thread: whatever is left. Blocks; returns the answer. Raises MiddlewareFault."""
        guest, calls = self.guest, self._calls
        if self._begun:
            calls = calls[next(at for at, each in enumerate(calls) if each[0] == self.at) + 1 :]
            self.answer = rest_of_call(guest)()
        for name, values in calls:
            self.answer = guest.call(name, *values)
        return self.answer


def rest_of_call(guest: Guest) -> Callable[[], Any]:
    """The rest of the call that a guest is in, for a thread."""

    def rest() -> Any:
        guest.prolong()
        guest.advance()
        return guest.answer()

    return rest

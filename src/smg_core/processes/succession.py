"""The next process to replace, after the settings were read anew: one by one, each by one that is ready.

A process is serving in its slot, is a successor that starts, or retires. If a successor ends before it is ready, nothing more is
replaced. Pure. Above: processes.supervisor. Below: nothing.
"""

from collections import deque
from collections.abc import Collection, Mapping
from typing import Literal

__all__ = ["ProcessPart", "Succession"]

ProcessPart = Literal["serving", "successor", "retired"]


class Succession:
    """`slots` processes serve at once. Processes are named by numbers; `starting` is that of the successor that is not ready."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.starting: int | None = None
        self._numbers = 0
        self._serving: dict[int, int] = {}  # by slot, the process that is ready
        self._retired: set[int] = set()
        self._next: deque[int] = deque()
        self._renewed = False  # asked to begin while a successor was starting

    def number(self) -> int:
        """The number of a process that is being started."""
        self._numbers += 1
        return self._numbers

    def begin(self) -> None:
        """Replace all, from the first slot on, also those that were replaced a moment ago."""
        self._next = deque(range(self.slots))
        self._renewed = self.starting is not None

    def next_slot(self, down: Collection[int] = ()) -> int | None:
        """The slot whose process is to be replaced now; None if none is, or a successor is starting. A slot whose process has not
        come up yet waits, except where none runs (`down`): the new settings may be what it needs to come up."""
        if self.starting is not None or not self._next:
            return None
        slot = self._next[0]
        return slot if slot in self._serving or slot in down else None

    def started(self, number: int) -> None:
        """The successor for the next slot has been started."""
        self.starting = number

    def ready(self, number: int, slot: int) -> int | None:
        """A process serves now; the one that leaves for it, None if there is none."""
        before = self._serving.get(slot)
        self._serving[slot] = number
        if number == self.starting:
            self._over()
        if before is not None:
            self._retired.add(before)
        return before

    def ended(self, number: int, slot: int) -> ProcessPart:
        """A process has ended; what it was. After a successor that was never ready nothing more is replaced, unless that was
        asked for meanwhile."""
        if number in self._retired:
            self._retired.discard(number)
            return "retired"
        if number == self.starting:
            if not self._renewed:
                self._next.clear()
            self._renewed, self.starting = False, None
            return "successor"
        if self._serving.get(slot) == number:
            del self._serving[slot]
        return "serving"

    def _over(self) -> None:
        """The successor is ready. One that was started before all were to be replaced again is replaced with them."""
        if not self._renewed:
            self._next.popleft()
        self._renewed, self.starting = False, None

    def serving(self, slot: int) -> int | None:
        """The process that is ready in a slot."""
        return self._serving.get(slot)

    @property
    def all_serving(self) -> Mapping[int, int]:
        """The processes that are ready and are not to leave, by their slots."""
        return self._serving

    @property
    def settled(self) -> bool:
        """Whether all slots are served, and none is to be replaced."""
        return self.starting is None and not self._next and len(self._serving) == self.slots

"""The election of a leader among several processes: at most one, and one as soon as one takes requests.

The first process of the first slot leads from its start. When the process that leads ends or is replaced, another that takes
requests leads; where there is none, the next that does, or that of the first slot when it is started again. A process that is
back in the first slot does not take the lead from another. Where all are replaced by new settings, the first new one leads, since
it brings in what those say of workers.

Pure: what is to be told to whom is returned, in order. Above: processes.supervisor. Below: nothing.
"""

from collections.abc import Mapping

__all__ = ["LEADING", "Leadership", "ProcessWord"]

LEADING = 0
"""The slot whose process leads from its start."""

ProcessWord = tuple[int, str]
"""The number of a process, and the word that it is told."""


class Leadership:
    """`leader` is the number of the process that leads, None where none does."""

    def __init__(self) -> None:
        self.leader: int | None = None

    def started(self, number: int, slot: int, *, succeeds: bool) -> list[ProcessWord]:
        """A process has been started; one that `succeeds` another is to replace it once it is ready."""
        if slot == LEADING and not succeeds and self.leader is None:
            return self._lead(number)
        return []

    def ready(self, number: int, slot: int, leaving: int | None, *, succeeds: bool) -> list[ProcessWord]:
        """A process takes requests now. The one that leaves for it, if any, is told to retire before, and leads no more."""
        if succeeds and slot == LEADING:
            before, self.leader = self.leader, number
            follows = [] if before is None or before == leaving else [(before, "follow")]
            return [*follows, (number, "revise")]
        return self._lead(number) if self.leader is None or self.leader == leaving else []

    def ended(self, number: int, serving: Mapping[int, int]) -> list[ProcessWord]:
        """A process has ended; `serving` are those that take requests, by their slots."""
        if number != self.leader:
            return []
        self.leader = None
        return self._lead(serving[min(serving)]) if serving else []

    def _lead(self, number: int) -> list[ProcessWord]:
        self.leader = number
        return [(number, "lead")]

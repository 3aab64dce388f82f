"""What each process of a gateway says of itself, for all of them to read.

A table of numbers in memory that the processes share, one row for each; each process writes only its own, so nothing is locked.
Pure: the cells and the time are arguments. Above: server.serve makes the cells, server.http_server writes a row twice a second,
and the admin door reads all.
"""

from typing import Protocol

import attrs

__all__ = ["ProcessState", "ProcessTable"]


class Cells(Protocol):
    """Numbers in memory; an array of ctypes or of the module array."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, value: int, /) -> None: ...


@attrs.frozen
class ProcessState:
    """One process. `started_at` and `seen_at` are in milliseconds since the Unix epoch: when it began, and when it wrote this.
    `ready` and `draining` are 0 or 1; `in_flight` counts requests, `connections` open ones."""

    pid: int
    started_at: int
    seen_at: int
    ready: int
    draining: int
    in_flight: int
    connections: int


FIELDS = tuple(field.name for field in attrs.fields(ProcessState))


class ProcessTable:
    """The states of `processes` processes in `cells`, of which this one has row `own`."""

    def __init__(self, cells: Cells, processes: int = 1, own: int = 0) -> None:
        self._cells = cells
        self._count = processes
        self._own = own

    @staticmethod
    def size(processes: int) -> int:
        """How many cells the table of so many processes has."""
        return len(FIELDS) * processes

    def write(self, state: ProcessState) -> None:
        """Say how this process is."""
        start = self._own * len(FIELDS)
        for at, name in enumerate(FIELDS, start):
            self._cells[at] = getattr(state, name)

    def clear(self) -> None:
        """Forget this row: its process is gone."""
        self.write(ProcessState(*[0] * len(FIELDS)))

    def read(self) -> list[ProcessState]:
        """The states of all processes; the pid of one that has said nothing yet is 0."""
        width = len(FIELDS)
        return [
            ProcessState(*[self._cells[at] for at in range(row * width, (row + 1) * width)])
            for row in range(self._count)
        ]

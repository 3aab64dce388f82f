"""What each process of a gateway says of itself, for all of them to read.

Numbers in memory that the processes share: requests in flight to each worker, how each process is, and the metrics. Each process
writes only its own column, so nothing is locked. Pure: the memory is an argument. Above: server.serve makes it, the gateway and
server.http_server write to it, and the admin door reads all.
"""

from collections.abc import Callable
from typing import Any, Protocol

import attrs

from smg_core.workers.worker import Board, LocalBoard

__all__ = ["ProcessState", "ProcessTable", "SharedBoard", "SharedNumbers"]


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

    @property
    def serving(self) -> int:
        """How many processes serve at once; where there are several columns, each has a further one for who succeeds it."""
        return max(1, self._count // 2)

    @property
    def mine(self) -> ProcessState:
        """The state of this process."""
        return self.read()[self._own]

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


class SharedBoard:
    """Requests in flight by worker, and the tokens of their prompts that wait, summed over all processes; each writes only its
    own column, so nothing is locked. The first half of `cells` has the requests, the second the tokens."""

    def __init__(self, cells: Any, processes: int, column: int) -> None:
        self._cells = cells
        self._tokens = len(cells) // 2
        self._processes = processes
        self._column = column
        self.process = column, processes

    def add(self, row: int, change: int) -> None:
        self._cells[row * self._processes + self._column] += change

    def total(self, row: int) -> int:
        start = row * self._processes
        found: int = sum(self._cells[start : start + self._processes])
        return found

    def add_tokens(self, row: int, change: int) -> None:
        self._cells[self._tokens + row * self._processes + self._column] += change

    def tokens(self, row: int) -> int:
        start = self._tokens + row * self._processes
        found: int = sum(self._cells[start : start + self._processes])
        return found

    def clear(self) -> None:
        """Forget this column: its process is gone, and its requests with it."""
        for row in range(len(self._cells) // self._processes):
            self._cells[row * self._processes + self._column] = 0


@attrs.frozen(eq=False)
class SharedNumbers:
    """What `processes` processes share, each with a column of its own: `board` for the requests and tokens of each worker,
    `states` for how each process is, `metrics` for their series. It is handed to a process when that is started."""

    processes: int
    board: Any
    states: Any
    metrics: Any

    @classmethod
    def made(
        cls, processes: int, workers: int, metrics_bytes: int, array: Callable[[str, int], Any]
    ) -> "SharedNumbers":
        """Numbers for so many processes and workers; `array` makes an array of a type (as the module array calls it) and length,
        all zero."""
        return cls(
            processes,
            array("i", 2 * workers * processes),
            array("q", ProcessTable.size(processes)),
            array("q", metrics_bytes // 8),
        )

    def counts(self, column: int) -> Board:
        """The board of a process."""
        return LocalBoard() if self.processes == 1 else SharedBoard(self.board, self.processes, column)

    def table(self, column: int) -> ProcessTable:
        """The table of all processes, of which this one writes a row."""
        return ProcessTable(self.states, self.processes, column)

    def metrics_memory(self) -> memoryview:
        """The memory of the metrics of all processes."""
        return memoryview(self.metrics).cast("B")

    def clear(self, column: int) -> None:
        """Forget what a process that is gone has said of itself, and its requests in flight. Its counts stay."""
        if self.processes > 1:
            SharedBoard(self.board, self.processes, column).clear()
        self.table(column).clear()

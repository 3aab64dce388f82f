"""The state of each process of a gateway, for all of them to read.

Numbers in memory that the processes share: requests in flight to each worker, how each process is, and the metrics. Each process
writes only its own column, so nothing is locked but the names of the board's rows. Pure: the memory and the lock are arguments.
Above: processes.serve makes it, the gateway and server.http_server write to it, and the admin door reads all.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from typing import Any, Protocol

import attrs

from smg_core.workers.breaker_table import BreakerTable
from smg_core.workers.polls import Polls
from smg_core.workers.worker import STATES, Board, LocalBoard, State

__all__ = ["BoardMemory", "ProcessState", "ProcessTable", "SharedBoard", "SharedNumbers"]

NAME_BYTES = 8  # of the hash of a name on the board; that two of 4096 names share one is less likely than 1 in 10 ** 12
NO_NAME = bytes(NAME_BYTES)
ROWS_PER_WORKER = (
    2  # other workers may be known to processes with other settings, and removed ones may still have requests
)


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

    def say_in_flight(self, count: int) -> None:
        """Say anew how many requests this process has, if it has said before how it is."""
        if self.mine.pid:
            self.write(attrs.evolve(self.mine, in_flight=count))

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


@attrs.frozen(eq=False)
class BoardMemory:
    """The memory of a board of so many `processes`, all zero at first. `counts` has three parts, each with a row for each worker
    and in it a cell for each process: requests in flight, prompt tokens that wait, and the state in which a process that has
    claimed the row has the worker, as 1 + its place in `STATES` (0: not claimed). `names` has how many rows
    have ever been claimed, and then for each row a hash of the name that has it, 0 for none."""

    counts: Any
    names: Any
    processes: int

    @classmethod
    def made(cls, processes: int, rows: int, array: Callable[[str, int], Any]) -> "BoardMemory":
        """The memory of a board with so many rows; `array` makes an array of a type and length, all zero."""
        return cls(array("i", 3 * rows * processes), array("q", rows + 1), processes)


class SharedBoard:
    """Requests in flight by worker, and the tokens of their prompts that wait, summed over all processes; each writes only its
    own column, so nothing is locked for them. A worker's row is found by its name, under `lock`, which keeps out all other
    processes: so all count in the same row, in whatever order they got to know their workers. A row is given to another name once
    no process claims it and its requests have ended."""

    shared = True

    def __init__(
        self,
        memory: BoardMemory,
        column: int,
        lock: AbstractContextManager[object],
        breakers: BreakerTable | None = None,
        polls: Polls | None = None,
    ) -> None:
        self.breakers, self.polls = breakers, polls
        self.changed: set[int] = set()  # others count here too, so nobody can go by it
        self._cells, self._processes, self._column = memory.counts, memory.processes, column
        self._lock = lock
        self._used, self._names = memory.names, memoryview(memory.names).cast("B")[NAME_BYTES:]
        self._rows = len(memory.names) - 1
        self._tokens = len(memory.counts) // 3
        self._claims = 2 * self._tokens
        self._left: set[int] = set()  # given back while this process had requests there
        self.process = column, memory.processes

    # ------------------------------------------------------------------------------------------------------------- rows

    def claim(self, name: str) -> int:
        """The row of the worker of that name, from now on in use by this process. Raises ValueError where all rows are in use."""
        digest = blake2b(name.encode(), digest_size=NAME_BYTES).digest()
        with self._lock:
            self._free_left()
            row = self._row_of(digest)
            if row is None:
                row = self._unused()
            # Claimed first: if the process ends in between, the row is freed with its other claims.
            self._cells[self._claims + row * self._processes + self._column] = 1
            self._name(row, digest)
        self._left.discard(row)
        return row

    def release(self, row: int) -> None:
        """This process uses the row no more, except for requests that it still has there."""
        with self._lock:
            self._cells[self._claims + row * self._processes + self._column] = 0
            self._left.add(row)
            self._free_left()

    def tell(self, row: int, state: State) -> None:
        """Say how the worker of a row that this process has claimed is to it."""
        self._cells[self._claims + row * self._processes + self._column] = 1 + STATES.index(state)

    def states(self, row: int) -> dict[str, int]:
        """To how many of the processes that have claimed a row its worker is in which state."""
        start = self._claims + row * self._processes
        counts = Counter(self._cells[start : start + self._processes])
        return {state: counts[number] for number, state in enumerate(STATES, 1) if counts[number]}

    def clear(self) -> None:
        """Forget this column: its process is gone, and its requests and claims with it."""
        with self._lock:
            for row in range(self._used[0]):
                for part in (0, self._tokens, self._claims):
                    self._cells[part + row * self._processes + self._column] = 0
                self._freed(row)

    def _free_left(self) -> None:
        """Free the rows that this process has given back and that nobody uses."""
        own = self._column
        for row in [*self._left]:
            at = row * self._processes + own
            mine = self._cells[at] or self._cells[self._tokens + at]
            if self._freed(row) or (self._claimed(row) and not mine):  # the last one that claims it frees it
                self._left.discard(row)

    def _freed(self, row: int) -> bool:
        """Whether nobody uses a row; it then has no name any more."""
        unused = not (self._claimed(row) or self.total(row) or self.tokens(row))
        if unused:
            self._name(row, NO_NAME)
        return unused

    def _unused(self) -> int:
        """A row without a name. Where there is none, rows are looked for whose last requests ended after they were given back."""
        row = self._row_of(NO_NAME)
        if row is None and self._used[0] < self._rows:
            row = self._used[0]
            self._used[0] += 1
        if row is None:
            row = next((each for each in range(self._rows) if self._freed(each)), None)
        if row is None:
            raise ValueError(
                f"the counts of {self._rows} workers are all in use by requests and processes that are still there"
            )
        return row

    def _row_of(self, digest: bytes) -> int | None:
        """The first row with a name of that hash."""
        used = self._names[: self._used[0] * NAME_BYTES].tobytes()
        at = used.find(digest)
        while at % NAME_BYTES and at > 0:  # found across the border of two rows
            at = used.find(digest, at + 1)
        return at // NAME_BYTES if at >= 0 else None

    def _name(self, row: int, digest: bytes) -> None:
        self._names[row * NAME_BYTES : (row + 1) * NAME_BYTES] = digest

    def _claimed(self, row: int) -> bool:
        start = self._claims + row * self._processes
        return any(self._cells[start : start + self._processes])

    # ----------------------------------------------------------------------------------------------------------- counts

    def add(self, row: int, change: int, tokens: int = 0) -> None:
        place = row * self._processes + self._column
        self._cells[place] += change
        if tokens:
            self._cells[self._tokens + place] += tokens

    def total(self, row: int) -> int:
        start = row * self._processes
        found: int = sum(self._cells[start : start + self._processes])
        return found

    def tokens(self, row: int) -> int:
        start = self._tokens + row * self._processes
        found: int = sum(self._cells[start : start + self._processes])
        return found

    def counts(self, row: int) -> tuple[int, int]:
        return self.total(row), self.tokens(row)


@attrs.frozen(eq=False)
class SharedNumbers:
    """What `processes` processes share, each with a column of its own: `board` for the requests and tokens of each worker,
    `states` for how each process is, `metrics` for their series, `breakers` for those that are not closed, `polls` for what
    engines were asked, `limits` for the counters of limits (None: each process has its own) and `meshed` for what of them other
    gateways are told, `media` the name by which they find what they have made of media ("": each keeps its own). `lock` keeps all
    others out while one changes whose a row of the board is. It is handed to a process when that is started."""

    processes: int
    board: BoardMemory
    states: Any
    metrics: Any
    lock: AbstractContextManager[object]
    breakers: Any
    polls: Any
    limits: Any = None
    meshed: Any = None
    media: str = ""

    @classmethod
    def made(
        cls,
        processes: int,
        workers: int,
        metrics_bytes: int,
        array: Callable[[str, int], Any],
        lock: AbstractContextManager[object] | None = None,
        breakers: int = 0,
    ) -> "SharedNumbers":
        """Numbers for so many processes, each with at most so many workers; `array` makes an array of a type (as the module array
        calls it) and length, all zero. Several processes need a lock between them. `breakers` is how many that are not closed all
        of them know."""
        return cls(
            processes,
            BoardMemory.made(processes, ROWS_PER_WORKER * workers, array),
            array("q", ProcessTable.size(processes)),
            array("q", metrics_bytes // 8),
            lock or nullcontext(),
            array("q", BreakerTable.size(breakers) // 8 + 1),
            array("q", Polls.size(ROWS_PER_WORKER * workers if processes > 1 else 0) // 8 + 1),
        )

    def counts(self, column: int) -> Board:
        """The board of a process."""
        if self.processes == 1:
            return LocalBoard()
        table = BreakerTable(memoryview(self.breakers).cast("B"), self.lock)
        polls = Polls.of(memoryview(self.polls).cast("B"), len(self.board.names) - 1, self.lock, column)
        return SharedBoard(self.board, column, self.lock, table, polls)

    def table(self, column: int) -> ProcessTable:
        """The table of all processes, of which this one writes a row."""
        return ProcessTable(self.states, self.processes, column)

    def metrics_memory(self) -> memoryview:
        """The memory of the metrics of all processes."""
        return memoryview(self.metrics).cast("B")

    def clear(self, column: int) -> None:
        """Forget what a process that is gone has said of itself, its requests in flight and the rows that it claimed. Its counts
        stay."""
        if self.processes > 1:
            SharedBoard(self.board, column, self.lock).clear()
        self.table(column).clear()
